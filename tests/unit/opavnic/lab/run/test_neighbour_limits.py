"""What a lab says of the neighbour tables of the machine, and how `check` keeps within them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.netdev.neighbours import NeighbourTable
from opavnic.lab.file.loader import parse_lab
from opavnic.lab.hosts.static_neighbours import too_small
from opavnic.lab.run.reach.plan import (
    LEAST_ROOM,
    EchoKind,
    ProbeOutcome,
    VnicPlace,
    plan,
    room_beside_floods,
    room_for,
    tasks,
)

LAB = """
name: many
fabric: {{topology: {{kind: clos, leaves: 9, spines: 1, hosts_per_leaf: 30}}}}
hosts: {hosts}
vesws: [{{id: 2, name: net, subnet: "{subnet}", members: all}}]
"""


def table(version: int, entries: int = 20, hard: int = 1024) -> NeighbourTable:
    return NeighbourTable(version, entries, hard // 2, hard, 0)


def said(hosts: int, subnet: str = "10.0.0.0/16", hard: int = 1024) -> str:
    model = parse_lab(LAB.format(hosts=hosts, subnet=subnet), "lab.yaml")
    return too_small(model, model.hosts.keys(), {version: table(version, hard=hard) for version in (4, 6)})


def test_lab_that_needs_more_neighbours_than_the_machine_holds_names_the_sysctls() -> None:
    assert said(32) == ""
    assert said(33).startswith("33 hosts that all talk to each other need 1056 neighbour entries")
    assert said(64).endswith(
        "sysctl -w net.ipv4.neigh.default.gc_thresh2=4096 net.ipv4.neigh.default.gc_thresh3=8192 "
        "net.ipv6.neigh.default.gc_thresh2=4096 net.ipv6.neigh.default.gc_thresh3=8192"
    )
    assert said(64, hard=8192) == ""
    assert "net.ipv4" not in said(64, "fd00::/64")
    assert "net.ipv6" not in said(257), "without link-local addresses"


def place(number: int, vesw: str = "blue") -> VnicPlace:
    return VnicPlace(
        f"h{number}", vesw, vesw, 2, 1500, IPv4Address(f"10.0.0.{number}"), IPv6Address(f"fe80::{number}")
    )


@given(st.integers(1, 40))
def test_every_pair_is_asked_both_ways_and_counts_each_entry_that_it_makes(count: int) -> None:
    places = [place(number) for number in range(1, count + 1)]
    asked = [(probe.kind, probe.source, probe.target) for probe in plan(places) if probe.wants_answer]
    expected = {
        (kind, a, b)
        for kind in (EchoKind.IPV4, EchoKind.IPV6, EchoKind.MTU)
        for a in places
        for b in places
        if a is not b
    }
    assert len(asked) == len(expected)
    assert set(asked) == expected
    pairs = [task for task in tasks(places) if task.probes[0].wants_answer]
    assert all((task.room, len(task.neighbours)) == (4, 6) for task in pairs)


def test_one_of_the_hosts_can_ask_alone_and_all_are_asked() -> None:
    places = [place(number) for number in (1, 2, 3)]
    asked = [probe for probe in plan(places, asking=["h2"]) if probe.wants_answer]
    assert {(probe.source.host, probe.target and probe.target.host) for probe in asked} == {
        ("h2", "h1"),
        ("h2", "h3"),
    }
    assert {probe.source.host for probe in plan(places, asking=["h2"])} == {"h2"}


@given(st.integers(0, 3000), st.integers(0, 600), st.integers(16, 100_000))
def test_room_leaves_the_others_theirs(entries: int, own: int, hard: int) -> None:
    room = room_for([table(4, entries, hard)], own)
    others = max(entries - own, 0)
    assert room >= LEAST_ROOM
    assert room <= max(LEAST_ROOM, hard // 4)
    assert room == LEAST_ROOM or others + room <= max(hard // 2, others + (hard - others) // 4)


@given(st.integers(1, 5000))
def test_large_virtual_switch_is_asked_in_rows_whose_look_ups_its_hosts_can_take_in(count: int) -> None:
    room = room_beside_floods([place(1)] * count)
    assert room >= LEAST_ROOM
    assert room == LEAST_ROOM or room * count <= 1 << 14


def test_full_table_is_the_reason_instead_of_no_answer() -> None:
    probe = next(probe for probe in plan([place(1), place(2)]) if probe.wants_answer)
    assert ProbeOutcome(probe).verdict() == "no answer"
    assert ProbeOutcome(probe, reason="neighbour table full").verdict() == "neighbour table full"


def test_message_to_all_that_another_virtual_switch_hears_is_a_leak() -> None:
    stranger = place(9, "red")
    probes = [probe for probe in plan([place(1), stranger]) if probe.kind is EchoKind.ISOLATION]
    assert {(str(probe.source), probe.address.version) for probe in probes} == {
        (f"{host}", version) for host in ("h1.blue", "h9.red") for version in (4, 6)
    }
    assert ProbeOutcome(probes[0], heard=(stranger,)).verdict() == "heard by h9.red"
