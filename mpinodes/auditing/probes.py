"""The experiments of the games: small ones that hide an algorithm's data least, or the run itself."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

from mpinodes.auditing.small_experiments import of_kind, secrets
from mpinodes.config import registry
from mpinodes.config.defaults import FIRST
from mpinodes.core.asked import Tree, merge
from mpinodes.core.experiment import Experiment


class Probe(NamedTuple):
    """One experiment of the games, which becomes one row of the table.

    Attributes:
        what: the row's label.
        asked: the experiment.
        secret: whether every sample's sign is a secret of its own, to be guessed from one run.
    """

    what: str
    asked: Tree
    secret: bool = False


def probes(
    section: Tree, seed: int, folder: Path, adjacency: str = "one-sample", feedback: Tree | None = None
) -> list[Probe]:
    """Make the probes of the algorithm that an `algorithm` section names.

    Args:
        section: keys whose values are words hold for the probes too.
        seed: of the audit.
        folder: where the probes' data are written.
        adjacency: "one-agent" changes all samples of an agent; otherwise one sample changes.
        feedback: the section `feedback` of the run.

    Raises:
        BadInput: there is no such algorithm.
    """
    section = section if {"name", "path"} & section.keys() else FIRST["algorithm"] | section
    algorithm = registry.chosen(registry.ALGORITHMS, section)
    words = {key: value for key, value in section.items() if isinstance(value, str)}
    fits = of_kind(algorithm, seed, folder, adjacency == "one-agent")
    stated: dict[str, Tree] = dict(algorithm.probes)
    if words.keys() - {"name", "path"}:  # the user says which words hold
        first = next(iter(stated.values()))
        numbers = {key: value for key, value in first.get("algorithm", {}).items() if not isinstance(value, str)}
        stated = {"as asked": {**first, "algorithm": numbers}}
    always: Tree = {"algorithm": words, "feedback": feedback or {}}
    made = []
    for label, keys in stated.items():
        base = {key: value for key, value in fits.items() if key != "step" or key not in keys}
        made.append(Probe(label, merge(base, keys, always)))
    if not algorithm.whole_data:
        own_secrets = merge(made[0].asked, secrets(algorithm, seed, folder))
        made.append(Probe("every sample, one run", own_secrets, secret=True))
    return made


def of_view(whole: Experiment) -> Probe:
    """Return the run itself as a probe, in one process, for an adversary who is among its agents."""
    changes: Tree = {"repeats": 1, "report": False, "record": {"transcript": True}}
    viewers = whole.audit.viewers
    who = f"agent {viewers[0]} receives" if len(viewers) == 1 else f"agents {', '.join(map(str, viewers))} receive"
    return Probe(f"what {who}", merge(tomllib.loads(whole.toml()), changes))
