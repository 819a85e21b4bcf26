"""EM files: what is right is read, what is wrong is listed, all of it at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState
from vema.em.desired.desired import EmConfig, EmConfigError, parse_config
from vema.em.desired.plan import plan_vesws, port_info
from vema.em.desired.ports import PartitionLane, PortFacts, Roster, checked, contradictions, fabric_problems
from vema.em.desired.problems import Problem, path_text


def facts(n: int, *pkeys: int) -> PortFacts:
    return PortFacts(0x100 + n, n, f"h{n}:1", f"h{n}", f"h{n}", 1, frozenset(pkeys or (0x8002,)))


def problems(data: Any) -> list[str]:
    with pytest.raises(EmConfigError) as caught:
        parse_config(data)
    return [str(problem) for problem in caught.value.problems]


def test_nothing_is_wanted_only_where_a_file_says_so() -> None:
    assert parse_config({"vesws": []}).vesws == parse_config({"vesws": None}).vesws == []
    assert problems(None) == ["it is empty; an EM file is a mapping with keys such as fabric, mac and vesws"]
    missing = "vesws is missing: list all virtual switches; vesws: [] deletes all"
    assert problems({}) == problems({"mac": "learn"}) == [missing]


def test_whole_file_is_read() -> None:
    config = parse_config(
        {
            "fabric": {"id": 0x301, "mtu": 9000},
            "mac": "learn",
            "trap": {"sl": 3},
            "polling": {"interval": "10s", "counters": "1m"},
            "limits": {"in_flight": 32, "per_port": 2},
            "election": {"priority": 7, "heartbeat": "500ms", "dead_after": "5s"},
            "vesws": [
                {
                    "id": 2,
                    "name": "blue",
                    "pkey": 0x8002,
                    "mtu": 9000,
                    "members": ["h1", "h2:1"],
                    "default_ports": ["h1"],
                    "multicast_lid": 0xF00100,
                    "rc": {"ipv4_tcp": 3},
                    "qos": {
                        "unicast": {"untagged": {"sc": 1, "vl": 1}, "pcp_to_sc": [0, 0, 1, 1, 2, 2, 3, 3]}
                    },
                }
            ],
        }
    )
    assert config.polling.counters == 60
    assert config.vesws[0].mlid == 0xF00100
    assert parse_config(config.model_dump()) == config


def test_automatic_group_follows_from_the_id() -> None:
    assert parse_config({"vesws": [{"id": 5, "name": "v"}]}).vesws[0].mlid == 0xF00005


def test_every_mistake_is_listed_at_once() -> None:
    listed = problems(
        {
            "fabric": {"mtu": 1500},
            "vesw": [],
            "vesws": [
                {"id": 0, "name": "a"},
                {"id": 4096, "name": "b", "mtu": 9000},
                {"id": 7, "name": "c", "pkey": 0x0002, "members": ["h1", "h1"]},
                {"id": 7, "name": "c", "default_ports": ["h9"], "members": ["h1"], "multicast_lid": 5},
                {"id": 9, "name": "e", "multicast_lid": 0xF01005},
                {"id": 10, "name": "f", "multicast_lid": 0xFFFF00},
                {"id": 11, "name": "g", "multicast_lid": 0xF00009},
                {"id": 12, "name": "h", "multicast_lid": 0xF00008},
                {"id": 8, "name": "d", "rc": {"ipv4": 8}, "qos": {"unicast": {"pcp_to_sc": [1]}}},
            ],
        }
    )
    for expected in (
        'unknown key "vesw" (known: fabric, mac,',
        "vesws[0].id: should be greater than or equal to 1, not 0",
        "vesws[1].id: should be less than or equal to 4095, not 4096",
        "vesws[1].mtu: 9000 is above the fabric's 1500",
        "vesws[2].pkey: pkey 0x0002 is a limited membership",
        'vesws[2].members[1]: "h1" appears twice',
        'vesws[3].id: id 7 is already that of "c"',
        'vesws[3].default_ports[0]: "h9" is not a member (known: h1; nearest: h1)',
        "vesws[3].multicast_lid: 0x5 is not a multicast LID",
        "vesws[4].multicast_lid: 0xf01005 is one that subnet administration gives to groups of programs",
        "vesws[5].multicast_lid: 0xffff00 is the group by which Ethernet Managers elect their master",
        'vesws[7].multicast_lid: 0xf00008 is that of "d", by its id',
        "vesws[8].rc.ipv4: should be less than or equal to 7, not 8",
        "vesws[8].qos.unicast.pcp_to_sc: 1 values; a service channel is given for each of 8 priorities",
    ):
        assert any(expected in line for line in listed), f"{expected!r} not in {listed}"


@pytest.mark.parametrize(
    "data", [[], "text", 5, {"vesws": 5}, {"vesws": [None]}, {"election": {"dead_after": "1s"}}]
)
def test_nonsense_is_refused_with_a_reason(data: Any) -> None:
    assert problems(data)


def test_fabric_problems_are_listed_at_once() -> None:
    config = parse_config(
        {
            "mac": "learn",
            "vesws": [
                {"id": 2, "name": "blue", "pkey": 0x8002, "members": ["h1", "h2", "h7"]},
                {"id": 3, "name": "big", "pkey": 0xFFFF, "members": "all", "default_ports": ["gw"]},
            ],
        }
    )
    roster = Roster([facts(1), facts(2, 0x8003), *(facts(n, 0xFFFF) for n in range(10, 2100))])
    listed = [str(problem) for problem in fabric_problems(config, roster)]
    assert any('vesws[0].members[2]: unknown member "h7"' in line for line in listed)
    assert any("vesws[0].pkey: pkey 0x8002 is not in the table of h2:1 (0x8003)" in line for line in listed)
    assert any(
        "vesws[1].members: 2092 members with policy learn need 2091 MAC table entries" in x for x in listed
    )
    assert any('vesws[1].default_ports[0]: unknown member "gw"' in line for line in listed)


GIVEN = PortFacts(1, 2, "h1:1", "h1", "h1", 1, frozenset({0x7FFF, 0x8002}))


@pytest.mark.parametrize(
    ("port", "found"),
    [
        (replace(GIVEN, pkeys=None), None),
        (replace(GIVEN, lanes=(PartitionLane(0x8002, 3, 1, 1, 10240),)), None),
        (replace(GIVEN, lanes=(PartitionLane(0x0002, 3, 1, 1, 10240),)), None),
        (replace(GIVEN, pkeys=frozenset({0x7FFF})), "pkey: pkey 0x8002 is not in the table of h1:1 (0x7fff)"),
        (replace(GIVEN, lanes=()), "pkey: no virtual fabric of the fabric manager gives pkey 0x8002 an SL"),
        (
            replace(GIVEN, lanes=(PartitionLane(0x8002, 3, 15, 15, 0),)),
            "pkey: SL 3 of pkey 0x8002 has no SC at h1:1: its virtual fabric is not there",
        ),
        (
            replace(GIVEN, lanes=(PartitionLane(0x8002, 3, 1, 1, 2048),)),
            "mtu: 9000 is above the 2048 that VL 1 of h1:1 carries (pkey 0x8002)",
        ),
    ],
)
def test_what_a_fabric_manager_gives_is_held_against_the_file_and_not_refused(
    port: PortFacts, found: str | None
) -> None:
    config = parse_config({"vesws": [{"id": 2, "name": "blue", "pkey": 0x8002, "mtu": 9000}]})
    roster = Roster([port], given=True)
    assert fabric_problems(config, roster) == []
    expected = [] if found is None else [f"vesws[0].{found}"]
    assert [str(problem) for problem in contradictions(config, roster)] == expected


def test_lane_of_the_partition_fills_what_the_file_leaves_open() -> None:
    port = replace(GIVEN, lanes=(PartitionLane(0x8002, 3, 4, 2, 10240),))
    vesw = {"id": 2, "name": "blue", "pkey": 0x8002}
    for extra, channel in (({}, 4), ({"qos": {"unicast": {"untagged": {"sc": 7}}}}, 7)):
        config = parse_config({"vesws": [{**vesw, **extra}]})
        (plan,) = plan_vesws(config, Roster([port]), {2: 0xF00005}).values()
        info = port_info(plan, port, VeswPortInfo.power_on())
        assert (info.non_vlan_sc_uc, info.u_mcast_dlid) == (channel, 0xF00005)
        assert info.config_state == ConfigState.FORWARDING


def test_virtual_switch_without_its_group_yet_is_held_down() -> None:
    config = parse_config({"vesws": [{"id": 2, "name": "blue", "pkey": 0x8002}]})
    (plan,) = plan_vesws(config, Roster([GIVEN]), {}).values()
    assert port_info(plan, GIVEN, VeswPortInfo.power_on()).config_state == ConfigState.DROP_ALL


def test_too_many_virtual_switches_on_a_port_are_refused() -> None:
    config = parse_config({"vesws": [{"id": n, "name": f"v{n}", "pkey": 0x8002} for n in range(1, 257)]})
    assert "h1:1 would be in 256 virtual switches" in str(fabric_problems(config, Roster([facts(1)]))[0])


@pytest.mark.parametrize("name", ["h1", "h1:1", "0x101", "0x0000000000000101"])
def test_member_is_found_by_each_of_its_names(name: str) -> None:
    found = Roster([facts(1), facts(2)]).find(name)
    assert found is not None
    assert found.lid == 1


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ({"vesws": [{"id": 7, "name": "a", "pkey": 0x8002, "members": ["h1"]}]}, []),
        (
            {
                "vesws": [
                    {"id": 0, "name": "a", "pkey": 0x8009, "members": ["h1", "h9"]},
                    5,
                    {"id": 9999, "members": 3},
                ]
            },
            [
                "vesws[0].id",
                "vesws[0].members[1]",
                "vesws[0].pkey",
                "vesws[1]",
                "vesws[2].id",
                "vesws[2].members",
                "vesws[2].name",
            ],
        ),
        (
            {"vesws": [{"id": 5, "name": "a", "pkey": "blue", "members": ["hx"]}]},
            ["vesws[0].members[0]", "vesws[0].pkey"],
        ),
        ({"mac": [], "vesws": {}}, ["mac", "vesws"]),
        ([1], [""]),
    ],
)
def test_mistakes_of_the_file_and_of_the_fabric_are_listed_together(data: Any, paths: list[str]) -> None:
    roster = Roster([PortFacts(1, 2, "h1:1", "h1", "h1", 1, frozenset({0x7FFF, 0x8002}))])
    found: tuple[Problem, ...] = ()
    try:
        checked(data, roster)
    except EmConfigError as error:
        found = error.problems
    assert sorted({path_text(problem.path) for problem in found}) == paths


@pytest.mark.parametrize("check", [parse_config, lambda data: checked(data, Roster([facts(1)]))])
def test_more_virtual_switches_than_ids_are_one_line_before_any_is_looked_at(
    check: Callable[[Any], EmConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[object] = []
    monkeypatch.setattr(EmConfig, "model_validate", looked_at.append)
    monkeypatch.setattr("vema.em.desired.desired.cross_problems", looked_at.append)
    with pytest.raises(EmConfigError) as caught:
        check({"vesws": [{"id": n, "name": ""} for n in range(200_000)]})
    assert str(caught.value) == (
        "vesws: 200000 virtual switches; an id has 12 bits, so a fabric has at most 4095"
    )
    assert not looked_at


def test_unknown_members_beyond_the_hundredth_are_listed_without_a_hint() -> None:
    vesws = [{"id": n, "name": f"v{n}", "pkey": 0x8002, "members": ["h8", "h9"]} for n in range(1, 101)]
    listed = [
        problem.message for problem in fabric_problems(parse_config({"vesws": vesws}), Roster([facts(1)]))
    ]
    assert len(listed) == 200
    assert listed[99] == 'unknown member "h9" (known: h1; nearest: h1)'
    assert listed[100] == 'unknown member "h8"'
