"""What everything rests on: the contract of parts, messages, seeds, errors; imports nothing else.

All that a file of one's own needs is here: `from mpinodes.core import Algorithm, Query, RELEASED, ...`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpinodes.core.events import Event, Kind
    from mpinodes.core.messages import (
        RELEASED,
        UNKNOWN,
        Diverged,
        Features,
        Feedback,
        Hidden,
        Inbox,
        Leakage,
        Message,
        Neighborhood,
        Payload,
        Queries,
        Query,
        Relay,
        Solve,
        Solved,
        Start,
        Vector,
    )
    from mpinodes.core.parts import (
        ALL,
        Algorithm,
        Bound,
        Cone,
        GraphFacts,
        Horizons,
        Loss,
        Mechanism,
        Metric,
        Mixing,
        Run,
        SampleLoss,
        Schedule,
        Set,
        Setup,
        Stream,
        Topology,
    )
else:

    def __getattr__(name: str) -> Any:
        """Import a name when it is asked for: with NumPy, eight ranks take a second longer to find their launcher."""
        for module in ("events", "messages", "parts"):
            names = vars(import_module(f"mpinodes.core.{module}"))
            if name in names:
                return names[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
