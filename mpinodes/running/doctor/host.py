"""What each host offers its ranks: cores, BLAS, shared memory, versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mpinodes.running.doctor.leftovers import SHM, leftovers
from mpinodes.running.doctor.report import Line, most

PACKAGES = ("numpy", "scipy", "mpi4py", "h5py", "networkx", "msgspec")
MEGABYTE = 1e6


class Rank(NamedTuple):
    """What a rank says of itself.

    Attributes:
        host: its name.
        cores: that it may use.
        online: cores of its host.
        blas: library, architecture that it computes for, threads; None: unknown.
        versions: of packages, by name.
    """

    host: str
    cores: frozenset[int]
    online: int
    blas: tuple[str, str, int] | None
    versions: Mapping[str, str]

    @classmethod
    def here(cls, version: str, library: str) -> Rank:
        """This one's."""
        versions = {"mpinodes": version, "Python": platform.python_version(), "MPI": library}
        for name in PACKAGES:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = "missing"
        cores = frozenset(os.sched_getaffinity(0))
        return cls(platform.node(), cores, os.cpu_count() or 1, _blas(), versions)


class Host(NamedTuple):
    """What the first rank of a host says of it.

    Attributes:
        name: its name.
        size, free: of the shared memory, bytes.
        left: files that aborted jobs left.
    """

    name: str
    size: int
    free: int
    left: list[str]

    @classmethod
    def here(cls) -> Host:
        """This one's."""
        try:
            stat = os.statvfs(SHM)
            size, free = stat.f_frsize * stat.f_blocks, stat.f_frsize * stat.f_bavail
        except OSError:
            size = free = 0
        return cls(platform.node(), size, free, [str(p) for p in leftovers()])


def _blas() -> tuple[str, str, int] | None:
    import numpy.linalg  # noqa: F401 (loads BLAS)
    from threadpoolctl import threadpool_info

    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    if not found:
        return None
    name = f"{found[0]['internal_api']} {found[0]['version']}"
    return name, str(found[0].get("architecture", "")), max(info["num_threads"] for info in found)


def about_cores(ranks: Sequence[Rank]) -> Iterator[Line]:
    """Of each host: how many ranks on which cores."""
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    if len(ranks) > 1:
        counts = [f"{host}: {n} rank{'s' * (n > 1)}" for host, n in Counter(rank.host for rank in ranks).items()]
        yield Line("ok", "hosts", f"{len(hosts)}: {most(counts)}")
    alike: dict[Line, list[str]] = {}
    for host in hosts:
        line = _cores_of([rank for rank in ranks if rank.host == host])
        alike.setdefault(line, []).append(host)
    for line, where in alike.items():
        yield line._replace(text=f"{most(where, 3)}: {line.text}") if len(hosts) > 1 else line


def _cores_of(ranks: Sequence[Rank]) -> Line:
    n, online = len(ranks), ranks[0].online
    cores = frozenset().union(*(rank.cores for rank in ranks))
    many = f"{n} rank{'s' * (n > 1)} may use {len(cores)} of {online} cores"
    each = Counter(core for rank in ranks for core in rank.cores if len(rank.cores) < len(cores))
    if each and max(each.values()) > -(-n // len(cores)):
        core = max(each, key=lambda c: each[c])
        text = f"{many}, but {each[core]} of them are bound to core {core} with others free"
        return Line("mend", "cores", text, "mpirun --bind-to none (Open MPI), -bind-to none (MPICH)")
    if n > len(cores) and len(cores) < online:
        advice = "ask the batch system or container for a core a rank, or leave out what binds them (taskset, -bind-to)"
        return Line("mend", "cores", f"{many}, so ranks wait for each other's while others are free", advice)
    if n > len(cores):
        return Line("note", "cores", f"{many}: they take turns, which is right for simulations and slow")
    return Line("ok", "cores", many)


def about_blas(ranks: Sequence[Rank]) -> Line:
    """One thread each, and the same arithmetic on all."""
    known = {rank.blas for rank in ranks}
    if None in known:
        return Line("note", "threads", "no BLAS that threadpoolctl knows: see to it that it takes one thread a process")
    names, kinds, threads = (sorted(set(values)) for values in zip(*filter(None, known), strict=True))
    text = f"BLAS: {most(names)} for {most(kinds)}, {threads[-1]} thread{'s' * (threads[-1] > 1)}"
    if threads[-1] > 1:
        advice = "set its number of threads to 1 in the environment: a product's last bits depend on it"
        return Line("mend", "threads", f"{text}, though mpinodes asked for one", advice)
    if len(kinds) > 1:
        advice = (
            f"export OPENBLAS_CORETYPE={'Haswell' if os.uname().machine == 'x86_64' else 'ARMV8'} for the same bits"
        )
        return Line("note", "threads", f"{text}: hosts round differently", advice)
    return Line("ok", "threads", text)


def about_memory(hosts: Sequence[Host]) -> Iterator[Line]:
    """Look at the shared memory of the host with the least, and at what was left in it anywhere."""
    for host in sorted(hosts, key=lambda h: h.free)[:1]:
        text = f"{SHM}: {host.size / MEGABYTE:,.0f} MB, {host.free / MEGABYTE:,.0f} free"
        text += f" on {host.name}" * (len(hosts) > 1)
        if host.size == 0:
            yield Line("mend", "memory", f"there is no {SHM}", "MPI's ranks meet there: mount a tmpfs")
        elif host.free < 16 * MEGABYTE:
            yield Line("mend", "memory", text, "remove leftovers, or give it more (docker run --shm-size=1g)")
        else:
            yield Line("ok", "memory", text)
    if left := [host for host in hosts if host.left]:
        names = most(f"{h.name}: {len(h.left)} ({most(h.left, 1)})" for h in left)
        advice = "there, python -m mpinodes.doctor --leftovers | xargs -rd '\\n' rm -r"
        yield Line("mend", "memory", f"files that aborted MPI jobs of yours left on {names}", advice)


def about_versions(ranks: Sequence[Rank]) -> Line:
    """Of Python and packages: those of rank 0, and who has others."""
    first = ranks[0].versions
    missing = [name for name, version in first.items() if version == "missing"]
    text = ", ".join(f"{name} {version}" for name, version in first.items() if name not in ("MPI", *missing))
    if missing:
        return Line("mend", "versions", f"{text}; without {most(missing)}", "pip install 'mpinodes[mpich]'")
    for number, rank in enumerate(ranks):
        for name, version in rank.versions.items():
            if version != first[name]:
                found = f"rank {number} on {rank.host} has {name} {version}, rank 0 {first[name]}"
                return Line("mend", "versions", found, "give all hosts the same environment: results depend on it")
    return Line("ok", "versions", text)
