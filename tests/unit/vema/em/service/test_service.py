"""The EM on a fabric of agents: converges, stays quiet, follows every change."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from hfi_sim.base.types import MacAddr
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.wire.lrh16b import L4
from hfi_sim.wire.mad.header import MadHeader, Method
from unit.vema.em.em_fabric import PKEY, EmFabric, config, converged, managed
from vema.attributes.attr_id import AttrId
from vema.attributes.mac_entries import MacEntries, MacEntry
from vema.base.lmac import Lmac
from vema.base.types import VportNum
from vema.em.core.messages import build_request, read_response
from vema.em.desired import ports
from vema.em.desired.desired import EmConfig, EmConfigError, parse_config
from vema.em.desired.mac_tables import VeswTable
from vema.em.desired.ports import Roster, checked
from vema.em.desired.problems import Problem
from vema.em.service.service import TURN

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

NEW_MAC = MacAddr(bytes.fromhex("020000abcdef"))


def base(host: int, lid: int) -> bytes:
    return Lmac(1, 2, lid).build()


async def test_three_members_get_configuration_group_and_tables() -> None:
    async with managed(3) as (fabric, _):
        lids = [port.lid for port in fabric.ports]
        assert fabric.dlids(1) == {base(2, lids[1]): lids[1], base(3, lids[2]): lids[2]}
        assert fabric.sm.groups.members(0xF00002) == {port.guid for port in fabric.ports}
        assert fabric.netdev(1).address == base(1, lids[0])


async def test_locally_administered_policy_sends_no_tables() -> None:
    async with managed(3, config(mac="locally-administered")) as (fabric, em):
        assert fabric.dlids(1) == {}
        assert em.core is not None
        assert em.core.sets == 6  # ClassPortInfo and VeswPortInfo of each


async def test_apply_twice_sends_no_set() -> None:
    async with managed(4) as (fabric, em):
        before = fabric.sets()
        em.apply(config())
        await converged(fabric, em)
        assert fabric.sets() == before


@pytest.mark.parametrize("memory", [True, False])
async def test_restart_sends_no_set(memory: bool, tmp_path: Path) -> None:
    fabric = EmFabric(4)
    sets = []
    for wanted in (config(), None if memory else config()):
        em = fabric.em(database=tmp_path / "em.db" if memory else ":memory:")
        em.start(wanted)
        await converged(fabric, em)
        em.stop()
        sets.append(fabric.sets())
    assert sets[0] == sets[1]
    assert len(fabric.dlids(1)) == 3


async def test_trap_of_new_address_updates_the_others_only() -> None:
    async with managed(4) as (fabric, em):
        for host in range(1, 5):
            assert fabric.netdev(host).open() == 0
        await converged(fabric, em)
        before = {name: vnic.agent.counters.sets for name, vnic in fabric.vnics.items()}
        assert fabric.netdev(2).set_mac(NEW_MAC) == 0
        assert await em.wait_for(lambda: fabric.dlids(1).get(NEW_MAC) == fabric.port(2).lid, 1.0)
        await converged(fabric, em)
        after = {name: vnic.agent.counters.sets for name, vnic in fabric.vnics.items()}
        assert {name: after[name] - before[name] for name in after} == {
            "h1:1": 1,
            "h2:1": 0,
            "h3:1": 1,
            "h4:1": 1,
        }


async def test_burst_of_changes_beyond_the_rate_of_traps_is_followed_within_half_a_second() -> None:
    async with managed(2, config(polling={"interval": "1h"})) as (fabric, em):
        assert fabric.netdev(1).open() == 0
        for n in range(20):
            assert fabric.netdev(1).set_mac(MacAddr(bytes((2, 0, 0, 0, 1, n)))) == 0
        last = MacAddr(bytes((2, 0, 0, 0, 1, 19)))
        fabric.netdev(1).set_uc_list([NEW_MAC])
        assert await em.wait_for(lambda: {last, NEW_MAC} <= fabric.dlids(2).keys(), 0.5)
        await converged(fabric, em)


async def test_restarted_agent_is_configured_again() -> None:
    async with managed(3) as (fabric, em):
        fabric.start_agent(fabric.port(2))
        assert await em.wait_for(lambda: bool(fabric.vnics["h2:1"].adapters and fabric.dlids(2)), 30.0)
        await converged(fabric, em)


async def test_link_flap_ends_converged_and_without_sets() -> None:
    async with managed(3) as (fabric, em):
        before = fabric.sets()
        link = fabric.port(2).link
        assert link is not None
        fabric.fabric.set_link(link, False)
        assert await em.wait_for(lambda: not em.core.ports[fabric.port(2).guid].in_service, 1.0)  # type: ignore[union-attr]
        fabric.fabric.set_link(link, True)
        await converged(fabric, em)
        assert fabric.sets() == before


async def test_port_that_stays_away_leaves_the_tables() -> None:
    async with managed(3) as (fabric, em):
        link = fabric.port(2).link
        assert link is not None
        fabric.fabric.set_link(link, False)
        assert await em.wait_for(lambda: len(fabric.dlids(1)) == 1, 10.0)
        await converged(fabric, em)
        fabric.fabric.set_link(link, True)
        assert await em.wait_for(lambda: len(fabric.dlids(1)) == 2, 10.0)
        await converged(fabric, em)


async def test_removed_vesw_is_deleted_and_its_group_too() -> None:
    async with managed(2) as (fabric, em):
        em.apply(parse_config({"mac": "learn", "vesws": []}))
        await converged(fabric, em)
        assert fabric.vnics["h1:1"].adapters[VportNum(1)].port_info.vesw_id == 0
        assert fabric.sm.groups.members(0xF00002) == frozenset()
        em.apply(config())
        await converged(fabric, em)
        assert len(fabric.dlids(1)) == 1


async def test_changed_mtu_and_members_are_previewed_then_applied() -> None:
    async with managed(3, config(["h1", "h2"])) as (fabric, em):
        wanted = config(["h1", "h3"], vesw={"mtu": 9000})
        assert em.preview(wanted) == [
            "~ h1:1 vport 1 on blue (2): eth_mtu: 1500 -> 9000",
            "~ h1:1 vport 1 on blue (2): MAC table: with the addresses of h3:1",
            "~ h1:1 vport 1 on blue (2): MAC table: without the addresses of h2:1",
            "+ h3:1: new vport on blue (2)",
            "- h2:1 vport 1: leaves virtual switch 2, is deleted",
        ]
        em.apply(wanted)
        await converged(fabric, em)
        assert em.preview(wanted) == []
        assert set(fabric.dlids(1).values()) == {fabric.port(3).lid}


@pytest.mark.breaks_core
async def test_core_that_raises_ends_the_wait_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with managed(2) as (fabric, em):
        em.apply(config(vesw={"mtu": 9000}))

        def broken(*_: object, **__: object) -> None:
            raise KeyError("vport 7")

        monkeypatch.setattr(em.core, "answer", broken)
        began = fabric.clock.time()
        assert not await em.wait_converged(60.0)
        assert fabric.clock.time() - began < 1.0
        assert isinstance(em.failure, KeyError)
        assert not em.converged
        assert not await em.wait_converged(60.0)  # nor does anybody wait who comes later
        errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert errors == ["[em1:1 Ethernet Manager] failed, and does nothing any more: KeyError: 'vport 7'"]
        em.trap(MadRequest(b"", MadHeader(mgmt_class=0x34, method=5, tid=1, attr_id=2), 1, 0xFFFF, 0, 1))
        assert fabric.netdev(1).set_mac(NEW_MAC) == 0  # agents go on, and their traps are ignored


async def test_large_configuration_leaves_turns_of_the_loop_to_others() -> None:
    async with managed(4, config(limits={"in_flight": 4096, "per_port": 255})) as (_, em):
        assert em.core is not None
        vesws = [{"id": n, "name": f"v{n}", "pkey": PKEY} for n in range(1, 201)]
        em.apply(parse_config({"limits": {"in_flight": 4096, "per_port": 255}, "vesws": vesws}))
        asked = [em.core.sets + em.core.gets]
        while not em.converged:
            await asyncio.sleep(0)
            asked.append(em.core.sets + em.core.gets)
        assert max(b - a for a, b in itertools.pairwise(asked)) == TURN


async def test_tables_that_are_due_together_leave_turns_of_the_loop_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with managed(4) as (fabric, em):
        computed = [0]
        update = VeswTable.update

        def counting(table: VeswTable, *args: Any) -> bool:
            computed[0] += 1
            return update(table, *args)

        monkeypatch.setattr(VeswTable, "update", counting)
        for port in fabric.ports:  # nobody answers: all tables wait for the same moment
            port.unregister_l4(L4.FM)
        members = [f"h{n}" for n in range(1, 5)]
        vesws = [{"id": n, "name": f"v{n}", "pkey": PKEY, "members": members} for n in range(1, 201)]
        em.apply(parse_config({"mac": "learn", "vesws": vesws}))
        assert em.core is not None
        wake, in_a_turn = em.core.wake, [0]

        def noting(now: float, turns: int) -> None:
            before = computed[0]
            wake(now, turns)
            in_a_turn.append(computed[0] - before)

        monkeypatch.setattr(em.core, "wake", noting)
        await asyncio.sleep(3.0)
        assert computed[0] >= 200
        assert max(in_a_turn) <= TURN


async def test_checked_configuration_is_checked_again_only_for_other_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with managed(2) as (fabric, em):
        looked: list[Roster] = []
        problems = ports.fabric_problems

        def noted(wanted: EmConfig, roster: Roster) -> list[Problem]:
            looked.append(roster)
            return problems(wanted, roster)

        monkeypatch.setattr(ports, "fabric_problems", noted)
        found = checked({"vesws": [{"id": 3, "name": "red", "pkey": 0x8003}]}, em.roster())
        em.apply(found)
        assert len(looked) == 1
        fabric.sm.set_pkeys(fabric.port(1), [PKEY])
        with pytest.raises(EmConfigError, match="0x8003 is not in the table of h1:1"):
            em.apply(found)
        assert len(looked) == 2


async def test_configuration_that_cannot_be_met_sends_nothing() -> None:
    async with managed(2) as (fabric, em):
        before = fabric.sets()
        with pytest.raises(EmConfigError) as caught:
            em.apply(config(["h1", "h9"], vesw={"pkey": 0x8009}))
        assert len(caught.value.problems) == 2
        await converged(fabric, em)
        assert fabric.sets() == before


async def test_changed_trap_level_reaches_the_agents() -> None:
    async with managed(2) as (fabric, em):
        wanted = config(trap={"sl": 3})
        assert em.preview(wanted) == [f"~ h{n}:1: trap_sl_rsvd: 0 -> 0x18" for n in (1, 2)]
        em.apply(wanted)
        await converged(fabric, em)
        assert fabric.vnics["h1:1"].agent.class_port_info.trap_sl == 3


async def test_default_ports_and_qos_reach_the_agents() -> None:
    qos = {"unicast": {"untagged": {"sc": 3, "vl": 1}, "pcp_to_sc": [1, 1, 2, 2, 3, 3, 4, 4]}}
    wanted = config(vesw={"default_ports": ["h1"], "rc": {"ipv4": 5, "ipv6_tcp": 2}, "qos": qos})
    async with managed(3, wanted) as (fabric, _):
        info = fabric.vnics["h2:1"].adapters[VportNum(1)].port_info
        assert (info.def_port_mask, info.u_ucast_dlid[0]) == (1, fabric.port(1).lid)
        assert (info.rc, info.non_vlan_sc_uc, info.pcp_to_sc_uc[7]) == (5 << 4 | 2 << 20, 3, 4)
        own = fabric.vnics["h1:1"].adapters[VportNum(1)].port_info
        assert own.def_port_mask == 0  # not to itself


async def test_two_vesws_on_one_port_get_vports_of_their_own() -> None:
    blue, red = {"id": 2, "name": "blue", "pkey": PKEY}, {"id": 3, "name": "red", "pkey": 0x8003}
    wanted = parse_config({"mac": "learn", "vesws": [blue, {**red, "members": ["h1"]}]})
    async with managed(2, wanted) as (fabric, _):
        ids = {num: adapter.port_info.vesw_id for num, adapter in fabric.vnics["h1:1"].adapters.items()}
        assert ids == {1: 2, 2: 3}


@pytest.mark.parametrize("place", [0, 3, 17, 37, 40, 44, 60])
async def test_agent_that_answers_nonsense_is_isolated_and_the_others_go_on(place: int) -> None:
    fabric = EmFabric(3)
    vnic = fabric.vnics["h2:1"]
    honest = vnic.agent.receive

    def liar(mad: bytes, *, pkey: int = 0xFFFF) -> bytes | None:
        answer = bytearray(honest(mad, pkey=pkey) or b"")
        if mad[3] == 1 and int.from_bytes(mad[16:18], "big") == 0x13:  # its address list
            return bytes(answer[:40]) + b"\xff" * 2008
        if int.from_bytes(mad[16:18], "big") == 1:
            answer[place] ^= 0x40
        return bytes(answer)

    vnic.agent.receive = liar  # type: ignore[method-assign]
    em = fabric.em()
    em.start(config())

    def neighbours_know_each_other() -> bool:
        return bool(fabric.vnics["h1:1"].adapters) and fabric.port(3).lid in fabric.dlids(1).values()

    assert await em.wait_for(neighbours_know_each_other, 30.0)

    def reported() -> bool:
        return not {"agent-isolated", "port-silent"}.isdisjoint(s.kind for s in em.store.events())

    assert await em.wait_for(reported, 30.0)
    assert {difference.port for difference in await em.verify()} == {"h2:1"}
    vnic.agent.receive = honest  # type: ignore[method-assign]
    assert await em.wait_for(lambda: bool(vnic.adapters and fabric.dlids(2)), 700.0)
    await converged(fabric, em)
    em.stop()


async def test_long_address_list_is_read_in_pages() -> None:
    async with managed(2) as (fabric, em):
        netdev = fabric.netdev(1)
        assert netdev.open() == 0
        netdev.set_uc_list([MacAddr(b"\x02\x11\0\0" + n.to_bytes(2, "big")) for n in range(800)])
        assert await em.wait_for(lambda: len(fabric.dlids(2)) == 801, 5.0)
        await converged(fabric, em)


async def test_link_state_and_counters_are_recorded() -> None:
    async with managed(2, config(polling={"interval": 10, "counters": 5, "history": 3})) as (fabric, em):
        assert fabric.netdev(1).open() == 0
        assert await em.wait_for(lambda: "link-up" in [s.kind for s in em.store.events()], 5.0)
        assert await em.wait_for(lambda: len(list(em.store.counters(guid=fabric.port(1).guid))) == 3, 60.0)
        reading = list(em.store.counters(guid=fabric.port(1).guid))[-1]
        assert (reading.vport_num, reading.vesw_id) == (1, 2)
        assert {"tx_packets", "rx_1519_max", "rx_bad_veswid"} <= reading.values.keys()


async def test_bounds_on_what_is_in_flight_hold() -> None:
    async with managed(40, config(limits={"in_flight": 7, "per_port": 1})) as (_, em):
        assert em.core is not None
        assert em.core.deepest == 7


async def test_stale_trap_and_nonsense_traps_do_no_harm() -> None:
    async with managed(2) as (fabric, em):
        trap = bytes.fromhex("80348005") + bytes(12) + b"\0\2" + bytes(19) + bytes.fromhex("00066a")
        for data in (b"", b"\xff" * 300, bytes(2008)):
            fabric.port(1).mad.send(fabric.em_ports[0].lid, trap + data)
        await converged(fabric, em)


async def test_policy_without_tables_empties_those_that_were_learned() -> None:
    async with managed(3) as (fabric, em):
        assert fabric.dlids(1) != {}
        em.apply(config(mac="locally-administered"))
        await converged(fabric, em)
        assert fabric.dlids(1) == {}
        em.apply(config())
        await converged(fabric, em)
        assert len(fabric.dlids(1)) == 2


async def test_entries_of_somebody_else_are_found_and_removed_where_no_table_is_wanted() -> None:
    async with managed(2, config(mac="locally-administered")) as (fabric, em):
        entry = MacEntry(bytes.fromhex("020000000001"), b"\xff" * 6, 5 << 8)
        await stray_entry(fabric, MacEntries(offset=0, entries=(entry,), digest=0x99))
        assert [str(difference) for difference in await em.verify()] == [
            "h1:1 vport 1: MAC table 02:00:00:00:00:01: 0x5 -> no entry",
            "h1:1 vport 1: MAC table digest 0x99 -> 0x0",
        ]
        assert await em.wait_for(lambda: not fabric.dlids(1), 30.0)
        await converged(fabric, em)
        await stray_entry(
            fabric, MacEntries(offset=130, entries=(entry,), digest=0)
        )  # the digest tells nothing
        assert await em.wait_for(lambda: not fabric.dlids(1), 1000.0)  # the audit does
        await converged(fabric, em)


async def stray_entry(fabric: EmFabric, entries: MacEntries) -> None:
    """Have somebody else write into the table of h1."""
    request = build_request(Method.SET, AttrId.MAC_ENTRIES, entries.build(), attr_mod=1)
    read_response(request, await fabric.em_ports[0].mad.request(int(fabric.port(1).lid), request))
    assert fabric.dlids(1) != {}


@pytest.mark.parametrize("memory", [True, False])
async def test_restart_goes_on_with_what_was_applied_and_hears_no_answer_of_its_last_life(
    memory: bool, tmp_path: Path
) -> None:
    fabric = EmFabric(3)
    em = fabric.em(database=tmp_path / "em.db")
    em.start(config())
    await converged(fabric, em)
    em.apply(config(mac="locally-administered"))
    await asyncio.sleep(0)  # requests are on their way
    waiting = asyncio.ensure_future(em.wait_converged())
    await asyncio.sleep(0)
    em.halt()
    em.halt()
    assert not await waiting
    em.restart(memory=memory)
    await converged(fabric, em)
    assert em.core is not None
    assert em.core.config.mac == "locally-administered"
    with pytest.raises(RuntimeError, match="running already"):
        em.start()
    em.stop()
