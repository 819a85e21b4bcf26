"""Who may be part of a fabric, what the coordinator tells the others, and what a person reads who may not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.cluster.errors import ClusterError, ClusterInputError, JoinRefusedError
from opavnic.cluster.protocol.frames import PROTOCOL
from opavnic.cluster.protocol.membership import (
    NO_DIGEST,
    REJOIN_S,
    ClusterMembership,
    NodeEvent,
    NodeName,
    NodeState,
    node_name,
)

LAB, OTHER_LAB = "aa" * 16, "bb" * 16
C, M1, M2 = NodeName("c"), NodeName("m1"), NodeName("m2")


def hello(epoch: int, digest: str = NO_DIGEST, protocol: int = PROTOCOL) -> dict[str, Any]:
    return {"protocol": protocol, "epoch": epoch, "digest": digest}


def joins(fabric: ClusterMembership, name: NodeName, body: dict[str, Any]) -> list[NodeEvent]:
    return list(fabric.enter(name, fabric.admit(name, body)))


def coordinator_linked_to(*sessions: int) -> ClusterMembership:
    fabric = ClusterMembership(C, LAB)
    for session in sessions:
        fabric.linked(session, "a")
    return fabric


def test_node_is_part_of_the_fabric_from_its_admission_until_its_last_link_ends() -> None:
    fabric = coordinator_linked_to(5, 6)
    assert joins(fabric, M1, hello(5)) == [(M1, NodeState(5))]
    assert joins(fabric, M1, hello(5)) == []
    fabric.linked(5, "b")
    assert list(fabric.unlinked(5, "a")) == []
    assert list(fabric.unlinked(6, "a")) == []
    assert fabric.nodes == {M1: NodeState(5)}
    assert list(fabric.unlinked(5, "b")) == [(M1, None)]
    assert list(fabric.unlinked(5, "b")) == []
    assert fabric.nodes == {}


def test_node_whose_link_is_not_known_is_neither_admitted_nor_refused() -> None:
    fabric = coordinator_linked_to()
    with pytest.raises(ClusterError, match="no link of session 5") as error:
        fabric.admit(M1, hello(5))
    assert not isinstance(error.value, JoinRefusedError)
    fabric.linked(5, "a")
    assert joins(fabric, M1, hello(5)) == [(M1, NodeState(5))]


def test_second_node_of_a_name_is_refused_until_the_first_has_left() -> None:
    fabric = coordinator_linked_to(5, 6)
    joins(fabric, M1, hello(5))
    line = r"^node m1: the fabric has a node of this name already: choose another one with --name$"
    with pytest.raises(JoinRefusedError, match=line):
        fabric.admit(M1, hello(6))
    with pytest.raises(JoinRefusedError, match=r"^node c: the fabric has a node of this name"):
        fabric.admit(C, hello(6))
    list(fabric.unlinked(5, "a"))
    assert joins(fabric, M1, hello(6)) == [(M1, NodeState(6))]


def test_node_of_another_version_is_refused_with_both_versions() -> None:
    fabric = coordinator_linked_to(5)
    line = f"^node m1 uses version 3 of the protocol, this node version {PROTOCOL}: install the same opavnic on both$"
    with pytest.raises(JoinRefusedError, match=line):
        fabric.admit(M1, {"protocol": 3, "whatever": "that means"})


def test_node_with_another_lab_file_is_refused_and_one_without_is_not() -> None:
    fabric = coordinator_linked_to(5, 6)
    with pytest.raises(
        JoinRefusedError, match=r"^node m1 brings another lab file \(bbbbbbbbbbbb\) than the coordi"
    ):
        fabric.admit(M1, hello(5, OTHER_LAB))
    assert joins(fabric, M1, hello(5, LAB)) == [(M1, NodeState(5))]
    assert joins(fabric, M2, hello(6)) == [(M2, NodeState(6))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["protocol", "epoch", "digest"]), JSON))
def test_any_request_to_join_is_an_admission_or_an_error(body: dict[str, Any]) -> None:
    fabric = coordinator_linked_to(5)
    try:
        assert joins(fabric, M1, body) == [(M1, NodeState(5))]
    except ClusterError:
        assert fabric.nodes == {}


@given(st.text(max_size=4), st.dictionaries(st.text(max_size=4), JSON))
def test_whatever_a_coordinator_tells_is_heard_or_an_error(name: str, machines: dict[str, Any]) -> None:
    try:
        list(ClusterMembership(M1).hear(name, machines, 0.0))
    except (ClusterError, ClusterInputError):
        return
    assert all(type(epoch) in (int, bool) for epoch in machines.values())


def heard(fabric: ClusterMembership, now: float = 0.0, **machines: int) -> list[tuple[str, NodeState | None]]:
    return [(str(name), state) for name, state in fabric.hear("c", machines, now)]


def test_member_knows_of_the_others_what_the_coordinator_tells() -> None:
    coordinator, member = coordinator_linked_to(5, 6), ClusterMembership(M1)
    joins(coordinator, M1, hello(5))
    joins(coordinator, M2, hello(6))
    assert heard(member, **coordinator.told(1)) == [("c", NodeState(1, True)), ("m2", NodeState(6))]
    assert heard(member, **coordinator.told(1)) == []
    list(coordinator.unlinked(6, "a"))
    assert coordinator.told(1) == {"c": 1, "m1": 5}
    assert heard(member, **coordinator.told(1)) == [("m2", None)]
    coordinator.linked(7, "a")
    joins(coordinator, M2, hello(7))
    assert heard(member, **coordinator.told(1)) == [("m2", NodeState(7))]


def test_process_that_took_the_place_of_another_one_is_told_as_that() -> None:
    member = ClusterMembership(M1)
    heard(member, c=1, m2=6)
    assert heard(member, c=1, m2=7) == [("m2", None), ("m2", NodeState(7))]


def test_names_that_join_and_leave_leave_nothing_behind() -> None:
    coordinator, member = coordinator_linked_to(5), ClusterMembership(M1)
    joins(coordinator, M1, hello(5))
    told = coordinator.told(1)
    heard(member, **told)
    for number in range(10_000):
        name, session = node_name(f"x{number}"), 1000 + number
        coordinator.linked(session, "a")
        joins(coordinator, name, hello(session))
        heard(member, **coordinator.told(1))
        assert member.nodes.keys() == {C, name}
        list(coordinator.unlinked(session, "a"))
        assert coordinator.told(1) == told, "so is each reply to a request to join"
        assert heard(member, **told) == [(name, None)]


def test_session_is_one_machine_whatever_names_it_asks_for() -> None:
    fabric = coordinator_linked_to(5)
    joins(fabric, M1, hello(5))
    with pytest.raises(JoinRefusedError, match=r"^node m2: its process is node m1 of the fabric already$"):
        fabric.admit(M2, hello(5))
    list(fabric.unlinked(5, "a"))
    assert fabric.nodes == {}


def test_coordinator_that_is_started_again_takes_nobody_away_whom_it_has_not_seen_yet() -> None:
    member = ClusterMembership(M1)
    member.linked(1, "a")
    heard(member, c=1, m2=6, m3=7)
    assert list(member.unlinked(1, "a")) == [(C, None)]
    assert member.nodes.keys() == {"m2", "m3"}, "they reach each other"
    assert heard(member, 100.0, c=2, m1=5) == [("c", NodeState(2, True))]
    assert member.nodes.keys() == {"m2", "m3", "c"}
    assert heard(member, 101.0, c=2, m1=5, m3=7) == [], "it is there still"
    assert heard(member, 102.0, c=2, m1=5) == [("m3", None)], "the new process knew it"
    assert heard(member, 99.0 + REJOIN_S, c=2, m1=5) == []
    assert heard(member, 100.0 + REJOIN_S, c=2, m1=5) == [("m2", None)], "it did not come back"


def test_who_left_while_the_coordinator_was_not_reached_is_gone() -> None:
    member = ClusterMembership(M1)
    member.linked(1, "a")
    heard(member, c=1, m2=6)
    assert list(member.unlinked(1, "a")) == [(C, None)]
    assert heard(member, c=1, m1=5) == [("m2", None), ("c", NodeState(1, True))]


def test_names_that_would_break_keys_are_refused_with_what_is_right() -> None:
    for bad in ("", "a/b", "*", "a$b", "x" * 64, "-", "-a", "a ", "ä"):
        with pytest.raises(ClusterInputError, match="letters, digits"):
            node_name(bad)
    assert node_name("rack1-m2.lab_a") == "rack1-m2.lab_a"
