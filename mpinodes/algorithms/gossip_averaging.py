"""Average privately by gossip: every agent sends its value plus noise once, and later sends mixes of received vectors.

The setting is that of E. Cyffers, M. Even, A. Bellet, L. Massoulié, "Muffliato: Peer-to-Peer Privacy Amplification for
Decentralized Optimization and Averaging" (2022), without the paper's acceleration. The privacy accounting is ours.
Agent i computes

    x_i = −∇f_i(0)                              round 1: the agent's value
    y_i = x_i + n_i,  n_i ~ N(0, s² I)          round 2: the message with noise
    y_i <- Σ_j a_ij y_j                         from round 3 on: the mix, with weights a_ij

For the loss `squared-distance`, averaged over the agent's points, the value is the mean of these points.

The standard deviation s of the noise depends on the settings:

- If the run has no noise, for example because `privacy.epsilon` = inf: s = 0.
- Otherwise, if `noise_scale` is above 0: s = `noise_scale`.
- Otherwise: s = Δ/m. Here Δ is the largest L2 change of ∇f_i(0) between adjacent data, and m is the largest number for
  which m-GDP implies (ε, δ)-DP.

All later messages are fixed linear combinations of the messages of round 2. So `mpinodes.privacy.views` can compute the
privacy loss of an agent toward another agent, who sees only the messages that it receives.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, NamedTuple

from msgspec import Meta

from mpinodes.core import RELEASED, Algorithm, Inbox, Loss, Neighborhood, Query, Relay, Start, Vector

__all__ = ["GossipAveraging"]


class State(NamedTuple):
    """Hold the state of one agent between two rounds."""

    x: Vector  # (d,) the agent's estimate of the average


@dataclass(frozen=True)
class GossipAveraging(Algorithm[State]):
    """Run private gossip averaging: every agent sends its value plus noise once.

    In all later rounds the agents only send mixes of received vectors.

    Attributes:
        noise_scale: s: the standard deviation of the noise; 0: calibrated to epsilon
    """

    noise_scale: Annotated[float, Meta(ge=0, le=1e100)] = 0.0
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
        """Return the state before round 1, whose estimate is x. In a run x is 0."""
        return State(x)

    def message(self, s: State, here: Neighborhood) -> Query | Start | Relay:
        """Return the message of round t: the start 0 if t = 1, the agent's value x_i if t = 2, and later a relay.

        The value carries noise, unless the noise scale s is 0. A relay sends the mix of the received vectors without
        new noise.
        """
        if here.t == 1:
            return Start()
        if here.t > 2:
            return Relay()
        l2 = self.run.grad_sensitivity[here.agent]
        noise = self.noise_scale or (l2 / self.run.gdp(self.run.epsilon, self.run.delta) if self.run.private else 0.0)
        return Query(s.x, l1=sqrt(s.x.shape[-1]) * l2, l2=l2, uses=1, leaks=RELEASED, calibration=noise)

    def update(self, s: State, here: Neighborhood, inbox: Inbox, loss: Loss) -> State:
        """Return the next state: after round 1 the agent's value −∇f_i(0), later the mix of the received vectors."""
        return State(-loss.grad(s.x) if here.t == 1 else inbox.mix())
