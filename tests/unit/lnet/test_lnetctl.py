"""The commands of lnetctl on two hosts in memory."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from hfi_sim.base.clock import ManualClock
from lnet.base.nid import Nid
from lnet.host.rig import LnetRig
from lnet.lnetctl import Lnetctl
from lnet.settings.yaml_text import format_yaml
from unit.lnet.lnd_pair import refused

A, B = ["10.1.1.2", "10.1.1.3", "10.1.1.4"], ["10.1.1.5", "10.1.1.6", "10.1.1.7"]
A_NID, B_NID = "10.1.1.2@o2ib", "10.1.1.5@o2ib"


@pytest.fixture
def rig() -> LnetRig:
    rig = LnetRig(ManualClock())
    rig.add_host("a", A)
    rig.add_host("b", B)
    return rig


@pytest.fixture
def ctl(rig: LnetRig) -> Lnetctl:
    return Lnetctl(rig.hosts["a"].node)


def test_target_added_is_shown_and_removed_again(ctl: Lnetctl) -> None:
    assert ctl.o2ibs_add(B_NID, B) == {}
    assert ctl.o2ibs_show("o2ib") == {
        "o2ibs": [{"nid": B_NID, "ips": [{"ip": "10.1.1.5"}, {"ip": "10.1.1.6"}, {"ip": "10.1.1.7"}]}]
    }
    assert ctl.o2ibs_show("o2ib1") == {"o2ibs": []}
    ctl.o2ibs_del(B_NID)
    assert ctl.o2ibs_show() == {"o2ibs": []}


def test_target_added_takes_effect_on_routes_that_exist(rig: LnetRig, ctl: Lnetctl) -> None:
    node, clock = rig.hosts["a"].node, rig.world.clock
    assert isinstance(clock, ManualClock)
    node.put(Nid.parse(B_NID), b"x")
    clock.advance(0.1)
    ctl.o2ibs_add(B_NID, B)
    for _ in range(3):
        node.put(Nid.parse(B_NID), b"x")
    clock.advance(0.1)
    routes = {str(done.route) for done in rig.hosts["a"].done[1:]}
    assert routes == {"10.1.1.2->10.1.1.5", "10.1.1.3->10.1.1.6", "10.1.1.4->10.1.1.7"}


def test_bad_target_is_refused(ctl: Lnetctl) -> None:
    assert refused(lambda: ctl.o2ibs_add("10.1.1.5", B)) == (
        "EINVAL",
        "'10.1.1.5' is not a NID: it has no network, as in 10.1.1.5@o2ib",
    )
    assert refused(lambda: ctl.o2ibs_add(B_NID, ["10.1.1.x"]))[0] == "EINVAL"
    assert refused(lambda: ctl.o2ibs_add(B_NID, []))[1] == f"target {B_NID} has no address"
    many = [f"10.1.2.{n}" for n in range(17)]
    assert "17 addresses; 16 are allowed" in refused(lambda: ctl.o2ibs_add(B_NID, many))[1]
    ctl.o2ibs_add(B_NID, B)
    ctl.o2ibs_add(B_NID, B)
    assert refused(lambda: ctl.o2ibs_add(B_NID, A))[0] == "EEXIST"
    assert refused(lambda: ctl.o2ibs_del("10.1.1.9@o2ib")) == (
        "ENOENT",
        f"no target 10.1.1.9@o2ib (known: {B_NID})",
    )


def test_check_of_a_sane_configuration_is_ok(ctl: Lnetctl) -> None:
    ctl.o2ibs_add(A_NID, A)
    ctl.o2ibs_add(B_NID, B)
    assert ctl.o2ibs_check("o2ib") == {"check": [{"net": "o2ib", "status": "ok"}]}


def findings(ctl: Lnetctl) -> list[dict[str, Any]]:
    (check,) = ctl.o2ibs_check("o2ib")["check"]
    assert check["status"] == "failed"
    return list(check["findings"])


def test_check_misses_the_entry_of_the_local_nid_and_says_what_it_would_be(ctl: Lnetctl) -> None:
    (finding,) = findings(ctl)
    assert finding == {
        "nid": A_NID,
        "errno": -errno.ENOENT,
        "descr": f"local NID {A_NID} has no target entry",
        "right": f"o2ibs add --nid {A_NID} --ips 10.1.1.2 10.1.1.3 10.1.1.4",
    }


def test_check_finds_addresses_that_are_not_of_the_group(ctl: Lnetctl) -> None:
    ctl.o2ibs_add(A_NID, A[:2])
    (finding,) = findings(ctl)
    assert "is not this node's own group" in finding["descr"]


def test_check_finds_addresses_that_are_nowhere_and_those_that_stand_twice(ctl: Lnetctl) -> None:
    ctl.o2ibs_add(A_NID, A)
    ctl.o2ibs_add(B_NID, [*B, "10.1.1.77"])
    ctl.o2ibs_add("10.1.1.6@o2ib", ["10.1.1.6"])
    assert [finding["descr"] for finding in findings(ctl)] == [
        f"no port of the fabric has address 10.1.1.77 of {B_NID}",
        f"address 10.1.1.6 is in both {B_NID} and 10.1.1.6@o2ib",
    ]


def test_check_of_a_network_that_is_not_there_is_refused(ctl: Lnetctl) -> None:
    assert refused(lambda: ctl.o2ibs_check("o2ib5")) == (
        "ENOENT",
        "no network o2ib5 on this node (known: o2ib)",
    )
    assert refused(lambda: ctl.o2ibs_check("ib5"))[0] == "EINVAL"


def test_network_is_added_shown_and_removed(ctl: Lnetctl) -> None:
    ctl.net_add("o2ib1", ["ib1", "ib2"])
    assert ctl.net_show("o2ib1") == {
        "net": [
            {
                "net type": "o2ib1",
                "local NI(s)": [
                    {"nid": "10.1.1.3@o2ib1", "status": "up", "interfaces": {0: "ib1", 1: "ib2"}}
                ],
            }
        ]
    }
    ctl.net_del("o2ib1", "ib2")
    ctl.net_add("o2ib1", ["ib2"])
    ctl.net_del("o2ib1")
    assert len(ctl.net_show()["net"]) == 2


def test_bad_network_is_refused(ctl: Lnetctl) -> None:
    assert refused(lambda: ctl.net_add("o2ib1", ["ib7"])) == (
        "ENODEV",
        "cannot add network: no interface ib7 (known: ib0, ib1, ib2)",
    )
    assert refused(lambda: ctl.net_add("o2ib", ["ib1"]))[0] == "EEXIST"
    assert refused(lambda: ctl.net_add("o2ib1", []))[0] == "EINVAL"
    assert refused(lambda: ctl.net_del("o2ib1"))[0] == "ENOENT"
    assert refused(lambda: ctl.net_del("o2ib", "ib7"))[0] == "ENODEV"


def test_status_says_down_when_every_device_is(rig: LnetRig, ctl: Lnetctl) -> None:
    for port in rig.hosts["a"].ports.values():
        assert port.link is not None
        rig.world.fabric.set_link(port.link, False)
    (net,) = ctl.net_status()["net_status"]
    assert net["status"] == "down"
    assert {dev["state"] for dev in net["devices"]} == {"PORT_DOWN"}


CONFIG = f"""\
net:
    - net type: o2ib1
      local NI(s):
        - interfaces:
              0: ib1
o2ibs:
    - nid: {A_NID}
      ips:
        - ip: 10.1.1.2
    - nid: {B_NID}
      ips:
        - ip: 10.1.1.5
        - ip: 10.1.1.6
net_status:
    - net: o2ib1
"""


def test_import_takes_all_over_and_shows_what_was_asked_for(ctl: Lnetctl) -> None:
    printed = ctl.import_yaml(CONFIG)
    assert [net["net"] for net in printed["net_status"]] == ["o2ib1"]
    assert len(ctl.o2ibs_show()["o2ibs"]) == 2
    assert len(ctl.net_show()["net"]) == 3


def test_what_is_imported_can_be_removed_with_the_same_file(ctl: Lnetctl) -> None:
    empty = ctl.export_yaml()
    ctl.import_yaml(CONFIG)
    assert ctl.export_yaml() != empty
    ctl.remove_yaml(format_yaml(ctl.export_yaml()))
    assert ctl.export_yaml(backup="1").keys() == {"global"}
    assert refused(lambda: ctl.remove_yaml(CONFIG))[0] == "ENOENT"


def test_removal_with_an_unknown_interface_removes_nothing(ctl: Lnetctl) -> None:
    ctl.import_yaml(CONFIG)
    before = ctl.export_yaml()
    net = "net:\n  - net type: o2ib\n    local NI(s): [{interfaces: [ib7]}]\n"
    targets = format_yaml({"o2ibs": before["o2ibs"]})
    assert refused(lambda: ctl.remove_yaml(targets + net))[0] == "ENODEV"
    assert ctl.export_yaml() == before


def test_import_names_what_it_does_not_apply(ctl: Lnetctl) -> None:
    assert ctl.import_yaml("buffers:\n  tiny: 5\nrouting:\n  - enable: 0\nudsp:\n") == {
        "import": [{"not applied": "buffers, routing"}]
    }


@pytest.mark.parametrize("half", [CONFIG[: CONFIG.index("        - ip: 10.1.1.5")], CONFIG[:-10]])
def test_import_of_half_a_file_changes_nothing(ctl: Lnetctl, half: str) -> None:
    before = ctl.export_yaml()
    assert refused(lambda: ctl.import_yaml(half))[0] == "EINVAL"
    assert ctl.export_yaml() == before


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("0: ib1", "0: ib9", "ENODEV"),
        ("net type: o2ib1", "net type: o2ib", "EEXIST"),
        ("net: o2ib1", "net: o2ib9", "ENOENT"),
    ],
)
def test_import_that_cannot_be_done_changes_nothing(ctl: Lnetctl, old: str, new: str, code: str) -> None:
    before = ctl.export_yaml()
    assert refused(lambda: ctl.import_yaml(CONFIG.replace(old, new)))[0] == code
    assert ctl.export_yaml() == before


def test_check_finds_an_address_on_the_port_of_another_host(rig: LnetRig) -> None:
    ctl = Lnetctl(
        rig.hosts["a"].node, lambda addr: "a" if str(addr) in A else "b" if str(addr) in B else None
    )
    ctl.o2ibs_add(A_NID, A)
    ctl.o2ibs_add(B_NID, [B[0], B[1]])
    assert ctl.o2ibs_check("o2ib")["check"][0]["status"] == "ok"
    ctl.o2ibs_del(B_NID)
    ctl.o2ibs_del(A_NID)
    ctl.o2ibs_add(A_NID, A)
    ctl.o2ibs_add(B_NID, [B[0], "10.1.1.4"])
    (finding, _) = ctl.o2ibs_check("o2ib")["check"][0]["findings"]
    assert finding["descr"] == f"address 10.1.1.4 of {B_NID} is on host a, the NID is on host b"
    assert finding["right"] == "addresses of host b"


def test_status_names_the_hfi_port_and_follows_the_rate_of_its_link(rig: LnetRig, ctl: Lnetctl) -> None:
    clock = rig.world.clock
    assert isinstance(clock, ManualClock)

    def device() -> dict[str, Any]:
        return dict(ctl.net_status("o2ib")["net_status"][0]["devices"][1])

    assert device() == {
        "interface": "ib1",
        "hfi port": "a-ib1:1",
        "ip": "10.1.1.3",
        "state": "PORT_ACTIVE",
        "speed_gbps": 100.0,
    }
    fault = rig.world.faults.add("rate on a-ib1 rate=25G")
    clock.advance(0)
    assert (device()["state"], device()["speed_gbps"]) == ("PORT_DEGRADE", 25.0)
    rig.world.faults.remove(fault.number)
    clock.advance(0)
    assert (device()["state"], device()["speed_gbps"]) == ("PORT_ACTIVE", 100.0)


def test_last_error_of_a_route_is_gone_when_it_is_up(rig: LnetRig, ctl: Lnetctl) -> None:
    node, clock = rig.hosts["a"].node, rig.world.clock
    assert isinstance(clock, ManualClock)
    for fault in (None, "link-down on b-ib0 for=20s"):
        if fault:
            rig.world.faults.add(fault)
        node.put(Nid.parse(B_NID), b"x")
        clock.advance(10)
    (route, *_) = ctl.net_status("o2ib")["net_status"][0]["routes"]
    assert "last error" in route
    clock.advance(20)
    (route, *_) = ctl.net_status("o2ib")["net_status"][0]["routes"]
    assert route["state"] == "up"
    assert "last error" not in route
