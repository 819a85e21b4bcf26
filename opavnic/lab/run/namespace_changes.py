"""What people have made in network namespaces of a lab: routes, interfaces, qdiscs, sysctls. A program of its own.

    python -m opavnic.lab.run.namespace_changes    < the question as JSON    > a JSON line for each namespace

Reading the hundreds of sysctls of a thousand namespaces takes seconds of processor time, which the process of a lab
cannot spare. The kernel keeps an entry of /proc/sys for each namespace that opened it, in one list for each name:
with many namespaces, a look-up takes longer than the read. So names are opened relative to their directory, and below a
/proc of this program's own, which is made anew before its lists get long.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import CLONE_NEWNET, Libc
from hfi_sim.netdev.qdiscs import QdiscClient
from hfi_sim.netdev.routes import KernelRoute, RouteClient

_OF_INTERFACES: Final = ("conf", "neigh")
"""Directories with one directory for each interface; those of all interfaces and of new ones are compared."""
_FOR_ALL: Final = ("all", "default")
_FORWARD: Final = "ipv4/ip_forward"
_SHOWN: Final = 8
_LONGEST: Final = 4096
_NEW_PROC: Final = 16
"""Namespaces that are read below one /proc."""

_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CLOEXEC: Final = 1
_CMD_CREATE: Final = 6

Sysctls = dict[str, str]
"""Values by their path below /proc/sys/net."""


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A namespace of a lab, and what the lab has made there."""

    host: str
    path: str
    interfaces: list[str]
    routes: list[str]
    """Destinations of the routes of the lab file."""
    qdiscs: list[str]
    """Interfaces that have a qdisc of the lab file."""
    sysctls: Sysctls
    """Those of the lab file."""


class SysctlReader:
    """Reads the sysctls of the network namespace that this thread is in."""

    def __init__(self) -> None:
        self._proc = -1
        self._reads = 0

    def read(self, like: Mapping[str, str] | None = None) -> Sysctls:
        """Return the settings; of interfaces, those for all. Args: like: read these names; None: all that are there."""
        if self._proc < 0 or self._reads % _NEW_PROC == 0:
            self.close()
            self._proc = _own_proc()
        self._reads += 1
        found: Sysctls = {}
        with _opened("sys/net", os.O_PATH, self._proc) as net:
            if like is None:
                _read_all(net, "", found)
            else:
                _read_tree(net, "", _tree(like), found)
        return found

    def close(self) -> None:
        """Give up its /proc."""
        if self._proc >= 0:
            os.close(self._proc)
            self._proc = -1


def _own_proc() -> int:
    """Return a /proc that no other process sees; without the privilege, that of the machine."""
    libc = Libc()
    try:
        context = libc.syscall(_FSOPEN, b"proc", _CLOEXEC)
        try:
            libc.syscall(_FSCONFIG, context, _CMD_CREATE, None, None, 0)
            return libc.syscall(_FSMOUNT, context, _CLOEXEC, 0)
        finally:
            os.close(context)
    except OSError:
        return os.open("/proc", os.O_PATH | os.O_CLOEXEC)


@contextlib.contextmanager
def _opened(name: str, flags: int, at: int) -> Iterator[int]:
    descriptor = os.open(name, flags | os.O_CLOEXEC, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_all(directory: int, path: str, found: Sysctls) -> None:
    with _opened(".", os.O_RDONLY, directory) as listed, os.scandir(listed) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        if not is_directory:
            _read_one(directory, name, path + name, found)
        elif path.rstrip("/").rpartition("/")[2] not in _OF_INTERFACES or name in _FOR_ALL:
            with _opened(name, os.O_PATH, directory) as inner:
                _read_all(inner, f"{path}{name}/", found)


def _tree(names: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name in names:
        *above, last = name.split("/")
        here = tree
        for part in above:
            here = here.setdefault(part, {})
        here[last] = None
    return tree


def _read_tree(directory: int, path: str, tree: Mapping[str, Any], found: Sysctls) -> None:
    for name, inner in tree.items():
        if inner is None:
            _read_one(directory, name, path + name, found)
        else:
            with contextlib.suppress(FileNotFoundError), _opened(name, os.O_PATH, directory) as below:
                _read_tree(below, f"{path}{name}/", inner, found)


def _read_one(directory: int, name: str, key: str, found: Sysctls) -> None:
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        try:
            found[key] = os.read(descriptor, _LONGEST).decode("ascii").strip()
        finally:
            os.close(descriptor)


def changes(place: LookedAt, fresh: Sysctls, own: Sysctls, reader: SysctlReader) -> Iterator[str]:
    """Yield what was made in a namespace. The calling thread enters it, and stays. Raises OSError, NetdevError.

    Args:  fresh: what a fresh namespace has with the sysctls of the lab file. own: what the lab sets in every one.
    """
    with open(place.path, "rb") as file:
        Libc().setns(file.fileno(), CLONE_NEWNET)
    with contextlib.closing(RouteClient()) as links:
        made = (_text(route) for route in links.routes_by_hand())
        yield from (f"route {it}" for it in made if it.split()[0] not in place.routes)
        there = {link.ifindex: link.name for link in links.links_now()}
    yield from (f"interface {name}" for name in sorted({*there.values()} - {*place.interfaces}))
    with contextlib.closing(QdiscClient()) as qdiscs:
        for one in qdiscs.qdiscs():
            name = there.get(one.ifindex, "")
            if one.is_root and one.handle and name in place.interfaces and name not in place.qdiscs:
                yield f"qdisc {one.kind} of {name}"
    now = reader.read(fresh)
    changed = [
        f"net.{key.replace('/', '.')} = {now[key]}"
        for key, value in fresh.items()
        if now.get(key, value) not in (value, own.get(key)) and not _follows(key, now, fresh)
    ]
    yield from (f"sysctl {line}" for line in changed[:_SHOWN])
    if (more := len(changed) - _SHOWN) > 0:
        yield f"{more} more sysctls"


def _text(route: KernelRoute) -> str:
    to = str(route.to) if route.to.prefixlen else "default"
    return f"{to} via {', '.join(map(str, sorted(route.via, key=str)))}" if route.via else to


def _follows(key: str, now: Sysctls, fresh: Sysctls) -> bool:
    """Return whether a setting changes with ip_forward, which has been changed."""
    of_ipv4 = key.startswith("ipv4/conf/") and key.endswith(("/forwarding", "_redirects"))
    return of_ipv4 and now.get(_FORWARD) != fresh.get(_FORWARD)


def main() -> None:
    """Answer the question on stdin: places, what fresh ones have by the sysctls of the file, what the lab sets."""
    places, fresh, own = json.load(sys.stdin)
    reader = SysctlReader()
    for place in (LookedAt(**told) for told in places):
        try:
            found = next(values for sysctls, values in fresh if sysctls == place.sysctls)
            said = list(changes(place, found, own, reader))
        except (OSError, NetdevError) as error:
            said = [f"what was made by hand is unknown: {error}"]
        sys.stdout.write(json.dumps([f"{place.host}: {what}" for what in said]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
