"""The ports of a stand-alone load balancer: a Linux interface (AF_PACKET), or its own TAP."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import BadRequestError, EjfatError
from hfi_sim.wire.internet_checksum import checksum

# --- what frames of a packet socket need: a filter, and what a virtio-net header asks for ------------------
# The kernel leaves a checksum and the split of datagrams to the hardware, which frames between its own interfaces never
# reach. Without the filter, the host's own connections would be read, and counted as dropped. Host byte order.
#
# Source: the Linux kernel's documentation of socket filters (classic BPF).

VNET = struct.Struct("=BBHHHH")
"""flags, segmentation type, length of the headers, segment size, start of the checksum, offset of its field."""
NO_OFFLOAD = bytes(VNET.size)
_NEEDS_CSUM = 1
_UDP_L4 = 5
_ECN = 0x80
_UDP_HEADER = 8


def frames_of(data: bytes) -> list[bytes]:
    """Return the frames after a virtio-net header as they would be on a wire.

    Args:    data: at least the header. Datagrams sent in one call (UDP_SEGMENT) arrive as one frame.
    """
    flags, kind, _, size, start, offset = VNET.unpack_from(data)
    frame = data[VNET.size :]
    if kind & ~_ECN == _UDP_L4 and size and _is_udp(frame, start):
        payload = frame[start + _UDP_HEADER :]
        pieces = [payload[at : at + size] for at in range(0, len(payload), size)]
        return [_datagram(frame, start, piece, number) for number, piece in enumerate(pieces)]
    at = start + offset
    if not flags & _NEEDS_CSUM or at + 2 > len(frame):
        return [frame]
    # the field has the sum of the pseudo header, so the checksum includes the field
    value = checksum(frame[start:]) or 0xFFFF
    return [frame[:at] + value.to_bytes(2, "big") + frame[at + 2 :]]


def _is_udp(frame: bytes, start: int) -> bool:
    """Return whether UDP begins at `start`, directly after the IPv4 or IPv6 header."""
    if len(frame) <= start + _UDP_HEADER:
        return False
    if frame[12:14] == b"\x08\x00":
        return frame[14] >> 4 == 4 and frame[23] == 17 and start == 14 + 4 * (frame[14] & 15) >= 34
    return frame[12:14] == b"\x86\xdd" and frame[20] == 17 and start == 54


def _datagram(frame: bytes, start: int, payload: bytes, number: int) -> bytes:
    """Return a datagram with the headers of `frame`, adapted lengths, id and checksums, and a part of the payload."""
    head = bytearray(frame[:start])
    length = _UDP_HEADER + len(payload)
    if frame[12:14] == b"\x08\x00":
        head[16:18] = (start - 14 + length).to_bytes(2, "big")
        head[18:20] = (int.from_bytes(head[18:20], "big") + number & 0xFFFF).to_bytes(2, "big")
        head[24:26] = b"\0\0"
        head[24:26] = checksum(bytes(head[14:])).to_bytes(2, "big")
        addresses = bytes(head[26:34])
    else:
        head[18:20] = length.to_bytes(2, "big")
        addresses = bytes(head[22:54])
    udp = frame[start : start + 4] + length.to_bytes(2, "big") + b"\0\0" + payload
    pseudo = addresses + b"\0\x11" + length.to_bytes(2, "big")
    value = checksum(pseudo + udp) or 0xFFFF
    return bytes(head) + udp[:6] + value.to_bytes(2, "big") + payload


_SO_ATTACH_FILTER = 26
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE = 0x20, 0x28, 0x30
_JUMP_IF_EQUAL, _RETURN = 0x15, 0x06
_ALL, _NOTHING = 0xFFFFFFFF, 0
_ETHER_TYPE, _IPV4_DST, _IPV6_DST = 12, 30, 38
_WHOLE = (0x0806, 0x8100)
"""ARP, and tagged frames, of which the load balancer knows more."""
_IPV4, _IPV6, _GROUP = 0x0800, 0x86DD, 0xFF
_INSTRUCTION = struct.Struct("=HBBI")
Instruction = tuple[int, int, int, int]
"""Operation, instructions to skip if equal and if not, value."""
EVERYTHING: list[Instruction] = [(_RETURN, 0, 0, _ALL)]
NOTHING: list[Instruction] = [(_RETURN, 0, 0, _NOTHING)]


def own_traffic(addresses: Sequence[IpAddress]) -> list[Instruction]:
    """Return a filter that takes ARP, tagged frames, IP to `addresses`, and IPv6 to groups (neighbor discovery)."""
    take: Instruction = (_RETURN, 0, 0, _ALL)
    leave: Instruction = (_RETURN, 0, 0, _NOTHING)
    four: list[Instruction] = [(_LOAD_WORD, 0, 0, _IPV4_DST)]
    six: list[Instruction] = [(_LOAD_BYTE, 0, 0, _IPV6_DST), (_JUMP_IF_EQUAL, 0, 1, _GROUP), take]
    for address in addresses:
        if address.version == 4:
            four += [(_JUMP_IF_EQUAL, 0, 1, int(address)), take]
            continue
        words = struct.unpack("!4I", address.packed)
        for number, word in enumerate(words):
            behind = 2 * (len(words) - 1 - number) + 1  # the other words, and `take`
            six += [(_LOAD_WORD, 0, 0, _IPV6_DST + 4 * number), (_JUMP_IF_EQUAL, 0, behind, word)]
        six.append(take)
    program: list[Instruction] = [(_LOAD_HALF, 0, 0, _ETHER_TYPE)]
    for kind in _WHOLE:
        program += [(_JUMP_IF_EQUAL, 0, 1, kind), take]
    four.append(leave)
    program += [(_JUMP_IF_EQUAL, 0, len(four), _IPV4), *four]
    six.append(leave)
    return [*program, (_JUMP_IF_EQUAL, 0, len(six), _IPV6), *six, leave]


def attach(sock: socket.socket, program: Sequence[Instruction]) -> None:
    """Give a socket a filter.

    Raises:  OSError: the kernel refuses.
    """
    data = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*one) for one in program))
    sock.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(data))
    )


# -----------------------------------------------------------------------------------------------------------

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
            raise BadRequestError(f"there is no interface {interface} ({error.strerror or error})") from None
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
