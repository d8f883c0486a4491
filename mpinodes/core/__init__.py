"""What everything rests on: the contract of parts, messages, seeds, errors; imports nothing else.

All that a file of one's own needs is here: `from mpinodes.core import Algorithm, Query, RELEASED, ...`.
"""

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

__all__ = [
    "ALL",
    "RELEASED",
    "UNKNOWN",
    "Algorithm",
    "Bound",
    "Cone",
    "Diverged",
    "Event",
    "Features",
    "Feedback",
    "GraphFacts",
    "Hidden",
    "Horizons",
    "Inbox",
    "Kind",
    "Leakage",
    "Loss",
    "Mechanism",
    "Message",
    "Metric",
    "Mixing",
    "Neighborhood",
    "Payload",
    "Queries",
    "Query",
    "Relay",
    "Run",
    "SampleLoss",
    "Schedule",
    "Set",
    "Setup",
    "Solve",
    "Solved",
    "Start",
    "Stream",
    "Topology",
    "Vector",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # When they are asked for: MPI is to start before NumPy is imported (see `launch.launching.find_world`).
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from mpinodes.core import events, messages, parts

        found = {**vars(events), **vars(messages), **vars(parts)}
        globals().update({each: found[each] for each in __all__})
        return found[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
