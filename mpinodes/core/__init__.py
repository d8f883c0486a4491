"""Define what the other packages of mpinodes share: base classes of parts, messages, events, seeds, experiments.

A part is a replaceable component of an experiment, such as an algorithm, a loss or a graph. A user's Python file
imports most names from this package: `from mpinodes.core import Algorithm, Query, RELEASED, ...`.
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
        Say,
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
        """Return a name that the module events, messages or parts defines. The module is imported at first use.

        Raises:
            AttributeError: none of the three modules has this name.
        """
        # not imported earlier, because NumPy would delay the connection of a rank to the MPI launcher by about a second
        for module in ("events", "messages", "parts"):
            names = vars(import_module(f"mpinodes.core.{module}"))
            if name in names:
                return names[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
