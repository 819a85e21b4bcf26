"""Which way out leads to an address: learnt last, given by hand, forgotten; never an address of the fabric."""

from __future__ import annotations

from hfi_sim.base.types import MacAddr, parse_mac
from opavnic.lab.hosts.uplinks.learning import Learning

A, B = parse_mac("02:00:00:00:00:0a"), parse_mac("02:00:00:00:00:0b")
OURS = parse_mac("06:20:00:04:00:00")


def learning(limit: int = 8) -> Learning:
    return Learning(on_fabric=lambda mac: mac == OURS, limit=limit)


def test_address_is_reported_once_where_it_was_learnt() -> None:
    table = learning()
    assert table.learnt("left", A) == [("left", A, True)]
    assert table.learnt("left", A) == []
    assert table.behind("left") == [A]


def test_station_that_moves_is_followed_although_the_old_bridge_remembers_it() -> None:
    table = learning()
    table.learnt("left", A)
    assert table.learnt("right", A) == [("left", A, False), ("right", A, True)]
    assert table.forgotten("left", A) == []
    assert (table.behind("left"), table.behind("right"), table.moves) == ([], [A], 1)


def test_address_that_ages_out_where_it_is_now_is_looked_for_where_it_was() -> None:
    table = learning()
    table.learnt("left", A)
    table.learnt("right", A)
    assert table.forgotten("right", A) == [("right", A, False), ("left", A, True)]
    assert table.forgotten("left", A) == [("left", A, False)]
    assert table.forgotten("left", A) == []


def test_address_given_by_hand_does_not_move() -> None:
    table = learning()
    assert table.fix("left", [A]) == [("left", A, True)]
    assert table.learnt("right", A) == []
    assert table.behind("left") == [A]
    assert table.closed("left") == [("left", A, False), ("right", A, True)]


def test_address_of_the_fabric_seen_outside_is_a_loop_and_never_reported() -> None:
    table = learning()
    assert table.learnt("left", OURS) == []
    assert (table.loops, table.behind("left")) == (1, [])


def test_more_addresses_than_there_is_room_for_are_counted() -> None:
    table = learning(limit=2)
    for number in range(4):
        table.learnt("left", MacAddr(bytes([2, 0, 0, 0, 0, number])))
    assert (len(table.behind("left")), table.refused) == (2, 2)
    table.forgotten("left", MacAddr(bytes([2, 0, 0, 0, 0, 0])))
    assert table.learnt("left", B) == [("left", B, True)]


def test_multicast_addresses_are_no_stations() -> None:
    assert learning().learnt("left", parse_mac("33:33:00:00:00:01")) == []


def test_way_that_is_gone_takes_all_behind_it_along() -> None:
    table = learning()
    table.learnt("left", A)
    table.learnt("left", B)
    table.learnt("right", B)
    assert table.closed("left") == [("left", A, False)]
    assert table.behind("right") == [B]
