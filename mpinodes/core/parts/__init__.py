"""Define the base class of each kind of part: its methods, and the facts that a part states about itself.

A part is a replaceable component of an experiment: a class that extends one of the base classes below. An experiment
chooses most parts by name, or by the path of a user's file. Fields that the dataclass of an algorithm, stream,
topology, sample loss, set or schedule adds to its base class are settings: each field is a key of the experiment, such
as `algorithm.<field>` or `data.<field>`. Class attributes are not settings.

    Algorithm    computes an agent's messages, and updates the agent's state with the messages that the agent receives
    Mixing       computes the mixing weights, and the public scalars that receivers need to compute their weights
    Mechanism    adds noise to messages, or to gradients
    Loss         is the loss f^t of one agent in round t; `SampleLoss` is a loss of samples, chosen by `problem.loss`
    Stream       provides the data: the loss of each agent in each round
    Topology     is the graph: which agents send to which agents in a round
    Links        decides which messages are lost or delayed; the only class of this list that no other class extends
    Set          is the constraint set
    Schedule     returns the step size of every round
    Metric       computes a number or curve for the record, the summary and the page of a run

Most base classes are dataclasses without `__repr__` and `__eq__`, because generating these methods delays the start of
every rank. Many classes that are not parts extend `msgspec.Struct` or `NamedTuple` for the same reason.
"""

from mpinodes.core.parts.algorithm import Algorithm, Bound, Horizons, Run
from mpinodes.core.parts.assembly import Setup
from mpinodes.core.parts.feasible import Cone, Set
from mpinodes.core.parts.links import Edges, Links, Matrix, Topology, as_matrix
from mpinodes.core.parts.loss import ALL, Loss, SampleLoss
from mpinodes.core.parts.mechanism import Mechanism
from mpinodes.core.parts.metric import Judged, Metric, Stretch
from mpinodes.core.parts.mixing import GraphFacts, MixedRound, Mixing, mixed
from mpinodes.core.parts.schedule import Schedule
from mpinodes.core.parts.stream import LOCATIONS, MakeLoss, Recurring, Stream, files_of
