"""Which member has a contested address, and how an address that moves too often is held."""

from __future__ import annotations

import pytest

from hfi_sim.base.types import MacAddr
from vema.em.desired.mac_tables import MemberAddress, VeswTable
from vema.em.desired.movement import (
    ABSENT,
    ASSIGNED,
    EARLIER,
    HOLD_S,
    MOVES,
    WINDOW_S,
    AddressClaim,
    Movement,
)

MAC = MacAddr(bytes.fromhex("00005e000107"))
OTHER = MacAddr(bytes.fromhex("02420a090201"))


def owner_of(table: VeswTable, now: float, **since: float) -> int:
    """Return who has MAC after members `m1`, `m2`, ... have reported it at these times."""
    members = {int(name[1:]): [MemberAddress(MAC, int(name[1:]), at)] for name, at in since.items()}
    table.update(members, now)
    return table.owner_of(MAC)


def flapped(pause_s: float = 0.1) -> tuple[VeswTable, float]:
    """Return a table whose address has moved `MOVES` times between 1 and 2, and the time."""
    table, now = VeswTable(), 100.0
    since = {"m1": now, "m2": EARLIER}
    assert owner_of(table, now, **since) == 1
    for move in range(MOVES):
        now += pause_s
        claimant = 2 - move % 2
        since[f"m{claimant}"] = now
        assert owner_of(table, now, **since) == claimant
    return table, now


@pytest.mark.parametrize(
    ("claims", "holder", "wins"),
    [
        ({1: 5.0, 2: 6.0}, 1, 2),
        ({1: 6.0, 2: 5.0}, 1, 1),
        ({1: 5.0, 2: 5.0}, 2, 2),
        ({1: EARLIER, 2: EARLIER}, 2, 2),
        ({1: EARLIER, 2: EARLIER}, 0, 1),
        ({1: ABSENT, 2: EARLIER}, 1, 2),
        ({1: ABSENT, 2: ABSENT}, 2, 1),
        ({1: ASSIGNED, 2: 7.0}, 2, 1),
        ({1: 1.0, 2: 3.0, 3: 2.0}, 1, 2),
    ],
)
def test_last_claim_wins(claims: dict[int, float], holder: int, wins: int) -> None:
    several = [AddressClaim(owner, owner, since) for owner, since in claims.items()]
    assert Movement().choose(MAC, several, holder, 10.0).owner == wins


def test_member_that_lost_an_address_and_comes_back_does_not_get_it_without_a_new_report() -> None:
    table = VeswTable()
    assert owner_of(table, 20.0, m1=20.0, m2=10.0) == 1
    assert owner_of(table, 30.0, m1=ABSENT, m2=10.0) == 2
    assert owner_of(table, 40.0, m1=20.0, m2=10.0) == 2
    assert owner_of(table, 50.0, m1=50.0, m2=10.0) == 1


def test_address_that_moves_too_often_is_held_and_then_goes_to_the_last_claim() -> None:
    table, now = flapped()
    holder = table.owner_of(MAC)
    other = 3 - holder
    claim = {f"m{holder}": now, f"m{other}": now + 0.1}
    assert owner_of(table, now + 0.1, **claim) == holder
    assert table.movement.held == [MAC]
    release = table.movement.release_at
    assert release == now + 0.1 + HOLD_S
    assert owner_of(table, release - 0.1, **claim) == holder
    assert owner_of(table, release, **claim) == other
    assert (table.movement.held, table.movement.release_at) == ([], None)
    assert table.movement.total == MOVES + 1


def test_address_that_moves_slowly_is_never_held() -> None:
    table, now = flapped(pause_s=WINDOW_S / MOVES)
    other = 3 - table.owner_of(MAC)
    later = now + WINDOW_S / MOVES
    assert owner_of(table, later, **{"m1": now, "m2": now} | {f"m{other}": later}) == other
    assert table.movement.held == []


def test_held_address_leaves_a_member_that_does_not_report_it_any_more() -> None:
    table, now = flapped()
    holder = table.owner_of(MAC)
    other = 3 - holder
    owner_of(table, now + 0.1, **{f"m{holder}": now, f"m{other}": now + 0.1})
    assert owner_of(table, now + 0.2, **{f"m{other}": now + 0.1}) == other


def test_flaps_of_one_address_do_not_hold_another() -> None:
    table, now = flapped()
    table.update({1: [MemberAddress(OTHER, 1, now)], 2: [MemberAddress(MAC, 2, now)]}, now)
    table.update({1: [MemberAddress(OTHER, 1, now)], 2: [MemberAddress(OTHER, 2, now + 0.1)]}, now + 0.1)
    assert table.owner_of(OTHER) == 2


def test_address_that_nobody_reports_is_forgotten_with_its_moves() -> None:
    table, now = flapped()
    table.update({}, now + 0.1)
    assert owner_of(table, now + 0.2, m1=now + 0.2) == 1
    assert owner_of(table, now + 0.3, m1=now + 0.2, m2=now + 0.3) == 2
