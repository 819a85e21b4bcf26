"""The reliable connection service on real ports: packets cross links and a switch, and obey their faults."""

from __future__ import annotations

import random

import pytest

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.counters import Drop
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.reliable.config import (
    Closed,
    CloseReason,
    ConnectRequest,
    MessageReceived,
    MessageSent,
    RcConfig,
    RcEvent,
)
from hfi_sim.management.reliable.service import DEFAULT_PKEY, ReliableService
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import L4, Lrh16B
from hfi_sim.wire.packet import build_packet


class Ports:
    """Two ports with the service on each; the second one accepts whatever is asked."""

    def __init__(self, config: RcConfig | None = None) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock)
        switch = self.fabric.add_switch("sw0", ports=4)
        self.a, self.b = (self.fabric.add_hfi(name).ports[1] for name in "ab")
        self.manager = SubnetManager(self.fabric)
        for number, port in enumerate((self.a, self.b), 1):
            self.fabric.connect(port, switch.ports[number], LinkConfig(rate_bps=10e9))
            self.manager.set_pkeys(port, [DEFAULT_PKEY])
        self.manager.sweep()
        self.events: list[RcEvent] = []
        self.received: list[bytes] = []
        rng = random.Random(1)
        self.from_a = ReliableService(self.a, self.clock, rng, on_event=self.events.append, config=config)
        self.at_b = ReliableService(self.b, self.clock, rng, on_event=self._at_b, config=config)

    def _at_b(self, event: RcEvent) -> None:
        if isinstance(event, ConnectRequest):
            self.at_b.accept(event.conn_id)
        elif isinstance(event, MessageReceived):
            self.received.append(event.data)
            self.at_b.send(event.conn_id, 0, b"thanks")


def test_messages_cross_the_fabric_and_answers_come_back() -> None:
    ports = Ports()
    conn = ports.from_a.connect(ports.b.lid, 5, b"hello")
    first, second = ports.from_a.send(conn, 1, bytes(100_000)), ports.from_a.send(conn, 1, b"second")
    ports.clock.advance(0.01)
    assert ports.received == [bytes(100_000), b"second"]
    answers = [event.data for event in ports.events if isinstance(event, MessageReceived)]
    assert answers == [b"thanks", b"thanks"]
    sent = [event.message_id for event in ports.events if isinstance(event, MessageSent)]
    assert sent == [first, second]
    assert ports.fabric.balance() == {}


def test_link_down_for_a_while_is_survived_and_for_long_is_told() -> None:
    ports = Ports()
    conn = ports.from_a.connect(ports.b.lid, 5)
    ports.clock.advance(0.01)
    link = ports.b.link
    assert link is not None
    ports.fabric.set_link(link, False)
    ports.from_a.send(conn, 1, b"through")
    ports.clock.advance(0.1)
    ports.fabric.set_link(link, True)
    ports.clock.advance(1)
    assert ports.received == [b"through"]
    ports.fabric.set_link(link, False)
    ports.from_a.send(conn, 1, b"lost")
    ports.clock.advance(10)
    assert ports.events[-1] == Closed(conn, CloseReason.RETRIES)
    assert ports.fabric.balance() == {}


def test_throughput_is_near_the_rate_of_the_link() -> None:
    ports = Ports()
    conn = ports.from_a.connect(ports.b.lid, 5)
    ports.clock.advance(0.001)
    for _ in range(10):
        ports.from_a.send(conn, 1, bytes(1 << 20))
    began = ports.clock.time()
    while len(ports.received) < 10:
        ports.clock.advance(1e-5)
    assert 10 * (8 << 20) / (ports.clock.time() - began) > 0.97 * 10e9


@pytest.mark.parametrize("payload", [b"", b"short", b"\x09" + bytes(40)])
def test_packet_that_is_none_of_the_service_is_counted(payload: bytes) -> None:
    ports = Ports()
    lrh = Lrh16B(slid=ports.a.lid, dlid=ports.b.lid, l4=L4.VENDOR_RC, pkey=DEFAULT_PKEY)
    ports.a.send(build_packet(lrh, payload, ports.a.icrc))
    ports.clock.advance(0.01)
    assert ports.b.rx.drops == {Drop.RC_MALFORMED: 1}


def test_service_that_was_shut_down_leaves_the_port() -> None:
    ports = Ports()
    ports.at_b.shutdown()
    ports.from_a.connect(ports.b.lid, 5)
    ports.clock.advance(0.01)
    assert set(ports.b.rx.drops) == {Drop.RX_L4}


def test_service_that_was_shut_down_sends_nothing_whoever_asks() -> None:
    ports = Ports()
    conn = ports.from_a.connect(ports.b.lid, 5)
    ports.clock.advance(0.01)
    ports.from_a.shutdown()
    sent = ports.a.tx.in_packets
    ports.from_a.send(conn, 1, b"late")
    ports.from_a.close(conn)
    ports.clock.advance(10)
    assert ports.a.tx.in_packets == sent


def test_service_that_is_shut_down_by_its_own_handler_sends_nothing_more() -> None:
    ports = Ports()
    conn = ports.from_a.connect(ports.b.lid, 5)
    ports.clock.advance(0.01)
    sent_before_end: list[int] = []

    def end(_event: RcEvent) -> None:
        ports.from_a.shutdown()
        sent_before_end.append(ports.a.tx.in_packets)

    ports.from_a._on_event = end
    for _ in range(3):
        ports.from_a.send(conn, 1, bytes(50_000))
    ports.clock.advance(10)
    assert sent_before_end == [ports.a.tx.in_packets]
