"""The native datapath under the vectors: native VNICs on the native engine, with vports that keep their frames."""

from __future__ import annotations

from collections.abc import Sequence

from hfi_sim.fabric.fabric import Fabric
from opavnic.base.errors import DatapathUnavailableError
from opavnic.conformance.hfi_stub import HfiStub
from opavnic.conformance.python_datapath import configured_adapter, set_up_vports
from opavnic.conformance.vector_setup import (
    EncapOutcome,
    EncapSituation,
    RxOutcome,
    VportSetup,
    rx_counters,
    tx_counters,
)
from opavnic.datapath.counter_merge import add_vnic
from opavnic.datapath.selection import load_native, why_not_native
from opavnic.datapath.snapshot import take_demux, take_vport
from opavnic.engine.threaded import carrier_engine, native_carrier
from opavnic.vnic.encap import pad_frame
from opavnic.vnic.flow import entropy_of


class NativeVectorDatapath:
    """Encapsulation and receipt by the native module."""

    name = "native"

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
            counters=tx_counters(adapter.counters),
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
        return RxOutcome(
            {numbers[vport]: frame[header:] for vport, frame in carrier.take_frames()},
            {num: rx_counters(adapter.counters) for num, adapter in adapters.items()},
        )
