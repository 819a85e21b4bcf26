"""The same fabric twice: one runs in Python, the other on the native engine with native VNICs."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.subnet_manager import SubnetManager
from opavnic.datapath.snapshot import add_vnic, take_demux, take_vport
from opavnic.engine.threaded import carrier_engine, native_carrier
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.vnic_port import VnicPort
from unit.opavnic.vnic.vnic_bench import netdev_of
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState, VportNum

HOSTS = 3
VESWS = (0x002, 0x105, 0x7FF)
PKEYS = (0x8002, 0x8105, 0x87FF)
HEADER = 10


@dataclass
class Twin:
    """One fabric with its VNICs, in the order in which they were made."""

    fabric: Fabric
    vnic_ports: list[VnicPort]
    adapters: list[Adapter]

    def received(self, index: int) -> list[bytes]:
        netdev = netdev_of(self.adapters[index])
        frames = list(netdev.received)
        netdev.received.clear()
        return frames


def make_twin(rng: random.Random, fabric: Fabric | None = None) -> Twin:
    """Three hosts on two switches, each a member of some virtual switches; `rng` decides on the rest."""
    fabric = Fabric() if fabric is None else fabric
    left, right = fabric.add_switch("left", ports=4), fabric.add_switch("right", ports=4)
    fabric.connect(left.ports[4], right.ports[4])
    hfis = [fabric.add_hfi(f"h{number}", netdevs=memory_netdev) for number in range(1, HOSTS + 1)]
    fabric.connect(hfis[0].ports[1], left.ports[1])
    fabric.connect(hfis[1].ports[1], left.ports[2])
    fabric.connect(hfis[2].ports[1], right.ports[1])
    sm = SubnetManager(fabric, hfis[0].ports[1])
    for hfi in hfis:
        sm.set_pkeys(hfi.ports[1], rng.sample(PKEYS, rng.randint(1, 3)))
    sm.sweep()
    groups = [sm.groups.create() for _ in VESWS]
    vnic_ports, adapters = [], []
    for hfi in hfis:
        port = hfi.ports[1]
        quirks = rng.random() < 0.3
        vnics = VnicPort(port, fabric.clock, attached=fabric.attached, driver_quirks=quirks)
        vnic_ports.append(vnics)
        for number, (vesw_id, pkey, group) in enumerate(zip(VESWS, PKEYS, groups, strict=True), start=1):
            if rng.random() < 0.2:
                continue
            if rng.random() < 0.9:
                sm.groups.join(group, port)
            adapter = vnics.create_vnic(VportNum(number), lambda _vnic, _opcode: None)
            adapters.append(adapter)
            lids = [other.ports[1].lid for other in hfis]
            adapter.apply(_config(rng, vesw_id, pkey, group, port.lid, lids))
            _fill_mac_table(rng, adapter, lids)
            netdev = netdev_of(adapter)
            if rng.random() < 0.9:
                netdev.open()
            if rng.random() < 0.1:
                adapter.apply(replace(adapter.port_info, config_state=ConfigState.DROP_ALL))
            if rng.random() < 0.2:
                netdev.change_mtu(rng.choice((576, 1000)))
    if rng.random() < 0.15:
        fabric.set_link(fabric.links[rng.randrange(len(fabric.links))], False)
    return Twin(fabric, vnic_ports, adapters)


def _config(
    rng: random.Random, vesw_id: int, pkey: int, group: int, lid: int, lids: list[int]
) -> VeswPortInfo:
    return VeswPortInfo(
        fabric_id=0x301,
        vesw_id=vesw_id,
        def_port_mask=rng.choice((0, 1, 0b101, 0xFFFF)),
        pkey=pkey,
        u_mcast_dlid=group if rng.random() < 0.9 else 0,
        u_ucast_dlid=tuple(rng.choice((*lids, 0, 77)) for _ in range(16)),
        rc=rng.getrandbits(32),
        eth_mtu=rng.choice((1500, 9000)),
        base_mac=Lmac(0x301, vesw_id, lid).build(),
        config_state=ConfigState.FORWARDING,
        encap_slid=lid if rng.random() < 0.95 else 500,
        pcp_to_sc_uc=rng.randbytes(8).translate(_FIVE_BITS),
        pcp_to_sc_mc=rng.randbytes(8).translate(_FIVE_BITS),
        non_vlan_sc_uc=rng.randrange(32),
        non_vlan_sc_mc=rng.randrange(32),
    )


_FIVE_BITS = bytes(value & 31 for value in range(256))


def _fill_mac_table(rng: random.Random, adapter: Adapter, lids: list[int]) -> None:
    entries = [
        MacEntry(mac=some_mac(rng, lids), mask=b"\xff" * 6, dlid_sd=rng.choice(lids) << 8)
        for _ in range(rng.choice((0, 3, 8)))
    ]
    if rng.random() < 0.2:
        entries.append(MacEntry(mac=some_mac(rng, lids), mask=b"\xff" * 6, dlid_sd=0x20))
    if entries:
        adapter.update_mac_table(0, entries, 1)


def some_mac(rng: random.Random, lids: list[int]) -> bytes:
    """An address of a small world, so that frames meet table entries, groups and local addresses."""
    kind = rng.randrange(4)
    if kind == 0:
        return Lmac(0x301, rng.choice(VESWS), rng.choice(lids)).build()
    if kind == 1:
        return bytes((0x00, 0x11, 0x75, 0, 0, rng.randrange(6)))
    return b"\xff" * 6 if kind == 2 else bytes((1, 0, 0x5E, 0, 0, rng.randrange(3)))


def some_frame(rng: random.Random, lids: list[int]) -> bytes:
    """A frame of any kind: runts, giants, VLAN stacks, IP with options, fragments, cut short."""
    frame = some_mac(rng, lids) + bytes((2, 0, 0, 0, 0, rng.randrange(4)))
    for _ in range(rng.choice((0, 0, 0, 1, 2, 5))):
        frame += rng.choice((b"\x81\x00", b"\x88\xa8")) + rng.randbytes(2)
    protocol = rng.choice((6, 17, 1))
    body = rng.randbytes(rng.choice((0, 4, 8, 20, 64, 400, 1400, 1480, 1500, 3000)))
    kind = rng.randrange(4)
    if kind == 0:
        options = rng.choice((0, 0, 4))
        flags = rng.choice((0x4000, 0x4000, 0x2000, 0x0001))
        header = bytes((0x45 + options // 4, 0)) + (20 + options + len(body)).to_bytes(2, "big")
        header += b"\0\1" + flags.to_bytes(2, "big") + bytes((64, protocol)) + b"\0\0" + rng.randbytes(8)
        frame += b"\x08\x00" + header + bytes(options)
    elif kind == 1:
        frame += (
            b"\x86\xdd\x60\0\0\0" + len(body).to_bytes(2, "big") + bytes((protocol, 64)) + rng.randbytes(32)
        )
    elif kind == 2:
        frame += b"\x08\x06"
    else:
        frame += rng.randbytes(2)
    frame += body
    return frame[: rng.randrange(len(frame) + 1)] if rng.random() < 0.1 else frame


class NativeTwin:
    """The same with native VNICs on the native engine: its vports keep what they receive."""

    def __init__(self, rng: random.Random, *, merge: bool = False, workers: int = 1) -> None:
        self.carrier = native_carrier(merge=merge, workers=workers)
        self.twin = make_twin(rng, Fabric(engine=carrier_engine(self.carrier)))
        index = {adapter: self.carrier.add_vport() for adapter in self.twin.adapters}
        for vnics in self.twin.vnic_ports:
            for adapter in vnics.adapters.values():
                self.carrier.set_vport(index[adapter], take_vport(adapter), vnics.port.number)
            self.carrier.set_demux(vnics.port.number, *take_demux(vnics.demux, index))

    def send(self, index: int, frame: bytes) -> None:
        driver = self.twin.fabric.driver
        self.carrier.transmit(driver.now, index, frame)
        driver.run()

    def received(self) -> dict[int, list[bytes]]:
        frames: dict[int, list[bytes]] = {}
        for index, frame in self.carrier.take_frames():
            frames.setdefault(index, []).append(frame[HEADER:])
        return frames

    def add_up(self) -> None:
        counts = self.carrier.collect(self.twin.fabric.driver.now)
        for index, adapter in enumerate(self.twin.adapters):
            add_vnic(adapter, counts[index])
