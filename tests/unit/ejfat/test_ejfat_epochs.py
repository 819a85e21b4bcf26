from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ejfat.base.errors import ControlError, ExhaustedError
from ejfat.control.balancer import ReservedInstance
from ejfat.control.epochs.calendar import TICKS
from ejfat.control.epochs.epochs import MAX_LIVE, EpochManager
from ejfat.control.epochs.programming import TableTarget
from ejfat.control.epochs.ticks import TickSample
from ejfat.control.members import Worker
from ejfat.tables.schema import Dialect, Op, TableSet, Update
from unit.ejfat.due_work import advance
from unit.ejfat.pipelines import entries


class DataPlane:
    """Tables as the pipeline has them; refuses what the rules of epochs forbid."""

    def __init__(self) -> None:
        self.tables = TableSet()

    def epoch(self, tick: int, dialect: Dialect = Dialect.V23) -> int | None:
        table = self.tables.of(dialect)["epoch_assign_table"]
        entry = table.lookup(0, tick) if dialect is Dialect.V23 else table.lookup(tick)
        return entry.args[0] if entry else None

    def member(self, tick: int) -> int | None:
        epoch = self.epoch(tick)
        entry = (
            self.tables.v23["load_balance_calendar_table"].lookup(0, epoch, tick & 511)
            if epoch is not None
            else None
        )
        return entry.args[0] if entry else None

    def apply(self, updates: Iterable[Update]) -> None:
        """Apply one by one, as a remote data plane does; no connected calendar may change on the way."""
        for update in updates:
            if update.table == "load_balance_calendar_table" and update.dialect is Dialect.V23:
                epoch = update.matches[1].value
                connected = {entry.args[0] for entry in self.tables.v23["epoch_assign_table"]}
                assert epoch not in connected, f"epoch {epoch} is connected and was changed"
            self.tables.apply([update])


def calendar(member: int) -> list[int]:
    return [member + slot % 3 for slot in range(512)]


@pytest.fixture
def plane() -> DataPlane:
    return DataPlane()


@pytest.fixture
def manager() -> EpochManager:
    return EpochManager(TableTarget(0, with_v1=True))


def transition(manager: EpochManager, members: Sequence[int], boundary: int) -> list[Update]:
    """Return the updates that make a new epoch begin at a tick."""
    updates = manager.prepare(members)
    try:
        return updates + manager.connect(boundary)
    except ControlError:
        manager.discard()
        raise


def test_begin_sends_all_ticks_to_a_full_calendar(plane: DataPlane, manager: EpochManager) -> None:
    plane.apply(manager.begin(calendar(10)))
    assert {plane.member(tick) for tick in range(512)} == {10, 11, 12}
    assert plane.epoch(TICKS - 1) == 0 == plane.epoch(TICKS - 1, Dialect.V1)


def test_transition_moves_ticks_at_the_boundary_and_no_other(plane: DataPlane, manager: EpochManager) -> None:
    plane.apply(manager.begin(calendar(10)))
    before = [plane.member(tick) for tick in range(1000)]
    plane.apply(transition(manager, calendar(20), 1000))
    assert [plane.member(tick) for tick in range(1000)] == before
    assert plane.member(1000) in (20, 21, 22)
    for dialect in Dialect:
        assert (plane.epoch(999, dialect), plane.epoch(1000, dialect)) == (0, 1)


@settings(max_examples=30)
@given(
    steps=st.lists(st.integers(1, 1 << 40), min_size=1, max_size=6),
    probes=st.lists(st.integers(0, 1), max_size=9),
)
def test_transition_applied_one_update_at_a_time_never_moves_a_tick_before_the_boundary(
    steps: list[int], probes: list[int]
) -> None:
    plane, manager = DataPlane(), EpochManager(TableTarget(0))
    plane.apply(manager.begin(calendar(0)))
    boundary = 0
    for number, step in enumerate(steps):
        start, boundary = boundary, boundary + step
        watched = sorted({start, boundary - 1, (start + boundary) // 2})
        before = {tick: plane.member(tick) for tick in watched}
        for update in transition(manager, calendar(10 * number), boundary):
            plane.apply([update])
            assert {tick: plane.member(tick) for tick in watched} == before
        assert plane.epoch(boundary) == number + 1
        manager.observe(boundary, now=number)
        plane.apply(manager.retire(number + 1, 1.0))
    assert len(plane.tables.v23["load_balance_calendar_table"]) == 512
    assert len(plane.tables.v23["epoch_assign_table"]) == 1


def test_retire_waits_until_the_boundary_is_passed_and_events_ran_out(
    plane: DataPlane, manager: EpochManager
) -> None:
    plane.apply(manager.begin(calendar(0)))
    plane.apply(transition(manager, calendar(10), 1000))
    assert manager.retire(100.0, 2.0) == []
    manager.observe(999, 100.0)
    assert manager.retire(200.0, 2.0) == []
    manager.observe(1000, 200.0)
    assert manager.retire(201.9, 2.0) == []
    assert manager.members_in_use == {0, 1, 2, 10, 11, 12}
    plane.apply(manager.retire(202.0, 2.0))
    assert manager.members_in_use == {10, 11, 12}
    assert plane.epoch(5) == 1


def test_retire_when_nothing_is_sent_any_more_does_not_wait(plane: DataPlane, manager: EpochManager) -> None:
    plane.apply(manager.begin(calendar(0)))
    plane.apply(transition(manager, calendar(10), 1000))
    plane.apply(manager.retire(0.0, 2.0, idle=True))
    assert [epoch.number for epoch in manager.live] == [1]


def test_transition_without_room_for_a_calendar_is_refused_and_changes_nothing(manager: EpochManager) -> None:
    manager.begin(calendar(0))
    for number in range(1, MAX_LIVE):
        transition(manager, calendar(0), number * 512)
    assert not manager.can_transition
    with pytest.raises(ExhaustedError, match="4 epochs are connected"):
        transition(manager, calendar(0), 1 << 30)
    assert manager.current is not None
    assert manager.current.number == MAX_LIVE - 1


def test_transition_without_room_for_the_cover_is_refused_and_changes_nothing(manager: EpochManager) -> None:
    manager.begin(calendar(0))
    transition(manager, calendar(0), 1)
    transition(manager, calendar(0), (1 << 63) + 1)
    with pytest.raises(ExhaustedError, match="prefixes"):
        transition(manager, calendar(0), TICKS - 1)
    assert manager.current is not None
    assert manager.current.start == (1 << 63) + 1


@pytest.mark.parametrize("boundary", [50, 100, TICKS])
def test_transition_to_a_boundary_that_is_not_ahead_is_refused(manager: EpochManager, boundary: int) -> None:
    manager.begin(calendar(0))
    transition(manager, calendar(0), 100)
    with pytest.raises(ControlError, match="boundary"):
        transition(manager, calendar(0), boundary)


def test_transition_after_ticks_went_backwards_covers_from_zero(
    plane: DataPlane, manager: EpochManager
) -> None:
    plane.apply(manager.begin(calendar(0)))
    plane.apply(transition(manager, calendar(10), 1000))
    manager.observe(1000, 0.0)
    plane.apply(manager.retire(9.0, 2.0))
    plane.apply(transition(manager, calendar(20), 50))
    assert [plane.epoch(tick) for tick in (0, 49, 50)] == [1, 1, 2]


@settings(max_examples=10)
@given(
    start=st.integers(0, 1 << 62),
    boundary=st.integers(1, TICKS - 1),
    probes=st.lists(st.integers(0, TICKS - 1)),
)
def test_withdraw_applied_one_update_at_a_time_moves_no_tick_below_the_boundary(
    start: int, boundary: int, probes: list[int]
) -> None:
    plane, manager = DataPlane(), EpochManager(TableTarget(0, with_v1=True))
    plane.apply(manager.begin(calendar(0)))
    if start:
        plane.apply(transition(manager, calendar(10), start))
        manager.observe(start, 0.0)
        plane.apply(manager.retire(9.0, 2.0))
    boundary = max(boundary, start + 1)
    plane.apply(transition(manager, calendar(20), boundary))
    watched = [tick for tick in (start, boundary - 1, *probes) if start <= tick < boundary]
    before = [plane.member(tick) for tick in watched]
    for update in manager.withdraw():
        plane.apply([update])
        if update.table == "epoch_assign_table":
            assert [plane.member(tick) for tick in watched] == before
    assert [plane.member(tick) for tick in watched] == before
    assert manager.live == [manager.current]
    assert plane.epoch(boundary) == plane.epoch(start)
    assert len(plane.tables.v23["load_balance_calendar_table"]) == 512
    assert len(plane.tables.v1["epoch_assign_table"]) == 1
    plane.apply(transition(manager, calendar(30), start + 5))
    assert plane.epoch(start + 5) != plane.epoch(start + 4)


def test_withdraw_of_the_first_epoch_is_refused(manager: EpochManager) -> None:
    manager.begin(calendar(0))
    with pytest.raises(ControlError, match="no epoch to go back to"):
        manager.withdraw()


def test_boundary_that_no_tick_will_reach_is_moved_when_newer_syncs_say_so() -> None:
    tables, balancer, now = TableSet(), ReservedInstance(TableTarget(0), "run"), 100.0
    sender = ip_address("10.0.0.2")
    balancer.add_senders([sender])

    def register(number: int) -> None:
        worker = Worker(f"w{number}", ip_address(f"10.0.1.{number}"), 5000, mac=number)
        tables.apply(balancer.register(worker, now)[1])

    def sync(source: int, tick: int) -> None:
        assert balancer.sync(sender, source, TickSample(tick, now, 1000.0)) is None

    register(1)
    tables.apply(advance(balancer, now))
    sync(1, TICKS - 1)  # at first contact there is nothing to hold it against
    register(2)
    tables.apply(advance(balancer, now))
    assert balancer.epochs.current is not None
    assert balancer.epochs.current.start == TICKS - 1
    for step in range(1, 4):
        now = 100.0 + step / 2
        balancer.observe(1_000_000 + 500 * step, step, now)
        sync(1, 1_000_000 + 500 * step)  # the same sender, in its right mind
        tables.apply(advance(balancer, now))
    assert balancer.takebacks == 1
    assert 1_001_000 < balancer.epochs.current.start < 1_003_000
    assert len(balancer.epochs.current.members) == 512
    assert set(balancer.slots().values()) == {256}


def test_calendar_with_an_empty_slot_is_refused(manager: EpochManager) -> None:
    with pytest.raises(ControlError, match="511 slots, expected 512"):
        manager.begin(calendar(0)[:511])
    manager.begin(calendar(0))
    with pytest.raises(ControlError, match="already has epoch 0"):
        manager.begin(calendar(0))
    with pytest.raises(ControlError, match="no epoch to follow"):
        EpochManager(TableTarget(1)).prepare(calendar(0))


def test_program_after_loss_of_the_tables_restores_them(plane: DataPlane, manager: EpochManager) -> None:
    plane.apply(manager.begin(calendar(0)))
    plane.apply(transition(manager, calendar(10), 1000))
    again = DataPlane()
    again.apply(manager.program())
    assert [again.member(tick) for tick in range(2000)] == [plane.member(tick) for tick in range(2000)]


def test_clear_leaves_nothing(plane: DataPlane, manager: EpochManager) -> None:
    plane.apply(manager.begin(calendar(0)))
    plane.apply(transition(manager, calendar(10), 1000))
    plane.apply(manager.clear())
    assert entries(plane.tables, Dialect.V23) == 0
    assert entries(plane.tables, Dialect.V1) == 0
    assert all(update.op is not Op.DELETE for update in manager.begin(calendar(0)))
