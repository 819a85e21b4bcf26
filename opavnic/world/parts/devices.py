"""The devices of the hosts' HFIs, for programs that enter a host: umad, issm, uverbs and their sysfs.

It listens on a socket. A program that enters a host mounts a file system of its own there and passes it on; see
`opavnic.devices.kernel.entry`. The mount goes with the last program of its mount namespace, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.text import unknown_name
from hfi_sim.management.umad.service import UmadService
from opavnic.base.socket_peer import foreign_peer
from opavnic.datapath.native_thread import NativeDatapath
from opavnic.devices.fuse import REQUEST_MAX
from opavnic.devices.hfi_tree import DEV, SYS_CLASSES, hfi_tree
from opavnic.devices.kernel.entry import EntryError, receive_arrival, why_no_fuse
from opavnic.devices.kernel.session import MountSession
from opavnic.devices.tree import Tree
from opavnic.world.host_driver import WorldHost
from opavnic.world.part import RunningPart
from opavnic.world.world import World

if TYPE_CHECKING:
    from opavnic import _native


log = logging.getLogger("opavnic.devices")

MAX_SESSIONS: Final = 256
"""Programs that have entered a host, each with all that it starts, at a time."""
_PAUSE_S: Final = 0.5
PATIENCE_S: Final = 10.0
"""Seconds that a program may take to say what it wants."""


class HostDevices(RunningPart):
    """The devices of all hosts, and the programs that have them."""

    def __init__(self) -> None:
        """Have no host yet."""
        self.sessions: set[MountSession] = set()
        self.unavailable = ""
        """Why programs cannot have the devices; empty: they can."""
        self._make_tree: dict[str, Callable[[], Tree]] = {}
        self._trees: dict[str, Tree] = {}
        """Made for the first program: one has hundreds of files, and few hosts have a program that looks at them."""
        self._services: dict[str, list[UmadService]] = {}
        self._buffer = bytearray(REQUEST_MAX)

    def status(self) -> dict[str, Any]:
        if self.unavailable:
            return {"unavailable": self.unavailable}
        opened = sum(len(service.files) for services in self._services.values() for service in services)
        return {"programs": len(self.sessions), "open": opened} if self.sessions else {}

    def add(self, host: WorldHost) -> None:
        """Let programs on a host have its devices."""
        own = self._services[host.name] = [UmadService(port) for port in host.ports]
        self._make_tree[host.name] = partial(hfi_tree, host.hfis, own)

    def remove(self, host: str) -> None:
        """Take the devices of a host away: programs that still have them get errors."""
        self._make_tree.pop(host, None)
        tree = self._trees.pop(host, None)
        for service in self._services.pop(host, ()):
            service.close()
        for session in [session for session in self.sessions if session.tree is tree]:
            session.close()

    def admit(self, connected: socket.socket) -> bytes:
        """Serve the mount of a program that has asked for devices; return the answer to it."""
        try:
            if foreign_peer(connected) is not None:
                raise EntryError("the lab belongs to another user")
            host, device, fuse_fd, listener = receive_arrival(connected)
        except (EntryError, OSError) as error:
            return _refusal(error)
        make_tree = self._make_tree.get(host)
        if make_tree is None or len(self.sessions) >= MAX_SESSIONS:
            os.close(fuse_fd)
            if listener is not None:
                os.close(listener)
            full = f"{MAX_SESSIONS} programs have devices, the most a lab allows"
            unknown = make_tree is None
            return _refusal(unknown_name("host", host, self._make_tree) if unknown else full)
        if host not in self._trees:
            self._trees[host] = make_tree()
        session = MountSession(
            self._trees[host],
            fuse_fd=fuse_fd,
            listener=listener,
            device=device,
            buffer=self._buffer,
            on_end=self.sessions.discard,
        )
        self.sessions.add(session)
        return json.dumps({"classes": SYS_CLASSES, "dev": DEV}).encode()

    def close(self) -> None:
        """End everything: programs that are still there get errors."""
        for services in self._services.values():
            for service in services:
                service.close()
        for session in tuple(self.sessions):
            session.close()
        self.sessions.clear()


@contextlib.asynccontextmanager
async def host_devices(world: World, hosts: Iterable[str], path: Path | None) -> AsyncIterator[HostDevices]:
    """Give the devices of their host to programs.

    Args:    hosts: those that programs can run on. path: where to listen; None: nowhere.
    Raises:  OSError: the socket cannot be created.
    """
    devices = HostDevices()
    for name in hosts if path is not None else ():
        devices.add(world.hosts[name])
    with contextlib.ExitStack() as ends:
        ends.callback(devices.close)
        if path is not None:
            devices.unavailable = why_no_fuse()
            ends.enter_context(_listening(path, devices))
        yield devices


@contextlib.contextmanager
def _listening(path: Path, devices: HostDevices) -> Iterator[None]:
    """Take programs in at a socket as long as the context lasts. Raises OSError."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as listener:
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen()
        arrivals: set[_DeviceConnection] = set()

        def accept() -> None:
            try:
                connected, _ = listener.accept()
            except BlockingIOError:
                return  # it has gone again
            except OSError as error:  # no descriptor is left: not at once again, there would be no end
                log.warning("a program gets no devices: %s", error.strerror)
                loop.remove_reader(listener)
                again.append(loop.call_later(_PAUSE_S, listen))
                return
            connected.setblocking(False)
            arrivals.add(_DeviceConnection(connected, devices, arrivals))

        def listen() -> None:
            again.clear()
            loop.add_reader(listener, accept)

        again: list[asyncio.TimerHandle] = []
        listen()
        try:
            yield
        finally:
            loop.remove_reader(listener)
            for timer in again:
                timer.cancel()
            for connection in tuple(arrivals):
                connection.close()


class _DeviceConnection:
    """A program that has not said yet what it wants."""

    def __init__(
        self, connected: socket.socket, devices: HostDevices, others: set[_DeviceConnection]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._devices = devices
        self._others = others
        self._timer = self._loop.call_later(PATIENCE_S, self.close)
        self._loop.add_reader(connected, self._arrived)

    def _arrived(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(self._devices.admit(self._socket))
        self.close()

    def close(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._others.discard(self)


def _refusal(reason: object) -> bytes:
    return json.dumps({"error": str(reason)}).encode()


@contextlib.asynccontextmanager
async def native_datapath(
    world: World, carrier: _native.Carrier, *, on_failure: Callable[[str], None], merge_udp: bool
) -> AsyncIterator[RunningPart]:
    """Let the thread of a carrier drive a world, and carry the frames of its VNICs.

    Args:    carrier: the one that the world was made on. on_failure: told once, when the thread has died.
             merge_udp: merge datagrams that hosts receive.
    """
    loop = asyncio.get_running_loop()
    native = NativeDatapath(
        world.fabric, world.vnic_ports, carrier, loop, on_failure=on_failure, merge_udp=merge_udp
    )
    with contextlib.ExitStack() as ends:
        ends.callback(native.close)
        world.carrier = native
        ends.callback(world.on_crash(lambda _host: native.refresh()))  # it holds TAPs open as well
        yield RunningPart()
