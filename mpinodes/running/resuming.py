"""Resume a run that ended early, or add rounds to a finished run: find the settings and the last valid round."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from mpinodes.config import own_files as sources
from mpinodes.config.noise_key import fingerprint
from mpinodes.core.asked import Tree, flat, merge, parse
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import SOURCES, Experiment, current, is_file, single_run
from mpinodes.core.parts import Setup, files_of
from mpinodes.finished.runs import summary_of
from mpinodes.launch.launching import say
from mpinodes.runlog.checkpoints import INSTEAD, LOGGER, Keeper, Kept, discard, places
from mpinodes.runlog.log import NAME, Unreadable, require
from mpinodes.runlog.reader import is_recorded
from mpinodes.runlog.snapshot import Damaged
from mpinodes.running.setup import rehearse, set_up

# Keys that a resumed run may change, because no recorded number depends on them.
FREE = ("report", "checkpoint", "deadline", "audit", "output", "name")
LONGER = ("rounds", "data.epochs")
MOVABLE = ("data.file", "data.dir", "topology.file", "record.metrics", *SOURCES)


def reopen(run: Path, words: list[str], ranks: int | None) -> tuple[Setup, int, list[Kept]]:
    """Check that a run can be resumed, and return its set-up and checkpoints.

    Checkpoints and rounds.log of finished repeats are deleted, unless `checkpoint.every` is set.

    Args:
        run: the directory of the run.
        words: key=value pairs that override keys of the run's experiment.
        ranks: the number of MPI processes, as in `set_up`.

    Returns:
        Three values: the set-up of the run; the number of finished repeats, which is 0 if the run has no repeats; and
        the logger's checkpoints of the next repeat, the latest first. With secret noise, the list has only the latest
        checkpoint. The list is empty if the repeat starts at round 1, or if all repeats are finished.

    Raises:
        BadInput: the run cannot be resumed. For example, the run is finished, a pair changes a key on which logged
            rounds depend, a file has changed, or secret noise would be drawn a second time for some messages.
    """
    for word in words:
        if "=" not in word:
            raise BadInput(f"--resume {run} {word}: after the directory only key=value pairs may follow")
    if not (run / "experiment.toml").is_file():
        raise BadInput(f"--resume {run}: not the directory of a run: it has no experiment.toml")
    if (overrides := parse(None, words)).get("output"):
        raise BadInput(f"--resume {run}: output.dir: a resumed run stays in its directory; move the directory first")
    asked, retired = current(parse(str(run / "experiment.toml"), []))
    if not asked.keys() >= {"rounds", "repeats"}:
        raise BadInput(f"--resume {run}: experiment.toml is not complete: the key rounds or repeats is missing")
    if asked["repeats"] > 1 and retired.get("privacy.budget.covers") == "each":
        raise BadInput(
            f"--resume {run}: each repeat has its own privacy budget (privacy.budget.covers), which this version of "
            "mpinodes does not support: start a new run"
        )
    wanted = merge(asked, overrides)
    for key, path in flat(wanted):
        if key in MOVABLE and isinstance(path, str) and path and not files_of(Path(path)):
            raise BadInput(f"--resume {run}: {path}: no such file; if it was moved, add {key}=PATH with its new place")
    setup = set_up(wanted | {"output": {"dir": str(run)}}, ranks)
    e = setup.experiment
    _require_same(run, asked, e)
    if e.rounds != asked["rounds"]:
        if e.repeats > 1:
            raise BadInput(f"--resume {run}: rounds cannot change in a run with repeats, here {e.repeats} repeats")
        shorter = set_up(wanted | {"rounds": asked["rounds"]}, ranks)
        if fingerprint(shorter) != fingerprint(setup):
            raise BadInput(
                f"--resume {run}: rounds = {e.rounds}: the messages of {e.name} depend on the number of rounds, which "
                f"was {asked['rounds']} when the run began; start a new run"
            )
    all_places = places(run, e.repeats)
    for key, path in sources.files(e) if any(map(is_recorded, all_places)) else ():
        if sources.changed_since(run, key, path):
            raise BadInput(f"--resume {run}: {key} = {str(path)!r}: the file has changed; start a new run")
    done = 0 if e.repeats == 1 else sum(summary_of(place) is not None for place in all_places)
    for place in all_places:
        if summary_of(place) and not e.checkpoint.every:  # a killed run may not have deleted its checkpoints
            discard(place)
    if summary_of(run) and e.rounds == asked["rounds"]:
        more = f" add rounds=N with N > {e.rounds} to continue;" if (all_places[-1] / NAME).exists() else ""
        raise BadInput(
            f"--resume {run}: all {e.rounds} rounds are done;{more} to draw the report: mpinodes report {run}"
        )
    rehearse(setup)
    if done == len(all_places):  # only the summary of all repeats is missing
        return setup, done, []
    place, single = all_places[done], single_run(e, done)
    if is_recorded(place) and not (place / NAME).exists():
        raise BadInput(
            f"--resume {run}: the run has record.h5, but no {NAME}, so it cannot continue; a finished run keeps {NAME} "
            "only with checkpoint.every=K; start a new run"
        )
    checkpoints = list(_checkpoints(place, single, setup))
    if e.secret and not (checkpoints and checkpoints[0]["stops"]) and is_recorded(place):
        raise sent_again(run)
    return setup, done, checkpoints[:1] if e.secret else checkpoints


def sent_again(run: Path) -> BadInput:
    """Return the error for a run that would send messages a second time, with other secret noise."""
    return BadInput(
        f"--resume {run}: the noise is secret (noise.entropy=os or noise.backend=opendp), so messages after the "
        "last checkpoint would be sent again with other noise, which costs further privacy; start a new run"
    )


def _checkpoints(place: Path, e: Experiment, setup: Setup) -> Iterator[Kept]:
    """Yield the logger's checkpoints from which a run can continue, the latest first.

    A damaged checkpoint is left out, and a message is printed.

    Args:
        place: the directory of the run, or of its next repeat.
        e: the experiment of this run or repeat.
        setup: the set-up of the run.

    Raises:
        BadInput: a checkpoint belongs to another experiment or has another layout, or a data file changed.
    """
    keeper = Keeper(place, LOGGER)
    for t in keeper.rounds():
        try:
            checkpoint = keeper.load(t)
            require(place / NAME, checkpoint["log"])
        except (OSError, Damaged, Unreadable) as error:
            say(f"{error}; {INSTEAD}")
            continue
        _require_same(place, current(tomllib.loads(checkpoint["experiment"]))[0], e)
        _require_files(place, checkpoint["files"], setup)
        yield checkpoint


def _require_same(where: Path, before: Tree, now: Experiment) -> None:
    """Check that a resumed run changes no setting on which its logged rounds depend.

    These settings may change:

    - the keys in `FREE`;
    - the number of rounds, which may only increase;
    - if the number of rounds increases, the other keys in `LONGER`;
    - the paths of files, because rounds depend only on the contents of files (see `_require_files`).

    Args:
        where: the run directory, for the error message.
        before: the settings with which the logged rounds were computed.
        now: the experiment of the resumed run.

    Raises:
        BadInput: another setting has changed; the message names up to three keys.
    """

    def without_paths(value: object) -> object:
        return [None if is_file(word) else word for word in value] if isinstance(value, list) else None

    old, new = dict(flat(before)), dict(flat(tomllib.loads(now.toml())))
    free = FREE + LONGER if new["rounds"] > old.get("rounds", 0) else FREE
    differ = []
    for key in sorted(old.keys() | new.keys()):
        moved = key in MOVABLE and key in old and key in new and without_paths(old[key]) == without_paths(new[key])
        if old.get(key) != new.get(key) and not moved and not any(f"{key}.".startswith(f"{name}.") for name in free):
            differ.append(key)
    if differ:
        shown = (f"{key} was {old.get(key, 'not set')} and is {new.get(key, 'not set')}" for key in differ[:3])
        more = f", and {len(differ) - 3} more" if len(differ) > 3 else ""
        raise BadInput(f"--resume {where}: these keys must not change: {', '.join(shown)}{more}; start a new run")


def _require_files(where: Path, before: Sequence[sources.Stamp], setup: Setup) -> None:
    """Check that no data file and no graph file has changed since the run started.

    Args:
        where: the run directory, for the error message.
        before: the size, time and hash of each file when the run started, as `own_files.stamps` returned them.
        setup: the set-up of the resumed run.

    Raises:
        BadInput: a file has changed (the message names the file), or the number of files has changed.
    """
    files, now = sources.data_files(setup), sources.stamps(setup)
    if len(before) != len(now):
        raise BadInput(
            f"--resume {where}: the run began with {len(before)} data and graph files, now {len(now)}; start a new run"
        )
    for path, old, new in zip(files, before, now, strict=True):
        if not sources.is_same(old, new):
            copied = old[2] != new[2] and old[0] == new[0]
            raise BadInput(
                f"--resume {where}: {path} has changed since the run began"
                f"{', or was copied to another machine without its time (cp -p keeps the time)' if copied else ''}"
                ": restore the file, or start a new run"
            )


def load_all(keepers: Sequence[Keeper], checkpoints: Sequence[Kept]) -> tuple[Kept | None, list[Kept]]:
    """Return the checkpoints of the latest round for which the logger and all agents have complete checkpoints.

    For each later checkpoint of the logger, a message says which checkpoint of an agent is damaged or missing.

    Args:
        keepers: the readers of the agents' checkpoints.
        checkpoints: the logger's checkpoints, the latest first.

    Returns:
        The logger's checkpoint, and the checkpoint of each agent; None and an empty list if there is no such round.

    Raises:
        BadInput: another version of mpinodes wrote a checkpoint in another layout.
    """
    for checkpoint in checkpoints:
        try:
            return checkpoint, [keeper.load(checkpoint["round"]) for keeper in keepers]
        except (OSError, Damaged) as error:
            say(f"{error}; {INSTEAD}")
    return None, []


def tell(place: Path, last: Kept | None) -> None:
    """Print after which round a run continues, and append the same text to log.txt in `place`.

    If the directory `place` is missing, it is created.

    Args:
        place: the directory of the run or repeat.
        last: the checkpoint from which the run continues; None if the run starts again at round 1.
    """
    start = f"goes on after round {last['round']}" if last else "begins again at round 1, because it has no checkpoint"
    say(f"{place} {start}")
    place.mkdir(exist_ok=True)  # the directory does not exist if the repeat has not started
    with (place / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"{start}\n")
