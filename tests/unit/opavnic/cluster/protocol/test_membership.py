"""Who may be part of a fabric, and what a person reads who may not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.cluster.errors import ClusterInputError, MessageError
from opavnic.cluster.protocol.frames import PROTOCOL
from opavnic.cluster.protocol.membership import (
    RESERVED_S,
    ClusterMembership,
    Hello,
    MachineRole,
    NodeEvent,
    node_name,
)
from opavnic.cluster.protocol.transport import NodeName, Presence

LAB, OTHER_LAB = "aa" * 16, "bb" * 16


def hello(name: str, epoch: int, role: MachineRole = MachineRole.MEMBER, digest: str = "-") -> Hello:
    return Hello(NodeName(name), role, 0x301, epoch, digest)


COORDINATOR = hello("c", 1, MachineRole.COORDINATOR, LAB)


def said(events: list[NodeEvent]) -> list[tuple[str, Presence, str]]:
    return [(event.name, event.state.presence, event.state.reason) for event in events]


def test_hello_reads_back_from_the_key_of_its_token() -> None:
    for one in (COORDINATOR, hello("m-1.rack", (1 << 64) - 1)):
        assert Hello.parse(f"{one.fabric:x}", one.chunks()) == one


@given(st.text(max_size=60), st.text(max_size=8))
def test_any_token_is_a_hello_or_a_message_error(chunks: str, fabric: str) -> None:
    for text in (chunks, f"m/member/1/{chunks}", f"m/member/{chunks}/5/-"):
        try:
            Hello.parse(fabric, text)
        except MessageError:
            continue


def test_nodes_join_and_go_once() -> None:
    fabric = ClusterMembership(hello("m1", 5))
    assert said(fabric.appeared([hello("m2", 6), COORDINATOR])) == [
        ("c", Presence.JOINED, ""),
        ("m2", Presence.JOINED, ""),
    ]
    assert fabric.appeared([COORDINATOR]) == []
    assert fabric.coordinator == COORDINATOR
    assert said(fabric.vanished(COORDINATOR)) == [("c", Presence.GONE, "")]
    assert fabric.vanished(COORDINATOR) == []


def test_second_node_of_a_name_is_refused_by_name_until_the_first_has_gone() -> None:
    fabric = ClusterMembership(COORDINATOR)
    first, second = hello("m1", 9), hello("m1", 2)
    fabric.appeared([first])
    line = "node m1: the fabric has a node of this name already: choose another one with --name"
    assert said(fabric.appeared([second])) == [("m1", Presence.REFUSED, line)]
    assert fabric.refused() == {"m1": line}
    assert said(fabric.vanished(first)) == [("m1", Presence.GONE, ""), ("m1", Presence.JOINED, "")]


def test_second_coordinator_is_refused_with_what_to_do() -> None:
    fabric = ClusterMembership(hello("m1", 5))
    fabric.appeared([COORDINATOR])
    (event,) = fabric.appeared([hello("d", 7, MachineRole.COORDINATOR, LAB)])
    assert event.state.presence is Presence.REFUSED
    assert event.state.reason == (
        "node d: fabric 0x301 has a coordinator already, c: join it with `opavnic node --join`, or give the other lab "
        "another fabric id"
    )


def test_member_that_says_it_is_coordinator_is_refused_where_credentials_name_another() -> None:
    fabric = ClusterMembership(hello("m1", 5), coordinators=[NodeName("c")])
    (event,) = fabric.appeared([hello("m2", 1, MachineRole.COORDINATOR)])
    assert event.state.reason == "node m2 may not be coordinator: the credentials name c"
    assert said(fabric.appeared([COORDINATOR])) == [("c", Presence.JOINED, "")]


def test_node_of_another_version_is_refused_with_both_versions() -> None:
    old = Hello.parse("301", "m9/member/7/whatever/that/means")
    (event,) = ClusterMembership(COORDINATOR).appeared([old])
    assert event.state.reason == (
        f"node m9 uses version 7 of the protocol, this node version {PROTOCOL}: install the same opavnic on both"
    )


def test_node_with_another_lab_file_is_refused_and_one_without_is_not() -> None:
    fabric = ClusterMembership(COORDINATOR)
    events = fabric.appeared([hello("m1", 5, digest=LAB), hello("m2", 6, digest=OTHER_LAB), hello("m3", 7)])
    assert [(name, presence) for name, presence, _ in said(events)] == [
        ("m1", Presence.JOINED),
        ("m2", Presence.REFUSED),
        ("m3", Presence.JOINED),
    ]
    assert fabric.refused()[NodeName("m2")] == (
        "node m2 brings another lab file (bbbbbbbbbbbb) than the coordinator c runs (aaaaaaaaaaaa): bring that one, "
        "or none"
    )


def test_node_that_was_here_before_a_coordinator_with_another_file_goes() -> None:
    fabric = ClusterMembership(hello("m1", 5))
    fabric.appeared([hello("m2", 6, digest=OTHER_LAB)])
    events = said(fabric.appeared([COORDINATOR]))
    assert [(name, presence) for name, presence, _ in events] == [
        ("m2", Presence.GONE),
        ("m2", Presence.REFUSED),
        ("c", Presence.JOINED),
    ]


@pytest.mark.parametrize(
    ("own", "there", "line"),
    [
        (hello("m1", 5), hello("m1", 9), "node m1: the fabric has a node of this name"),
        (
            hello("d", 5, MachineRole.COORDINATOR),
            COORDINATOR,
            "node d: fabric 0x301 has a coordinator already, c",
        ),
        (hello("m1", 5, digest=OTHER_LAB), COORDINATOR, "node m1 brings another lab file"),
    ],
)
def test_node_that_joins_learns_why_it_may_not(own: Hello, there: Hello, line: str) -> None:
    fabric = ClusterMembership(own)
    fabric.appeared([there])
    refusal = fabric.own_refusal()
    assert refusal is not None
    assert refusal.startswith(line)


def test_coordinator_admits_the_first_of_two_that_ask_for_one_name() -> None:
    fabric = ClusterMembership(COORDINATOR)
    first, second = hello("m1", 9), hello("m1", 2)
    assert fabric.admit(first, 0.0) is None
    assert fabric.admit(first, 0.1) is None
    refusal = fabric.admit(second, 1.0)
    assert refusal is not None
    assert "a node of this name already" in refusal
    fabric.appeared([first])
    assert fabric.admit(second, 99.0) == refusal
    fabric.vanished(first)
    assert fabric.admit(second, 99.0) is None


def test_name_of_a_node_that_was_admitted_and_never_came_is_free_again() -> None:
    fabric = ClusterMembership(COORDINATOR)
    fabric.admit(hello("m1", 9), 0.0)
    assert fabric.admit(hello("m1", 2), RESERVED_S) is None


@given(
    st.permutations([COORDINATOR, hello("d", 4, MachineRole.COORDINATOR, LAB), hello("m", 6), hello("m", 5)])
)
def test_all_who_see_the_same_at_once_agree(order: list[Hello]) -> None:
    fabric = ClusterMembership(hello("me", 99))
    fabric.appeared(order)
    assert fabric.nodes() == {"c": COORDINATOR, "m": hello("m", 5)}


def test_names_that_would_break_keys_are_refused_with_what_is_right() -> None:
    for bad in ("", "a/b", "*", "a$b", "x" * 64, "-a", "a ", "ä"):
        with pytest.raises(ClusterInputError, match="letters, digits"):
            node_name(bad)
    assert node_name("rack1-m2.lab_a") == "rack1-m2.lab_a"
    assert replace(COORDINATOR, name=node_name("x")).chunks().startswith(f"x/coordinator/{PROTOCOL}/")
