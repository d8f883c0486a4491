"""Run the rounds of one agent under MPI: compute steps, exchange frames (messages) with neighbors, and log rows."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from mpinodes.core import Setup
from mpinodes.rounds.held import Held
from mpinodes.rounds.network import Channel, Network
from mpinodes.rounds.step import Step, keep
from mpinodes.rounds.waiting import Waits
from mpinodes.runlog.checkpoints import Keeper, Kept


def run_agent(
    step: Step, setup: Setup, comm: MPI.Comm, channel: Channel, waits: Waits, keeper: Keeper, saved: Kept | None = None
) -> bool:
    """Run the rounds of one agent under MPI, until the run ends or the logger stops the run.

    At the end, all numbers that the agent logs have arrived at the logger.

    Args:
        step: computes the rounds of the agent.
        setup: the set-up of the run.
        comm: the communicator of the agents and the logger.
        channel: sends the numbers that the agent logs to the logger; it is closed at the end.
        waits: the object through which this rank waits for other ranks.
        keeper: writes the agent's checkpoints.
        saved: the checkpoint from which the agent continues; None if the run starts at round 1.

    Returns:
        Whether the logger stopped the run, because of a signal.
    """
    waits.reset()
    frame = np.zeros(setup.frame_width)
    network = Network(comm, setup, frame, waits)
    links = Held(network, setup, comm.rank) if setup.links else network
    t, state, arrivals, order = 0, step.start(), None, None
    if saved:
        t, state = saved["round"], saved["state"]
        arrivals = links.restored(state.here, saved["frames"])
    keeper.forget_after(t)
    while t < setup.experiment.rounds:
        row = channel.row(t + 1)
        state = step(state, arrivals, frame, row)
        if state.left:
            break
        t += 1
        order = None if step.plays else channel.done(t)  # the logger gets a row early, if it is complete
        arrivals = links.exchange(state.here)
        if step.plays:  # the row is complete only after `play`
            step.play(state, arrivals, row)
            order = channel.done(t)
        if order is None:
            continue
        keeper.forget_before(order.forget)
        if order.keeps:
            keep(keeper, t, state, links.kept(arrivals), order.stops)
        if order.stops:
            break
    waits.round = 0
    assert arrivals is not None  # because a run has at least one round
    channel.close(t, np.concatenate([waits.times(), step.model(state, arrivals)]))
    keeper.keep_two()
    network.close()
    return order is not None and order.stops
