"""The ports of a stand-alone load balancer: a Linux interface (AF_PACKET), or its own TAP."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import BadRequestError, EjfatError
from ejfat.live.packet_socket import EVERYTHING, NO_OFFLOAD, NOTHING, VNET, attach, frames_of, own_traffic

_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_MR_PROMISC = 1
_PACKET_STATISTICS = 6
_STATISTICS = struct.Struct("=II")
"""struct tpacket_stats: frames, dropped frames; both since the last reading."""
_PACKET_VNET_HDR = 15
_ETH_P_ALL = 3
_PACKET_AUXDATA = 8
_PACKET_FANOUT = 18
_PACKET_IGNORE_OUTGOING = 23
_FANOUT_NEW = 0x6000 << 16
"""A group whose number the kernel chooses, for frames that come in, shared out by flow."""
_AUXDATA = struct.Struct("=IIIHHHH")
"""struct tpacket_auxdata: status, two lengths, two offsets, VLAN tag, its EtherType."""
_ANCILLARY = socket.CMSG_SPACE(_AUXDATA.size)
_VLAN_VALID, _VLAN_TPID_VALID = 0x10, 0x40
_ETH_P_8021Q = 0x8100
_BATCH = 64
_LARGEST = 65536 + VNET.size
_SIOCGIFHWADDR = 0x8927
_TUNSETIFF = 0x400454CA
_TAP_NO_PI = 0x1002
_MR = struct.Struct("=iHH8s")
_RECEIVE_BUFFER = 16 << 20
"""Bytes of frames that can wait while the control plane connects an epoch or another program has the processor."""
_SO_RCVBUFFORCE = 33
_QUEUE_FRAMES = 8192
"""The same for a TAP, in frames."""
_SIOCSIFTXQLEN = 0x8943
_GONE = "it is gone"
_LONGEST_NAME = 15
"""Maximum length of an interface name, in bytes."""


def interface_mac(name: str) -> str:
    """Return the MAC address of an interface as text.

    Raises:  BadRequestError: no such interface.
    """
    check_name(name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            answer = fcntl.ioctl(sock, _SIOCGIFHWADDR, struct.pack("256s", name.encode()))
        except OSError as error:
            raise BadRequestError(f"there is no interface {name} ({error.strerror})") from None
    return answer[18:24].hex(":")


def check_name(name: str) -> None:
    """Refuse a name that the kernel would not accept for an interface.

    Raises:  BadRequestError: the name is invalid.
    """
    if not 1 <= len(name.encode()) <= _LONGEST_NAME:
        raise BadRequestError(f"{name!r} cannot name an interface: expected 1 to {_LONGEST_NAME} characters")
    if name in (".", "..") or any(char in "/:%" or char.isspace() for char in name):
        raise BadRequestError(
            f"{name!r} cannot name an interface: it must not be . or .. or contain / : % or blanks"
        )


class EthernetPort(Protocol):
    """Sends and receives Ethernet frames."""

    medium: str
    """Format of the descriptor: "tap", or "packet" for a packet socket with virtio-net headers."""
    lost: int
    """Number of frames that the interface did not accept."""

    @property
    def missed(self) -> int:
        """Number of received frames that the kernel dropped, because this program was too slow to take them."""
        return 0

    def filenos(self) -> list[int]:
        """Return the descriptors, which are non-blocking: one for each worker."""
        ...

    def open(self) -> None:
        """Begin to receive. Until then, no frame waits."""

    def send(self, frame: bytes) -> None:
        """Send a frame. If the interface does not accept it, it is lost, as on a wire."""

    def start(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        """Pass each received frame to `receive`. If the interface disappears, call `on_failure` once."""

    def close(self) -> None:
        """Stop and close the port."""


class PacketPort(EthernetPort):
    """The frames of an existing interface, regardless of their destination MAC.

    Several workers have a socket each, among which the kernel shares the frames out by flow (PACKET_FANOUT).
    No setting of the interface is changed: it is promiscuous as long as the socket is open, and datagrams that it
    merged (GRO) are taken apart by `offload` or the native port.
    """

    medium = "packet"

    def __init__(self, interface: str, addresses: Sequence[IpAddress] = (), workers: int = 1) -> None:
        """Prepare the sockets; `open` makes them receive.

        Args:    addresses: take only what is sent to them, and ARP and neighbor discovery; empty: every frame.
        Raises:  BadRequestError: no such interface. EjfatError: no permission.
        """
        try:
            index = socket.if_nametoindex(interface)
        except OSError as error:
            raise BadRequestError(f"there is no interface {interface} ({error.strerror})") from None
        self.interface = interface
        self.lost = 0
        self._filter = own_traffic(addresses) if addresses else EVERYTHING
        self._missed = 0
        self._sockets: list[socket.socket] = []
        try:
            self._sockets += [_packet_socket(interface) for _ in range(workers)]
            self._sockets[0].setsockopt(
                _SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _MR.pack(index, _PACKET_MR_PROMISC, 0, bytes(8))
            )
        except OSError as error:
            self._close()
            raise EjfatError(f"{interface}: {error.strerror} (AF_PACKET needs CAP_NET_RAW)") from None

    @property
    def missed(self) -> int:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                taken = one.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
                self._missed += _STATISTICS.unpack(taken)[1]  # reading sets the kernel's counter to 0
        return self._missed

    def filenos(self) -> list[int]:
        return [one.fileno() for one in self._sockets]

    def open(self) -> None:
        """Begin to receive.

        Raises:  EjfatError: the interface is gone.
        """
        group = 0
        try:
            for one in self._sockets:
                # a socket that does not share yet would take the frames of the others, too
                attach(one, NOTHING)
                one.bind((self.interface, _ETH_P_ALL))
                if len(self._sockets) > 1:
                    one.setsockopt(_SOL_PACKET, _PACKET_FANOUT, group or _FANOUT_NEW)
                    group = one.getsockopt(_SOL_PACKET, _PACKET_FANOUT)
            for one in self._sockets:
                attach(one, self._filter)
        except OSError as error:
            raise EjfatError(f"{self.interface}: {error.strerror}") from None

    def start(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        self.open()
        asyncio.get_running_loop().add_reader(self._sockets[0], self._read, receive, on_failure)

    def send(self, frame: bytes) -> None:
        try:
            self._sockets[0].send(NO_OFFLOAD + frame)
        except OSError:
            self.lost += 1

    def close(self) -> None:
        for one in self._sockets:
            asyncio.get_running_loop().remove_reader(one)
        _ = self.missed  # the last reading
        self._close()

    def _close(self) -> None:
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    def _read(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        (one,) = self._sockets
        for _ in range(_BATCH):
            try:
                data, ancillary, _, _ = one.recvmsg(_LARGEST, _ANCILLARY)
            except OSError as error:
                # an interface that is merely down still has its name
                if error.errno == errno.ENETDOWN and not one.getsockname()[0]:
                    asyncio.get_running_loop().remove_reader(one)
                    on_failure(_GONE)
                return
            if len(data) > VNET.size:
                tag = _tag_of(ancillary)
                for frame in frames_of(data):
                    receive(frame[:12] + tag + frame[12:] if tag else frame)


def _packet_socket(interface: str) -> socket.socket:
    """Return a packet socket that sends on an interface, and receives nothing yet.

    Raises:  OSError: the kernel refuses.
    """
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        # the header tells which checksums the kernel left out on frames between its own interfaces
        one.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
        one.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        one.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        one.bind((interface, 0))
    except OSError:
        one.close()
        raise
    with contextlib.suppress(OSError):  # without CAP_NET_ADMIN the buffer stays as it is
        one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    one.setblocking(False)
    return one


def _tag_of(ancillary: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return the VLAN tag that the kernel keeps beside a frame, empty if it has none."""
    for level, kind, data in ancillary:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA) and len(data) == _AUXDATA.size:
            status, *_, tci, tpid = _AUXDATA.unpack(data)
            if status & _VLAN_VALID:
                return struct.pack("!HH", tpid if status & _VLAN_TPID_VALID else _ETH_P_8021Q, tci)
    return b""


class TapPort(EthernetPort):
    """Frames of a TAP that this process makes; other programs see the interface."""

    medium = "tap"

    def __init__(self, name: str) -> None:
        """Create the TAP.

        Raises:  BadRequestError: an invalid name. EjfatError: no permission, or the name is in use.
        """
        check_name(name)
        try:
            self._fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise EjfatError(f"/dev/net/tun: {error.strerror}") from None
        try:
            fcntl.ioctl(self._fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP_NO_PI))
        except OSError as error:
            os.close(self._fd)
            raise EjfatError(f"TAP {name}: {error.strerror}") from None
        _set_queue(name)
        self.lost = 0

    def filenos(self) -> list[int]:
        return [self._fd]

    def open(self) -> None:
        """The TAP receives from the start, but it is down until a user sets it up."""

    def start(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        asyncio.get_running_loop().add_reader(self._fd, self._read, receive, on_failure)

    def send(self, frame: bytes) -> None:
        try:
            os.write(self._fd, frame)
        except OSError:
            self.lost += 1

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def _read(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        for _ in range(_BATCH):
            try:
                frame = os.read(self._fd, _LARGEST)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EINTR, errno.EIO):
                    asyncio.get_running_loop().remove_reader(self._fd)
                    on_failure(_GONE)
                return
            receive(frame)


def _set_queue(name: str) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFTXQLEN, struct.pack("16si20x", name.encode(), _QUEUE_FRAMES))
