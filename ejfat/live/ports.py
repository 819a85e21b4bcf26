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

from ejfat.control.programming import IpAddress
from ejfat.errors import BadRequestError, EjfatError
from ejfat.live.offload import NO_OFFLOAD, VNET, frames_of
from ejfat.live.own_traffic import attach, own_traffic

_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_MR_PROMISC = 1
_PACKET_STATISTICS = 6
_STATISTICS = struct.Struct("=II")
"""struct tpacket_stats: frames, dropped frames; both since the last reading."""
_PACKET_VNET_HDR = 15
_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
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


class FramePort(Protocol):
    """Sends and receives Ethernet frames."""

    medium: str
    """Format of the descriptor: "tap", or "packet" for a packet socket with virtio-net headers."""
    lost: int
    """Number of frames that the interface did not accept."""

    @property
    def missed(self) -> int:
        """Number of received frames that the kernel dropped, because this program was too slow to take them."""
        return 0

    def fileno(self) -> int:
        """Return the descriptor, which is non-blocking."""
        ...

    def send(self, frame: bytes) -> None:
        """Send a frame. If the interface does not accept it, it is lost, as on a wire."""

    def start(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        """Pass each received frame to `receive`. If the interface disappears, call `on_failure` once."""

    def close(self) -> None:
        """Stop and close the port."""


class PacketPort(FramePort):
    """The frames of an existing interface, regardless of their destination MAC.

    No setting of the interface is changed: it is promiscuous as long as the socket is open, and datagrams that it
    merged (GRO) are taken apart by `offload` or the native port.
    """

    medium = "packet"

    def __init__(self, interface: str, addresses: Sequence[IpAddress] = ()) -> None:
        """Open the interface.

        Args:    addresses: take only what is sent to them, and ARP and neighbor discovery; empty: every frame.
        Raises:  BadRequestError: no such interface. EjfatError: no permission.
        """
        try:
            index = socket.if_nametoindex(interface)
        except OSError as error:
            raise BadRequestError(f"there is no interface {interface} ({error.strerror})") from None
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except OSError as error:
            raise EjfatError(f"{interface}: {error.strerror} (AF_PACKET needs CAP_NET_RAW)") from None
        try:
            # the header tells which checksums the kernel left out on frames between its own interfaces
            self._socket.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            if addresses:
                attach(self._socket, own_traffic(addresses))
            self._socket.bind((interface, _ETH_P_ALL))
            self._socket.setsockopt(
                _SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _MR.pack(index, _PACKET_MR_PROMISC, 0, bytes(8))
            )
        except OSError as error:
            self._socket.close()
            raise EjfatError(f"{interface}: {error.strerror}") from None
        with contextlib.suppress(OSError):  # without CAP_NET_ADMIN the buffer stays as it is
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        self._socket.setblocking(False)
        self.lost = self._missed = 0
        self._open = True

    @property
    def missed(self) -> int:
        if self._open:
            with contextlib.suppress(OSError):
                taken = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
                self._missed += _STATISTICS.unpack(taken)[1]  # reading sets the kernel's counter to 0
        return self._missed

    def fileno(self) -> int:
        return self._socket.fileno()

    def start(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._read, receive, on_failure)

    def send(self, frame: bytes) -> None:
        try:
            self._socket.send(NO_OFFLOAD + frame)
        except OSError:
            self.lost += 1

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._missed = self.missed
        self._open = False
        self._socket.close()

    def _read(self, receive: Callable[[bytes], None], on_failure: Callable[[str], None]) -> None:
        for _ in range(_BATCH):
            try:
                data, address = self._socket.recvfrom(_LARGEST)
            except OSError as error:
                # an interface that is merely down still has its name
                if error.errno == errno.ENETDOWN and not self._socket.getsockname()[0]:
                    asyncio.get_running_loop().remove_reader(self._socket)
                    on_failure(_GONE)
                return
            if address[2] != _PACKET_OUTGOING and len(data) > VNET.size:
                for frame in frames_of(data):
                    receive(frame)


class TapPort(FramePort):
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

    def fileno(self) -> int:
        return self._fd

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
