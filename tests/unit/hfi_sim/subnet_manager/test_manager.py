"""LIDs, routes, groups and notices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import CapabilityMask3, PortState
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.table_paths import paths
from hfi_sim.fabric.topology import clos, fat_tree
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.nodes.switch import Switch, SwitchPort
from hfi_sim.routing import ENGINES
from hfi_sim.routing.engines import min_hop
from hfi_sim.routing.graph import SwitchGraph
from hfi_sim.subnet_manager import NoticeKind, Routing, SmNotice, SubnetManager
from unit.hfi_sim.fabric_pair import TEST_L4, make_pair


def ring_of_switches(hosts: int) -> tuple[Fabric, SubnetManager, list[HfiPort]]:
    """`hosts` HFIs, one on each switch of a ring: every route has a choice, every flood a loop."""
    fabric = Fabric()
    switches = [fabric.add_switch(f"sw{n}", ports=4) for n in range(hosts)]
    ports = []
    for n, switch in enumerate(switches):
        port = fabric.add_hfi(f"h{n}").ports[1]
        fabric.connect(port, switch.ports[1])
        fabric.connect(switch.ports[2], switches[(n + 1) % hosts].ports[3])
        ports.append(port)
    sm = SubnetManager(fabric, ports[0])
    sm.sweep()
    return fabric, sm, ports


def _listen(ports: list[HfiPort]) -> dict[str, int]:
    seen = dict.fromkeys((port.name for port in ports), 0)

    def take(port: HfiPort, _packet: bytes, _token: object) -> None:
        seen[port.name] += 1

    for port in ports:
        port.register_l4(TEST_L4, take)
    return seen


def test_sweep_gives_each_port_a_lid_from_one() -> None:
    _, _, ports = ring_of_switches(5)
    assert [port.lid for port in ports] == [1, 2, 3, 4, 5]
    assert {port.sm_lid for port in ports} == {1}


def test_routes_on_a_ring_reach_every_port() -> None:
    fabric, _, ports = ring_of_switches(5)
    seen = _listen(ports)
    pair = make_pair()
    for source in ports:
        for target in ports:
            if source is not target:
                source.send(pair.packet(slid=source.lid, dlid=target.lid, pkey=source.pkeys.management))
    pkey_dropped = sum(port.rx.drops.get(Drop.RX_PKEY, 0) for port in ports)
    assert sum(seen.values()) + pkey_dropped == 20
    assert seen[ports[0].name] == 4  # the full member hears everybody
    assert fabric.balance() == {}


def test_multicast_on_a_ring_reaches_each_member_once() -> None:
    fabric, sm, ports = ring_of_switches(6)
    for port in ports:
        sm.set_pkeys(port, [0x8002])
    mlid = sm.groups.create()
    assert mlid == 0xF00000
    members = [ports[0], ports[2], ports[5]]
    for port in members:
        sm.groups.join(mlid, port)
    seen = _listen(ports)
    ports[0].send(make_pair().packet(slid=ports[0].lid, dlid=mlid, pkey=0x8002))
    assert seen == {port.name: int(port in members[1:]) for port in ports}
    assert fabric.balance() == {}


def test_leave_ends_delivery() -> None:
    pair = make_pair()
    mlid = pair.sm.groups.create()
    for port in (pair.a, pair.b):
        pair.sm.groups.join(mlid, port)
    pair.a.send(pair.packet(dlid=mlid))
    pair.sm.groups.leave(mlid, pair.b)
    pair.a.send(pair.packet(dlid=mlid))
    assert len(pair.received) == 1
    assert pair.switch.counters.drops == {Drop.SW_NO_GROUP: 1}


def test_set_groups_leaves_the_same_tables_as_joining_one_by_one() -> None:
    fabric, sm, ports = ring_of_switches(5)
    other_fabric, other_sm, other_ports = ring_of_switches(5)
    wanted = {0xF00000: [0, 2], 0xF00001: [1, 2, 4], 0xF00002: [3]}
    sm.groups.assign({mlid: [ports[n] for n in members] for mlid, members in wanted.items()})
    for mlid, members in wanted.items():
        for n in members:
            other_sm.groups.join(mlid, other_ports[n])
    mfts = {name: dict(switch.mft) for name, switch in fabric.switches.items()}
    assert mfts == {name: dict(switch.mft) for name, switch in other_fabric.switches.items()}
    assert [port.multicast_lids for port in ports] == [port.multicast_lids for port in other_ports]


def test_set_groups_moves_members_and_leaves_other_groups_alone() -> None:
    _, sm, ports = ring_of_switches(4)
    sm.groups.join(0xF00007, ports[1])
    sm.groups.assign({0xF00000: ports[:3], 0xF00001: ports})
    sm.groups.assign({0xF00000: [ports[0], *ports[2:]], 0xF00001: []})
    seen = _listen(ports)
    pair = make_pair()
    for mlid in (0xF00000, 0xF00001):
        ports[0].send(pair.packet(slid=ports[0].lid, dlid=mlid))
    assert seen == {"h0:1": 0, "h1:1": 0, "h2:1": 1, "h3:1": 1}
    assert sm.groups.members(0xF00001) == frozenset()
    assert [sorted(port.multicast_lids) for port in ports] == [[0xF00000], [0xF00007], [0xF00000], [0xF00000]]


def test_set_groups_of_a_thousand_programs_each_switch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric, sm, ports = ring_of_switches(4)
    programmed: list[str] = []
    program = Switch.program

    def count(switch: Switch, lft: Mapping[int, int], mft: Mapping[int, frozenset[int]]) -> None:
        programmed.append(switch.name)
        program(switch, lft, mft)

    monkeypatch.setattr(Switch, "program", count)
    groups = {0xF00000 + n: ports for n in range(1000)}
    sm.groups.assign(groups)
    assert programmed == list(fabric.switches)
    sm.groups.assign(groups)
    assert programmed == list(fabric.switches), "what is so already is not programmed again"


def test_set_groups_with_a_unicast_lid_changes_nothing() -> None:
    _, sm, ports = ring_of_switches(3)
    with pytest.raises(FabricError, match="0x10 is not a multicast LID"):
        sm.groups.assign({0xF00000: ports, 0x10: ports})
    assert sm.groups.members(0xF00000) == frozenset()


@pytest.mark.parametrize("mlid", [5, 0xFFFFFF])
def test_create_group_outside_multicast_range_raises(mlid: int) -> None:
    with pytest.raises(FabricError, match="is not a multicast LID"):
        make_pair().sm.groups.create(mlid)


def test_unknown_dlid_ends_at_the_switch() -> None:
    pair = make_pair()
    pair.a.send(pair.packet(dlid=500))
    assert pair.switch.counters.drops == {Drop.SW_NO_ROUTE: 1}
    assert pair.fabric.balance() == {}


def test_notices_of_a_port_that_leaves_and_returns() -> None:
    pair = make_pair()
    seen: list[tuple[NoticeKind, str]] = []

    def note(notice: SmNotice) -> None:
        seen.append((notice.kind, notice.port.name))

    pair.sm.subscribe(note)
    assert pair.b.link is not None
    pair.fabric.set_link(pair.b.link, False)
    pair.fabric.set_link(pair.b.link, True)
    pair.b.announce(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)
    assert seen == [
        (NoticeKind.PORT_OUT_OF_SERVICE, "b:1"),
        (NoticeKind.PORT_IN_SERVICE, "b:1"),
        (NoticeKind.CAPABILITY_CHANGE, "b:1"),
    ]


def test_add_hfi_name_or_guid_taken_raises() -> None:
    fabric = Fabric()
    fabric.add_hfi("h1", guid=0x99)
    with pytest.raises(FabricError, match="already on the fabric"):
        fabric.add_switch("h1")
    with pytest.raises(FabricError, match="belongs to 'h1'"):
        fabric.add_hfi("h2", guid=0x99)


def test_connect_port_twice_raises() -> None:
    pair = make_pair()
    with pytest.raises(FabricError, match=r"port a:1 is already cabled \(a:1--sw0:1\)"):
        pair.fabric.connect(pair.a, pair.switch.ports[3])


# --- discovery, persistence, LMC ---------------------------------------------------------------------------


def test_sweep_sees_only_what_is_cabled_to_its_port() -> None:
    fabric = Fabric()
    for number in (1, 2):
        switch = fabric.add_switch(f"sw{number}", ports=2)
        fabric.connect(fabric.add_hfi(f"h{number}").ports[1], switch.ports[1])
    sm = SubnetManager(fabric, fabric.hfis["h1"].ports[1])
    sm.sweep()
    assert [port.name for port in sm.ports_in_service()] == ["h1:1"]
    assert fabric.hfis["h2"].ports[1].state is PortState.INIT
    fabric.connect(fabric.switches["sw1"].ports[2], fabric.switches["sw2"].ports[2])
    assert [port.name for port in sm.ports_in_service()] == ["h1:1", "h2:1"]


def test_cut_off_half_is_out_of_service_and_comes_back_with_its_lids() -> None:
    fabric, sm, ports = ring_of_switches(4)
    before = [port.lid for port in ports]
    seen: list[tuple[NoticeKind, str]] = []
    sm.subscribe(lambda notice: seen.append((notice.kind, notice.port.name)))
    trunks = [link for link in fabric.links if link.name in ("sw0:2--sw1:3", "sw2:2--sw3:3")]
    fabric.set_links(trunks, False)
    assert sorted(seen) == [(65, "h1:1"), (65, "h2:1")]
    fabric.set_links(trunks, True)
    assert sorted(seen)[:2] == [(64, "h1:1"), (64, "h2:1")]
    assert [port.lid for port in ports] == before


class Changing:
    """A fabric that changes, and the manager that follows."""

    def __init__(self, engine: str) -> None:
        self.fabric = clos(3, 2, hosts_per_leaf=1).build(Fabric())
        for switch in self.fabric.switches.values():
            for number in range(10, 14):
                switch.ports[number] = SwitchPort(switch, number)
        self.sm = SubnetManager(self.fabric, routing=Routing(engine=engine))
        self.sm.sweep()

    def change(self, number: int) -> None:
        """Let a host come or go, or a cable between switches fail or be laid again, as the number says."""
        kind, fabric = number % 4, self.fabric
        switch = [*fabric.switches.values()][number // 4 % len(fabric.switches)]
        free = next((port for n, port in switch.ports.items() if n >= 10 and port.link is None), None)
        if kind == 0 and free is not None:
            name = next(f"n{n}" for n in range(100) if f"n{n}" not in fabric.hfis)
            with fabric.together():
                fabric.connect(fabric.add_hfi(name).ports[1], free)
        elif kind == 1 and (added := [name for name in fabric.hfis if name.startswith("n")]):
            fabric.remove_nodes([added[number // 4 % len(added)]])
        elif kind > 1:
            trunks = [link for link in fabric.links if "spine" in link.name and "leaf" in link.name]
            link = trunks[number // 4 % len(trunks)]
            fabric.set_links([link], not link.up)

    def tables(self) -> dict[str, dict[int, tuple[int, ...]]]:
        return {
            name: {lid: switch.lft.next_hops(lid) for lid in switch.lft}
            for name, switch in self.fabric.switches.items()
        }

    def tables_of_a_first_sweep(self) -> dict[str, dict[int, tuple[int, ...]]]:
        self.sm.view = None
        self.sm.sweep()
        return self.tables()


@pytest.mark.parametrize("engine", ["min-hop", "up-down"])
@given(changes=st.lists(st.integers(0, 1000), max_size=8))
def test_sweep_after_any_changes_gives_the_tables_of_a_first_sweep(engine: str, changes: list[int]) -> None:
    changing = Changing(engine)
    for number in changes:
        changing.change(number)
    assert changing.tables() == changing.tables_of_a_first_sweep()


def test_routes_that_are_kept_too_long_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SwitchGraph, "is_routed_as", lambda self, other: True)
    changing = Changing("min-hop")
    changing.change(2)
    assert changing.tables() != changing.tables_of_a_first_sweep()


def test_host_that_comes_behind_a_leaf_with_others_is_routed_without_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changing = Changing("min-hop")
    asked: list[str] = []
    monkeypatch.setitem(ENGINES, "min-hop", lambda graph: asked.append("asked") or min_hop(graph))  # type: ignore[func-returns-value]
    leaf = [*changing.fabric.switches].index("leaf0")
    changing.change(4 * leaf)
    assert asked == []
    changing.change(2)
    assert asked == ["asked"]
    assert changing.tables() == changing.tables_of_a_first_sweep()


@pytest.mark.parametrize("lmc", [1, 2, 3])
def test_lmc_gives_aligned_ranges_that_are_routed_apart(lmc: int) -> None:
    fabric = clos(2, 8, hosts_per_leaf=2).build(Fabric())
    ports = list(fabric.hfi_ports())
    sm = SubnetManager(fabric, ports[0], routing=Routing(adaptive=False, lmc=lmc))
    sm.sweep()
    assert all(port.lid % (1 << lmc) == 0 and port.lmc == lmc for port in ports)
    spines = [path[2] for path in paths(sm.fabric, ports[0], ports[3])]
    assert len({spine.partition(":")[0] for spine in spines}) == 1 << lmc
    seen = _listen(ports)
    for lid in range(ports[3].lid, ports[3].lid + (1 << lmc)):
        ports[0].send(make_pair().packet(slid=ports[0].lid, dlid=lid))
    assert seen["h4:1"] == 1 << lmc


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "fattree"}, r'unknown routing engine "fattree" \(nearest: "fat-tree"'),
        ({"lmc": 4}, "LMC 4 is not 0"),
    ],
)
def test_routing_options_out_of_range_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        Routing(**options)  # type: ignore[arg-type]


def test_entropy_spreads_flows_over_the_spines_and_keeps_each_on_one() -> None:
    fabric = clos(2, 4, hosts_per_leaf=1).build(Fabric())
    a, b = fabric.hfi_ports()
    SubnetManager(fabric, a).sweep()
    seen = _listen([b])
    pair = make_pair()
    for entropy in [*range(8), *range(8)]:
        a.send(pair.packet(slid=a.lid, dlid=b.lid, entropy=entropy))
    assert seen["h2:1"] == 16
    assert {
        name: sw.counters.in_packets for name, sw in fabric.switches.items() if name.startswith("spine")
    } == {f"spine{n}": 4 for n in range(4)}


def test_entropy_spreads_flows_over_all_cores_of_a_fat_tree() -> None:
    fabric = fat_tree(4).build(Fabric())
    a, *_, b = fabric.hfi_ports()
    SubnetManager(fabric, a).sweep()
    _listen([b])
    pair = make_pair()
    for entropy in range(8):
        a.send(pair.packet(slid=a.lid, dlid=b.lid, entropy=entropy))
    cores = {name: sw.counters.in_packets for name, sw in fabric.switches.items() if name.startswith("core")}
    assert cores == {f"core{n}": 2 for n in range(4)}


def test_fat_tree_engine_falls_back_when_the_tree_breaks() -> None:
    fabric = clos(2, 2, hosts_per_leaf=1).build(Fabric())
    a, b = fabric.hfi_ports()
    sm = SubnetManager(fabric, a, routing=Routing(engine="fat-tree"))
    sm.sweep()
    fabric.connect(fabric.add_hfi("h9").ports[1], fabric.add_switch("sw9", ports=8).ports[1])
    for number, name in enumerate(("leaf0", "leaf1", "spine0"), 2):  # joins two levels: no fat tree any more
        switch = fabric.switches[name]
        switch.ports[9] = SwitchPort(switch, 9)
        fabric.connect(fabric.switches["sw9"].ports[number], switch.ports[9])
    assert paths(sm.fabric, a, b)[0][-1] == "h2:1"
    assert sm.cycle() == []


def test_min_hop_on_a_ring_reports_its_deadlock() -> None:
    _, sm, _ = ring_of_switches(5)
    assert len(sm.cycle()) == 5


def test_set_switch_off_empties_it_and_on_again_routes_again() -> None:
    fabric = clos(2, 1, hosts_per_leaf=1).build(Fabric())
    a, b = fabric.hfi_ports()
    sm = SubnetManager(fabric, a)
    sm.sweep()
    spine = fabric.switches["spine0"]
    fabric.set_switch(spine, False)
    assert dict(spine.lft) == {}
    assert [port.name for port in sm.ports_in_service()] == ["h1:1"]
    assert paths(sm.fabric, a, b)[0][-1] == "leaf0: no route"
    fabric.set_switch(spine, True)
    assert paths(sm.fabric, a, b)[0][-1] == "h2:1"


def test_link_held_down_by_two_comes_up_when_both_let_go() -> None:
    pair = make_pair()
    link = pair.b.link
    assert link is not None
    pair.fabric.set_link(link, False, by="x")
    pair.fabric.set_link(link, False, by="y")
    pair.fabric.set_link(link, True, by="x")
    assert not link.up
    pair.fabric.set_link(link, True, by="y")
    assert link.up


def test_one_switch_with_a_thousand_ports_reaches_the_last() -> None:
    fabric = Fabric()
    switch = fabric.add_switch("sw0", ports=1000)
    ports = [fabric.add_hfi(f"h{n}").ports[1] for n in (1, 300, 1000)]
    for port, number in zip(ports, (1, 300, 1000), strict=True):
        fabric.connect(port, switch.ports[number])
    SubnetManager(fabric, ports[0]).sweep()
    seen = _listen(ports)
    for port in ports[1:]:
        packet = make_pair().packet(slid=port.lid, dlid=ports[0].lid, pkey=0x7FFF)
        assert port.send(packet) is None
        assert ports[0].send(make_pair().packet(slid=ports[0].lid, dlid=port.lid)) is None
    assert seen == {port.name: 2 if port is ports[0] else 1 for port in ports}


@pytest.mark.parametrize("count", [0, 0x4000])
def test_add_switch_with_impossible_port_count_raises(count: int) -> None:
    with pytest.raises(FabricError, match=f"switch sw0: {count} ports; a switch has 1 to 16383"):
        Fabric().add_switch("sw0", ports=count)
