"""The native datapath under the vectors: the core of `opavnic._native`, with vports that keep their frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opavnic.adapter import Adapter
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
from opavnic.datapath.selection import NOT_BUILT, load_native
from opavnic.datapath.snapshot import take_vport
from opavnic.encap import pad_frame
from opavnic.errors import DatapathUnavailableError
from opavnic.flow import entropy_of

if TYPE_CHECKING:
    from opavnic import _native

_OUTWARD: _native.Link = {
    "ends": ((0, None), (1, None)),
    "up": True,
    "slow": True,  # so that the packet comes back for inspection
    "faults": [[], []],
    "streams": (0, 0),
}


class NativeDatapath:
    """Encapsulation and receipt by the native module."""

    name = "native"

    def __init__(self) -> None:
        """Raises DatapathUnavailableError if the module is not built."""
        native = load_native()
        if native is None:
            raise DatapathUnavailableError(NOT_BUILT)
        self._native = native

    def encap(self, situation: EncapSituation) -> EncapOutcome:
        """Set up one vport and send one frame."""
        adapter = configured_adapter(situation, HfiStub())
        engine = self._native.Engine(enforce=False)
        vport = engine.add_vport()
        engine.set_fabric([_port((0, 0)), _port((0, 1))], [], [_OUTWARD])
        engine.set_vport(vport, take_vport(adapter), 0)
        frame = pad_frame(situation.frame)
        engine.transmit(vport, frame, hash15=situation.hash15)
        packets = [packet for *_, packet in engine.take_packets()]
        add_vnic(adapter, engine.collect()["vports"][vport])
        return EncapOutcome(
            packet=packets[0] if packets else None,
            vl=adapter.forwarding.vl(frame, situation.vlan_tci),
            entropy=entropy_of(situation.hash15),
            counters=tx_counters(adapter.counters),
        )

    def rx(self, vports: Sequence[VportSetup], packet: bytes) -> RxOutcome:
        """Set up the vports of a port and give it one packet."""
        demux, adapters, _ = set_up_vports(vports)
        engine = self._native.Engine(merge=False)
        index = {adapter: engine.add_vport() for adapter in adapters.values()}
        vesws = {key: index[vnic] for key, vnic in demux.table.items() if isinstance(vnic, Adapter)}
        port = _port(None)
        port["vesw_mask"] = demux.mask
        port["vesws"] = vesws
        port["nohandler"] = vesws[min(vesws)] if vesws else None
        engine.set_fabric([port], [], [])
        for adapter, vport in index.items():
            engine.set_vport(vport, take_vport(adapter), 0)
        engine.receive(0, packet, checked=False)
        counts = engine.collect()["vports"]
        for adapter, vport in index.items():
            add_vnic(adapter, counts[vport])
        header = self._native.VNET_HEADER_SIZE
        numbers = {vport: num for num, adapter in adapters.items() for vport in [index[adapter]]}
        return RxOutcome(
            {numbers[vport]: frame[header:] for vport, frame in engine.take_frames()},
            {num: rx_counters(adapter.counters) for num, adapter in adapters.items()},
        )


def _port(direction: _native.Direction | None) -> _native.Port:
    return {
        "active": True,
        "lid": 0,
        "lmc": 0,
        "sendable": [],
        "admitted": [],
        "groups": [],
        "direction": direction,
        "vesw_mask": 0,
        "vesws": {},
        "nohandler": None,
    }
