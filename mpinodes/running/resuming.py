"""A run that was ended before its time goes on: with which experiment, and after which round."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mpinodes.config import own_files as sources
from mpinodes.config.noise_key import fingerprint
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SOURCES, Experiment, Tree, flat, is_file, parse, single_run
from mpinodes.core.parts import Setup, files_of
from mpinodes.finished.runs import summary_of
from mpinodes.launch.launching import say
from mpinodes.runlog.checkpoints import INSTEAD, LOGGER, Keeper, Kept, discard, places
from mpinodes.runlog.log import NAME, Unreadable, require
from mpinodes.runlog.reader import is_recorded
from mpinodes.runlog.snapshot import Damaged
from mpinodes.running.setup import rehearse, set_up

# Keys that nothing recorded depends on.
FREE = ("report", "checkpoint", "deadline", "audit", "output", "name", "record.chunk")
LONGER = ("rounds", "data.epochs")
MOVABLE = ("data.file", "data.dir", "topology.file", "record.metrics", *SOURCES)


class Reopened(NamedTuple):
    """A run that is to go on.

    Attributes:
        setup: of it.
        done: of its repeats, so many.
        found: what the logger of the next one has kept, the latest first.
    """

    setup: Setup
    done: int
    found: list[Kept]


def reopen(run: Path, words: list[str], ranks: int | None) -> Reopened:
    """Look at a run that is to go on.

    Args:
        run: its directory.
        words: key=value, on top of its experiment.
        ranks: as of `set_up`.

    Raises:
        BadInput: it is no run, or is done, or what is asked for is another one.
    """
    for word in words:
        if "=" not in word:
            raise BadInput(f"--resume {run} {word}: it goes on with its own experiment; only key=value pairs follow")
        if word.partition("=")[0] == "output.dir":
            raise BadInput(
                f"--resume {run} {word}: it goes on where it is; to have it elsewhere, move its directory before"
            )
    if not (run / "experiment.toml").is_file():
        raise BadInput(f"--resume {run}: not the directory of a run that has begun: there is no experiment.toml in it")
    asked, wanted = (parse(str(run / "experiment.toml"), given) for given in ([], words))
    for key, path in flat(wanted):
        if key in MOVABLE and isinstance(path, str) and path and not files_of(Path(path)):
            raise BadInput(f"--resume {run}: {path}: no such file; if it was moved, add {key}=PATH with its new place")
    setup = set_up(wanted | {"output": {"dir": str(run)}}, ranks)
    e = setup.experiment
    _require_same(run, asked, e)
    if e.rounds != asked["rounds"]:
        _require_longer(run, set_up(wanted | {"rounds": asked["rounds"]}, ranks), setup)
    for key, path in sources.files(e):
        if sources.changed_since(run, key, path):
            raise BadInput(f"--resume {run}: {key} = {str(path)!r} is not the file any more that the run began with")
    all_places = places(run, e.repeats)
    done = 0 if e.repeats == 1 else sum(map(is_done, all_places))
    for place in all_places:
        if is_done(place) and not e.checkpoint.are_asked_for:  # it may have been killed before it cleaned up
            discard(place)
    may_go_on = (all_places[-1] / NAME).exists()
    if is_done(run) and e.rounds == asked["rounds"]:
        more = " with a larger rounds= it may go on;" if may_go_on else ""
        raise BadInput(
            f"--resume {run}: it is done, all its {e.rounds} rounds;{more} page and figures are drawn by: "
            f"mpinodes report {run}"
        )
    rehearse(setup)
    if done == len(all_places):  # but for what they come to together
        return Reopened(setup, done, [])
    place, single = all_places[done], single_run(e, done)
    if is_recorded(place) and not (place / NAME).exists():
        raise BadInput(
            f"--resume {run}: it cannot go on, for its rounds are in record.h5 alone: a run keeps {NAME} while it goes "
            "on, and after its end with checkpoint.every=K; begin a new run"
        )
    found = list(_found(place, single, setup))
    if e.secret and not (found and found[0]["stops"]) and is_recorded(place):
        raise BadInput(
            f"--resume {run}: its noise is secret, and rounds that were said after its last checkpoint would be said "
            "again with other noise, which tells more than is accounted for: begin a new run"
        )
    return Reopened(setup, done, found[:1] if e.secret else found)


def is_done(place: Path) -> bool:
    """Whether a run has come to its end."""
    return summary_of(place) is not None


def _found(place: Path, e: Experiment, setup: Setup) -> Iterator[Kept]:
    """What the logger of a run has kept and can go on from, the latest first.

    Raises:
        BadInput: it is of another experiment, or of another version of mpinodes.
    """
    keeper = Keeper(place, LOGGER)
    for t in keeper.rounds():
        try:
            kept = keeper.load(t)
            require(place / NAME, kept["log"])
        except (OSError, Damaged, Unreadable) as error:
            say(f"{error}; {INSTEAD}")
            continue
        _require_same(place, tomllib.loads(kept["experiment"]), e)
        _require_files(place, kept["files"], setup)
        yield kept


def _require_same(where: Path, before: Tree, now: Experiment) -> None:
    """Refuse what would have given other rounds than those that are there.

    Files may lie elsewhere than they did: what they contain is compared, and is what rounds depend on.

    Raises:
        BadInput: names the keys that differ.
    """

    def names(value: object) -> object:  # of a key that may name files: what it names beside them
        return [None if is_file(word) else word for word in value] if isinstance(value, list) else None

    one, other = dict(flat(before)), dict(flat(tomllib.loads(now.toml())))
    longer = other["rounds"] > one.get("rounds", 0)
    free = FREE + LONGER if longer else FREE
    differ = [
        key
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
        and not any(key == name or key.startswith(f"{name}.") for name in free)
        and not (key in MOVABLE and key in one and key in other and names(one[key]) == names(other[key]))
    ]
    if differ:
        values = [(key, one.get(key, "not set"), other.get(key, "not set")) for key in differ[:3]]
        told = ", ".join(f"{key} was {was} and is {is_now}" for key, was, is_now in values)
        more = f", and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise BadInput(f"--resume {where}: another experiment: {told}{more}")


def _require_files(where: Path, before: Sequence[sources.Stamp], setup: Setup) -> None:
    """Refuse to go on with other data, or on another graph, than the run began with.

    Raises:
        BadInput: names a file.
    """
    files, now = sources.data_files(setup), sources.stamps(setup)
    if len(before) != len(now):
        raise BadInput(f"--resume {where}: data and graph are {len(now)} files and were {len(before)}")
    for path, one, other in zip(files, before, now, strict=True):
        if not sources.is_same(one, other):
            copied = one[2] != other[2] and one[0] == other[0]
            raise BadInput(
                f"--resume {where}: {path} is not the file any more that the run began with"
                f"{', or was copied to another machine without its time (cp -p keeps it)' if copied else ''}: put that "
                "back, or begin a new run"
            )


def _require_longer(run: Path, before: Setup, now: Setup) -> None:
    """Refuse a horizon that the rounds that are there would have been others for.

    Raises:
        BadInput: says why.
    """
    e = now.experiment
    if e.repeats > 1:
        raise BadInput(f"--resume {run}: rounds= goes with a run alone, and this one has {e.repeats} repeats")
    if fingerprint(before) != fingerprint(now):
        raise BadInput(
            f"--resume {run}: rounds = {e.rounds}: what {e.name} says depends on how many rounds there are "
            f"({before.experiment.rounds} so far): a longer run is another one"
        )


def load_all(keepers: Sequence[Keeper], found: Sequence[Kept]) -> tuple[Kept | None, list[Kept]]:
    """What the logger and all agents go on from: of the latest checkpoint that is whole; None: they begin anew."""
    for kept in found:
        try:
            return kept, [keeper.load(kept["round"]) for keeper in keepers]
        except (OSError, Damaged) as error:
            say(f"{error}; {INSTEAD}")
    return None, []


def tell(place: Path, kept: Kept | None) -> None:
    """Say where a run goes on, and write it into its log."""
    where = f"goes on after round {kept['round']}" if kept else "begins anew: there is no checkpoint to go on from"
    say(f"{place} {where}")
    place.mkdir(exist_ok=True)  # of a repeat that was not begun
    with (place / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"{where}\n")
