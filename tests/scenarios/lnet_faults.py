"""Seeded fault schedules for two LNet hosts, and the law that every message must keep."""

from __future__ import annotations

import random
from collections import Counter

from hfi_sim.base.clock import ManualClock
from hfi_sim.nodes.hfi import HfiPort
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig, RigHost
from lnet.objects.objects import RouteState
from lnet.objects.stats import SendDone, SendFailed
from lnet.settings.config import LndConfig
from lnet.wire.lnet_hdr import LnetHdr

A = ["10.1.1.2", "10.1.1.3", "10.1.1.4"]
B = ["10.1.1.5", "10.1.1.6", "10.1.1.7"]
TARGETS = f"10.1.1.2@o2ib {' '.join(A)}\n10.1.1.5@o2ib {' '.join(B)}\n"
MESSAGES = 60
FAULTS_UNTIL_S = 3.0
SETTLED_AFTER_S = 120.0


def get_handler(nid: Nid, hdr: LnetHdr) -> bytes:
    """Answer a GET with bytes that depend on its number."""
    return payload(hdr.match_bits, hdr.sink_length)


def payload(number: int, size: int) -> bytes:
    """Return `size` bytes that no other message has."""
    return (number.to_bytes(4, "big") * (size // 4 + 1))[:size]


class FaultSchedule:
    """One seed: PUTs and GETs both ways, ports that go down and come back, devices that fail, 5% loss.

    A port can also be deaf for a while: it sends and hears nothing, so what it sent arrives and the
    acknowledgement does not, which is where a message is delivered twice or reported wrongly. All of it is set as
    faults of the fabric before anything is sent; `faults.show()` says what each has done.
    """

    def __init__(self, seed: int, loss: float = 0.05) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        config = LndConfig(timeout_s=self.rng.choice([0.5, 2.0, 30.0]), reconnect_max_s=1.0, keepalive_s=20.0)
        self.rig = LnetRig(self.clock, seed=seed, rate_bps=10e9, config=config)
        self.rig.add_host("a", A, targets=TARGETS, get_handler=get_handler)
        targets_b = self.rng.choice([TARGETS, ""])
        self.rig.add_host("b", B, targets=targets_b, get_handler=get_handler)
        self.sent: dict[str, dict[int, bytes]] = {"a": {}, "b": {}}
        """By host and message: what is to arrive, at the other host or, of a GET, here."""
        self.gets: dict[str, set[int]] = {"a": set(), "b": set()}
        self.faults = self.rig.world.faults
        ports = [port for host in self.rig.hosts.values() for port in host.ports.values()]
        for port in ports:
            self.faults.add(f"loss on {port.name} {loss} direction=rx")
        for number in range(MESSAGES):
            self.clock.call_at(self.rng.uniform(0, FAULTS_UNTIL_S), self._send, number)
        for port in ports:
            self._plan_faults(port)

    def _send(self, number: int) -> None:
        name = self.rng.choice("ab")
        source, target = self.rig.hosts[name], self.rig.hosts["b" if name == "a" else "a"]
        size = self.rng.choice([0, 100, 3976, 5000, 40_000])
        data = payload(number, size + 4)
        if self.rng.random() < 1 / 3:
            msg_id = source.node.get(target.nid, len(data), match_bits=number)
            self.gets[name].add(msg_id)
        else:
            msg_id = source.node.put(target.nid, data)
        self.sent[name][msg_id] = data

    def _plan_faults(self, port: HfiPort) -> None:
        at = self.rng.uniform(0, 1)
        while at < FAULTS_UNTIL_S:
            faults = [f"link-down on {port.name}"] * 2
            faults += [f"hfi-removal on {port.hfi.name}", f"loss on {port.name} direction=rx"]
            fault = self.rng.choice(faults)
            end = at + self.rng.expovariate(2)
            self.faults.add(f"{fault} after={at}s for={min(end, FAULTS_UNTIL_S) - at}s")
            at = end + self.rng.expovariate(1)

    def run(self) -> None:
        """Run to the end and hold the law."""
        self.clock.advance(SETTLED_AFTER_S)
        hosts = self.rig.hosts
        self.check_messages("a", hosts["a"], hosts["b"])
        self.check_messages("b", hosts["b"], hosts["a"])
        for name in hosts:
            self.check_routes(name)
        assert self.rig.world.fabric.balance() == {}

    def check_messages(self, name: str, source: RigHost, target: RigHost) -> None:
        """Every message is delivered once and reported done once, or not delivered and reported failed once."""
        outcomes = Counter(r.msg_id for r in source.reports if isinstance(r, SendDone | SendFailed))
        assert outcomes == dict.fromkeys(self.sent[name], 1)
        delivered = Counter(received.data for received in target.received)
        fetched = {done.msg_id: done.data for done in source.done if done.msg_id in self.gets[name]}
        put = [done.msg_id for done in source.done if done.msg_id not in fetched]
        assert delivered == {self.sent[name][msg_id]: 1 for msg_id in put}
        assert fetched == {msg_id: self.sent[name][msg_id] for msg_id in fetched}
        assert not any(failed.in_doubt for failed in source.failed)

    def check_routes(self, name: str) -> None:
        """Every route is back: a message goes over each of them at the first attempt."""
        source = self.rig.hosts[name]
        target = self.rig.hosts["b" if name == "a" else "a"]
        for ni in source.node.lnd.nis.values():
            assert [dev.state for dev in ni.ibn_devs] == ["PORT_DEGRADE"] * 3
            routes = source.node.lnd.messages.routes_on(ni.net)
            assert all(route.state in (RouteState.NEW, RouteState.UP) for route in routes)
            before = len(source.done)
            for _ in routes:
                source.node.put(target.nid, b"again")
            self.clock.advance(10)
            assert {done.route for done in source.done[before:]} == set(routes)
