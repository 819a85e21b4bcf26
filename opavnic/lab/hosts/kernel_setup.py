"""Holds the kernel of a host against what the lab file says: sysctls, addresses of the loopback, routes, qdiscs.

What is missing is made, what the lab has made and the file no longer says is taken away, and what others have added
stays. In a host that is a kernel of its own, this module does it there: `python -m opavnic.lab.hosts.kernel_setup`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.qdiscs import QdiscClient
from hfi_sim.netdev.routes import KernelRoute, RouteClient
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.host_setup import LOOPBACK, HostRoute, HostSetup
from opavnic.lab.hosts.programs import run_program
from opavnic.world.host_backends.backend import HostBackend
from vema.base.sections import AS_WRITTEN

_LOOPBACK_INDEX: Final = 1
_SYSCTLS: Final = Path("/proc/sys")
_PATIENCE_S: Final = 60.0
_COMPARED: Final = {"addresses", "sysctls", "routes", "qdiscs"}


def reconcile_kernel(namespace: Path | None, made: HostSetup, wanted: HostSetup) -> list[str]:
    """Make the kernel of a network namespace what a setup says; None: that of this thread. Return what it refuses.

    Args:  made: what the lab has made there before. Routes name interfaces.
    """
    trouble = run_in_namespace(namespace, lambda: list(_set_sysctls(made, wanted)))
    trouble += _reconcile_loopback(namespace, made, wanted)
    if made.routes or wanted.routes:
        trouble += _reconcile_routes(namespace, made, wanted)
    if made.qdiscs or wanted.qdiscs:
        trouble += _reconcile_qdiscs(namespace, made, wanted)
    return trouble


def missing_in_kernel(namespace: Path | None, wanted: HostSetup) -> list[str]:
    """Return what a setup says and is not so, a line each. Raises NetdevError."""
    found = list(run_in_namespace(namespace, lambda: list(_missing_sysctls(wanted.sysctls))))
    if addresses := wanted.addresses.get(LOOPBACK):
        with contextlib.closing(LinkClient(namespace)) as links:
            has = links.ip_addresses().get(_LOOPBACK_INDEX, ())
        found += [f"address {address} of lo is missing" for address in addresses if address not in has]
    if wanted.routes:
        with contextlib.closing(RouteClient(namespace)) as client:
            there = client.routes()
            found += [
                f"route {route} is missing" for route in wanted.routes if not _is_there(route, client, there)
            ]
    if wanted.qdiscs:
        with contextlib.closing(QdiscClient(namespace)) as qdiscs:
            found += list(_missing_qdiscs(wanted, qdiscs))
    return found


async def reconcile_kernel_of(host: HostBackend, made: HostSetup, wanted: HostSetup) -> list[str]:
    """Do the same as `reconcile_kernel` by a program in a host that is a kernel of its own. Raises LabError."""
    return await _ask_kernel(host, [_plain(made), _plain(wanted)])


async def missing_in_kernel_of(host: HostBackend, wanted: HostSetup) -> list[str]:
    """Do the same as `missing_in_kernel` by a program in a host that is a kernel of its own. Raises LabError."""
    return await _ask_kernel(host, [None, _plain(wanted)])


def _plain(setup: HostSetup) -> object:
    return setup.model_dump(mode="json", include=_COMPARED, context=AS_WRITTEN)


async def _ask_kernel(host: HostBackend, told: list[object]) -> list[str]:
    program = [sys.executable, "-P", "-m", __name__, json.dumps(told)]
    done = await run_program(host, program, _PATIENCE_S)
    if done.returncode:
        raise LabError(done.stderr.strip().rpartition("\n")[2] or f"not set up: exit code {done.returncode}")
    return [str(line) for line in json.loads(done.stdout)]


# --- sysctls -------------------------------------------------------------------------------------------------


def set_sysctls(values: Mapping[str, str]) -> None:
    """Set sysctls of the network namespace that this thread is in; those that do not exist yet are left out.

    Raises:  LabError: the kernel refuses a value.
    """
    for line in _set_sysctls(HostSetup(), HostSetup(sysctls=dict(values))):
        if not line.startswith("sysctls: there is no"):
            raise LabError(line)


def _set_sysctls(made: HostSetup, wanted: HostSetup) -> Iterator[str]:
    for key, value in wanted.sysctls.items():
        try:
            if made.sysctls.get(key) == value and _read(key) in (None, _normal(value)):
                continue
            with (_SYSCTLS / _path_of(key)).open("r+", encoding="ascii") as file:
                file.write(value)
        except FileNotFoundError:
            yield f"sysctls: there is no {key}"
        except (OSError, ValueError) as error:
            yield f"sysctls: {key}={value}: {getattr(error, 'strerror', None) or error}"


def _missing_sysctls(values: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        try:
            if (now := _read(key)) not in (None, _normal(value)):
                yield f"sysctl {key} is {now}, not {value}"
        except FileNotFoundError:
            yield f"sysctl {key} is missing"


def _read(key: str) -> str | None:
    """Return the value of a sysctl; None: it cannot be read. Raises FileNotFoundError."""
    try:
        return _normal((_SYSCTLS / _path_of(key)).read_text(encoding="ascii"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError):
        return None


def _normal(value: str) -> str:
    return " ".join(value.split())


def _path_of(key: str) -> str:
    """Return the path of a sysctl: as sysctl(8), what its first separator is parts it, and the other one is a dot."""
    slash, dot = key.find("/"), key.find(".")
    if slash >= 0 and (dot < 0 or slash < dot):
        return key
    return key.translate(str.maketrans("./", "/."))


# --- addresses and routes ------------------------------------------------------------------------------------


def _reconcile_loopback(namespace: Path | None, made: HostSetup, wanted: HostSetup) -> Iterator[str]:
    old, new = made.addresses.get(LOOPBACK, ()), wanted.addresses.get(LOOPBACK, ())
    if not old and not new:
        return
    with contextlib.closing(LinkClient(namespace)) as links:
        has = links.ip_addresses().get(_LOOPBACK_INDEX, ())
        for address in (one for one in old if one not in new and one in has):
            with contextlib.suppress(NetdevError):  # the host has taken it away itself
                links.remove_ip(_LOOPBACK_INDEX, address)
        for address in (one for one in new if one not in has):
            try:
                links.add_ip(_LOOPBACK_INDEX, address)
            except NetdevError as error:
                if error.errno != errno.EEXIST:
                    yield f"addresses: lo: {error}"


def _reconcile_routes(namespace: Path | None, made: HostSetup, wanted: HostSetup) -> Iterator[str]:
    with contextlib.closing(RouteClient(namespace)) as client:
        for route in (one for one in made.routes if one not in wanted.routes):
            with contextlib.suppress(NetdevError):  # it went with its interface
                client.remove_route(route.destination, route.via, _index_of(route, client), route.metric)
        there = client.routes()
        for route in wanted.routes:
            if _is_there(route, client, there):
                continue
            try:
                _set_route(route, client)
            except NetdevError as error:
                yield f"routes: {route}: {error}"


def _set_route(route: HostRoute, client: RouteClient) -> None:
    """Add a route, in place of one that a user has made for the same destination."""
    told = route.destination, route.via, _index_of(route, client), route.metric
    try:
        client.add_route(*told)
    except NetdevError as error:
        if error.errno != errno.EEXIST:
            raise
        client.replace_route(*told)


def _is_there(route: HostRoute, client: RouteClient, there: list[KernelRoute]) -> bool:
    try:
        ifindex = _index_of(route, client)
    except NetdevError:
        return False
    return any(known.is_made_by(route.destination, route.via, ifindex, route.metric) for known in there)


def _index_of(route: HostRoute, client: RouteClient) -> int:
    if route.dev is None:
        return 0
    link = client.find(route.dev)
    if link is None:
        raise NetdevError(f"there is no interface {route.dev}", errno.ENODEV)
    return link.ifindex


# --- qdiscs --------------------------------------------------------------------------------------------------


def _reconcile_qdiscs(namespace: Path | None, made: HostSetup, wanted: HostSetup) -> Iterator[str]:
    """Set the qdiscs of interfaces; take away those that were of the lab, but not what a user has set since."""
    with contextlib.closing(QdiscClient(namespace)) as client:
        for name, its in made.qdiscs.items():
            link = None if name in wanted.qdiscs else client.find(name)
            if link is not None and client.is_set(link.ifindex, its.told):
                client.remove_qdisc(link.ifindex)
        for name, its in wanted.qdiscs.items():
            try:
                if (link := client.find(name)) is None:
                    yield f"qdiscs: there is no interface {name}"
                elif not client.is_set(link.ifindex, its.told):
                    client.set_qdisc(link.ifindex, its.told)
            except NetdevError as error:
                yield f"qdiscs: {name}: {error}"


def _missing_qdiscs(wanted: HostSetup, client: QdiscClient) -> Iterator[str]:
    for name, its in wanted.qdiscs.items():
        link = client.find(name)
        if link is None or not client.is_set(link.ifindex, its.told):
            there = "" if link is None else client.kind_of(link.ifindex)
            now = "missing" if not there else "changed" if there == its.kind else f"{there} now"
            yield f"qdisc {its.kind} of {name} is {now}"


def main() -> int:
    """Reconcile the kernel that this program runs in, or say what is missing: setup made, or null, and wanted."""
    made, wanted = (
        None if told is None else HostSetup.model_validate(told) for told in json.loads(sys.argv[1])
    )
    assert wanted is not None  # noqa: S101 - `_ask_kernel` has written it
    try:
        said = missing_in_kernel(None, wanted) if made is None else reconcile_kernel(None, made, wanted)
    except NetdevError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    print(json.dumps(said))  # noqa: T201 - the answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
