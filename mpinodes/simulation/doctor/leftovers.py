"""What MPI jobs of this user that were aborted or killed left on this host."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["SHM", "leftovers"]

SHM = Path("/dev/shm")
# MPICH: its ranks' segment, and the host's description that its proxy keeps; UCX: what transports share; Open MPI:
# a rank's segment, and mpirun's session. All hold open or map what is theirs as long as they live.
IN_SHM = r"mpich_shm_[0-9a-f]+_\d+|ucx_shm_posix_[0-9a-f]+|sm_segment\.[^/\s]+\.[0-9a-f]+\.\d+"
IN_TMP = r"hydra_hwloc_xmlfile_\w{6}|ompi\.\d+"


def leftovers() -> list[Path]:
    """Their files, oldest first: those of this user that no living process holds open or maps."""
    found = {path: path.stat().st_mtime for path in _candidates()}
    held = _held()
    return sorted((path for path in found if path.name not in held and path.exists()), key=lambda path: found[path])


def _candidates() -> list[Path]:
    paths = []
    for folder, pattern in ((SHM, IN_SHM), (Path(os.environ.get("TMPDIR") or "/tmp"), IN_TMP)):
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        paths += [Path(entry.path) for entry in entries if re.fullmatch(pattern, entry.name) and _mine(entry)]
    return paths


def _mine(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_uid == os.getuid() and not entry.is_symlink()
    except OSError:
        return False


def _held() -> set[str]:
    """Names of such files that living processes map or hold open, in whatever folder: rather one too many."""
    names = re.compile(rf"/({IN_SHM}|{IN_TMP})(?=[/\s]|$)", re.MULTILINE)
    held: set[str] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
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
