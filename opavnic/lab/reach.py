"""Send the echoes of `opavnic check` from inside the hosts of a lab: raw ICMP sockets, one pair for each host.

A socket belongs to the namespace that it was opened in, so one process asks on behalf of all hosts, side by side.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final

from hfi_sim.errors import NetdevError
from hfi_sim.netdev.namespace import Libc, run_in_namespace
from opavnic.lab.enter import enter_private, host_namespace
from opavnic.lab.errors import LabError, LabInputError
from opavnic.lab.reach_plan import Address, Outcome, Place, Probe, Report, plan
from opavnic.lab.runtime import Journal

ATTEMPTS: Final = 3
"""How often an echo is sent that gets no answer."""
_AT_ONCE: Final = 1024
"""Echoes that are on the way at a time."""
_RECEIVE_BUFFER: Final = 4 << 20
_TENTATIVE: Final = 0x40
_LINK_SCOPE: Final = 0x20
_READY_S: Final = 5.0
"""How long the kernel may take to make sure that a link-local address is nobody else's."""
_LOOK_AGAIN_S: Final = 0.05
_SIOCGIFADDR: Final = 0x8915
_SIOCGIFMTU: Final = 0x8921
_IFREQ: Final = 40
_IP_PKTINFO: Final = 8
_IP_MTU_DISCOVER: Final = 10
_IPV6_MTU_DISCOVER: Final = 23
_PMTUDISC_PROBE: Final = 3
"""Do not fragment, and heed the MTU of the interface alone."""
_SOL_RAW: Final = 255
_ICMP_FILTER: Final = 1
_ICMP6_FILTER: Final = 1
_SO_RCVBUFFORCE: Final = 33
_ECHO_REQUEST: Final = {4: 8, 6: 128}
_ECHO_REPLY: Final = {4: 0, 6: 129}
_ICMP: Final = struct.Struct(">BBHHH")
_TOKEN: Final = struct.Struct(">8sI4x")
"""What an echo carries and its answer repeats: a number of this run, the number of the probe."""


@dataclass(slots=True)
class _Sockets:
    ipv4: socket.socket
    ipv6: socket.socket


@dataclass(slots=True)
class _State:
    probe: Probe
    attempts: int = 0
    sent_at: float = 0.0
    rtt_s: float | None = None
    refused: bool = False
    answers: list[Address] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.probe, self.rtt_s, self.refused, tuple(dict.fromkeys(self.answers)))


def check_reach(
    journal: Journal,
    status: Mapping[str, Any],
    *,
    timeout_s: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Send all echoes and wait for their answers. Call it in a process without other threads.

    Args:    status: of the lab. timeout_s: how long an answer may take. progress: called with the number of probes
             that are over, and of all.
    Raises:  LabError: a host cannot be entered.
    """
    if journal.private:
        enter_private(Libc(), journal.pid)
    with contextlib.ExitStack() as ends:
        places: list[Place] = []
        hosts: dict[str, _Sockets] = {}
        for host in status["hosts"]:
            try:
                namespace = host_namespace(journal, host["name"])
            except LabInputError:
                continue  # an app in the process of the lab
            opened = _in_host(host["name"], namespace, lambda: _open(ends))
            hosts[host["name"]] = opened
            places += _in_host(host["name"], namespace, lambda host=host: list(_places(host)))  # type: ignore[misc]
        return _Run(hosts, places, timeout_s).run(progress)


def _in_host(host: str, namespace: Path | None, function: Callable[[], Any]) -> Any:
    try:
        return run_in_namespace(namespace, function)
    except (OSError, NetdevError) as error:
        raise LabError(
            f"cannot check from host {host}: {error}; run this as the user that started the lab"
        ) from error


def _open(ends: contextlib.ExitStack) -> _Sockets:
    ipv4 = ends.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
    ipv6 = ends.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
    ipv4.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~(1 << _ECHO_REPLY[4])))
    blocked = [0xFFFFFFFF] * 8  # a bit for each type
    blocked[_ECHO_REPLY[6] // 32] &= ~(1 << _ECHO_REPLY[6] % 32)
    ipv6.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *blocked))
    ipv4.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
    ipv6.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
    ipv6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    for one in (ipv4, ipv6):
        one.setblocking(False)
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    return _Sockets(ipv4, ipv6)


def _places(host: Mapping[str, Any]) -> Iterable[Place]:
    """Yield the VNICs of the host whose namespace this thread is in, as its kernel has them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for vnic in host["vnics"]:
            name = vnic["interface"]
            try:
                index = socket.if_nametoindex(name)
                mtu = struct.unpack_from("=i", _ask(asking, _SIOCGIFMTU, name), 16)[0]
            except OSError:
                continue  # it is not there: its state says why
            if not vnic["vesw"] or vnic["state"] != "up":
                continue
            yield Place(host["name"], vnic["vesw"], name, index, mtu, _ipv4(asking, name), _link_local(name))


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


class _Run:
    """All probes on their way."""

    def __init__(self, hosts: Mapping[str, _Sockets], places: Iterable[Place], timeout_s: float) -> None:
        self._hosts = hosts
        self._places = tuple(places)
        self._timeout_s = timeout_s
        self._nonce = os.urandom(8)
        self._states = [_State(probe) for probe in plan(self._places)]
        self._waiting: dict[int, float] = {}
        """The deadlines of what is on the way, by number, the earliest first."""
        self._unsent = deque(range(len(self._states)))

    def run(self, progress: Callable[[int, int], None]) -> Report:
        began = time.monotonic()
        total = len(self._states)
        with selectors.DefaultSelector() as selector:
            for sockets in self._hosts.values():
                selector.register(sockets.ipv4, selectors.EVENT_READ, 4)
                selector.register(sockets.ipv6, selectors.EVENT_READ, 6)
            while self._unsent or self._waiting:
                now = time.monotonic()
                while self._unsent and len(self._waiting) < _AT_ONCE:
                    self._send(self._unsent.popleft(), now)
                progress(total - len(self._unsent) - len(self._waiting), total)
                for key, _ in selector.select(self._next_deadline(now)):
                    self._receive(key.fileobj, key.data)  # type: ignore[arg-type]
                self._expire(time.monotonic())
        outcomes = tuple(state.outcome for state in self._states)
        return Report(self._places, outcomes, time.monotonic() - began)

    def _next_deadline(self, now: float) -> float:
        return max(0.0, next(iter(self._waiting.values()), now) - now)

    def _expire(self, now: float) -> None:
        while self._waiting and next(iter(self._waiting.values())) <= now:
            number = next(iter(self._waiting))
            del self._waiting[number]
            state = self._states[number]
            if state.probe.wants_answer and state.attempts < ATTEMPTS:
                self._unsent.append(number)

    def _send(self, number: int, now: float) -> None:
        state = self._states[number]
        state.attempts += 1
        state.sent_at = now
        try:
            self._send_echo(number, state.probe)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                state.refused = True
                return
            # no route, or a full queue: counts as sent, and is sent again
        self._waiting[number] = now + self._timeout_s

    def _send_echo(self, number: int, probe: Probe) -> None:
        version = probe.address.version
        body = _TOKEN.pack(self._nonce, number).ljust(probe.payload, b"\0")
        header = _ICMP.pack(_ECHO_REQUEST[version], 0, 0, number >> 16 & 0xFFFF, number & 0xFFFF)
        source = probe.source
        sockets = self._hosts[source.host]
        if version == 4:
            header = _ICMP.pack(
                _ECHO_REQUEST[4], 0, _checksum(header + body), number >> 16 & 0xFFFF, number & 0xFFFF
            )
            own = b"\0" * 4 if source.ipv4 is None else source.ipv4.packed
            out = struct.pack("=i4s4s", source.index, own, b"\0" * 4)
            ancillary = [(socket.IPPROTO_IP, _IP_PKTINFO, out)]
            sockets.ipv4.sendmsg([header + body], ancillary, 0, (str(probe.address), 0))
        else:
            sockets.ipv6.sendto(header + body, (str(probe.address), 0, 0, source.index))

    def _receive(self, here: socket.socket, version: int) -> None:
        while True:
            try:
                data, sender = here.recvfrom(1 << 16)
            except OSError:  # nothing more, or an error of an earlier echo
                return
            if version == 4:
                data = data[(data[0] & 0xF) * 4 :]
            if len(data) < _ICMP.size + _TOKEN.size or data[0] != _ECHO_REPLY[version]:
                continue
            nonce, number = _TOKEN.unpack_from(data, _ICMP.size)
            if nonce == self._nonce and number < len(self._states):
                self._answered(number, ip_address(sender[0].partition("%")[0]), len(data))

    def _answered(self, number: int, sender: Address, size: int) -> None:
        state = self._states[number]
        if size != _ICMP.size + state.probe.payload:
            return
        state.answers.append(sender)
        if state.probe.wants_answer and state.rtt_s is None:
            state.rtt_s = time.monotonic() - state.sent_at
            self._waiting.pop(number, None)


def _checksum(data: bytes) -> int:
    """Return the Internet checksum of an ICMP message (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
