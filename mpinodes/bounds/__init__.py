"""Compute the bounds that the papers' theorems give for a run.

Many bounds have two forms:

- The form "as printed" evaluates the formula as the paper prints it.
- The form "checked" evaluates a bound that follows from a corrected proof. Some checked forms have no closed formula,
  and are sums over the step sizes and noise scales of all rounds.

Six modules have a function `bounds` for their algorithms: `dola`, `dola_minibatch`, `dpsda` (DPSDA-C, DPSDA-PS and
DPCDA), `m_admm` (M-ADMM, ADMM and their private variants), `two_stage_gaussian` and `weight_balancing`. Three modules
help: `admm` computes the contraction factor that `m_admm` needs, `constants` computes constants of a run that several
theorems need, and `weights` computes properties of the mixing matrices of a run.
"""

from __future__ import annotations

import numpy as np

from mpinodes.bounds.constants import first_broken
from mpinodes.core import Bound, Horizons, Setup, Vector

__all__ = ["bounds"]


def bounds(setup: Setup, horizons: Horizons, minimizer: Vector) -> list[Bound]:
    """Compute the bounds of the theorems in the algorithm's paper, as printed and corrected; empty if there are none.

    The result is also empty for the baselines `alone` and `one-shot`, whose graphs are not connected.

    If the run breaks an assumption of a theorem, its bound is still in the list, and states why the theorem does not
    apply.

    Args:
        setup: the run.
        horizons: (h,) the rounds at which the bounds are evaluated, in ascending order; the first round is 1.
        minimizer: (h, d) for each of these rounds t, the best fixed decision of the rounds 1 to t. If an entry is nan,
            the returned list is empty.
    """
    if np.isnan(minimizer).any() or setup.experiment.is_isolated:
        return []
    with np.errstate(all="ignore"):  # overflow gives inf
        theorems = setup.algorithm.bounds(setup, horizons, minimizer)
    e = setup.experiment
    budget, feedback, faults = e.privacy.budget, e.feedback, e.faults
    # For a run with faults of messages, the bounds are computed as if there were no faults.
    broken = first_broken(
        "agents stopped using their data, to keep a budget" if budget and any(budget.stops) else "",
        "gradients are estimated from two values, but the theorem assumes exact gradients" if feedback.points else "",
        "batches are secret, but the theorem assumes gradients of all samples" if e.sampling != "none" else "",
        "gradients arrive late, but the theorem assumes no delay of gradients" if feedback.delay else "",
        "messages arrive late, but the theorem assumes no delay of messages" if faults.most_late else "",
        "agents are absent, but the theorem assumes that all take part in every round" if faults.churn else "",
        "messages are lost at random, so no number of rounds surely connects the graph" if faults.loss else "",
    )
    return [b._replace(applies=False, why=broken) for b in theorems] if broken else theorems
