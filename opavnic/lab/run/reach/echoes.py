"""The echoes of `opavnic check`: raw ICMP sockets, one pair for each host, and who answers.

A socket belongs to the namespace that it was opened in, so one process asks on behalf of many hosts, side by side.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, ParamSpec

from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.neighbours import NeighbourClient, NeighbourTable
from hfi_sim.wire.internet_checksum import checksum
from opavnic.lab.run.reach.plan import (
    Address,
    EchoKind,
    PairSample,
    Probe,
    ProbeOutcome,
    ReachReport,
    Task,
    VnicPlace,
    plan,
    room_beside_floods,
    room_for,
    tasks,
)

ATTEMPTS: Final = 3
"""How often an echo is sent that gets no answer."""
Told = ParamSpec("Told")
_TELL_S: Final = 0.1
_TABLES_S: Final = 0.05
"""How often the neighbour tables of the machine are looked at."""
_RECEIVE_BUFFER: Final = 4 << 20
_TENTATIVE: Final = 0x40
_LINK_SCOPE: Final = 0x20
_READY_S: Final = 5.0
"""How long the kernel may take to make sure that a link-local address is unique."""
_LOOK_AGAIN_S: Final = 0.05
_SIOCGIFADDR: Final = 0x8915
_SIOCGIFMTU: Final = 0x8921
_IFREQ: Final = 40
_IP_PKTINFO: Final = 8
_IP_MTU_DISCOVER: Final = 10
_IP_RECVERR: Final = 11
_IPV6_MTU_DISCOVER: Final = 23
_IPV6_RECVERR: Final = 25
"""Without it, the kernel does not say that an echo was not sent for lack of buffers (ENOBUFS)."""
_PMTUDISC_PROBE: Final = 3
"""Do not fragment, and apply only the MTU of the interface."""
_SOL_RAW: Final = 255
_ICMP_FILTER: Final = 1
_ICMP6_FILTER: Final = 1
_SO_RCVBUFFORCE: Final = 33
_ECHO_REQUEST: Final = {4: 8, 6: 128}
_ECHO_REPLY: Final = {4: 0, 6: 129}
_ANCILLARY: Final = 64
"""More than what tells the interface of a packet."""
_ICMP: Final = struct.Struct(">BBHHH")
_TOKEN: Final = struct.Struct(">8sI4x")
"""What an echo carries and its answer repeats: a number of this run, the number of the probe."""


@dataclass(slots=True)
class HostSockets:
    """What echoes of one host are sent by."""

    ipv4: socket.socket
    ipv6: socket.socket
    neighbours: NeighbourClient


@dataclass(slots=True)
class _Running:
    """A task that is under way."""

    task: Task
    left: int
    """Its probes that are not over."""
    held: range
    """The numbers of its probes that wait for the first to be answered, or to be lost."""
    made: list[tuple[VnicPlace, Address]]
    """Neighbours that were not in the kernel's tables before."""
    refusals: dict[int, int]
    """Of the neighbour tables when it began, by IP version."""


def told_now_and_then(tell: Callable[Told, None]) -> Callable[Told, None]:
    """Return a function that takes what `tell` takes, and calls it no more often than every tenth of a second."""
    told_at = -math.inf

    def told(*args: Told.args, **kwargs: Told.kwargs) -> None:
        nonlocal told_at
        if (now := time.monotonic()) - told_at >= _TELL_S:
            told_at = now
            tell(*args, **kwargs)

    return told


def open_sockets(ends: contextlib.ExitStack) -> HostSockets:
    """Open them in the network namespace of this thread. Raises OSError, NetdevError."""
    ipv4 = ends.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
    ipv6 = ends.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
    ipv4.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~(1 << _ECHO_REPLY[4])))
    blocked = [0xFFFFFFFF] * 8  # a bit for each type
    blocked[_ECHO_REPLY[6] // 32] &= ~(1 << _ECHO_REPLY[6] % 32)
    ipv6.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *blocked))
    for level, option, value in (
        (socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE),
        (socket.IPPROTO_IP, _IP_PKTINFO, 1),
        (socket.IPPROTO_IP, _IP_RECVERR, 1),
        (socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0),
    ):
        ipv4.setsockopt(level, option, value)
    for level, option, value in (
        (socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE),
        (socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1),
        (socket.IPPROTO_IPV6, _IPV6_RECVERR, 1),
        (socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0),
    ):
        ipv6.setsockopt(level, option, value)
    for one in (ipv4, ipv6):
        one.setblocking(False)
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    neighbours = NeighbourClient()
    ends.callback(neighbours.close)
    return HostSockets(ipv4, ipv6, neighbours)


def places_here(host: str, vnics: Iterable[tuple[str, str]]) -> list[VnicPlace]:
    """Return VNICs of the host whose namespace this thread is in, as its kernel has them."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for name, vesw in vnics:
            try:
                index = socket.if_nametoindex(name)
                mtu = struct.unpack_from("=i", _ask(asking, _SIOCGIFMTU, name), 16)[0]
            except OSError:
                continue  # it is not there: its state says why
            found.append(VnicPlace(host, vesw, name, index, mtu, _ipv4(asking, name), _link_local(name)))
    return found


def _ask(asking: socket.socket, request: int, interface: str) -> bytes:
    return fcntl.ioctl(asking, request, struct.pack(f"{_IFREQ}s", interface.encode()))


def _ipv4(asking: socket.socket, interface: str) -> IPv4Address | None:
    try:
        return IPv4Address(_ask(asking, _SIOCGIFADDR, interface)[20:24])
    except OSError:
        return None


def _link_local(interface: str) -> IPv6Address | None:
    """Return the link-local address of an interface, once it may be used."""
    deadline = time.monotonic() + _READY_S
    while True:
        found = None
        with open("/proc/thread-self/net/if_inet6", encoding="ascii") as lines:
            for line in lines:
                address, _, _, scope, flags, name = line.split()
                if name == interface and int(scope, 16) == _LINK_SCOPE:
                    found = IPv6Address(int(address, 16)), int(flags, 16) & _TENTATIVE
        if found is None:
            return None
        if not found[1]:
            return found[0]
        if time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_AGAIN_S)


class EchoRun:
    """All tasks, as many at a time as the neighbour tables have room for."""

    def __init__(
        self,
        hosts: Mapping[str, HostSockets],
        places: Iterable[VnicPlace],
        timeout_s: float,
        sample: PairSample,
    ) -> None:
        self._hosts = hosts
        self._places = tuple(places)
        self._at = {(place.host, place.index): place for place in self._places}
        self._timeout_s = timeout_s
        self._nonce = os.urandom(8)
        self._sample = sample
        self._outcomes = [ProbeOutcome(probe) for probe in plan(self._places, sample, hosts)]
        self._attempts = [0] * len(self._outcomes)
        self._sent_at = [0.0] * len(self._outcomes)
        self._tasks = tasks(self._places, sample, hosts)
        self._begun: list[_Running] = []
        """The task of each probe that was begun, by number."""
        self._waiting: dict[int, float] = {}
        """The deadlines of what is on the way, by number, the earliest first."""
        self._unsent: deque[int] = deque()
        self._over = 0
        self._most_room = room_beside_floods(self._places)
        self._taken = 0
        """Entries in a neighbour table that tasks may have made."""
        self._room = 0
        self._tables: dict[int, NeighbourTable] = {}
        self._tables_at = 0.0

    def run(self, progress: Callable[[int, int], None]) -> ReachReport:
        """Send all echoes and wait for their answers."""
        began = time.monotonic()
        total = len(self._outcomes)
        self._look_at_tables(began)
        with selectors.DefaultSelector() as selector:
            for host, sockets in self._hosts.items():
                selector.register(sockets.ipv4, selectors.EVENT_READ, (host, 4))
                selector.register(sockets.ipv6, selectors.EVENT_READ, (host, 6))
            ahead = next(self._tasks, None)
            while self._over < total:
                now = time.monotonic()
                if now - self._tables_at > _TABLES_S:
                    self._look_at_tables(now)
                while ahead is not None and (
                    not self._taken or not ahead.room or self._taken + ahead.room <= self._room
                ):
                    self._begin(ahead)
                    ahead = next(self._tasks, None)
                while self._unsent:
                    self._send(self._unsent.popleft(), now)
                progress(self._over, total)
                for key, _ in selector.select(self._next_deadline(now)):
                    self._receive(key.fileobj, *key.data)  # type: ignore[arg-type]
                self._expire(time.monotonic())
        seconds = time.monotonic() - began
        return ReachReport(self._places, (), seconds, self._sample).with_outcomes(self._outcomes)

    def _look_at_tables(self, now: float) -> None:
        self._tables_at = now
        with contextlib.suppress(NetdevError):  # then there is little room, and no reason
            self._tables = next(iter(self._hosts.values())).neighbours.tables() if self._hosts else {}
        self._room = min(room_for(self._tables.values(), self._taken), self._most_room)

    def _begin(self, task: Task) -> None:
        made = [
            (place, address)
            for place, address in task.neighbours
            if place.host in self._hosts
            and not self._hosts[place.host].neighbours.has_neighbour(place.index, address)
        ]
        refusals = {version: table.refusals for version, table in self._tables.items()}
        number = len(self._begun)
        end = number + len(task.probes)
        running = _Running(task, len(task.probes), range(number + task.first, end), made, refusals)
        self._taken += task.room
        self._unsent.extend(range(number, number + task.first))
        self._begun += [running] * len(task.probes)

    def _release(self, number: int) -> None:
        """Send what was held back in the task of a probe, one attempt of which is over."""
        running = self._begun[number]
        self._unsent.extend(running.held)
        running.held = range(0)

    def _end(self, number: int) -> None:
        """Note that a probe is over; when it was the last of its task, remove the neighbours that the task made."""
        self._over += 1
        running = self._begun[number]
        running.left -= 1
        if not running.left:
            self._taken -= running.task.room
            for place, address in running.made:
                with contextlib.suppress(NetdevError):  # the interface is gone
                    self._hosts[place.host].neighbours.forget_neighbour(place.index, address)

    def _next_deadline(self, now: float) -> float:
        return max(0.0, next(iter(self._waiting.values()), now) - now)

    def _expire(self, now: float) -> None:
        while self._waiting and next(iter(self._waiting.values())) <= now:
            number = next(iter(self._waiting))
            del self._waiting[number]
            outcome = self._outcomes[number]
            self._release(number)
            if not outcome.probe.wants_answer:
                self._end(number)
            elif self._attempts[number] < ATTEMPTS:
                self._unsent.append(number)
            else:
                outcome.reason = self._full_table(number, now) or outcome.reason
                self._end(number)

    def _full_table(self, number: int, now: float) -> str:
        """Return that the neighbour table was full since a probe was begun; an empty string if it was not."""
        if now > self._tables_at:
            self._look_at_tables(now)
        version = self._outcomes[number].probe.address.version
        table = self._tables.get(version)
        if table is None or table.refusals == self._begun[number].refusals.get(version, table.refusals):
            return ""
        return f"neighbour table of the machine is full ({table.sysctl} = {table.hard_limit})"

    def _send(self, number: int, now: float) -> None:
        outcome = self._outcomes[number]
        self._attempts[number] += 1
        self._sent_at[number] = now
        outcome.reason = ""
        try:
            self._send_echo(number, outcome.probe)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                outcome.refused = True
                self._release(number)
                self._end(number)
                return
            outcome.reason = f"cannot be sent: {error.strerror}"  # counts as sent, and is sent again
        self._waiting[number] = now + self._timeout_s

    def _send_echo(self, number: int, probe: Probe) -> None:
        version = probe.address.version
        body = _TOKEN.pack(self._nonce, number).ljust(probe.payload, b"\0")
        kind = (_ECHO_REPLY if probe.kind is EchoKind.ISOLATION else _ECHO_REQUEST)[version]
        header = _ICMP.pack(kind, 0, 0, number >> 16 & 0xFFFF, number & 0xFFFF)
        source = probe.source
        sockets = self._hosts[source.host]
        here = sockets.ipv4 if version == 4 else sockets.ipv6
        here.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # that of an earlier echo would be raised instead
        if version == 4:
            header = _ICMP.pack(kind, 0, checksum(header + body), number >> 16 & 0xFFFF, number & 0xFFFF)
            own = b"\0" * 4 if source.ipv4 is None else source.ipv4.packed
            out = struct.pack("=i4s4s", source.index, own, b"\0" * 4)
            ancillary = [(socket.IPPROTO_IP, _IP_PKTINFO, out)]
            here.sendmsg([header + body], ancillary, 0, (str(probe.address), 0))
        else:
            here.sendto(header + body, (str(probe.address), 0, 0, source.index))

    def _receive(self, here: socket.socket, host: str, version: int) -> None:
        while True:
            try:
                data, ancillary, _, _ = here.recvmsg(1 << 16, _ANCILLARY)
            except BlockingIOError:
                break
            except OSError:  # of an earlier echo
                continue
            if version == 4:
                data = data[(data[0] & 0xF) * 4 :]
            if len(data) < _ICMP.size + _TOKEN.size or data[0] != _ECHO_REPLY[version]:
                continue
            nonce, number = _TOKEN.unpack_from(data, _ICMP.size)
            if nonce == self._nonce and number < len(self._begun):
                self._received(number, host, _interface(ancillary), len(data))
        with contextlib.suppress(OSError):  # what the kernel found out about earlier echoes
            while True:
                here.recvmsg(1, 1, socket.MSG_ERRQUEUE)

    def _received(self, number: int, host: str, interface: int, size: int) -> None:
        outcome = self._outcomes[number]
        probe = outcome.probe
        if size != _ICMP.size + probe.payload:
            return
        if probe.kind is EchoKind.ISOLATION:
            place = self._at.get((host, interface))
            if place is not None and place.vesw != probe.source.vesw and place not in outcome.heard:
                outcome.heard += (place,)
        elif probe.wants_answer and outcome.rtt_s is None and host == probe.source.host:
            outcome.rtt_s = time.monotonic() - self._sent_at[number]
            if self._waiting.pop(number, None) is not None:
                self._release(number)
                self._end(number)


def _interface(ancillary: Iterable[tuple[int, int, bytes]]) -> int:
    """Return the index of the interface by which a packet came."""
    for level, kind, data in ancillary:
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
            return int.from_bytes(data[:4], sys.byteorder)
        if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
            return int.from_bytes(data[16:20], sys.byteorder)
    return 0
