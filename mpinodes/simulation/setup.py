"""What every command begins with: from what was asked for to a set-up, its budget kept."""

from __future__ import annotations

from mpinodes.config.building import rebuilt
from mpinodes.config.compose import compose
from mpinodes.core.experiment import Tree
from mpinodes.core.parts import Setup


def set_up(asked: Tree, ranks: int | None) -> Setup:
    """The set-up of what the user asked for.

    Args:
        asked: nested dictionaries, as `core.experiment.parse` gives them.
        ranks: MPI processes, the logger among them; None in lockstep.

    Raises:
        BadInput: anything wrong with it, or no noise keeps the budget.
    """
    setup = compose(asked, ranks)
    if setup.experiment.privacy.budget is None:
        return setup
    from mpinodes.simulation.budget import within_budget

    return rebuilt(setup, within_budget(setup))
