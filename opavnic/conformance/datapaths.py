"""The datapaths that frame vectors can be run against, by name. To add one, add it to the registry.

The reference is the adapter itself, with a netdev in memory; the native one has vports that keep their frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hfi_sim.fabric.fabric import Fabric
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from opavnic.base.errors import DatapathUnavailableError
from opavnic.conformance.vector_setup import (
    EncapOutcome,
    EncapSituation,
    HfiStub,
    RxOutcome,
    VportSetup,
    VportState,
    traffic_counters,
)
from opavnic.datapath.selection import load_native, why_not_native
from opavnic.datapath.snapshot import add_vnic, take_demux, take_vport
from opavnic.engine.threaded import carrier_engine, native_carrier
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.demux import VnicDemux
from opavnic.vnic.encap import pad_frame
from opavnic.vnic.flow import entropy_of
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import ConfigState, VportNum


class PythonDatapath:
    """Encapsulation and receipt in Python."""

    def encap(self, situation: EncapSituation) -> EncapOutcome:
        """Set up one vport and send one frame."""
        hfi = HfiStub()
        adapter = configured_adapter(situation, hfi)
        frame = pad_frame(situation.frame)
        adapter.send_frame(frame, situation.flow_hash)
        return EncapOutcome(
            packet=hfi.sent[0] if hfi.sent else None,
            vl=adapter.forwarding.vl(frame, situation.vlan_tci),
            entropy=entropy_of(situation.flow_hash),
            counters=traffic_counters(adapter.counters, "tx"),
        )

    def rx(self, vports: Sequence[VportSetup], packet: bytes) -> RxOutcome:
        """Set up the vports of a port and give it one packet."""
        demux, adapters, netdevs = set_up_vports(vports)
        demux.receive(packet)
        frames = {num: netdev.received.popleft() for num, netdev in netdevs.items() if netdev.received}
        return frames, {num: traffic_counters(adapter.counters, "rx") for num, adapter in adapters.items()}


def configured_adapter(situation: EncapSituation, hfi: HfiStub) -> Adapter:
    """Return a VNIC that is set up for an encapsulation vector."""
    adapter = _adapter(memory_netdev(1), VportNum(1), VnicDemux(driver_quirks=True), hfi)
    adapter.apply(replace(situation.info, config_state=ConfigState.FORWARDING))
    for batch in situation.mac_batches:
        adapter.update_mac_table(batch.offset, batch.entries, batch.digest)
    adapter.port_changed(True)  # vesw_id 0 is among the vectors, and cannot be opened
    return adapter


def set_up_vports(
    vports: Sequence[VportSetup],
) -> tuple[VnicDemux, dict[int, Adapter], dict[int, MemoryNetdev]]:
    """Return a port's demultiplexer, and its VNICs and their netdevs by vport, set up for a receive vector."""
    demux = VnicDemux(driver_quirks=True)
    netdevs = {vport.vport_num: memory_netdev(vport.vport_num) for vport in vports}
    adapters = {
        number: _adapter(netdev, VportNum(number), demux, HfiStub()) for number, netdev in netdevs.items()
    }
    for vport in vports:
        _set_up(adapters[vport.vport_num], netdevs[vport.vport_num], vport)
    return demux, adapters, netdevs


def _adapter(netdev: MemoryNetdev, vport_num: VportNum, demux: VnicDemux, hfi: HfiStub) -> Adapter:
    return Adapter(
        vport_num, netdev, hfi, demux=demux, report=lambda _vnic, _opcode: None, driver_quirks=True
    )


def _set_up(adapter: Adapter, netdev: MemoryNetdev, vport: VportSetup) -> None:
    info = replace(
        VeswPortInfo.power_on(), vesw_id=vport.vesw_id, eth_mtu=vport.mtu, config_state=ConfigState.FORWARDING
    )
    adapter.apply(info)
    netdev.change_mtu(vport.mtu)
    if vport.state is VportState.CLOSED:
        return
    netdev.open()
    if vport.state is VportState.DORMANT:
        adapter.apply(replace(info, config_state=ConfigState.DROP_ALL))
    elif vport.state is VportState.NO_CARRIER:
        adapter.port_changed(False)


class NativeVectorDatapath:
    """Encapsulation and receipt by the native module."""

    def __init__(self) -> None:
        """Raises DatapathUnavailableError if the module is not built."""
        native = load_native()
        if native is None:
            raise DatapathUnavailableError(why_not_native())
        self._native = native

    def encap(self, situation: EncapSituation) -> EncapOutcome:
        """Set up one vport and send one frame."""
        adapter = configured_adapter(situation, HfiStub())
        carrier = native_carrier()
        port = Fabric(engine=carrier_engine(carrier)).add_hfi("here").ports[1].number
        vport = carrier.add_vport()
        carrier.set_vport(vport, take_vport(adapter), port)
        frame = pad_frame(situation.frame)
        packets = carrier.encap(vport, frame, situation.flow_hash)
        add_vnic(adapter, carrier.collect_vport(0, vport))
        return EncapOutcome(
            packet=packets[0] if packets else None,
            vl=adapter.forwarding.vl(frame, situation.vlan_tci),
            entropy=entropy_of(situation.flow_hash),
            counters=traffic_counters(adapter.counters, "tx"),
        )

    def rx(self, vports: Sequence[VportSetup], packet: bytes) -> RxOutcome:
        """Set up the vports of a port and give it one packet."""
        demux, adapters, _ = set_up_vports(vports)
        carrier = native_carrier(merge=False)
        port = Fabric(engine=carrier_engine(carrier)).add_hfi("here").ports[1].number
        index = {adapter: carrier.add_vport() for adapter in adapters.values()}
        for adapter, vport in index.items():
            carrier.set_vport(vport, take_vport(adapter), port)
        carrier.set_demux(port, *take_demux(demux, index))
        carrier.demultiplex(0, port, packet)
        counts = carrier.collect(0)
        for adapter, vport in index.items():
            add_vnic(adapter, counts[vport])
        header = self._native.VNET_HEADER_SIZE
        numbers = {index[adapter]: num for num, adapter in adapters.items()}
        return (
            {numbers[vport]: frame[header:] for vport, frame in carrier.take_frames()},
            {num: traffic_counters(adapter.counters, "rx") for num, adapter in adapters.items()},
        )


VectorDatapath = NativeVectorDatapath | PythonDatapath
"""Encapsulation and receipt, as the vectors drive them: of a frame, and of a packet that no port has checked."""
AUTO: Final = "auto"
"""The fastest available datapath."""

DATAPATHS: Final[Mapping[str, Callable[[], VectorDatapath]]] = {
    "native": NativeVectorDatapath,
    "python": PythonDatapath,
}
"""Factories of datapaths, fastest first; each raises DatapathUnavailableError if its datapath is not available."""


def find_datapath(name: str) -> VectorDatapath:
    """Return the datapath of that name, or the fastest for `auto`.

    Raises:  DatapathUnavailableError: no datapath has that name, or it is not installed.
    """
    if name != AUTO:
        if name not in DATAPATHS:
            known = ", ".join([*DATAPATHS, AUTO])
            raise DatapathUnavailableError(f"datapath {name!r} is not installed (here: {known})")
        return DATAPATHS[name]()
    reasons = []
    for make in DATAPATHS.values():
        try:
            return make()
        except DatapathUnavailableError as error:
            reasons.append(str(error))
    raise DatapathUnavailableError("; ".join(reasons))
