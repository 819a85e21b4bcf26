"""Changes the kernel of a host as the lab file says: sysctls, addresses of the loopback, routes.

In a host that is a kernel of its own, this module does it there: `python -m opavnic.lab.hosts.kernel_setup`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import LinkClient
from hfi_sim.netdev.routes import RouteClient
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.host_setup import LOOPBACK, HostRoute, HostSetup
from opavnic.lab.hosts.programs import run_program
from opavnic.world.host_backends.backend import HostBackend

_LOOPBACK_INDEX: Final = 1
_SYSCTLS: Final = Path("/proc/sys")
_PATIENCE_S: Final = 60.0
_CHANGED: Final = {"addresses", "sysctls", "routes"}


def change_kernel(
    namespace: Path | None, names: Mapping[str, str], before: HostSetup, after: HostSetup, *, has_vnics: bool
) -> None:
    """Change what differs in the setup of a network namespace; None: that of this thread.

    Args:    names: of its interfaces, by what its VNICs are called in the lab. has_vnics: they are there, and with them
             all sysctls that will; else routes wait.
    Raises:  LabError: the kernel refuses.
    """
    try:
        wanted = dict(after.sysctls.items() - before.sysctls.items())
        run_in_namespace(namespace, lambda: set_sysctls(wanted, are_all_there=has_vnics))
    except LabError as error:
        raise LabError(f"sysctls: {error}") from error
    _change_loopback(namespace, before, after)
    if has_vnics and (before.routes or after.routes):
        _change_routes(namespace, names, before.routes, after.routes)


async def change_kernel_of(
    host: HostBackend, names: Mapping[str, str], before: HostSetup, after: HostSetup, *, has_vnics: bool
) -> None:
    """Do the same by a program in a host that is a kernel of its own. Raises LabError."""
    told = [
        dict(names),
        *(setup.model_dump(mode="json", include=_CHANGED) for setup in (before, after)),
        has_vnics,
    ]
    program = [sys.executable, "-P", "-m", __name__, json.dumps(told)]
    done = await run_program(host, program, _PATIENCE_S)
    if done.returncode:
        raise LabError(done.stderr.strip().rpartition("\n")[2] or f"not set up: exit code {done.returncode}")


def set_sysctls(values: Mapping[str, str], *, are_all_there: bool) -> None:
    """Set sysctls of the network namespace that this thread is in.

    Args:    are_all_there: its interfaces exist, and with them all sysctls that will.
    Raises:  LabError: there is no such sysctl, or the kernel refuses a value.
    """
    for key, value in values.items():
        try:
            with (_SYSCTLS / _path_of(key)).open("r+", encoding="ascii") as file:
                file.write(value)
        except FileNotFoundError as error:
            if are_all_there:
                raise LabError(f"there is no {key}") from error
        except (OSError, ValueError) as error:
            raise LabError(f"{key}={value}: {getattr(error, 'strerror', None) or error}") from error


def _path_of(key: str) -> str:
    """Return the path of a sysctl: as sysctl(8), what its first separator is parts it, and the other one is a dot."""
    slash, dot = key.find("/"), key.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return key
    return key.translate(str.maketrans("./", "/."))


def _change_loopback(namespace: Path | None, before: HostSetup, after: HostSetup) -> None:
    old, new = before.addresses.get(LOOPBACK, ()), after.addresses.get(LOOPBACK, ())
    gone, added = ([one for one in has if one not in other] for has, other in ((old, new), (new, old)))
    if not gone and not added:
        return
    with contextlib.closing(LinkClient(namespace)) as links:
        for address in gone:
            with contextlib.suppress(NetdevError):  # the host has taken it away itself
                links.remove_ip(_LOOPBACK_INDEX, address)
        for address in added:
            try:
                links.add_ip(_LOOPBACK_INDEX, address)
            except NetdevError as error:
                if error.errno != errno.EEXIST:
                    raise LabError(f"addresses: lo: {error}") from error


def _change_routes(
    namespace: Path | None, names: Mapping[str, str], before: Sequence[HostRoute], after: Sequence[HostRoute]
) -> None:
    with contextlib.closing(RouteClient(namespace)) as client:

        def index_of(route: HostRoute) -> int:
            if route.dev is None:
                return 0
            name = names.get(route.dev, route.dev)
            link = client.find(name)
            if link is None:
                raise NetdevError(f"there is no interface {name}", errno.ENODEV)
            return link.ifindex

        for route in before:
            if route not in after:
                with contextlib.suppress(NetdevError):  # it went with its interface
                    client.remove_route(route.destination, route.via, index_of(route), route.metric)
        for route in after:
            if route in before:
                continue
            try:
                client.add_route(route.destination, route.via, index_of(route), route.metric)
            except NetdevError as error:
                raise LabError(f"routes: {route}: {error}") from error


def main() -> int:
    """Change the kernel that this program runs in: interface names, setup before and after, whether VNICs are there."""
    names, before, after, has_vnics = json.loads(sys.argv[1])
    try:
        change_kernel(
            None,
            names,
            HostSetup.model_validate(before),
            HostSetup.model_validate(after),
            has_vnics=has_vnics,
        )
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
