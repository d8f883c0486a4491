"""Find runs in neighbouring directories that have the same noise as a run, but different data.

Two such runs together can reveal data, because the difference of their messages may have no noise. To find such runs,
experiment.toml begins with up to two comment lines:

- One line identifies the noise, if the noise is drawn from the seed.
- One line identifies the data files and the code of a user-written stream, if the run reads such files.
"""

from __future__ import annotations

import os
import tomllib
from glob import iglob
from hashlib import blake2b
from pathlib import Path

from msgspec.structs import replace

from mpinodes.config.noise_key import DIGITS, files_behind, noise_name
from mpinodes.core import Setup, cached
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Experiment
from mpinodes.core.parts import LOCATIONS

HEAD = "# noise "  # begins the first line of experiment.toml, which identifies the noise
FILES = "# files "  # begins the next line, which contains the `files_mark`

_stored: dict[str, list[tuple[Path, str]]] = {}  # results of `_noises`


def headed(setup: Setup) -> str:
    """Return the text of the file experiment.toml for a run: up to two comment lines, then the settings.

    - The first comment line identifies the noise, if the noise is drawn from the seed.
    - The second comment line identifies the data files and the code of a user-written stream, if the run reads such
      files.

    If the run is a job with repeats, there are no comment lines, because each repeat has its own experiment.toml.
    """
    e = setup.experiment
    if e.repeats > 1:
        return e.toml()
    mark, named = files_mark(setup), e.private and not e.secret
    return (f"{HEAD}{noise_name(setup)}\n" if named else "") + (f"{FILES}{mark}\n" if mark else "") + e.toml()


def noise_of(file: Path) -> str:
    """Return the identifier of the noise from the first line of an experiment.toml; "" if there is none."""
    try:
        with file.open(encoding="utf-8") as opened:
            line = opened.readline(len(HEAD) + DIGITS + 1)
    except (OSError, UnicodeDecodeError):
        return ""
    return line.strip().removeprefix(HEAD) if line.startswith(HEAD) else ""


def sharing(setup: Setup, directory: Path) -> list[str]:
    """Return the names of neighbouring run directories whose runs have the same noise as this run, but different data.

    The list is empty if this run has no noise, or noise that is not drawn from the seed. Runs of the same job are left
    out. Two runs have different data in these cases:

    - A setting of the section `data` differs. `data.facts` and settings that change only the number of rounds are
      ignored. If `noise.key` is not set, the paths of files are ignored, too.
    - `noise.key` is set, and the `files_mark` differs: a data file or the code of the stream was written, moved or
      replaced.

    Args:
        setup: this run.
        directory: the directory of this run; neighbouring directories have the same parent directory.
    """
    e = setup.experiment
    if not e.private or e.secret:
        return []
    job = directory.parent if directory.name.startswith("repeat-") else directory
    noise, sharers = noise_name(setup), set()
    for name in set(os.listdir(job.parent)) - {job.name}:
        for file, other in _noises(os.path.join(job.parent, name)):
            if other == noise and _is_on_other_data(file, setup):
                sharers.add(file.parent.relative_to(job.parent).as_posix())
    return sorted(sharers)


def _noises(job: str) -> list[tuple[Path, str]]:
    """Return the experiment.toml of a run, or of each of its repeats, with the identifier of the noise if it has one.

    A process that does many runs, such as a worker process of a study, reads the files of each run once.
    """
    if cached.is_on and job in _stored:
        return _stored[job]
    # iglob tolerates directories that are deleted meanwhile
    files = ("experiment.toml", *iglob("repeat-*/experiment.toml", root_dir=job))
    noises = [(Path(job, file), noise) for file in files if (noise := noise_of(Path(job, file)))]
    if cached.is_on and noises:  # a run that has no identifier may be about to start
        _stored[job] = noises
    return noises


def _is_on_other_data(file: Path, setup: Setup) -> bool:
    try:
        own, other = (tomllib.loads(text)["data"] for text in (setup.experiment.toml(), file.read_text("utf-8")))
        differ = {key for key in own.keys() | other.keys() if own.get(key) != other.get(key)}
        differ -= {*setup.stream.lengthens, "facts"}
        if setup.experiment.noise.key is None:
            return bool(differ - {*LOCATIONS})
        return bool(differ) or files_mark_of(file) != files_mark(setup)
    except (OSError, ValueError, KeyError):
        return False


def files_mark(setup: Setup) -> str:
    """Return a short text that changes when a data file, or a code file of the stream, is written, moved or replaced.

    The text is a hash of the inodes, sizes and times of the files; it does not depend on their contents. If the run has
    neither data files nor a user-written stream, the text is empty. If a file cannot be found, the text is random.
    """
    code = setup.experiment.data.get("path")
    try:
        files = [*setup.stream.source_files, *(files_behind(Path(code)) if code else [])]
        stats = [stat for path in files for stat in (path.stat(), path.lstat())]
    except (BadInput, OSError):  # a file was just deleted: return a random mark, which equals no other mark
        return os.urandom(8).hex()
    facts = [(stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for stat in stats]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest() if facts else ""


def files_mark_of(file: Path) -> str:
    """Return the `files_mark` (a hash of inodes, sizes and times of files) in an experiment.toml; "" if it has none."""
    with file.open(encoding="utf-8") as opened:
        lines = [opened.readline(), opened.readline()]
    return next((line.removeprefix(FILES).strip() for line in lines if line.startswith(FILES)), "")


def at_one_place(e: Experiment, file: Path, other: Experiment, mark: str) -> Experiment:
    """Return the experiment `e` with the data paths of `other`, if both experiments read the same files; otherwise `e`.

    Args:
        e: an experiment.
        file: the experiment.toml of `e`.
        other: another experiment.
        mark: the `files_mark` (a hash of the files) of `other`. If the experiment.toml of `e` contains an equal mark,
            the files are the same.
    """
    same = LOCATIONS if mark and files_mark_of(file) == mark else ()
    return replace(e, data=e.data | {key: other.data[key] for key in same if key in e.data and key in other.data})
