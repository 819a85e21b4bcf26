"""The host side of a scenario's VNICs: a netdev in memory, or a TAP in a network namespace."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
import struct
import subprocess
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, Protocol

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.tap import TapNetdev
from opavnic.world.host_backends.memory_host import MemoryHost

_ETH_P_ALL: Final = 3
_PACKET_OUTGOING: Final = 4
_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_DROP_MEMBERSHIP: Final = 2
_PACKET_MR_MULTICAST: Final = 0
_PACKET_MR_UNICAST: Final = 3
_PACKET_MREQ: Final = struct.Struct("@iHH8s")
"""packet(7): struct packet_mreq."""
_FRAME_MAX: Final = 65536
_PING_S: Final = 10


class LinkLayer(Protocol):
    """The host side of one network device."""

    @property
    def address(self) -> MacAddr:
        """The device address."""
        ...

    def transmit(self, frame: bytes) -> None:
        """Send a frame, as a program on the host would."""

    def set_mac(self, mac: MacAddr) -> int:
        """Change the device address; return 0 or a negative errno."""
        ...

    def set_mtu(self, mtu: int) -> int:
        """Change the MTU; return 0 or a negative errno."""
        ...

    @property
    def mtu(self) -> int:
        """The MTU, in bytes."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether the host has set the device up."""
        ...

    def set_up(self, up: bool) -> int:
        """Set the device up or down; return 0 or a negative errno."""
        ...

    def move(self, namespace: str) -> int:
        """Move the device to another namespace of its host, "" for the first; return 0 or a negative errno."""
        ...

    def add_address(self, mac: MacAddr) -> int:
        """Let the device receive another unicast address, or a multicast one; return 0 or a negative errno."""
        ...

    def remove_address(self, mac: MacAddr) -> int:
        """Take back what `add_address` did; return 0 or a negative errno."""
        ...

    async def ping(self, own: IPv4Address, target: IPv4Address, count: int, within_s: float) -> int:
        """Ping `target` and return how many requests were answered."""
        ...

    def memory_host(self, own: IPv4Address) -> MemoryHost:
        """Return a small IP stack on the device, which has the address `own`."""
        ...

    def answer_pings(self, own: IPv4Address) -> None:
        """Answer echo requests to the address of the device from now on."""

    def stall(self) -> None:
        """Stop reading frames from the device until `resume`."""

    def resume(self) -> None:
        """Read the waiting frames, and go on."""

    def close(self) -> None:
        """Release what was opened here. May be called twice."""


class MemoryLink(LinkLayer):
    """A memory netdev and, on demand, the small IP stack that labs in memory use."""

    def __init__(self, netdev: MemoryNetdev, deliver: Callable[[bytes], None]) -> None:
        self._netdev = netdev
        self._deliver = deliver
        self._host: MemoryHost | None = None
        netdev.on_receive = deliver

    @property
    def address(self) -> MacAddr:
        return self._netdev.address

    def transmit(self, frame: bytes) -> None:
        self._netdev.transmit(frame)

    def set_mac(self, mac: MacAddr) -> int:
        return self._netdev.set_mac(mac)

    def set_mtu(self, mtu: int) -> int:
        return self._netdev.change_mtu(mtu)

    @property
    def mtu(self) -> int:
        return self._netdev.mtu

    @property
    def is_up(self) -> bool:
        return self._netdev.is_up

    def set_up(self, up: bool) -> int:
        if up:
            return self._netdev.open()
        self._netdev.stop()
        return 0

    def move(self, namespace: str) -> int:
        if self._netdev.is_up:
            self._netdev.stop()
            return self._netdev.open()
        return 0

    def add_address(self, mac: MacAddr) -> int:
        if mac in (*self._netdev.uc_list, *self._netdev.mc_list):
            return -errno.EEXIST
        if mac[0] & 1:
            self._netdev.set_mc_list([*self._netdev.mc_list, mac])
        else:
            self._netdev.set_uc_list([*self._netdev.uc_list, mac])
        return 0

    def remove_address(self, mac: MacAddr) -> int:
        if mac not in (*self._netdev.uc_list, *self._netdev.mc_list):
            return -errno.ENOENT
        if mac[0] & 1:
            self._netdev.set_mc_list([other for other in self._netdev.mc_list if other != mac])
        else:
            self._netdev.set_uc_list([other for other in self._netdev.uc_list if other != mac])
        return 0

    async def ping(self, own: IPv4Address, target: IPv4Address, count: int, within_s: float) -> int:
        return await self.memory_host(own).ping(target, count, within_s)

    def answer_pings(self, own: IPv4Address) -> None:
        self.memory_host(own)

    def memory_host(self, own: IPv4Address) -> MemoryHost:
        if self._host is None:
            self._host = MemoryHost(self._netdev, own)
            stack = self._netdev.on_receive

            def both(frame: bytes) -> None:
                self._deliver(frame)
                if stack is not None:
                    stack(frame)

            self._netdev.on_receive = both
        return self._host

    def stall(self) -> None:
        self._netdev.stop_reading()

    def resume(self) -> None:
        self._netdev.resume_reading()

    def close(self) -> None:
        self._netdev.on_receive = None


class TapLink(LinkLayer):
    """A TAP in a network namespace, used through a packet socket next to the kernel's own stack."""

    def __init__(
        self,
        netdev: TapNetdev,
        namespaces: Callable[[str], Path],
        deliver: Callable[[bytes], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Prepare. Args: namespaces: returns the namespace of a name, and makes it if need be; "": the host's own."""
        self.namespace = namespaces("")
        self._netdev = netdev
        self._ifindex = netdev.ifindex
        self._namespaces = namespaces
        self._links = LinkClient(self.namespace)
        self._deliver = deliver
        self._loop = loop
        self._added: set[MacAddr] = set()
        self._socket = self._listen()

    def _listen(self) -> socket.socket:
        opened = run_in_namespace(self.namespace, self._open)
        self._loop.add_reader(opened, self._readable)
        return opened

    def _open(self) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        opened.bind((self._netdev.name, 0))
        opened.setblocking(False)
        return opened

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while True:
                frame, sender = self._socket.recvfrom(_FRAME_MAX)
                if sender[2] != _PACKET_OUTGOING:
                    self._deliver(frame)

    @property
    def address(self) -> MacAddr:
        return self._netdev.address

    def transmit(self, frame: bytes) -> None:
        self._socket.send(frame)

    def set_mac(self, mac: MacAddr) -> int:
        return _tried(lambda: self._links.set_address(self._ifindex, mac))

    def set_mtu(self, mtu: int) -> int:
        return _tried(lambda: self._links.set_mtu(self._ifindex, mtu))

    @property
    def mtu(self) -> int:
        state = self._links.get(self._ifindex)
        return 0 if state is None else state.mtu

    @property
    def is_up(self) -> bool:
        state = self._links.get(self._ifindex)
        return state is not None and state.up

    def set_up(self, up: bool) -> int:
        return _tried(lambda: self._links.set_up(self._ifindex, up))

    def move(self, namespace: str) -> int:
        return _tried(lambda: self._move(self._namespaces(namespace)))

    def _move(self, namespace: Path) -> None:
        was_up, addresses = self.is_up, self._links.ip_addresses().get(self._ifindex, ())
        self._links.move(self._ifindex, namespace)
        self.close()
        self.namespace = namespace
        self._links = LinkClient(namespace)
        found = self._links.find(self._netdev.name)
        if found is None:
            raise NetdevError(f"{self._netdev.name} is not in {namespace}", errno.ENODEV)
        self._ifindex = found.ifindex
        self._socket = self._listen()
        for mac in self._added:
            self._change_membership(_PACKET_ADD_MEMBERSHIP, mac)
        for address in addresses:
            self._links.add_ip(self._ifindex, address)
        self._links.set_up(self._ifindex, was_up)

    def add_address(self, mac: MacAddr) -> int:
        if mac in self._added:
            return -errno.EEXIST
        error = _tried(lambda: self._change_membership(_PACKET_ADD_MEMBERSHIP, mac))
        self._added |= set() if error else {mac}
        return error

    def remove_address(self, mac: MacAddr) -> int:
        if mac not in self._added:
            return -errno.ENOENT
        self._added.discard(mac)
        return _tried(lambda: self._change_membership(_PACKET_DROP_MEMBERSHIP, mac))

    def _change_membership(self, change: int, mac: MacAddr) -> None:
        kind = _PACKET_MR_MULTICAST if mac[0] & 1 else _PACKET_MR_UNICAST
        self._socket.setsockopt(_SOL_PACKET, change, _PACKET_MREQ.pack(self._ifindex, kind, len(mac), mac))

    async def ping(self, own: IPv4Address, target: IPv4Address, count: int, within_s: float) -> int:
        patience_s = max(_PING_S, round(within_s))  # a slow answer of a busy machine must not count as loss
        command = ["ping", "-n", "-c", str(count), "-i", "0.2", "-W", str(patience_s), str(target)]
        output = await asyncio.to_thread(
            run_in_namespace,
            self.namespace,
            lambda: subprocess.run(command, capture_output=True, text=True, check=False).stdout,
        )
        answered = re.search(r"(\d+) received", output)
        return int(answered[1]) if answered else 0

    def memory_host(self, own: IPv4Address) -> MemoryHost:
        raise NotImplementedError(f"{own}: on a TAP the kernel is the IP stack")

    def answer_pings(self, own: IPv4Address) -> None:
        pass  # the kernel does

    def stall(self) -> None:
        raise NotImplementedError("a TAP accepts every frame: the kernel drops those that no program reads")

    def resume(self) -> None:
        raise NotImplementedError("a TAP is never stalled")

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._links.close()


def _tried(call: Callable[[], object]) -> int:
    """Return 0, or the negative errno with which the kernel refuses `call`."""
    try:
        call()
    except (NetdevError, OSError) as error:
        return -(error.errno or errno.EIO)
    return 0
