"""What the kernel says about the interfaces of one namespace, brought to the netdevs that live there.

One watcher serves all TAPs of a namespace: links and address lists are notified. Some changes of the lists are not
notified (a static `ip maddr add`, the addresses that a packet socket adds), so the lists are read once a
second as well: 2 ms with 255 TAPs in the namespace. Where the event loop is busy, or watches many namespaces, they are
read less often.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev import netlink as nl
from hfi_sim.netdev.base import IpInterface
from hfi_sim.netdev.link_client import LinkClient, open_requests
from hfi_sim.netdev.namespace import namespace_text, run_in_namespace
from hfi_sim.netdev.tun import tap_name, tap_namespace

if TYPE_CHECKING:
    from hfi_sim.netdev.tap import TapNetdev

# --- a TAP in a namespace that its host moved it to --------------------------------------------------------
# A socket or a descriptor of a namespace keeps that namespace alive after its owner has removed it. So nothing
# is held of
# a namespace that is not the host's: the TAP is looked at once a second, and its descriptor says each time
# where it is.

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
                    lists = links.address_lists().get(state.ifindex, nl.KernelAddressLists())
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


# -----------------------------------------------------------------------------------------------------------

Result = TypeVar("Result")

log = logging.getLogger("hfi_sim.netdev.watch")

POLL_S: Final = 1.0
_POLL_AT_MOST_S: Final = 10.0
_LATE_POLLS: Final = 20
"""By how many times its delay a poll that came late puts the next one off."""
_IP_MESSAGES: Final = frozenset({nl.RTM_NEWADDR, nl.RTM_DELADDR})
_LIST_MESSAGES: Final = frozenset(
    {nl.RTM_NEWNEIGH, nl.RTM_DELNEIGH, nl.RTM_NEWMULTICAST, nl.RTM_DELMULTICAST}
)


class NamespaceWatcher:
    """Notifications and requests for the devices in one network namespace, on one event loop."""

    def __init__(
        self, namespace: Path | None, loop: asyncio.AbstractEventLoop, *, poll_s: float = POLL_S
    ) -> None:
        """Open the sockets inside `namespace` (None: this process's own) and begin to listen.

        Args:    poll_s: how often the address lists are read, unless the loop is busy.
        Raises:  NetdevError: the namespace cannot be entered.
        """
        self.namespace = namespace
        requests, self._notifications = run_in_namespace(namespace, _open_sockets)
        self.links = LinkClient(namespace, requests)
        self._loop = loop
        self._devices: dict[int, TapNetdev] = {}
        self._ip: dict[int, tuple[IpInterface, ...]] = {}
        self._lists_due = False
        self._lists: dict[int, nl.KernelAddressLists] = {}
        """The address lists as last read, by interface index."""
        self._lists_stale = False
        self._tentative: set[int] = set()
        self._tentative_due = False
        self._closed = False
        loop.add_reader(self._notifications.fileno(), self.drain)
        self._poll_s = poll_s
        self._poll_due = loop.time() + poll_s
        self._timer = loop.call_at(self._poll_due, self._poll)

    def close(self) -> None:
        """Stop listening; harmless when done twice."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        self._loop.remove_reader(self._notifications.fileno())
        self._notifications.close()
        self.links.close()

    def ask(self, function: Callable[[LinkClient], Result]) -> Result:
        """Return what `function` learns in the namespace. Raises NetdevError."""
        return function(self.links)

    def add(self, device: TapNetdev) -> None:
        """Begin to tell `device` what happens to its interface."""
        self._devices[device.ifindex] = device

    def remove(self, device: TapNetdev) -> None:
        """Tell `device` nothing more."""
        self._devices.pop(device.ifindex, None)
        self._ip.pop(device.ifindex, None)

    def drain(self) -> None:
        """Pass on every notification that is waiting."""
        nl.drain(self._notifications, self._dispatch, self._resynchronise)

    def _dispatch(self, kind: int, data: bytes) -> None:
        if kind in _LIST_MESSAGES:
            self.want_lists()
            return
        if kind in _IP_MESSAGES:
            if nl.ifindex_of_address(data) in self._tentative:
                self.want_tentative()
            self._heard_ip(kind, data)
            return
        if kind not in (nl.RTM_NEWLINK, nl.RTM_DELLINK):
            return
        device = self._devices.get(nl.ifindex_of(data))
        if device is not None and not nl.is_of_bridge(data):
            if kind == nl.RTM_DELLINK:
                device.on_link_gone()
            else:
                device.on_link(nl.parse_link(data))
        self.want_lists()  # a macvlan on top of a device shows as a change of links only

    def _heard_ip(self, kind: int, data: bytes) -> None:
        entry = nl.parse_ip(data)
        if entry is None:
            return
        ifindex, address = entry
        if ifindex not in self._devices:
            return
        others = tuple(item for item in self._ip.get(ifindex, ()) if item != address)
        self._ip[ifindex] = others if kind == nl.RTM_DELADDR else (*others, address)
        self._devices[ifindex].heard_ip_addresses(self._ip[ifindex])

    def read_ip(self) -> None:
        """Read the IP addresses of all devices, and tell them."""
        self._ip = self.links.ip_addresses()
        for ifindex, device in list(self._devices.items()):
            device.heard_ip_addresses(self._ip.get(ifindex, ()))

    def _resynchronise(self) -> None:
        for device in list(self._devices.values()):
            state = self.links.get(device.ifindex)
            if state is None:
                device.on_link_gone()
            else:
                device.on_link(state)
        self.read_ip()
        self.want_lists()
        self.want_tentative()

    def want_tentative(self) -> None:
        """Look soon which devices have tentative addresses: once, however many ask for it.

        The kernel does not notify of a link-local address before it can be used, so a device asks when it is running.
        """
        if not self._tentative_due:
            self._tentative_due = True
            self._loop.call_soon(self._tentative_now)

    def _tentative_now(self) -> None:
        self._tentative_due = False
        if self._closed:
            return
        try:
            self._tentative = self.links.tentative_addresses()
        except NetdevError as error:
            log.warning("%s; they are taken to be usable", error)
            self._tentative = set()
        for ifindex, device in list(self._devices.items()):
            device.heard_tentative(ifindex in self._tentative)

    def catch_up(self) -> None:
        """Pass on every notification that is waiting, and the address lists if one says that they have changed."""
        self.drain()
        if self._lists_due:
            self._read_lists()

    def want_lists(self) -> None:
        """Read the address lists soon: once, however many ask for it."""
        if not self._lists_due and self._devices:
            self._lists_due = True
            self._loop.call_soon(self._lists_now)

    def _lists_now(self) -> None:
        self._lists_due = False
        self._read_lists()

    def _read_lists(self, *, unless_same: bool = False) -> None:
        """Read the address lists and tell all devices; with `unless_same`, only if they have changed."""
        if self._closed or not self._devices:
            return
        try:
            lists = self.links.address_lists()
        except NetdevError as error:
            if not self._lists_stale:
                log.warning("%s; address lists are stale until that is possible again", error)
            self._lists_stale = True
            return
        self._lists_stale = False
        if unless_same and lists == self._lists:
            return
        self._lists = lists
        self.drain()  # a device that changed its state before the reading must know it before it sees the lists
        for ifindex, device in list(self._devices.items()):
            device.on_address_lists(lists.get(ifindex, nl.KernelAddressLists()))

    def _poll(self) -> None:
        if self._closed:
            return
        now = self._loop.time()
        late = now - self._poll_due  # the loop has more urgent things to do, such as to start a large lab
        self._poll_due = now + min(self._poll_s + _LATE_POLLS * late, max(self._poll_s, _POLL_AT_MOST_S))
        self._timer = self._loop.call_at(self._poll_due, self._poll)
        self._read_lists(unless_same=True)


def _open_sockets() -> tuple[socket.socket, socket.socket]:
    """Open a socket for requests and one for notifications in the namespace that this thread is in."""
    requests = open_requests()
    try:
        return requests, nl.open_notifications(None)
    except BaseException:
        requests.close()
        raise
