"""Sets hosts up as the lab file says: sysctls, addresses of the loopback, routes, and commands at their start."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import LinkClient
from hfi_sim.netdev.routes import RouteClient
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.host_setup import LOOPBACK, Command, HostRoute, HostSetup
from opavnic.lab.hosts.programs import start_program
from opavnic.world.host_backends.backend import HostBackend

EXEC_S: Final = 60.0
"""How long one command of `exec` may take. What is to stay goes into the background."""
_AT_ONCE: Final = 8
"""Hosts whose commands run at the same time."""
_LINES_SHOWN: Final = 5
_LOOPBACK_INDEX: Final = 1
_SYSCTLS: Final = Path("/proc/sys")


def set_up_kernel(host: HostBackend, setup: HostSetup) -> None:
    """Set the sysctls of a new host that exist before its VNICs do, and give its loopback its addresses.

    Raises:  LabError: the kernel refuses.
    """
    _set_sysctls(host, setup.sysctls, are_all_there=False)
    if own := setup.addresses.get(LOOPBACK):
        with contextlib.closing(LinkClient(host.namespace)) as links:
            for address in own:
                try:
                    links.add_ip(_LOOPBACK_INDEX, address)
                except NetdevError as error:
                    raise LabError(f"host {host.name}: addresses: lo: {error}") from error


def _set_sysctls(host: HostBackend, values: Mapping[str, str], *, are_all_there: bool) -> None:
    if not values:
        return
    try:
        run_in_namespace(host.namespace, lambda: set_sysctls(values, are_all_there=are_all_there))
    except LabError as error:
        raise LabError(f"host {host.name}: sysctls: {error}") from error


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


def add_routes(host: HostBackend, routes: list[HostRoute]) -> None:
    """Add routes to a host whose VNICs are up. Raises LabError."""
    names = {interface.title: interface.name for interface in host.interfaces}
    with contextlib.closing(RouteClient(host.namespace)) as client:
        for route in routes:
            try:
                link = None if route.dev is None else client.find(names[route.dev])
                if route.dev is not None and link is None:
                    raise NetdevError(f"there is no interface {names[route.dev]}", errno.ENODEV)
                client.add_route(
                    route.destination, route.via, 0 if link is None else link.ifindex, route.metric
                )
            except NetdevError as error:
                raise LabError(f"host {host.name}: routes: {route}: {error}") from error


def follow_setup(host: HostBackend, before: HostSetup, after: HostSetup) -> None:
    """Change what differs in the setup of a host that runs: addresses of lo, sysctls, routes.

    Sysctls that the file no longer mentions keep their values; commands are run at the next start.

    Raises:  LabError: the kernel refuses.
    """
    _set_sysctls(host, dict(after.sysctls.items() - before.sysctls.items()), are_all_there=True)
    old, new = before.addresses.get(LOOPBACK, ()), after.addresses.get(LOOPBACK, ())
    gone, added = ([one for one in has if one not in other] for has, other in ((old, new), (new, old)))
    if gone or added:
        with contextlib.closing(LinkClient(host.namespace)) as links:
            for address in gone:
                with contextlib.suppress(NetdevError):  # the host has taken it away itself
                    links.remove_ip(_LOOPBACK_INDEX, address)
            for address in added:
                try:
                    links.add_ip(_LOOPBACK_INDEX, address)
                except NetdevError as error:
                    raise LabError(f"host {host.name}: addresses: lo: {error}") from error
    with contextlib.closing(RouteClient(host.namespace)) as client:
        for route in before.routes:
            if route not in after.routes:
                link = None if route.dev is None else client.find(route.dev)
                with contextlib.suppress(NetdevError):  # it went with its interface
                    ifindex = 0 if link is None else link.ifindex
                    client.remove_route(route.destination, route.via, ifindex, route.metric)
    add_routes(host, [route for route in after.routes if route not in before.routes])


async def finish(
    hosts: Mapping[str, HostBackend], setups: Mapping[str, HostSetup], devices: Path | None
) -> None:
    """Set up hosts whose VNICs are up: the sysctls of interfaces and routes of all, then their commands.

    Args:    hosts: those with a namespace of the lab's own. devices: where programs get the devices of their host.
    Raises:  LabError: the first thing that failed.
    """
    for name, host in hosts.items():
        _set_sysctls(host, setups[name].sysctls, are_all_there=True)
        if setups[name].routes:
            add_routes(host, setups[name].routes)
    places = asyncio.Semaphore(_AT_ONCE)

    async def run(name: str, host: HostBackend) -> None:
        async with places:
            for index, command in enumerate(setups[name].exec):
                await run_command(host, command, index, devices)

    tasks = [asyncio.ensure_future(run(name, host)) for name, host in hosts.items() if setups[name].exec]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_command(host: HostBackend, command: Command, index: int, devices: Path | None) -> None:
    """Run one command of a host to its end; what it leaves in the background runs on.

    Raises:  LabError: it cannot be run, fails or takes longer than EXEC_S.
    """
    shown = command if isinstance(command, str) else " ".join(command)
    what = f'host {host.name}: exec[{index}] "{shown}"'
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            process = start_program(
                host,
                words,
                devices,
                needs_devices=False,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except LabError as error:
            raise LabError(f"{what}: {error}") from error
        try:
            code = await asyncio.to_thread(process.wait, EXEC_S)
        except subprocess.TimeoutExpired:
            raise LabError(
                f"{what}: not done within {EXEC_S:g} s: end it with & to leave it running"
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        if code:
            by = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise LabError(f"{what}: {by}{_last_lines(err) or _last_lines(out)}")


def _last_lines(stream: IO[str]) -> str:
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(size - 4096, 0))
    lines = [line.strip() for line in stream.read().splitlines() if line.strip()]
    return ": " + " | ".join(lines[-_LINES_SHOWN:]) if lines else ""
