"""VNICs on the ports of a fabric: configured by MADs, talking through links and a switch. No kernel needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import CapabilityMask3, MacAddr, PortState
from hfi_sim.fabric.topology import single_switch
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.header import Mad, MadClass, Method
from opavnic.vnic.vnic_port import VnicPort
from opavnic.world.world import World
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.attributes.attr_id import AttrId
from vema.attributes.class_port_info import ClassPortInfo
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.traps import notice_of
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.errors import AgentError
from vema.base.types import EMA_OUI, MadStatus, VportNum
from vema.em.core.messages import build_request, read_response
from vema.em.desired.desired import EmConfig, VeswSection
from vema.em.desired.plan import VeswPlan, port_info
from vema.em.desired.ports import PortFacts

BROADCAST = b"\xff" * 6


@dataclass
class TwoHosts:
    """Two hosts and an EM on one switch; packets arrive at once."""

    driver_quirks: bool = False
    traps: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = World(single_switch(2))
        self.fabric, self.em, self.subnet_manager = world.fabric, world.em_port, world.subnet_manager
        self.out_of_netdevs = False
        self.hosts = [host.port for host in world.hosts.values()]
        for port in self.hosts:
            world.set_pkeys(port, [0x8002, 0x8003])
        self.subnet_manager.sweep()
        self.on_trap: Callable[[int], object] = lambda _slid: None
        self.em.mad.register_agent(MadClass.EMA, EMA_OUI, [Method.TRAP], self._trap)
        self.vnics = [
            world.add_vnic_port(name, netdevs=self._netdev, driver_quirks=self.driver_quirks)
            for name in world.hosts
        ]

    def _trap(self, request: MadRequest) -> None:
        self.traps.append((request.slid, request.mad))
        self.on_trap(request.slid)

    def _netdev(self, vport_num: int) -> Netdev:
        if self.out_of_netdevs:
            raise NetdevError(f"cannot make veth{vport_num}")
        return memory_netdev(vport_num)

    def ask(
        self,
        lid: int,
        method: Method,
        attr_id: AttrId,
        data: bytes = b"",
        attr_mod: int = 1,
        pkey: int | None = None,
    ) -> bytes:
        """Send a request from the EM; return the attribute of the response."""
        request = build_request(method, attr_id, data, attr_mod=attr_mod)
        responses: list[Mad | None] = []
        self.em.mad.submit(lid, request, responses.append, pkey=pkey)
        (response,) = responses
        assert response is not None
        return read_response(request, response)

    def join(self, vesw_id: int, vport_num: int = 1, pkey: int = 0x8002) -> list[MemoryNetdev]:
        """Put a VNIC of each host on a virtual switch and open it."""
        group = self.subnet_manager.groups.create()
        section = VeswSection(id=vesw_id, name="blue", pkey=pkey, multicast_lid=group)
        plan = VeswPlan(
            EmConfig().fabric.id, section, learns=False, members=(), default_lids=(), mlid=section.mlid
        )
        for port in self.hosts:
            self.subnet_manager.groups.join(group, port)
            facts = PortFacts(port.guid, port.lid, port.name, port.hfi.name, port.hfi.name, 1)
            info = port_info(plan, facts, VeswPortInfo())
            self.ask(port.lid, Method.SET, AttrId.VESW_PORT_INFO, info.build(), vport_num)
        netdevs = [self.netdev(host, vport_num) for host in (0, 1)]
        for netdev in netdevs:
            assert netdev.open() == 0
        return netdevs

    def netdev(self, host: int, vport_num: int = 1) -> MemoryNetdev:
        """Return the netdev of a VNIC."""
        return netdev_of(self.vnics[host].adapters[VportNum(vport_num)])


def eth(dest: bytes, source: bytes, size: int = 100) -> bytes:
    return (dest + source + b"\x88\xb5").ljust(size, b"\x5a")


def test_port_announces_ethernet_on_fabric() -> None:
    lab = TwoHosts()
    assert all(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED in port.capability_mask3 for port in lab.hosts)


def test_frames_reach_the_other_host_by_its_address_and_by_broadcast() -> None:
    lab = TwoHosts()
    one, two = lab.join(2)
    frames = [
        eth(two.address, one.address),
        eth(BROADCAST, one.address),
        eth(b"\x33\x33\0\0\0\1", one.address),
    ]
    for frame in frames:
        one.transmit(frame)
    assert list(two.received) == frames
    assert not one.received
    assert lab.fabric.balance() == {}


def test_frame_with_a_pkey_that_the_port_lacks_is_dropped_at_egress() -> None:
    lab = TwoHosts()
    one, two = lab.join(2, pkey=0x8009)
    one.transmit(eth(two.address, one.address))
    assert not two.received
    assert lab.hosts[0].tx.drops == {Drop.TX_PKEY: 1}
    assert lab.vnics[0].adapters[VportNum(1)].counters.tx_carrier_errors == 1
    assert lab.fabric.balance() == {}


def test_packet_for_a_switch_that_the_host_is_not_on_ends_at_its_port() -> None:
    lab = TwoHosts()
    one, two = lab.join(2)
    adapter = lab.vnics[1].adapters[VportNum(1)]
    adapter.apply(VeswPortInfo(vesw_id=9, config_state=3, eth_mtu=1500, base_mac=two.address))
    one.transmit(eth(two.address, one.address))
    assert lab.hosts[1].rx.drops == {Drop.VNIC_NO_VESW: 1}
    assert adapter.counters.rx_nohandler == 1
    assert lab.fabric.balance() == {}


@pytest.mark.parametrize("quirks", [False, True])
def test_port_that_goes_down_takes_the_carrier_and_gives_it_back(quirks: bool) -> None:
    lab = TwoHosts(driver_quirks=quirks)
    one, _ = lab.join(2)
    port = lab.hosts[0]
    assert port.link is not None
    lab.fabric.set_link(port.link, False)
    assert not one.carrier
    one.transmit(eth(BROADCAST, one.address))
    assert lab.vnics[0].adapters[VportNum(1)].counters.tx_drop_state == 1
    lab.fabric.set_link(port.link, True)
    assert port.state is PortState.ACTIVE
    assert one.carrier
    assert lab.fabric.balance() == {}


# management


def sink(lab: TwoHosts, host: int, lid: int | None = None) -> None:
    info = ClassPortInfo(trap_lid=lab.em.lid if lid is None else lid)
    lab.ask(lab.hosts[host].lid, Method.SET, AttrId.CLASS_PORT_INFO, info.build())


def test_traps_travel_the_fabric_to_their_sink() -> None:
    lab = TwoHosts()
    sink(lab, 0)
    lab.join(2)
    lab.netdev(0).set_mac(MacAddr(b"\x02\0\0\0\0\7"))
    assert [(slid, notice_of(mad).opcode) for slid, mad in lab.traps] == [
        (lab.hosts[0].lid, opcode) for opcode in (3, 1, 2, 1)
    ]
    assert lab.fabric.balance() == {}


@pytest.mark.parametrize("lid", [0x3FFF, 0x1000000, 0xFFFFFFFF])
def test_trap_sink_that_does_not_exist_harms_nobody(lid: int) -> None:
    lab = TwoHosts()
    sink(lab, 0, lid)
    lab.join(2)
    assert lab.traps == []
    assert lab.fabric.balance() == {}


def test_who_asks_after_a_trap_is_told_the_new_address() -> None:
    lab = TwoHosts()
    lab.join(2)
    sink(lab, 0)
    responses: list[Mad | None] = []
    request = build_request(Method.GET, AttrId.IFACE_UCAST_MACS, attr_mod=1)
    lab.on_trap = lambda slid: lab.em.mad.submit(slid, request, responses.append)
    new = MacAddr(b"\x02\0\0\0\0\7")

    lab.netdev(0).set_mac(new)

    (response,) = responses
    assert response is not None
    assert IfaceMacs.parse(response.data[16:]).macs == (new,)


def test_set_with_the_limited_management_key_is_denied_get_is_not() -> None:
    lab = TwoHosts()
    lab.subnet_manager.set_management(lab.em, False)
    lab.subnet_manager.set_management(lab.hosts[0], True)
    lid = lab.hosts[0].lid
    assert lab.ask(lid, Method.GET, AttrId.VESW_PORT_INFO)
    with pytest.raises(AgentError) as refused:
        lab.ask(lid, Method.SET, AttrId.VESW_PORT_INFO)
    assert refused.value.status == MadStatus.DENIED
    assert lab.vnics[0].agent.counters.denied == 1


def test_host_without_netdevs_refuses_the_vport() -> None:
    lab = TwoHosts()
    lab.out_of_netdevs = True
    with pytest.raises(AgentError) as refused:
        lab.ask(lab.hosts[0].lid, Method.SET, AttrId.VESW_PORT_INFO)
    assert refused.value.status == MadStatus.INVALID
    assert lab.vnics[0].adapters == {}


@pytest.mark.parametrize(("at", "value"), [(1, 0x35), (2, 0x01), (2, 0x81), (37, 0x01)])
def test_mad_of_another_class_version_or_owner_does_not_reach_the_agent(at: int, value: int) -> None:
    lab = TwoHosts()
    request = bytearray(build_request(Method.GET, AttrId.VESW_PORT_INFO).build())
    request[at] = value
    responses: list[Mad | None] = []
    lab.em.mad.submit(lab.hosts[0].lid, Mad.parse(request), responses.append)
    assert [(mad.header.status, mad.data) for mad in responses if mad] == [(MadStatus.UNSUPPORTED, b"")]
    assert lab.vnics[0].agent.counters.gets == 0
    assert lab.fabric.balance() == {}


def test_a_request_of_base_version_1_is_answered_with_2048_bytes() -> None:
    lab = TwoHosts()
    info = VeswPortInfo(vesw_id=9, eth_mtu=1400)
    request = bytearray(build_request(Method.SET, AttrId.VESW_PORT_INFO, info.build(), attr_mod=1).build())
    request[0] = 1
    responses: list[Mad | None] = []
    lab.em.mad.submit(lab.hosts[0].lid, Mad.parse(request[:256]), responses.append)
    assert [(mad.header.base_version, mad.header.status, len(mad.data)) for mad in responses if mad] == [
        (1, MadStatus.OK, 2024)
    ]
    assert lab.vnics[0].adapters[VportNum(1)].port_info.eth_mtu == 1400


def test_a_host_whose_driver_is_gone_says_so_at_once() -> None:
    lab = TwoHosts()
    lab.vnics[0].crash()
    said = r"VESW_PORT_INFO: the port has no agent of this class: unsupported \(0x000c\)"
    with pytest.raises(AgentError, match=said):
        lab.ask(lab.hosts[0].lid, Method.GET, AttrId.VESW_PORT_INFO)


def test_a_trap_travels_in_272_bytes() -> None:
    lab = TwoHosts()
    lab.join(2)
    lab.ask(lab.hosts[0].lid, Method.SET, AttrId.CLASS_PORT_INFO, ClassPortInfo(trap_lid=lab.em.lid).build())
    before = lab.em.mad.counters.in_bytes
    lab.netdev(0).set_mac(MacAddr(b"\x02\0\0\0\0\7"))
    assert len(lab.traps) == 1
    assert lab.em.mad.counters.in_bytes - before == 272 + 32


def test_close_takes_everything_off_the_port() -> None:
    lab = TwoHosts()
    one, two = lab.join(2)
    lab.vnics[1].close()
    lab.vnics[1].close()
    assert two.closed
    one.transmit(eth(two.address, one.address))
    assert lab.hosts[1].rx.drops == {Drop.RX_L4: 1}
    _reopen(lab.hosts[1], lab)
    assert lab.fabric.balance() == {}


def test_crash_withdraws_the_announcement_and_restart_begins_without_a_memory() -> None:
    lab = TwoHosts()
    one, two = lab.join(2)
    two.transmit(eth(one.address, two.address))
    vnics = lab.vnics[1]
    sent = vnics.adapters[VportNum(1)].tx
    vnics.crash()
    vnics.crash()
    assert two.closed
    assert vnics.adapters == {}
    assert CapabilityMask3.ETH_ON_FABRIC_SUPPORTED not in lab.hosts[1].capability_mask3
    vnics.restart()
    vnics.restart()  # it is there
    assert CapabilityMask3.ETH_ON_FABRIC_SUPPORTED in lab.hosts[1].capability_mask3
    info = VeswPortInfo.parse(lab.ask(lab.hosts[1].lid, Method.GET, AttrId.VESW_PORT_INFO))
    assert info == VeswPortInfo.power_on()
    _, again = lab.join(2)
    assert again is not two
    again.transmit(eth(one.address, again.address))
    assert vnics.adapters[VportNum(1)].tx is sent  # what the fabric has counted is not forgotten
    assert sent.out_packets == 2
    assert lab.fabric.balance() == {}


def _reopen(port: HfiPort, lab: TwoHosts) -> None:
    VnicPort(port, lab.fabric.clock)
    assert lab.ask(port.lid, Method.GET, AttrId.VESW_PORT_INFO)
