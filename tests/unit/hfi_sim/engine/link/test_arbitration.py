"""Virtual lanes that share a wire: by weight, by priority, without starvation where that is asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.errors import FabricError
from hfi_sim.engine.link.arbiter import Arbiter, Arbitration, Egress, arbiter_of
from hfi_sim.engine.link.config import HOQ_UNIT_NS, MAX_HOQ_CODE, MAX_MTU, FlowControl, LinkConfig
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.subnet_manager import SubnetManager
from hfi_sim.wire.lrh16b import Lrh16B, sc_of
from hfi_sim.wire.packet import build_packet

L4 = 0x55
RATE_BPS = 1e9
SIZE = 1024  # of a packet with 999 bytes of payload


@given(
    weights=st.lists(st.integers(1, 255), min_size=2, max_size=8),
    sizes=st.lists(st.integers(24, 16376), min_size=8, max_size=8),
)
def test_shares_of_bytes_are_the_weights_whatever_the_sizes(weights: list[int], sizes: list[int]) -> None:
    arbiter = Arbiter(weights)
    lanes = range(len(weights))
    sent = [0] * len(weights)
    for _ in range(200):
        turn = arbiter.choose(lanes)
        arbiter.sent(turn, sizes[turn.vl])
        sent[turn.vl] += sizes[turn.vl]
    per_weight = [sent[vl] / weights[vl] for vl in lanes]
    biggest = max(sizes[vl] / weights[vl] for vl in lanes)
    assert max(per_weight) - min(per_weight) <= 2 * biggest


def test_lane_that_was_silent_has_saved_up_nothing() -> None:
    arbiter = Arbiter([1, 1])
    for _ in range(1000):
        arbiter.sent(arbiter.choose([0]), SIZE)
    arbiter.woke(1)
    turns = []
    for _ in range(10):
        turn = arbiter.choose([0, 1])
        arbiter.sent(turn, SIZE)
        turns.append(turn.vl)
    assert Counter(turns) == {0: 5, 1: 5}


@pytest.mark.parametrize(("limit", "low"), [(None, 0), (0, 50), (3 * SIZE, 20)])
def test_high_priority_goes_first_up_to_its_limit(limit: int | None, low: int) -> None:
    arbiter = Arbiter([1, 0], [0, 1], limit)
    turns = []
    for _ in range(100):
        turn = arbiter.choose([0, 1])
        arbiter.sent(turn, SIZE)
        turns.append(turn.vl)
    assert turns.count(0) == low


class Pair:
    """Two hosts on one switch; what h1 sends to h2 on each service channel is a lane of its own."""

    def __init__(self, flow: FlowControl, latency_ns: int = 1000) -> None:
        self.clock = ManualClock()
        self.fabric = Fabric(self.clock, timer_resolution_s=0.0)
        switch = self.fabric.add_switch("sw0")
        self.ports = [self.fabric.add_hfi(name).ports[1] for name in ("h1", "h2")]
        for number, port in enumerate(self.ports, 1):
            self.fabric.connect(port, switch.ports[number], LinkConfig(RATE_BPS, latency_ns, flow=flow))
        manager = SubnetManager(self.fabric)
        for port in self.ports:
            manager.set_pkeys(port, [0x8002])
        manager.sweep()
        self.got: list[tuple[float, int, int]] = []
        self.ports[1].register_l4(L4, self._take)

    def _take(self, _port: HfiPort, packet: bytes, _token: object) -> None:
        self.got.append((self.clock.time(), sc_of(packet), len(packet)))

    def send(self, sc: int, payload: int = 999) -> None:
        h1, h2 = self.ports
        lrh = Lrh16B(h1.lid, h2.lid, sc=sc, l4=L4, pkey=0x8002)
        assert h1.send(build_packet(lrh, bytes(payload), self.fabric.icrc)) is None

    def bytes_by_lane(self) -> Counter[int]:
        """Return what has arrived of each service channel."""
        sums: Counter[int] = Counter()
        for _, sc, size in self.got:
            sums[sc] += size
        return sums


def test_saturated_link_is_shared_by_the_weights() -> None:
    pair = Pair(FlowControl(vls=3, weights=(1, 2, 5)))
    for _ in range(1000):
        pair.send(0)
        pair.send(1, payload=99)
        pair.send(1, payload=1900)
        pair.send(2)
    pair.clock.advance(1000 * SIZE * 8 / RATE_BPS)  # time for a thousand packets
    sums = pair.bytes_by_lane()
    total = sum(sums.values())
    assert total == pytest.approx(1000 * SIZE, rel=0.01)  # the wire is never idle
    for sc, weight in enumerate((1, 2, 5)):
        assert sums[sc] / total == pytest.approx(weight / 8, abs=0.01)
    pair.clock.advance(10)
    assert len(pair.got) == 4000  # and nothing is lost
    assert pair.fabric.drops() == {}
    assert pair.fabric.balance() == {}


def test_lanes_are_equal_unless_told_and_keep_their_order() -> None:
    pair = Pair(FlowControl(vls=2))
    for _ in range(400):
        pair.send(0)
    for _ in range(400):
        pair.send(1)  # behind 400 packets in time, beside them on the wire
    pair.clock.advance(400 * SIZE * 8 / RATE_BPS)
    sums = pair.bytes_by_lane()
    assert sums[0] == pytest.approx(sums[1], rel=0.3)
    assert sums[1] > 0


def test_packet_of_high_priority_overtakes_all_that_waits() -> None:
    pair = Pair(FlowControl(vls=2, high=(1,)))
    for _ in range(500):
        pair.send(0)
    pair.clock.advance(100e-6)
    pair.send(1)
    sent_at = pair.clock.time()
    pair.clock.advance(1)
    arrived_at = next(when for when, sc, _ in pair.got if sc == 1)
    one_packet = SIZE * 8 / RATE_BPS
    # on each of two links: at most the rest of one packet before it, then itself, then the latency
    assert arrived_at - sent_at <= 2 * (2 * one_packet + 1e-6) + 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vls": 2, "weights": (1,)}, "1 weights for 2 VLs: each VL has one"),
        ({"vls": 2, "weights": (1, 0)}, "weights is 0, not 1 to 255"),
        ({"vls": 2, "high": (2,)}, "VL 2 has high priority; VLs are 0 to 1"),
        ({"vls": 2, "high_limit_bytes": -1}, "high_limit is -1, not 0 or more"),
    ],
)
def test_arbitration_out_of_range_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        FlowControl(**options)  # type: ignore[arg-type]


def test_tables_of_a_port_share_the_bottleneck_and_what_they_leave_out_goes_last() -> None:
    pair = Pair(FlowControl(vls=3))
    out = pair.fabric.switches["sw0"].ports[2]
    pair.ports[0].set_arbitration(Arbitration((3, 1, *[0] * 14)))
    out.set_arbitration(Arbitration((3, 1, *[0] * 14)))
    for _ in range(1000):
        for sc in range(3):
            pair.send(sc)
    pair.clock.advance(1000 * SIZE * 8 / RATE_BPS)
    sums = pair.bytes_by_lane()
    assert sums[0] == pytest.approx(750 * SIZE, rel=0.01)
    assert sums[1] == pytest.approx(250 * SIZE, rel=0.01)
    assert sums[2] <= 2 * SIZE  # when the first one was sent, nothing else was there
    out.set_arbitration(None)
    pair.ports[0].set_arbitration(None)
    pair.clock.advance(10)
    assert len(pair.got) == 3000
    assert pair.fabric.drops() == {}
    assert pair.fabric.balance() == {}


@given(
    low=st.lists(st.integers(0, 400), min_size=2, max_size=5),
    high=st.lists(st.integers(0, 400), min_size=2, max_size=5),
    limit=st.none() | st.integers(0, 30_000),
)
def test_no_lane_of_a_table_with_a_limit_starves(low: list[int], high: list[int], limit: int | None) -> None:
    vls = min(len(low), len(high))
    arbiter = Arbiter(low[:vls], high[:vls], limit)
    turns = Counter[int]()
    for _ in range(4000):
        turn = arbiter.choose(range(vls))
        arbiter.sent(turn, SIZE)
        turns[turn.vl] += 1
    if limit is None and any(high[:vls]):
        assert set(turns) == {vl for vl in range(vls) if high[vl]}
    elif any(low[:vls]) or any(high[:vls]):
        assert {vl for vl in range(vls) if high[vl]} <= set(turns)
        assert set(turns) <= {vl for vl in range(vls) if high[vl] or low[vl]}
    else:
        assert set(turns) == set(range(vls))


def test_vl15_goes_before_all_that_tables_name() -> None:
    arbiter = FlowControl(vls=16)
    shared = arbiter_of(arbiter, Arbitration((1,) * 16, (1,) * 16, 0), 16)
    assert shared is not None
    for _ in range(20):
        turn = shared.choose(range(16))
        assert turn.vl == 15
        shared.sent(turn, SIZE)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (((1,) * 15,), "15 weights of low priority; there are 16 VLs"),
        (((1,) * 16, (0,) * 15 + (40_000,)), "VL 15 has the weight 40000 in the table of high priority"),
        (((1,) * 16, (0,) * 16, -1), "the limit of high priority is -1 bytes, below 0"),
    ],
)
def test_tables_out_of_range_are_refused(tables: tuple[Any, ...], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        Arbitration(*tables)


def test_limit_of_high_priority_counts_anew_after_each_packet_of_low_priority() -> None:
    arbiter = Arbiter([1, 0], [0, 1], 100)
    served = []
    for size in (100, 1, 50, 100, 1, 50):
        turn = arbiter.choose([0, 1])
        arbiter.sent(turn, size)
        served.append(turn.vl)
    assert served == [1, 1, 0, 1, 1, 0]


def test_mtus_of_a_port_are_from_0_on_and_a_lifetime_without_end_is_none() -> None:
    Egress(vl_mtus=(0,) * 16)
    for wrong in (-1, MAX_MTU + 1):
        with pytest.raises(FabricError, match=f"the MTU of VL 0 is {wrong} bytes"):
            Egress(vl_mtus=(wrong,) + (0,) * 15)
    codes = (MAX_HOQ_CODE, MAX_HOQ_CODE + 1, *[0] * 14)
    lives = Egress(hoq_codes=codes).hoq_lives_ns(FlowControl(vls=3), 4)
    assert lives == [HOQ_UNIT_NS << MAX_HOQ_CODE, 0, HOQ_UNIT_NS, 0]
