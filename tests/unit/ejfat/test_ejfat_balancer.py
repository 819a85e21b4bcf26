"""One instance over a data plane: what events meet while workers come, go, slow down and fall silent."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from ejfat.base.errors import BadRequestError, ControlError, ExhaustedError
from ejfat.control.assignment import Strategy
from ejfat.control.balancer import Policy, ReservedInstance
from ejfat.control.epochs import programming
from ejfat.control.epochs.programming import TableTarget
from ejfat.control.members import ReceiverCounters, Session, SessionState, Worker
from ejfat.control.stored import parts_of, restore
from ejfat.events.event import Segmenter
from ejfat.pipeline import Pipeline
from ejfat.tables.schema import Op
from opavnic_bench.ejfat.frames import event_frames
from unit.ejfat.due_work import advance

SENDER = ip_address("10.0.0.2")
LB = ip_address("10.0.0.1")
POLICY = Policy(lead_s=0.1, quiescence_s=0.5)


def worker(number: int, **values: Any) -> Worker:
    return Worker(
        **({"name": f"w{number}", "ip": ip_address(f"10.0.1.{number}"), "port": 5000, "mac": number} | values)
    )


class Bench:
    """A load balancer, its data plane, and virtual time."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.pipeline = Pipeline()
        self.balancer = ReservedInstance(TableTarget(0, with_v1=True), "bench", policy)
        self.now = 0.0
        self.tick = 0
        self.events: dict[int, set[str]] = {}
        self.lost: list[int] = []
        self.pipeline.tables.apply(programming.own_addresses(TableTarget(0, True), 1, [LB]))
        self.pipeline.tables.apply(self.balancer.add_senders([SENDER]))

    def register(self, *workers: Worker) -> list[Session]:
        sessions = []
        for one in workers:
            session, updates = self.balancer.register(one, self.now)
            self.pipeline.tables.apply(updates)
            sessions.append(session)
        return sessions

    def report(self, *sessions: Session, fill: float = 0.0, control: float = 0.0, ready: bool = True) -> None:
        for session in sessions:
            session.report(self.now, fill=fill, control=control, ready=ready, counters=ReceiverCounters())

    def advance(self, seconds: float = 0.1) -> None:
        self.now += seconds
        lb = self.pipeline.counters.lbs[0]
        self.balancer.observe(lb.max_tick, lb.rx_packets, self.now)
        lb.max_tick = 0
        self.pipeline.tables.apply(advance(self.balancer, self.now))

    def send(self, count: int, packets: int = 2) -> None:
        """Send `count` events of `packets` packets, the second half of each after the first half of the next."""
        late: tuple[int, list[bytes]] | None = None
        for _ in range(count):
            self.tick += 1
            frames = event_frames(
                Segmenter(version=2, mtu=200),
                bytes(100 * packets),
                tick=self.tick,
                data_id=1,
                event=self.tick,
                src=SENDER,
                dst=LB,
                dst_mac=1,
            )
            self._process(self.tick, frames[: len(frames) // 2])
            if late is not None:
                self._process(*late)
            late = (self.tick, frames[len(frames) // 2 :])
        if late is not None:
            self._process(*late)

    def _process(self, tick: int, frames: list[bytes]) -> None:
        for frame in frames:
            out = self.pipeline.process(frame).frame
            if out is None:
                self.lost.append(tick)
            else:
                self.events.setdefault(tick, set()).add(str(ip_address(out[30:34])))

    def shares(self) -> dict[int, int]:
        return self.balancer.slots()

    @property
    def split(self) -> list[int]:
        return [tick for tick, where in self.events.items() if len(where) > 1]


def test_every_worker_gets_events_of_one_slot_in_two_behind_another_load_balancer() -> None:
    bench = Bench()
    bench.register(worker(1), worker(2))
    bench.advance()
    bench.send(100)
    bench.balancer.add_chain("", "1", "", "10.0.9.1", "")
    for _ in range(8):
        bench.advance(1)
        bench.send(100)
    bench.events.clear()
    bench.send(512)
    odd = [where for tick, where in bench.events.items() if tick % 2]
    counts = [odd.count({f"10.0.1.{n}"}) for n in (1, 2)]
    assert sum(counts) == 256
    assert min(counts) > 64
    assert (bench.split, bench.lost) == ([], [])


def test_weights_of_registration_give_shares() -> None:
    bench = Bench()
    bench.register(worker(1), worker(2, weight=2), worker(3))
    bench.advance()
    assert bench.shares() == {1: 128, 2: 256, 3: 128}
    bench.send(512)
    counts = [sum(where == {f"10.0.1.{n}"} for where in bench.events.values()) for n in (1, 2, 3)]
    assert counts == [128, 256, 128]


def test_worker_that_comes_and_goes_moves_shares_and_no_event() -> None:
    bench = Bench()
    first, second = bench.register(worker(1), worker(2))
    bench.advance()
    for _ in range(10):
        bench.send(100)
        bench.report(first, second)
        bench.advance()
    third, *_ = bench.register(worker(3))
    for _ in range(20):
        bench.send(100)
        bench.report(first, second, third)
        bench.advance()
    assert bench.shares()[third.session_id] in (170, 171)
    bench.balancer.deregister(first.session_id)
    for _ in range(30):
        bench.send(100)
        bench.report(second, third)
        bench.advance()
    assert bench.shares() == {2: 256, 3: 256}
    assert (bench.split, bench.lost) == ([], [])
    assert len(bench.pipeline.tables.v23["load_balance_calendar_table"]) == 512
    assert len(bench.pipeline.tables.v23["member_info_lookup_table"]) == 2
    with pytest.raises(ControlError, match="is gone"):
        first.report(bench.now, fill=0, control=0, ready=True, counters=ReceiverCounters())


def test_worker_that_falls_silent_is_drained_and_comes_back() -> None:
    bench = Bench()
    first, second = bench.register(worker(1), worker(2))
    bench.advance()
    for _ in range(25):
        bench.send(20)
        bench.report(first)
        bench.advance()
    assert second.state is SessionState.DRAINING
    assert bench.shares() == {1: 512, 2: 0}
    bench.report(second)
    for _ in range(10):
        bench.send(20)
        bench.report(first, second)
        bench.advance()
    assert bench.shares() == {1: 256, 2: 256}
    assert (bench.split, bench.lost) == ([], [])
    bench.now += 57
    bench.report(first)
    bench.advance(5.0)
    assert 2 not in bench.balancer.sessions or second.state is SessionState.GONE


def test_all_workers_gone_leaves_the_calendar_in_place() -> None:
    bench = Bench()
    (only,) = bench.register(worker(1))
    bench.advance()
    bench.report(only, ready=False)
    bench.advance()
    assert bench.balancer.ready == []
    assert bench.shares() == {1: 512}
    bench.send(5)
    assert bench.lost == []


def test_control_signal_moves_shares_inside_the_factors() -> None:
    bench = Bench()
    first, second = bench.register(
        worker(1, min_factor=0.5, max_factor=1.5), worker(2, min_factor=0.5, max_factor=1.5)
    )
    bench.advance()
    before = bench.shares()[1]
    for _ in range(40):
        bench.send(10)
        bench.report(first, control=-300.0)
        bench.report(second)
        bench.advance()
    assert before == 256
    assert bench.shares() == {1: 128, 2: 384}


def test_fill_level_moves_shares_where_the_policy_says_so() -> None:
    bench = Bench(Policy(lead_s=0.1, quiescence_s=0.2, fill_gain=1000))
    first, second = bench.register(worker(1), worker(2))
    bench.advance()
    for _ in range(20):
        bench.send(10)
        bench.report(first, fill=1.0)
        bench.report(second, fill=0.0)
        bench.advance()
    assert bench.shares()[1] < 100
    assert bench.split == []


def test_static_strategy_ignores_control_signals() -> None:
    bench = Bench()
    bench.balancer.strategy = Strategy.STATIC
    first, second = bench.register(worker(1), worker(2))
    for _ in range(10):
        bench.report(first, second, control=-100)
        bench.advance()
    assert bench.shares() == {1: 256, 2: 256}


def test_no_room_for_another_epoch_waits_and_counts() -> None:
    bench = Bench(Policy(lead_s=0.1, quiescence_s=1e9, idle_s=1e9))
    bench.register(worker(1))
    bench.advance()
    for number in range(2, 8):
        bench.send(10)
        bench.register(worker(number))
        bench.report(*bench.balancer.sessions.values())
        bench.advance()
    assert bench.balancer.refusals > 0
    assert len(bench.balancer.epochs.live) == 4
    assert (bench.split, bench.lost) == ([], [])


def test_ticks_that_go_backwards_are_followed_after_a_while() -> None:
    bench = Bench()
    first, second = bench.register(worker(1), worker(2))
    bench.advance()
    bench.tick = 1_000_000
    for _ in range(10):
        bench.send(20)
        bench.report(first, second)
        bench.advance()
    bench.tick = 0
    for _ in range(40):
        bench.send(20)
        bench.report(first, second)
        bench.advance()
    assert bench.balancer.watch.restarts == 1
    bench.register(worker(3))
    for _ in range(20):
        bench.send(20)
        bench.report(*bench.balancer.sessions.values())
        bench.advance()
    assert bench.shares()[3] in (170, 171)
    assert bench.lost == []


def test_epoch_transition_under_20000_packets_per_second_keeps_every_event_whole() -> None:
    """Two seconds of virtual time at 20,000 packets a second, a new epoch every 0.3 s."""
    bench = Bench(Policy(lead_s=0.05, quiescence_s=0.2, min_change=1))
    sessions = bench.register(worker(1), worker(2), worker(3), worker(4))
    bench.advance()
    packets_before = bench.pipeline.counters.rx_packets
    for step in range(20):  # 0.1 s each: 1000 events of 2 packets
        bench.send(1000)
        if step % 3 == 0:
            bench.report(sessions[step // 3 % 4], control=-400.0)
        bench.report(*[s for s in sessions if s is not sessions[step // 3 % 4]])
        bench.advance(0.1)
    rate = (bench.pipeline.counters.rx_packets - packets_before) / 2.0
    assert rate >= 20_000
    assert bench.balancer.epochs.next_number >= 5
    assert len(bench.events) == 20_000
    assert (bench.split, bench.lost) == ([], [])
    assert bench.pipeline.counters.balance == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"port": 0}, "UDP port 0"),
        ({"port_bits": 15}, "expected an exponent of 0 to 14"),
        ({"port": 65000, "port_bits": 10}, "go beyond 65535"),
        ({"weight": -1.0}, "weight -1.0"),
        ({"weight": float("nan")}, "weight nan"),
        ({"min_factor": 2.0, "max_factor": 1.0}, "below min factor"),
        ({"max_factor": float("inf")}, "max factor inf"),
    ],
)
def test_register_with_bad_values_is_refused_and_changes_nothing(
    values: dict[str, Any], message: str
) -> None:
    bench = Bench()
    with pytest.raises(BadRequestError, match=message):
        bench.register(worker(1, **values))
    assert bench.balancer.sessions == {}


@pytest.mark.parametrize("fill", [-0.1, 1.1, float("nan")])
def test_report_with_bad_fill_is_refused(fill: float) -> None:
    bench = Bench()
    (session,) = bench.register(worker(1))
    with pytest.raises(BadRequestError, match="fill level"):
        bench.report(session, fill=fill)


def test_weight_zero_gets_no_slots_but_may_have_a_minimum() -> None:
    bench = Bench()
    bench.register(worker(1), worker(2, weight=0.0), worker(3, weight=0.0, min_factor=0.5))
    bench.advance()
    assert bench.shares() == {1: 427, 2: 0, 3: 85}


def test_remove_sender_that_is_not_in_is_ignored_and_the_others_go() -> None:
    bench = Bench()
    gone = bench.balancer.remove_senders([SENDER, ip_address("10.9.9.9"), SENDER])
    assert len(gone) == 1
    bench.pipeline.tables.apply(gone)
    bench.send(1)
    assert bench.lost


def test_senders_beyond_the_filter_are_refused() -> None:
    bench = Bench()
    many = [ip_address(0x0B000000 + n) for n in range(256)]
    with pytest.raises(ExhaustedError, match="257 senders; the source filter holds 256"):
        bench.balancer.add_senders(many)


def test_restored_balancer_goes_on_without_moving_an_event() -> None:
    bench = Bench()
    sessions = bench.register(worker(1), worker(2, weight=3))
    bench.advance()
    for _ in range(5):
        bench.send(50)
        bench.report(*sessions)
        bench.advance()
    bench.register(worker(3))
    bench.advance()  # a transition has just begun
    bench.send(20)
    before = bench.balancer
    bench.balancer = restore(parts_of(before), lambda lb_id: TableTarget(lb_id, True), POLICY, bench.now)
    bench.pipeline.tables.apply(bench.balancer.program())
    assert bench.shares() == before.slots()
    for _ in range(20):
        bench.send(50)
        bench.report(*bench.balancer.sessions.values())
        bench.advance()
    bench.balancer.deregister(1)
    for _ in range(20):
        bench.send(50)
        bench.report(*[s for s in bench.balancer.sessions.values() if s.state is SessionState.READY])
        bench.advance()
    assert set(bench.shares()) == {2, 3}
    assert (bench.split, bench.lost) == ([], [])
    assert len(bench.pipeline.tables.v23["load_balance_calendar_table"]) == 512


def test_restore_of_other_data_is_refused() -> None:
    with pytest.raises(BadRequestError, match="stored state"):
        restore({"": {"lb_id": 0}}, TableTarget, POLICY, 0.0)


def test_clear_leaves_nothing_in_the_tables() -> None:
    bench = Bench()
    bench.register(worker(1))
    bench.advance()
    bench.pipeline.tables.apply(bench.balancer.clear())
    left = {table.spec.name for _, table in bench.pipeline.tables if len(table)}
    assert left == {"dst_filter_table", "mac_dst_filter_table", "ip_dst_filter_table"}
    assert all(u.op is not Op.DELETE for u in programming.own_addresses(TableTarget(0), 1, [LB]))
