"""What MPI jobs of this user that were aborted or killed left on this host.

It costs memory, and more than that under Slurm: MPICH names its segment after job and step, takes one that is there for
its own, and hangs as it starts. So a job that is queued again on the same host needs the last attempt's gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

SHM = Path("/dev/shm")
# MPICH: its ranks' segment, and the host's description that its proxy keeps; UCX: what transports share; Open MPI:
# a rank's segment, and mpirun's session. All hold open or map what is theirs as long as they live.
IN_SHM = r"mpich_shm_[0-9a-f]+_\d+|ucx_shm_posix_[0-9a-f]+|sm_segment\.[^/\s]+\.[0-9a-f]+\.\d+"
IN_TMP = r"hydra_hwloc_xmlfile_\w{6}|ompi\.\d+"


def leftovers() -> list[Path]:
    """Their files, oldest first: those of this user that no living process holds open or maps."""
    found = {path: entry.st_mtime for path, entry in _candidates()}
    held = _held()
    return sorted((path for path in found if path.name not in held and path.exists()), key=lambda path: found[path])


def _candidates() -> Iterator[tuple[Path, os.stat_result]]:
    """Files and sessions of this user that are called as theirs are."""
    for folder, pattern in ((SHM, IN_SHM), (Path(os.environ.get("TMPDIR") or "/tmp"), IN_TMP)):
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if re.fullmatch(pattern, entry.name):
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue
                if stat.st_uid == os.getuid() and not entry.is_symlink():
                    yield Path(entry.path), stat


def _held() -> set[str]:
    """Names of such files that living processes map or hold open, in whatever folder: rather one too many."""
    names = re.compile(rf"/({IN_SHM}|{IN_TMP})(?=[/\s]|$)", re.MULTILINE)
    held: set[str] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            held.add(f"ompi.{process.name}")
            held.update(names.findall(_open_files(process)))
    return held


def _open_files(process: Path) -> str:
    """What a process maps and holds open, as far as it can be seen; processes of other users cannot be."""
    texts = []
    try:
        texts.append((process / "maps").read_text(errors="replace"))
        for file in (process / "fd").iterdir():
            texts.append(_target(file))
    except OSError:
        pass
    return "\n".join(texts)


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
