"""The contract: what every kind of part is, and all that it may say about itself.

A part is a class that extends one of the bases below: one file each, found by its name in this package, by entry point
or by a path of the user's. Whatever the rest of mpinodes asks of a part stands here, as a typed attribute or method;
where an answer is honest for most there is a default. Settings are the fields of a part's dataclass: each is a key of
the experiment (`algorithm.<field>`, `data.<field>`, `topology.<field>`). Class attributes are no settings.

The bases leave out what every part's own decorator makes again, and what is no part extends `msgspec.Struct`: to make
the methods of a dataclass takes half a millisecond of every rank.

    Algorithm    what an agent says, and what it makes of what it hears
    Mixing       the weights of what it hears, and the public scalars that receivers need to know them
    Mechanism    the noise
    Loss         f^t as an agent sees it;  SampleLoss: of samples, the part that `problem.loss` names
    Stream       where the losses come from
    Topology     who hears whom in a round
    Links        what gets through, where messages are lost or come late
    Set          the constraint set
    Schedule     the steps along a gradient
    Metric       what is told of a run: in its record, its summary, its page, and over its repeats
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
