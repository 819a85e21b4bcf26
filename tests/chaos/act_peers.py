"""Actions: peers that send what nobody should, on the sockets of a lab, in its networks, on its interfaces."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

from chaos.deck import action
from chaos.world import World
from opavnic.management.mad_frames import MadMessage

_SOL_PACKET = 263
_PACKET_VNET_HDR = 15
_FLOOD = 40_000
_BURST = 8192
_SEND_LIMIT_S = 10.0


@action
def garbage_on_the_control_socket(world: World, rng: random.Random) -> None:
    """Bytes that are not HTTP, half of a request, requests that make no sense."""
    for _ in range(rng.randint(5, 40)):
        draw = rng.randrange(6)
        body = rng.choice(
            (b"", b"{", b"null", b"[]", b'{"fault": 7}', b'{"number": "x"}', b'{"vesws": [1]}', b"\xff")
        )
        path = rng.choice(
            ("/em/apply", "/faults", "/faults/remove", "/em/verify", "/down/..", "/capture?on=%00")
        )
        data = [
            rng.randbytes(rng.randint(1, 5000)),
            b"GET /status HTTP/1.1\r\nHost: lab\r\n",
            b"GET /" + b"a" * rng.randint(1, 20000) + b" HTTP/1.1\r\nHost: lab\r\n\r\n",
            b"POST %s HTTP/1.1\r\nHost: lab\r\nContent-Length: %d\r\n\r\n%s"
            % (path.encode(), len(body), body),
            b"POST %s HTTP/1.1\r\nHost: lab\r\nContent-Length: 99999999\r\n\r\n{" % path.encode(),
            b"POST %s HTTP/1.1\r\nHost: lab\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" % path.encode(),
        ][draw]
        _say(world, world.steady.directory.control_socket, data, keep=rng.random() < 0.5)
    world.note("garbage on the control socket")


@action
def half_open_http(world: World, rng: random.Random) -> None:
    """Many who begin a request and never end it: others are served meanwhile."""
    for _ in range(rng.randint(20, 120)):
        _say(world, world.steady.directory.control_socket, b"GET /status HTTP/1.1\r\n", keep=True)
    if not world.programs.run("status", "--lab", world.steady.name).ok:
        world.found("`opavnic status` fails beside half-open HTTP connections")


@action
def garbage_on_the_mad_socket(world: World, rng: random.Random) -> None:
    """Random MADs, lengths that cannot be, half of a message, programs that never read."""
    for _ in range(rng.randint(5, 30)):
        mads = [
            MadMessage(rng.choice((0, 1, 2, 5, 0xFFFFFF, 0xFFFFFFFF)), _some_mad(rng), rng.randrange(1 << 16),
                       rng.randrange(40)).build()
            for _ in range(rng.randint(1, 60))
        ]  # fmt: skip
        data = rng.choice(
            (b"".join(mads), rng.randbytes(rng.randint(1, 3000)), b"".join(mads)[:-3], b"\0\0\0\x07abc")
        )
        world.figures.hostile_mads += len(mads)
        _say(world, world.steady.directory.mad_socket, data, keep=rng.random() < 0.3)
    world.note("garbage on the MAD socket")


@action
def flood_of_short_mads(world: World, rng: random.Random) -> None:
    """MADs of three bytes, as many as go out in a few seconds, at most some ten thousand."""
    count = rng.randint(_FLOOD // 2, _FLOOD)
    sent = short_mads(world.steady.directory.mad_socket, count, _SEND_LIMIT_S)
    world.figures.hostile_mads += sent
    world.note(f"{sent} MADs of three bytes")


def short_mads(path: Path, count: int, limit_s: float) -> int:
    """Send MADs of three bytes, each of which is refused; return how many went out in time.

    Their answers are waited for: who hangs up before takes back what has not been read yet.
    """
    message = MadMessage(1, b"\1\2\3").build()
    unsent = memoryview(message * count)
    unheard, end = len(unsent), time.monotonic() + limit_s
    poll = select.poll()
    with socket.socket(socket.AF_UNIX) as peer, contextlib.suppress(ConnectionError):
        peer.connect(str(path))
        peer.setblocking(False)
        poll.register(peer, select.POLLIN | select.POLLOUT)
        while unheard and time.monotonic() < end:
            for _, events in poll.poll(100):
                if events & (select.POLLIN | select.POLLHUP):
                    heard = len(peer.recv(1 << 20))
                    unheard = unheard - heard if heard else 0  # hung up on: no more will come
                if events & select.POLLOUT:
                    unsent = unsent[peer.send(unsent[:_BURST]) :]
            if not unsent:
                poll.modify(peer, select.POLLIN)
    return count - len(unsent) // len(message)


@action
def hostile_frames(world: World, rng: random.Random) -> None:
    """Frames of any length and kind from a host, with offload headers that lie."""
    host, name = rng.choice(world.steady.hosts[:2]), rng.choice(("blue", "red"))
    vnet = rng.random() < 0.7

    def send() -> int:
        """Send them; what the kernel refuses is no matter."""
        count = 0
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as peer:
            peer.bind((name, 0))
            if vnet:
                peer.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            for _ in range(600):
                head = _vnet_header(rng) if vnet else b""
                with contextlib.suppress(OSError):
                    peer.send(head + _frame(rng), socket.MSG_DONTWAIT)
                    count += 1
        return count

    _in_host(world, host, send)
    world.note(f"hostile frames from {host} into {name}{' with offload headers' if vnet else ''}")


@action
def spoofed_addresses(world: World, rng: random.Random) -> None:
    """A host sends under the addresses of others, and its own interface takes them on."""
    host, other = rng.sample(world.steady.hosts, 2)
    mac = world.steady.addresses[other, "blue"][0]

    def send() -> int:
        """Send ARP and nonsense in the other's name."""
        source = bytes.fromhex(mac.replace(":", ""))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as peer:
            peer.bind(("blue", 0))
            for _ in range(300):
                target = rng.choice((b"\xff" * 6, rng.randbytes(6), source))
                with contextlib.suppress(OSError):
                    peer.send(target + source + b"\x08\x06" + rng.randbytes(46), socket.MSG_DONTWAIT)
        return 300

    _in_host(world, host, send)
    if rng.random() < 0.5:
        world.steady.ip(host, "link", "set", "dev", "blue", "address", mac)
    world.note(f"{host} pretends to be {other}")


@action
def nonsense_on_interfaces(world: World, rng: random.Random) -> None:
    """`ip link set` with everything it takes, again and again."""
    host = rng.choice(world.steady.hosts)
    changes = [
        ("mtu", "20000"), ("mtu", "68"), ("mtu", "1"), ("mtu", str(rng.randint(68, 10240))), ("down",), ("up",),
        ("address", "02:" + ":".join(f"{byte:02x}" for byte in rng.randbytes(5))), ("address", "00:00:00:00:00:00"),
        ("address", "ff:ff:ff:ff:ff:ff"), ("promisc", "on"), ("promisc", "off"), ("allmulticast", "on"),
        ("allmulticast", "off"), ("txqueuelen", "0"), ("txqueuelen", "1000"), ("arp", "off"), ("arp", "on"),
    ]  # fmt: skip
    for _ in range(rng.randint(10, 60)):
        words = rng.choice(changes)
        world.steady.ip(host, "link", "set", "dev", "blue", *words)
    for words in (("arp", "on"), ("promisc", "off"), ("allmulticast", "off"), ("txqueuelen", "1000")):
        world.steady.ip(host, "link", "set", "dev", "blue", *words)
    world.note(f"nonsense on blue of {host}")


def _say(world: World, path: Path, data: bytes, *, keep: bool) -> None:
    """Connect and send; hang up, or leave the connection open until the round settles."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(2.0)
    with contextlib.suppress(OSError):
        peer.connect(str(path))
        peer.sendall(data)
    if keep:
        world.open_things.append(peer)
    else:
        peer.close()


def _in_host(world: World, host: str, send: Callable[[], int]) -> None:
    try:
        world.figures.hostile_frames += world.steady.inside(host, send)
    except OSError as error:  # the interface may be gone or down just now
        world.note(f"no frames from {host}: {error}")


def _some_mad(rng: random.Random) -> bytes:
    """Return a MAD: any bytes, or the header of a request to an agent with any bytes behind."""
    size = rng.choice((1, 3, 23, 24, 64, 256, 2047, 2048))
    if rng.random() < 0.5:
        return rng.randbytes(size)
    head = struct.pack(">BBBBHHQHHI", 1, rng.choice((0x34, 0x81, 3)), 1, rng.choice((1, 2, 5, 0x81, 7, 0xFF)),
                       0, 0, rng.getrandbits(64), rng.randrange(256), 0, rng.randrange(1 << 16))  # fmt: skip
    return (head + rng.randbytes(2048))[: max(size, 24)]


def _vnet_header(rng: random.Random) -> bytes:
    """Return a virtio_net_hdr: flags, GSO type, header length, GSO size, checksum start and offset."""
    if rng.random() < 0.2:
        return rng.randbytes(10)
    numbers = [rng.choice((0, 1, 14, 34, 54, 66, 1448, 65535, rng.randrange(1 << 16))) for _ in range(4)]
    return struct.pack("<BBHHHH", rng.choice((0, 1, 2, 3)), rng.choice((0, 1, 3, 4, 5, 0x81, 0x84)), *numbers)


def _frame(rng: random.Random) -> bytes:
    """Return an Ethernet frame: a runt, a jumbo, tagged once or more, IP with lengths that lie."""
    size = rng.choice((0, 1, 14, 15, 59, 60, 64, 1514, 1518, 9014, 9018, rng.randint(14, 12000)))
    kind = rng.choice(
        (b"\x08\x00", b"\x86\xdd", b"\x08\x06", b"\x81\x00", b"\x88\xa8", b"\x88\xcc", b"\0\0", b"\0\x2e")
    )
    tags = b"".join(b"\x81\x00" + rng.randbytes(2) for _ in range(rng.choice((0, 0, 1, 2, 9))))
    ip = (
        b"\x45"
        + rng.randbytes(1)
        + rng.randbytes(2)
        + rng.randbytes(5)
        + rng.choice((b"\x06", b"\x11", b"\1"))
    )
    data = rng.choice((b"\xff" * 6, b"\1\0\x5e" + rng.randbytes(3), rng.randbytes(6))) + rng.randbytes(6)
    return (data + tags + kind + ip + rng.randbytes(12000))[:size]
