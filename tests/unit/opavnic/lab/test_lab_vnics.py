"""Every VNIC of a lab is shown, whoever has made it, and told how far it has come."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.wire.mad.header import Method
from lab_in_memory import lab_in_memory
from opavnic.lab.run.lab import Lab
from opavnic.observe.rates import Order, in_order, rates
from opavnic.state.lab import VnicStatus
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState
from vema.em.core.messages import build_request, read_response
from vema.em.desired.desired import parse_config

BOTH = {"pkey": 0x8001, "members": ["h1", "h2"]}
BLUE = {**BOTH, "id": 2, "name": "blue", "subnet": "10.9.2.0/24"}


def memory_lab(em: str = "builtin") -> Lab:
    data = {"name": "x", "hosts": {"h1": None, "h2": None}, "vesws": [BLUE], "em": em}
    return lab_in_memory(data)


async def apply(lab: Lab, *vesws: dict[str, Any], **em: Any) -> None:
    """Apply these virtual switches, and wait until they are there."""
    assert lab.manager is not None
    lab.manager.em.apply(parse_config({"vesws": list(vesws), **em}))
    assert await lab.manager.em.wait_converged(10.0)


async def configure(lab: Lab, host: str, vport: int, **fields: Any) -> None:
    """Set VeswPortInfo of a vport, from the management port: these fields, the others as after power-on."""
    data = replace(VeswPortInfo.power_on(), **fields).build()
    request = build_request(Method.SET, AttrId.VESW_PORT_INFO, data, attr_mod=vport)
    read_response(request, await lab.world.em_port.mad.request(lab.world.hosts[host].port.lid, request))


def vnics(lab: Lab, host: str) -> dict[str, VnicStatus]:
    """Return the VNICs of a host in the status of a lab, by interface."""
    found = next(row.vnics for row in lab.status().hosts if row.name == host)
    return {vnic.interface: vnic for vnic in found}


@pytest.mark.looptime
async def test_vport_that_the_file_does_not_name_is_shown_with_its_counters() -> None:
    async with memory_lab("external") as lab:
        for vport, vesw_id in ((200, 9), (7, 2)):
            await configure(lab, "h1", vport, vesw_id=vesw_id, config_state=ConfigState.FORWARDING)
        rows = vnics(lab, "h1")
        assert list(rows) == ["blue", "h1-blue", "vnic200"]  # nobody knows what 9 is called
        seen = [(row.vesw, row.vesw_id, row.vport_num, row.state) for row in rows.values()]
        assert seen == [
            ("blue", 2, 1, "not created by the EM"),
            ("blue", 2, 7, "up"),
            (None, 9, 200, "up"),
        ]
        assert (rows["vnic200"].ip, rows["vnic200"].mtu) == (None, 1500)
        assert rows["vnic200"].mac is not None
        assert list(vnics(lab, "h2")) == ["blue"]
        assert lab.status(counters=True).counters["h1/vnic200 ethtool"]["tx_packets"] == 0


@pytest.mark.looptime
async def test_virtual_switch_that_an_apply_adds_is_shown_by_its_name() -> None:
    async with memory_lab() as lab:
        for names, interface in (
            (["green"], "green"),
            (["jade"], "green"),  # programs that run have it under this name
            ([], "green"),
            (["jade"], "jade"),
            ([], "jade"),
            (["no/interface"], "vnic2"),
            ([], "vnic2"),
            (["longer-than-ifnamsiz"], "vnic2"),
            ([], "vnic2"),
            (["blue"], "h2-blue"),  # of the lab file
        ):
            found = await beside(lab, *names)
            assert [row.interface for row in found] == [interface]
            assert [row.vesw for row in found] == (names or [None])
            assert [row.state for row in found] == ["up" if names else "not configured by the EM"]


async def beside(lab: Lab, *names: str, **fields: Any) -> list[dict[str, Any]]:
    """Apply virtual switches beside that of the lab file, from id 77 on; return the VNICs of h2 on them."""
    added = [{**BOTH, "id": 77 + n, "name": name, **fields} for n, name in enumerate(names)]
    await apply(lab, {**BOTH, "id": 2, "name": "azure"}, *added)
    return [row for row in vnics(lab, "h2").values() if row.vport_num > 1]


@pytest.mark.looptime
async def test_virtual_switch_that_an_apply_adds_has_its_mtu_and_the_hosts_address_of_its_subnet() -> None:
    async with memory_lab() as lab:
        for fields, ip in (
            ({"mtu": 9000}, None),
            ({"mtu": 9000, "subnet": "10.7.0.0/24"}, "10.7.0.2/24"),
            ({"mtu": 9000, "subnet": "10.8.0.0/16"}, "10.8.0.2/16"),
            ({"mtu": 9000, "subnet": "10.8.0.0/31"}, None),  # too small for two hosts
        ):
            (row,) = await beside(lab, "green", **fields)
            assert (row.interface, row.mtu, row.ip) == ("green", 9000, ip)


@pytest.mark.looptime
async def test_vnic_of_the_file_that_comes_back_to_a_virtual_switch_has_its_mtu_again() -> None:
    async with memory_lab() as lab:
        large = {**BOTH, "id": 77, "name": "large", "mtu": 9000}
        for vesws in ([], [large], [], [large]):
            await apply(lab, *vesws)
        (row,) = vnics(lab, "h1").values()
        assert (row.vesw, row.mtu) == ("large", 9000)


@pytest.mark.looptime
async def test_name_of_a_virtual_switch_that_has_gone_is_free_for_another_vport() -> None:
    async with memory_lab() as lab:
        await beside(lab, "green", "jade")
        await beside(lab)
        assert {row.vport_num: row.interface for row in await beside(lab, "jade")}[2] == "jade"
        assert {row.vport_num: row.interface for row in await beside(lab, "jade", "green")} == {
            2: "jade",
            3: "green",
        }


@pytest.mark.looptime
async def test_vport_that_the_file_does_not_name_counts_on_after_a_crash_and_top_shows_it() -> None:
    async with memory_lab("external") as lab:
        for vport in (200, 201):
            await configure(lab, "h1", vport, vesw_id=9, config_state=ConfigState.FORWARDING)
        port = lab.world.vnic_ports["h1:1"]
        port.frames(200)[0].out_packets = 5  # type: ignore[arg-type]
        before = lab.status()
        port.crash()
        assert vnics(lab, "h1")["vnic200"].state == "not created by the EM"
        assert vnics(lab, "h1")["vnic200"].tx_packets == 5
        shown = in_order(rates(before, lab.status(), 1.0), Order.NAME).vnics
        assert [(host.name, vnic.vesw_text, vnic.interface) for host, vnic, _ in shown] == [
            ("h1", "-", "vnic200"),
            ("h1", "-", "vnic201"),
            ("h1", "blue", "blue"),
            ("h2", "blue", "blue"),
        ]
        assert all(paces["tx_packets"] == 0 for *_, paces in shown)


@pytest.mark.looptime
async def test_vport_that_the_manager_holds_down_is_not_called_unconfigured() -> None:
    async with memory_lab() as lab:
        for link, state in (("down", "held down by the EM"), ("up", "up")):
            await apply(lab, {**BOTH, "id": 2, "name": "blue", "link": link})
            assert [vnics(lab, host)["blue"].state for host in ("h1", "h2")] == [state, state]
            reason = "link is down in the configuration of the EM" if link == "down" else ""
            assert vnics(lab, "h1")["blue"].reason == reason


@pytest.mark.looptime
async def test_vnic_that_an_apply_has_taken_away_says_why() -> None:
    async with memory_lab() as lab:
        for vesws, reason in (
            ([], "no virtual switch 2 in the configuration of the EM"),
            ([{**BLUE, "members": ["h1"]}], "h2:1 is not a member of blue in the configuration of the EM"),
        ):
            await apply(lab, *vesws)
            row = vnics(lab, "h2")["blue"]
            assert (row.state, row.reason) == ("not configured by the EM", reason)


@pytest.mark.looptime
async def test_port_that_cannot_be_reached_says_so_and_no_mad_is_sent_for_it() -> None:
    async with memory_lab() as lab:
        assert lab.manager is not None
        lab.world.crash("h2")
        assert await lab.manager.em.wait_for(
            lambda: vnics(lab, "h2")["blue"].reason == "h2:1 is not in service", 10.0
        )
        assert vnics(lab, "h1")["blue"].reason == ""
        mads = lab.world.mads
        lab.status()
        assert lab.world.mads == mads


@pytest.mark.looptime
async def test_vport_on_no_virtual_switch_is_not_configured() -> None:
    async with memory_lab("external") as lab:
        await configure(lab, "h1", 1)
        assert vnics(lab, "h1")["blue"].state == "not configured by the EM"


@pytest.mark.looptime
async def test_vnic_of_the_lab_file_that_is_moved_to_another_virtual_switch_has_its_name_and_address() -> (
    None
):
    async with memory_lab() as lab:
        green = {**BOTH, "id": 77, "name": "green", "subnet": "10.7.0.0/24"}
        blue = {**BOTH, "id": 2, "name": "blue"}
        shown = []
        for vesws in ([], [green], [], [blue]):
            await apply(lab, *vesws)
            shown += [(row.vport_num, row.interface, row.ip) for row in vnics(lab, "h2").values()]
        own = (1, "blue", "10.9.2.2/24")
        assert shown == [own, (1, "green", "10.7.0.2/24"), (1, "green", None), own]


@pytest.mark.parametrize("mac", ["learn", "locally-administered"])
@pytest.mark.looptime
async def test_frames_to_addresses_of_the_hosts_own_are_hinted_at_if_the_manager_does_not_learn(
    mac: str,
) -> None:
    async with memory_lab() as lab:
        await apply(lab, BLUE, mac=mac)
        assert lab.status().hints == []
        netdev = lab.interface("h1", "blue").netdev
        assert isinstance(netdev, MemoryNetdev)
        for to in (b"\x00\x11\x22\x33\x44\x55", b"\x02\xaa\xbb\xcc\xdd\xee"):
            netdev.transmit(to + netdev.address + bytes(50))
        await asyncio.sleep(1)
        assert any("em: {mac: learn}" in hint for hint in lab.status().hints) is (mac != "learn")
