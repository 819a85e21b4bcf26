"""A TAP in a namespace that its host moved it to: it is looked after from there until it comes back or is deleted.

A socket or a descriptor of a namespace keeps that namespace alive after its owner has removed it. So nothing is held of
a namespace that is not the host's: the TAP is looked at once a second, and its descriptor says each time where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.namespace import namespace_text
from hfi_sim.netdev.netlink import KernelAddressLists
from hfi_sim.netdev.tun import tap_name, tap_namespace

if TYPE_CHECKING:
    from hfi_sim.netdev.tap import TapNetdev

Result = TypeVar("Result")

LOOK_S: Final = 1.0


class MovedWatcher:
    """Stands in for the `NamespaceWatcher` of one device while that is elsewhere."""

    namespace: Final = None

    def __init__(self, device: TapNetdev, home: Path | None, loop: asyncio.AbstractEventLoop) -> None:
        """Prepare; `look` begins. Args: home: the namespace of its host; None: that of this process."""
        self._device = device
        self._home = os.stat("/proc/self/ns/net" if home is None else home)
        self._loop = loop
        self._timer: asyncio.Handle | None = None
        self._closed = False

    def ask(self, function: Callable[[LinkClient], Result]) -> Result:
        """Return what `function` learns where the interface is now. Raises NetdevError."""
        try:
            with self._namespace() as path, contextlib.closing(LinkClient(path)) as links:
                return function(links)
        except OSError as error:
            raise NetdevError(f"interface is gone: {error.strerror}", error.errno or 0) from error

    @contextlib.contextmanager
    def _namespace(self) -> Iterator[Path]:
        fd = tap_namespace(self._device.fileno())
        try:
            yield Path(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)

    def look(self) -> None:
        """Tell the device where it is and what has changed there, and look again in a second."""
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(LOOK_S, self.look)
        device = self._device
        try:
            with self._namespace() as path:
                if os.path.samestat(os.stat(path), self._home):
                    self.remove(device)
                    device.on_return()
                    return
                device.moved_to = namespace_text(path)
                with contextlib.closing(LinkClient(path)) as links:
                    state = links.find(tap_name(device.fileno()))
                    if state is None:
                        return  # it is being moved or renamed this moment
                    lists = links.address_lists().get(state.ifindex, KernelAddressLists())
                    addresses = links.ip_addresses().get(state.ifindex, ())
        except OSError as error:
            device.on_lost(error)
            return
        except NetdevError as error:
            device.on_lost(OSError(error.errno, f"it was moved, and {error}"))
            return
        device.ifindex = state.ifindex
        device.on_link(state)
        device.on_address_lists(lists)
        device.heard_ip_addresses(addresses)

    def drain(self) -> None:
        """Look now: the device has changed something itself."""
        self.look()

    def want_lists(self) -> None:
        """Look soon."""
        if not self._closed:
            self._loop.call_soon(self.look)

    def remove(self, _: object) -> None:
        """Look no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
