"""Build the parts (algorithm, loss, graph, ...) of a complete experiment, and assemble them into a `Setup`.

An experiment is complete if every key has a value. Agents receive complete experiments, so they need this module, but
not the modules that find defaults and check settings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isinf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mpinodes.config import registry
from mpinodes.config.noise_key import noise_key
from mpinodes.config.public_constants import constants_of, graph_facts, samples_of
from mpinodes.config.registry import Classes
from mpinodes.core.errors import is_users
from mpinodes.core.experiment import Experiment
from mpinodes.core.messages import Features, Vector, arrays
from mpinodes.core.parts import Links, Loss, Run, SampleLoss, Setup, Stream, Topology
from mpinodes.core.seeds import Draws, Purpose
from mpinodes.losses.enforced import Reclipped, Stated, enforced
from mpinodes.losses.linear import NoisyGradient
from mpinodes.topology.isolated import Isolated
from mpinodes.topology.stored import file_of

Losses: TypeAlias = Callable[[int], Callable[[int], Loss]]  # maps an agent, then a round, to a loss


def build(experiment: Experiment, stream: Stream | None = None) -> Setup:
    """Return the set-up of a complete experiment (all keys have values), without checking the experiment.

    The experiment must have been checked by `compose` before, for example in another process or with another seed.

    Args:
        experiment: the experiment.
        stream: the data, if another set-up already has the stream of these data.

    Raises:
        BadInput: a file is missing or malformed, or the parts of the experiment do not fit together.
    """
    classes = Classes.of(experiment)
    graph = topology_of(experiment.topology, experiment.seed)
    return assembled(experiment, classes, graph, stream or stream_of(experiment, classes, graph.agents))


def rebuilt(setup: Setup, experiment: Experiment) -> Setup:
    """Return the set-up of a complete experiment, in which parts of another set-up are used again.

    The graph, faults, data, loss and metrics are used again, which saves the time to build them.

    Args:
        setup: a set-up whose experiment has the same graph, faults, data, loss and metrics as `experiment`. The two
            experiments may differ in noise, privacy budget or algorithm.
        experiment: the complete experiment (all keys have values).
    """
    classes = Classes.of(experiment)._replace(loss=setup.loss)
    again = assembled(experiment, classes, setup.topology, setup.stream)
    again = replace(again, connected_over=setup.connected_over, metrics=setup.metrics)
    return replace(again, links=setup.links, asked=setup.asked)


def assembled(experiment: Experiment, classes: Classes, graph: Topology, stream: Stream) -> Setup:
    """Return the set-up of a complete experiment from its classes, its graph and its data.

    - If the baseline is alone: the graph of the set-up has no edges.
    - If the baseline is one-shot: every agent sends to every other agent, in the last round only.

    Args:
        experiment: the complete experiment (all keys have values).
        classes: the classes of the algorithm, the loss function and the other parts of the experiment.
        graph: the topology of the experiment.
        stream: the data: the loss function of each agent in each round.

    Raises:
        BadInput: for example, an agent has no samples, or the agents decide blocks and outnumber the coordinates.
    """
    if experiment.is_isolated:
        meets = experiment.rounds if experiment.baseline == "one-shot" else 0
        graph = Isolated(graph.agents, meets=meets)
    samples = samples_of(experiment, stream, graph.agents)
    run = constants_of(experiment, graph, stream, classes, samples)
    stated = Stated(classes.loss, stream, run, samples) if is_users(type(stream)) else None
    changed = experiment.feedback.points or experiment.problem.gradient_noise  # gradients change after clipping
    visible = replace(run, rounds=sys.maxsize) if classes.algorithm.anytime else run  # hide the number of rounds
    mixing = registry.mixing_class(classes.algorithm, experiment.algorithm["mixing"])
    hyper = registry.picked(registry.ALGORITHMS, classes.algorithm, experiment.algorithm)
    mechanism, links, faults = classes.mechanism(), None, experiment.faults
    if experiment.private:
        constant = None if experiment.privacy.scale == "calibrated" else experiment.privacy.scale
        mechanism = classes.mechanism(experiment.privacy.epsilon, constant, experiment.noise.backend)
    if faults.takes or faults.most_late:
        links = Links(graph, faults, experiment.seed, mixing.hears == "each")
    return Setup(
        experiment, graph, stream,
        algorithm=classes.algorithm(run=visible, **hyper),
        mixing=mixing(graph_facts(graph, None if mixing.anytime else experiment.rounds)),
        mechanism=mechanism,
        loss=classes.loss,
        run=run,
        samples=samples,
        losses=seen_losses(experiment, stream.of, run, stated),
        make_key=noise_key,
        cut=cut_to_clip(experiment, run, stated) if stated and not changed else None,
        links=links,
    )  # fmt: skip


def seen_losses(experiment: Experiment, of: Losses, run: Run, stated: Stated | None = None) -> Losses:
    """Return the loss functions that the agents receive, as a function f: f(agent)(round) is a loss function.

    - By default: the gradients are clipped as `privacy.clip` says. A random error of the variance
      `problem.gradient_noise` is added to each coordinate of a clipped gradient.
    - Under bandit feedback: the loss functions return estimates of gradients, without this random error.

    Args:
        experiment: determines the clipping, the random error, and whether agents receive gradients.
        of: of(agent)(round) is the loss function that the data provide.
        run: the public constants of the run.
        stated: checks whether a loss has the properties that a user's stream states; None if the stream is built in.
    """
    if experiment.feedback.points:
        from mpinodes.losses.two_point import Directions, two_point  # imported here, so that other agents start faster

        directions = Directions(experiment, run.blocks, run.dimension)

        def played(agent: int) -> Callable[[int], Loss]:
            size = run.blocks[agent].stop - run.blocks[agent].start
            most = run.grad_sensitivity[agent] / (2 * size)
            own, estimated = of(agent), two_point(experiment, directions, run.feasible, agent, most, stated)
            return lambda t: estimated(t, own(t))

        return played
    variance, seed = experiment.problem.gradient_noise, experiment.seed
    cut = cut_to_clip(experiment, run, stated)

    def seen(agent: int) -> Callable[[int], Loss]:
        own = of(agent)
        noise = Draws(seed, Purpose.GRADIENT_NOISE, agent) if variance else None

        def loss(t: int) -> Loss:
            clipped = cut(agent, own(t))
            return NoisyGradient(clipped, variance, t, noise) if noise else clipped

        return loss

    return seen


def cut_to_clip(experiment: Experiment, run: Run, stated: Stated | None) -> Callable[[int, Loss], Loss]:
    """Return a function that takes an agent and the agent's loss, and returns this loss with a clipped gradient.

    - By default: the gradient is clipped to `privacy.clip`, even if the class of the loss does not clip.
    - If the loss lacks a property that a user's stream states: the gradient of its samples is clipped as a whole.
      The clip is half of `Run.grad_sensitivity`, so that the privacy accounting stays correct.
    - In both cases, if `privacy.clip` is inf or the loss was clipped in the same way before: the loss is unchanged.

    Args:
        experiment: determines the clipping.
        run: the public constants of the run.
        stated: checks whether a loss has the properties that a user's stream states; None if the stream is built in.
    """
    clip, whole = experiment.clip, experiment.clips_rounds
    regularizer = experiment.problem.regularizer

    def cut(agent: int, loss: Loss) -> Loss:
        most = run.grad_sensitivity[agent] / 2
        before = loss if isinstance(loss, Reclipped) else None  # the loss was already clipped by this function
        fits = not stated or stated.fits(agent, before.loss if before else loss)
        if isinf(clip) or (before and (before.clip, before.whole) == ((clip, whole) if fits else (most, True))):
            return loss
        return enforced(loss, clip, most, whole, regularizer) if fits else Reclipped(loss, most, True, regularizer)

    return cut


def topology_of(section: Mapping[str, Any], seed: int) -> Topology:
    """Return the graph that a section `topology` describes.

    Args:
        section: the section `topology`, in which every key has a value.
        seed: the seed of the run, for graphs that are drawn at random.

    Raises:
        BadInput: the file of the graph is missing or malformed.
    """
    if file := section.get("file") or file_of(section.get("name", "")):
        from mpinodes.topology import graph_files as files  # imported here, so that most agents start faster

        return files.read(Path(file), section["undirected"])
    part: type[Topology] = registry.chosen(registry.TOPOLOGIES, section)
    return part(seed=seed, **registry.picked(registry.TOPOLOGIES, part, section))


def stream_of(e: Experiment, classes: Classes, agents: int) -> Stream:
    """Return the data of a complete experiment, as a stream of loss functions for `agents` agents.

    If batches are secret (`data.sampling`), the loss function of a round has all samples of the agent. Files are not
    read yet: a missing or malformed file raises BadInput when the stream first needs it.

    Raises:
        BadInput: settings of the data contradict each other.
    """
    problem, whole, clip = e.problem, e.clips_rounds, e.clip

    def make_loss(features: Features, targets: Vector) -> SampleLoss:
        """Return the loss function of a round from the round's features (k, d) and targets (k,)."""
        divisor = (len(targets) if problem.average else 1.0) / problem.weight
        return classes.loss(arrays(features), np.asarray(targets), clip, whole, divisor, problem.regularizer)

    settings = registry.picked(registry.STREAMS, classes.stream, e.data)
    if e.sampling != "none":  # the agent draws the batch, from all its samples
        settings["batch"] = "all"
    return classes.stream(**settings, seed=e.data.get("seed", e.seed), agents=agents, make_loss=make_loss)
