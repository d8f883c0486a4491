"""Define the base class of each kind of part: its methods, and the facts that a part states about itself.

A part is a replaceable component of an experiment: a class, in a file of its own, that extends one of the base classes
below. An experiment chooses a part by its name in this package, by an entry point, or by the path of a user's file. The
base classes list the attributes and methods that the rest of mpinodes uses. An attribute has a default if one value is
right for most parts. The fields that a part's dataclass adds to the fields of its base class are settings: each of them
is a key of the experiment, such as `algorithm.<field>` or `data.<field>`. Class attributes are not settings.

    Algorithm    computes an agent's messages, and updates the agent's state with the messages that the agent receives
    Mixing       computes the mixing weights, and the public scalars that receivers need to compute their weights
    Mechanism    adds noise to messages
    Loss         is the loss f^t of one agent in round t; `SampleLoss` is a loss of samples, chosen by `problem.loss`
    Stream       yields the losses of every round
    Topology     is the graph: which agents send to which agents in a round
    Links        decides which messages are lost or delayed
    Set          is the constraint set
    Schedule     returns the step size of every round
    Metric       computes a number or curve for the record, the summary and the page of a run

Generating the methods of dataclasses delays the start of every rank. Therefore most base classes are dataclasses
without `__repr__` and `__eq__`, which the dataclass decorator of a part usually generates anyway. Many classes that are
not parts extend `msgspec.Struct` or `NamedTuple`.
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
from mpinodes.core.parts.stream import LOCATIONS, MakeLoss, Recurring, Stream, files_of
