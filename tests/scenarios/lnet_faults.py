"""Seeded fault schedules for two LNet hosts, and the law that every message must keep."""

from __future__ import annotations

import random
from collections import Counter

from hfi_sim.clock import ManualClock
from hfi_sim.hfi import HfiPort
from lnet.config import LndConfig
from lnet.objects import RouteState
from lnet.rig import LnetRig, RigHost
from lnet.tx import SendDone, SendFailed

A = ["10.1.1.2", "10.1.1.3", "10.1.1.4"]
B = ["10.1.1.5", "10.1.1.6", "10.1.1.7"]
TARGETS = f"10.1.1.2@o2ib0 {' '.join(A)}\n10.1.1.5@o2ib0 {' '.join(B)}\n"
MESSAGES = 60
FAULTS_UNTIL_S = 3.0
SETTLED_AFTER_S = 120.0


def lose_packets(port: HfiPort, rng: random.Random, share: float) -> None:
    """Lose a share of the packets that reach a port."""
    receive = port.receive

    def lossy(packet: bytes) -> None:
        if rng.random() >= share:
            receive(packet)

    port.receive = lossy  # type: ignore[method-assign]


class FaultSchedule:
    """One seed: traffic both ways, ports that go down and come back, devices that fail, 5% loss.

    A port can also be deaf for a while: it sends and hears nothing, so what it sent arrives and the
    acknowledgement does not, which is where a message is delivered twice or reported wrongly.
    """

    def __init__(self, seed: int, loss: float = 0.05) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        config = LndConfig(timeout_s=self.rng.choice([0.5, 2.0, 30.0]), reconnect_max_s=1.0, keepalive_s=20.0)
        self.rig = LnetRig(self.clock, seed=seed, rate_bps=10e9, config=config)
        self.rig.add_host("a", A, targets=TARGETS)
        targets_b = self.rng.choice([TARGETS, ""])
        self.rig.add_host("b", B, targets=targets_b)
        self.sent: dict[str, dict[int, bytes]] = {"a": {}, "b": {}}
        self.ports = [port for host in self.rig.hosts.values() for port in host.ports.values()]
        self.deaf: set[HfiPort] = set()
        for port in self.ports:
            lose_packets(port, self.rng, loss)
            self._make_deafenable(port)
        for number in range(MESSAGES):
            self.clock.call_at(self.rng.uniform(0, FAULTS_UNTIL_S), self._send, number)
        for port in self.ports:
            self._plan_faults(port)

    def _send(self, number: int) -> None:
        name = self.rng.choice("ab")
        source, target = self.rig.hosts[name], self.rig.hosts["b" if name == "a" else "a"]
        size = self.rng.choice([0, 100, 3976, 5000, 40_000])
        data = number.to_bytes(4, "big") + bytes(size)
        msg_id = source.node.put(target.nid, data)
        self.sent[name][msg_id] = data

    def _plan_faults(self, port: HfiPort) -> None:
        at = self.rng.uniform(0, 1)
        while at < FAULTS_UNTIL_S:
            faults = [self._down, self._down, self._fatal, self.deaf.add]
            self.clock.call_at(at, self.rng.choice(faults), port)
            at += self.rng.expovariate(2)
            self.clock.call_at(min(at, FAULTS_UNTIL_S), self._up, port)
            at += self.rng.expovariate(1)

    def _down(self, port: HfiPort) -> None:
        assert port.link is not None
        self.rig.fabric.set_link(port.link, False)

    def _fatal(self, port: HfiPort) -> None:
        port.hfi.fatal()

    def _make_deafenable(self, port: HfiPort) -> None:
        receive = port.receive

        def hear(packet: bytes) -> None:
            if port not in self.deaf:
                receive(packet)

        port.receive = hear  # type: ignore[method-assign]

    def _up(self, port: HfiPort) -> None:
        self.deaf.discard(port)
        assert port.link is not None
        self.rig.fabric.set_link(port.link, True)

    def run(self) -> None:
        """Run to the end and hold the law."""
        self.clock.advance(SETTLED_AFTER_S)
        hosts = self.rig.hosts
        self.check_messages("a", hosts["a"], hosts["b"])
        self.check_messages("b", hosts["b"], hosts["a"])
        for name in hosts:
            self.check_routes(name)
        assert self.rig.fabric.balance() == {}

    def check_messages(self, name: str, source: RigHost, target: RigHost) -> None:
        """Every message is delivered once and reported done once, or not delivered and reported failed once."""
        outcomes = Counter(r.msg_id for r in source.reports if isinstance(r, SendDone | SendFailed))
        assert outcomes == dict.fromkeys(self.sent[name], 1)
        delivered = Counter(received.data for received in target.received)
        expected = {self.sent[name][done.msg_id]: 1 for done in source.done}
        assert delivered == expected
        assert not any(failed.in_doubt for failed in source.failed)

    def check_routes(self, name: str) -> None:
        """Every route is back: a message goes over each of them at the first attempt."""
        source = self.rig.hosts[name]
        target = self.rig.hosts["b" if name == "a" else "a"]
        for ni in source.node.lnd.nis.values():
            assert [dev.state for dev in ni.ni_data.ibn_devs] == ["PORT_DEGRADE"] * 3
            for routes in ni.ni_data.ibn_routes.values():
                assert not [r for r in routes if r.state in (RouteState.DISCONNECTED, RouteState.CONNECTING)]
                before = len(source.done)
                for _ in routes:
                    source.node.put(target.nid, b"again")
                self.clock.advance(10)
                assert {done.route for done in source.done[before:]} == set(routes)
