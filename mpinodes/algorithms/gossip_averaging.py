"""Private averaging by gossip: every agent adds noise to its own value once, and afterwards all agents relay mixes.

The setting is that of E. Cyffers, M. Even, A. Bellet, L. Massoulié, "Muffliato: Peer-to-Peer Privacy Amplification for
Decentralized Optimization and Averaging" (2022), without its acceleration. The accounting is ours. In our rounds, with
x = 0 before round 1:

    x_i = −∇f_i(0)                              round 1: for averaged squared distances, the mean of the agent's points
    y_i = x_i + n_i,  n_i ~ N(0, s² I)          round 2: the release
    y_i <- Σ_j a_ij y_j                         from round 3 on

The noise has s = Δ/m, where Δ is the largest L2 change of ∇f_i(0) between adjacent data, and m-GDP implies (ε, δ)-DP.

Every message is a fixed linear mix of the releases of round 2. So the information of one node about another node's data
is known exactly; `mpinodes.privacy.views` computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, NamedTuple

from msgspec import Meta

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Relay, Start, Vector

__all__ = ["GossipAveraging"]


class State(NamedTuple):
    """Hold what an agent needs for its next round."""

    x: Vector  # (d,) the agent's estimate of the average


@dataclass(frozen=True)
class GossipAveraging(Algorithm[State]):
    """Release noise once, then relay mixes."""

    noise_scale: Annotated[
        float, Meta(ge=0, le=1e100, description="s: the standard deviation of the noise; 0: calibrated to epsilon")
    ] = 0.0
    mixings = ("metropolis", "lazy-metropolis", "laplacian")

    decomposable = True
    anytime = True
    judged_by = "last"
    takes_steps = False
    paper = "the setting of Cyffers, Even, Bellet, Massoulié, Muffliato (2022)"
    whole_data = True
    unconstrained = True
    bears_loss = True
    bears_delay = True
    against_colluders = True
    mechanism = "gaussian"
    defaults = {
        "rounds": 30,
        "data": {"name": "mean", "batch": "all"},
        "problem": {"set": "none", "average": True},
        "topology": {"name": "ring"},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": "inf"},
    }

    def init(self, x: Vector) -> State:
        """Return the state that starts at 0."""
        return State(x)

    def message(self, s: State, here: Neighborhood) -> Query | Start | Relay:
        """Return x_i in round 2, to be released as y_i, and relay the mix of the received y_j in later rounds."""
        if here.t == 1:
            return Start()
        if here.t > 2:
            return Relay()
        l2 = self.run.grad_sensitivity[here.agent]
        noise = self.noise_scale or (l2 / self.run.gdp(self.run.epsilon, self.run.delta) if self.run.private else 0.0)
        return Query(s.x, l1=sqrt(len(s.x)) * l2, l2=l2, uses=1, leaks=RELEASED, calibration=noise)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return x_i after round 1, and later the mix of the received y_j."""
        return State(-loss.grad(s.x) if here.t == 1 else inbox.mix())
