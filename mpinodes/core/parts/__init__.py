"""Define the contract of each kind of part: its methods, and the facts that it states about itself.

A part is a class that extends one of the base classes below. Each part has a file of its own. Experiments name a part
by its name in this package, by an entry point, or by the path of a user's file. The base classes list everything that
the rest of mpinodes asks of a part, as typed attributes and methods. An attribute has a default where one value is
right for most parts. The fields of a part's dataclass are its settings: each is a key of the experiment
(`algorithm.<field>`, `data.<field>`, `topology.<field>`). Class attributes are not settings.

    Algorithm    makes an agent's messages, and updates its state with the messages that it receives
    Mixing       computes the mixing weights, and the public scalars that receivers need for them
    Mechanism    adds noise to messages
    Loss         is f^t of one agent; `SampleLoss` is a loss of samples, the part that `problem.loss` names
    Stream       yields the losses of every round
    Topology     is the graph: which agent sends to which in a round
    Links        decides which messages are lost or delayed
    Set          is the constraint set
    Schedule     gives the step of every round
    Metric       computes a number or curve for the record, the summary and the page

To keep the start of every rank short, base classes leave out the dataclass methods that each part's own decorator makes
again, and classes that are no parts extend `msgspec.Struct`.
"""

from mpinodes.core.parts.algorithm import Algorithm, Bound, Horizons, Run
from mpinodes.core.parts.assembly import Setup
from mpinodes.core.parts.feasible import Cone, Set
from mpinodes.core.parts.links import Edges, Links, Matrix, Topology
from mpinodes.core.parts.loss import ALL, Loss, SampleLoss
from mpinodes.core.parts.mechanism import Mechanism
from mpinodes.core.parts.metric import Judged, Metric, Stretch
from mpinodes.core.parts.mixing import GraphFacts, MixedRound, Mixing, mixed
from mpinodes.core.parts.schedule import Schedule
from mpinodes.core.parts.stream import LOCATIONS, MakeLoss, Recurring, Stream, files_of, is_built_in
