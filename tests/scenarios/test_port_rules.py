"""What a subnet manager sets at ports, and what of it a host or an administrator notices."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import LID_PERMISSIVE, PKEY_FULL_MANAGEMENT, SC_MANAGEMENT, PortState
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.end_port import EndPort
from hfi_sim.nodes.switch import Switch, SwitchPort, SwitchPort0
from hfi_sim.wire.lrh16b import Lrh16B, dlid_of, sc_of, slid_of
from hfi_sim.wire.packet import build_packet
from opavnic.scenario import Hosts, Scenario, ScenarioEm, ScenarioHost, ms

L4 = 0x55
"""What these tests speak between ports."""


def frame(target: ScenarioHost, text: bytes) -> bytes:
    return (bytes.fromhex(target.mac.replace(":", "")) + bytes(6) + b"\x88\xb5" + text).ljust(100, b"\0")


def packet(lab: Scenario, source: int, target: int, text: bytes, *, sc: int = 0, pkey: int = 0xFFFF) -> bytes:
    return build_packet(Lrh16B(source, target, sc=sc, l4=L4, pkey=pkey), text, lab.fabric.icrc)


def hear(port: EndPort) -> list[bytes]:
    """Return the texts that a port gets from now on."""
    heard: list[bytes] = []

    def take(_port: EndPort, data: bytes, _token: BufferToken | None) -> None:
        heard.append(data[16:-5].rstrip(b"\0"))

    port.register_l4(L4, take)
    return heard


@pytest.mark.parametrize("state", [PortState.INIT, PortState.ARMED])
@pytest.mark.topology("single-switch", hosts=2)
async def test_port_that_is_not_active_yet_passes_management_and_no_frame(
    lab: Scenario, hosts: Hosts, em: ScenarioEm, state: PortState
) -> None:
    await em.vesw("blue", members=hosts)
    h1, h2 = hosts
    heard = hear(h2.port)
    lab.subnet_manager.set_management(h1.port, True)
    at_h2 = lab.fabric.switches["sw0"].ports[2]
    at_h2.state = state
    h1.send(frame(h2, b"frame"))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"data"))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"management", sc=SC_MANAGEMENT))
    await h2.expect_none(lambda _: True, within=ms(1))
    assert heard == [b"management"]
    assert lab.fabric.drops()["sw0"] == {Drop.SW_PORT_DOWN: 2}

    h2.port.set_state(state)
    assert h2.port.send(packet(lab, h2.lid, h1.lid, b"data", pkey=0x7FFF)) is Drop.TX_PORT_DOWN
    at_h2.state = PortState.ACTIVE
    h1.port.send(packet(lab, h1.lid, h2.lid, b"data"))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"more management", sc=SC_MANAGEMENT))
    await asyncio.sleep(ms(1))
    assert heard == [b"management", b"more management"]
    assert h2.port.rx.drops[Drop.RX_PORT_DOWN] == 1

    h2.port.set_state(PortState.ACTIVE)
    h1.send(frame(h2, b"frame"))
    await h2.expect(lambda got: b"frame" in bytes(got), within=ms(1))


@pytest.mark.topology("clos", leaves=2, spines=1)
async def test_port_0_of_a_switch_answers_what_is_sent_to_its_lid(lab: Scenario, hosts: Hosts) -> None:
    h1 = hosts["h1"]
    spine, leaf = lab.fabric.switches["spine0"], lab.fabric.switches["leaf0"]
    lab.subnet_manager.set_management(h1.port, True)

    def answer(port: EndPort, data: bytes, _token: BufferToken | None) -> None:
        assert dlid_of(data) == port.lid
        port.send(packet(lab, port.lid, slid_of(data), b"from " + port.name.encode()))

    for switch in (spine, leaf):
        switch.port0.register_l4(L4, answer)
    heard = hear(h1.port)
    for switch in (spine, leaf):
        h1.port.send(packet(lab, h1.lid, switch.lid, b"who is there?"))
    await asyncio.sleep(ms(1))
    assert sorted(heard) == [b"from leaf0:0", b"from spine0:0"]
    assert lab.fabric.drops() == {}
    assert dict(lab.fabric.counters())["spine0:0 rx"].out_packets == 1


@pytest.mark.topology("clos", leaves=2, spines=1)
async def test_directed_route_goes_from_switch_to_switch_by_port_0_without_any_table(
    lab: Scenario, hosts: Hosts
) -> None:
    h1 = hosts["h1"]
    way = [lab.fabric.switches[name] for name in ("leaf0", "spine0", "leaf1")]
    links = {link for switch in way for port in switch.ports.values() if (link := port.link) is not None}
    for switch in way:
        switch.program({}, {})
        for port in switch.ports.values():
            port.state = PortState.INIT if port.link is not None else PortState.DOWN
    lab.subnet_manager.set_management(h1.port, True)
    outs = {
        here.name: next(
            number for number, port in here.ports.items() if port.link in links and _leads(port, there)
        )
        for here, there in pairwise(way)
    }
    came: list[tuple[str, int]] = []

    def hop(port: EndPort, data: bytes, _token: BufferToken | None) -> None:
        assert isinstance(port, SwitchPort0)
        came.append((port.switch.name, port.in_port))
        if port.switch.name in outs:
            port.direct(data, outs[port.switch.name])

    for switch in way:
        switch.port0.register_l4(L4, hop)
    route = packet(lab, LID_PERMISSIVE, LID_PERMISSIVE, b"on the way", sc=SC_MANAGEMENT)
    h1.port.set_state(PortState.INIT)
    assert h1.port.send(route) is None
    await asyncio.sleep(ms(1))
    assert [name for name, _ in came] == ["leaf0", "spine0", "leaf1"]
    for (name, in_port), switch in zip(came, way, strict=True):
        back = switch.ports[in_port].link
        assert back.far_end(switch.ports[in_port]).name.startswith(
            {"leaf0": "h1", "spine0": "leaf0", "leaf1": "spine0"}[name]
        )
    assert lab.fabric.balance() == {}


@pytest.mark.topology("single-switch", hosts=3)
async def test_switch_keeps_partitions_apart_where_it_enforces_them(
    lab: Scenario, hosts: Hosts, em: ScenarioEm
) -> None:
    await em.vesw("blue", members=hosts, pkey=0x8005)
    h1, h2, h3 = hosts
    ports = lab.fabric.switches["sw0"].ports
    ports[2].enforce_pkeys([0x7FFF, 0x8006], inbound=False)
    ports[3].enforce_pkeys([0x7FFF, 0x8006], outbound=False)
    h1.send(frame(h2, b"to h2"))  # h2 has the partition, its switch port has not
    h2.send(frame(h1, b"from h2"))
    h1.send(frame(h3, b"to h3"))
    h3.send(frame(h1, b"from h3"))
    await h1.expect(lambda got: b"from h2" in bytes(got), within=ms(1))
    await h3.expect(lambda got: b"to h3" in bytes(got), within=ms(1))
    assert h1.vnic().frames == h3.vnic().frames == 1
    assert h2.vnic().frames == 0
    assert lab.fabric.drops() == {"sw0": {Drop.SW_PKEY_OUT: 1, Drop.SW_PKEY_IN: 1}}

    ports[2].enforce_pkeys([0x7FFF, 0x8005])
    ports[3].enforce_pkeys([], inbound=False, outbound=False)
    for target in (h2, h3):
        h1.send(frame(target, b"again"))
        await target.expect(lambda got: b"again" in bytes(got), within=ms(1))


@pytest.mark.parametrize(
    ("table", "sent", "inbound", "outbound"),
    [
        ([0x8005], 0x8005, True, True),
        ([0x8005], 0x0005, True, True),
        ([0x0005], 0x8005, False, True),
        ([0x0005], 0x0005, True, False),
        ([0x8006], 0x8005, False, False),
    ],
)
@pytest.mark.topology("single-switch", hosts=2)
async def test_full_and_limited_members_at_a_port_that_enforces_partitions(
    lab: Scenario, hosts: Hosts, table: list[int], sent: int, inbound: bool, outbound: bool
) -> None:
    h1, h2 = hosts
    for host in hosts:
        lab.subnet_manager.set_pkeys(host.port, [0x8005, 0x0005])
    ports = lab.fabric.switches["sw0"].ports
    heard = hear(h2.port)
    ports[1].enforce_pkeys(table, outbound=False)
    h1.port.send(packet(lab, h1.lid, h2.lid, b"in", pkey=sent))
    await asyncio.sleep(ms(1))
    ports[1].enforce_pkeys(table, inbound=False, outbound=False)
    ports[2].enforce_pkeys(table, inbound=False)
    h1.port.send(packet(lab, h1.lid, h2.lid, b"out", pkey=sent))
    h1.port.send(packet(lab, h1.lid, h2.lid, b"management", pkey=sent, sc=SC_MANAGEMENT))
    await asyncio.sleep(ms(1))
    assert heard == [b"in"] * inbound + [b"out"] * outbound + [b"management"]


@pytest.mark.topology("single-switch", hosts=2)
async def test_a_host_that_gives_itself_full_management_does_not_get_past_its_switch(
    lab: Scenario, hosts: Hosts
) -> None:
    h1, h2 = hosts
    heard = hear(h2.port)
    lab.subnet_manager.set_management(h2.port, True)
    lab.subnet_manager.set_pkeys(h1.port, [0x7FFF, PKEY_FULL_MANAGEMENT])
    await asyncio.sleep(ms(1))  # what its agents say with that P_Key when it is new
    lab.fabric.switches["sw0"].ports[1].enforce_pkeys([0x7FFF, 0x8005])
    for pkey, said in ((PKEY_FULL_MANAGEMENT, b"obey"), (0x7FFF, b"answer")):
        h1.port.send(packet(lab, h1.lid, h2.lid, said, pkey=pkey, sc=SC_MANAGEMENT))
    await asyncio.sleep(ms(1))
    assert heard == [b"answer"]
    assert lab.fabric.drops() == {"sw0": {Drop.SW_PKEY_IN: 1}}


@pytest.mark.topology("single-switch", hosts=3)
async def test_switch_sends_on_the_service_channel_that_its_two_ports_have(
    lab: Scenario, hosts: Hosts
) -> None:
    h1, h2, h3 = hosts
    for host in hosts:
        lab.subnet_manager.set_management(host.port, True)
    switch = lab.fabric.switches["sw0"]
    group = 0xF00011
    switch.program(switch.lft, {**switch.mft, group: frozenset({1, 2, 3})})
    for host in (h2, h3):
        host.port.multicast_lids = host.port.multicast_lids | {group}
    heard = {host.name: hear(host.port) for host in (h2, h3)}
    seen: list[tuple[str, int, bytes]] = []
    lab.fabric.observe(
        lambda observed: seen.append(
            (observed.direction, sc_of(observed.packet), observed.packet[16:-5].rstrip(b"\0"))
        )
    )

    async def send(target: int, text: bytes, sc: int) -> dict[str, int]:
        del seen[:]
        h1.port.send(packet(lab, h1.lid, target, text, sc=sc))
        await asyncio.sleep(ms(1))
        return {way: channel for way, channel, body in seen if body == text}

    table = [15 if sc == 3 else (sc + 16) % 32 for sc in range(32)]
    switch.ports[1].set_sc_to_sc({2: table})
    assert await send(h2.lid, b"data", 1) == {"h1:1->sw0:1": 1, "sw0:2->h2:1": 17}
    assert await send(h2.lid, b"back", 17) == {"h1:1->sw0:1": 17, "sw0:2->h2:1": 1}
    assert await send(h3.lid, b"other port", 1) == {"h1:1->sw0:1": 1, "sw0:3->h3:1": 1}
    assert await send(group, b"group", 2) == {"h1:1->sw0:1": 2, "sw0:2->h2:1": 18, "sw0:3->h3:1": 2}
    assert await send(h2.lid, b"management", SC_MANAGEMENT) == {"h1:1->sw0:1": 15, "sw0:2->h2:1": 15}
    assert lab.fabric.drops() == {}
    assert await send(h2.lid, b"no turn", 3) == {"h1:1->sw0:1": 3}
    assert await send(group, b"no turn for one", 3) == {"h1:1->sw0:1": 3, "sw0:3->h3:1": 3}
    assert heard == {
        "h2": [b"data", b"back", b"group", b"management"],
        "h3": [b"other port", b"group", b"no turn for one"],
    }
    assert lab.fabric.drops() == {"sw0": {Drop.SW_SC: 2}}
    switch.ports[1].set_sc_to_sc({2: range(32)})
    assert await send(h2.lid, b"as it came", 3) == {"h1:1->sw0:1": 3, "sw0:2->h2:1": 3}
    with pytest.raises(FabricError, match="to port 2 sends SC 31 on as SC 32; SCs are 0 to 31"):
        switch.ports[1].set_sc_to_sc({2: range(1, 33)})


@pytest.mark.topology("single-switch", hosts=2)
async def test_vl_has_an_mtu_of_its_own(lab: Scenario, hosts: Hosts) -> None:
    h1, h2 = hosts
    lab.subnet_manager.set_management(h1.port, True)
    heard = hear(h2.port)
    table = [0, 1, *[2] * 30]
    mtus = [2048, 4096, *[0] * 14]

    async def send(sc: int, size: int) -> tuple[Drop | None, int]:
        drop = h1.port.send(packet(lab, h1.lid, h2.lid, b"x" * size, sc=sc))
        before = len(heard)
        await asyncio.sleep(ms(1))
        return drop, len(heard) - before

    out = lab.fabric.switches["sw0"].ports[2]
    out.set_sc_to_vl(table)
    out.set_vl_mtus(mtus)
    assert await send(0, 2048) == (None, 1)
    assert await send(0, 2200) == (None, 0)
    assert await send(1, 2200) == (None, 1)
    assert await send(1, 4300) == (None, 0)
    assert await send(2, 10) == (None, 0)
    assert lab.fabric.drops() == {"sw0": {Drop.SW_MTU: 3}}
    out.set_vl_mtus([])
    assert await send(0, 9000) == (None, 1)

    h1.port.set_sc_to_vl(table)
    h1.port.set_vl_mtus(mtus)
    assert await send(0, 2048) == (None, 1)
    assert await send(0, 2200) == (Drop.TX_MTU, 0)
    assert await send(1, 2200) == (None, 1)
    assert await send(2, 10) == (Drop.TX_MTU, 0)
    assert h1.port.tx.drops == {Drop.TX_MTU: 2}
    with pytest.raises(FabricError, match="the MTU of VL 3 is 20000 bytes; MTUs are 0 to 10240"):
        out.set_vl_mtus([0, 0, 0, 20000, *[0] * 12])
    with pytest.raises(FabricError, match="sends SC 31 to VL 16; VLs are 0 to 15"):
        out.set_sc_to_vl([0] * 31 + [16])


def _leads(port: SwitchPort, there: Switch) -> bool:
    far = port.link.far_end(port) if port.link is not None else None
    return isinstance(far, SwitchPort) and far.switch is there
