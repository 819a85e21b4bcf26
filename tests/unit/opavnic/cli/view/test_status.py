"""What `opavnic status` lists and what it sums up: all of a small lab, what is wrong of a large one."""

from __future__ import annotations

from typing import Any

from lab_states import host_state, lab_state, link_state, vnic_state

from opavnic.cli.base.output import Sheet
from opavnic.cli.view.status import status_items
from opavnic.state.lab import LabState


def lab(size: int, changed: dict[str, Any] | None = None, **changes: Any) -> LabState:
    """Return the state of a lab of `size` hosts with a VNIC, a link and a drop of 1 packet each.

    Args:  changed: what differs of VNICs and links, by host.
    """
    names = [f"h{number}" for number in range(1, size + 1)]
    changed = changed or {}
    hosts = [
        host_state(name, vnic_state(state=changed.get(f"{name} vnic", "up"), lid=lid), lid=lid)
        for lid, name in enumerate(names, 2)
    ]
    links = [link_state(name, packets_forth=2, packets_back=1, **changed.get(name, {})) for name in names]
    drops = {name: {"tx_dropped": 1} for name in names}
    return lab_state(**{"hosts": hosts, "links": links, "drops": drops} | changes)


def text(data: LabState, *, whole: bool = False) -> list[str]:
    lines = []
    for item in status_items(data, whole=whole):
        if isinstance(item, Sheet):
            lines += [" ".join(map(str, row)) for row in (item.columns, *item.rows)]
        else:
            lines.append(item)
    return lines


def test_small_lab_is_listed_whole() -> None:
    data = lab(8)
    assert text(data) == text(data, whole=True)
    assert text(data).count("h8 up 2 1 0") == 1
    assert not [line for line in text(data) if "--all" in line]


def test_large_lab_fits_a_terminal_and_names_what_is_wrong() -> None:
    drops = {f"h{number}": {"tx_dropped": 1} for number in range(1, 41)} | {"h4": {"packet_drop": 5}}
    lines = text(lab(40, {"h7 vnic": "down", "h3": {"state": "down"}, "h4": {"drops": 5}}, drops=drops))
    assert len(lines) <= 24
    assert lines[3:] == [
        "h7 0x8 blue   1500 down",
        "39 VNICs up; see: opavnic status --all",
        "link state packets -> packets <- drops",
        "h3 down 2 1 0",
        "h4 up 2 1 5",
        "38 links up without drops, 114 packets; see: opavnic status --all",
        "dropped at reason packets",
        "h1 and 38 more tx_dropped 39",
        "h4 packet_drop 5",
        "at 40 places in all; see: opavnic status --all",
        "what that means: opavnic explain tx_dropped",
    ]


def test_all_lists_every_vnic_link_and_drop() -> None:
    lines = text(lab(40), whole=True)
    assert "h40 0x29 blue   1500 up" in lines
    assert "h40 up 2 1 0" in lines
    assert "h40 tx_dropped 1" in lines
    assert not [line for line in lines if "--all" in line]


def test_what_a_part_has_nothing_to_say_of_is_left_out() -> None:
    data = lab(1, parts={"uplinks": {"wan": {"state": "no default route", "out": ""}}})
    assert text(data)[-1] == "uplinks wan state no default route"


def test_lab_that_has_ended_says_why_and_how_to_remove_it() -> None:
    lines = text(lab(2, failure="the native datapath broke: a bug"))
    assert lines[1:3] == [
        "it has ended: the native datapath broke: a bug",
        "it carries nothing any more; hosts and their programs stay until: opavnic down",
    ]


def test_vnics_of_two_rails_in_one_virtual_switch_have_their_own_lid_and_counters() -> None:
    rails = [vnic_state(), vnic_state(port="h1.2:1", lid=3, interface="blue-2")]
    counters = {f"h1/{name} ethtool": {"tx_packets": count} for name, count in (("blue", 1), ("blue-2", 2))}
    data = lab(1, hosts=[host_state("h1", *rails)], counters=counters)
    assert [data.ethtool_of(host, vnic) for host, vnic in data.vnics()] == [
        {"tx_packets": 1},
        {"tx_packets": 2},
    ]
    assert text(data)[2:5] == [
        "host LID vesw interface address MAC MTU state",
        "h1 0x2 blue blue   1500 up",
        "h1 0x3 blue blue-2   1500 up",
    ]
