"""The setup and the outcome of a frame vector, as values that every datapath uses."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from hfi_sim.base.counters import Drop
from hfi_sim.engine.events.outputs import BufferToken
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import dlid_of, pkey_of, slid_of
from opavnic.vnic.counters import SIZE_NAMES, TrafficCounters, VnicCounters
from vema.attributes.mac_entries import MacEntries
from vema.attributes.vesw_port_info import VeswPortInfo


class HfiStub(HfiPort):
    """A port without an engine: what VNICs need of theirs, and no more."""

    def __init__(self, opa_port_num: int = 1) -> None:
        self.opa_port_num = opa_port_num
        self.icrc = Icrc()
        self.sent: list[bytes] = []
        """Whole packets, oldest first."""
        self.refusal: Drop | None = None
        """The result of `send_built`; if it is a Drop, packets are refused."""

    def send_built(self, packet: bytes, slid: int, dlid: int, pkey: int) -> Drop | None:
        """Keep a packet, or refuse it. Raises ValueError: what was handed over is not what stands in the packet."""
        found = slid_of(packet), dlid_of(packet), pkey_of(packet)
        if (slid, dlid, pkey) != found:
            raise ValueError(f"SLID, DLID, P_Key {(slid, dlid, pkey)} handed over, {found} in the packet")
        if self.refusal is None:
            self.sent.append(packet)
        return self.refusal

    def burst(self) -> AbstractContextManager[object]:
        """Do nothing: packets are kept at once."""
        return nullcontext()

    def keep(self, token: BufferToken) -> None:
        """Do nothing: no packet comes from a link here."""

    def release(self, token: BufferToken) -> None:
        """Do nothing: no packet comes from a link here."""


@dataclass(frozen=True, slots=True)
class EncapSituation:
    """A vport that is up, and a frame that its host sends."""

    info: VeswPortInfo
    mac_batches: tuple[MacEntries, ...]
    """MacEntries Sets, in the order applied."""
    frame: bytes
    """As passed on by the host; may be shorter than 60 bytes."""
    flow_hash: int
    """Up to 32 bits; 15 where it was recorded."""
    vlan_tci: int | None
    """The VLAN tag that the host keeps outside the frame."""


@dataclass(frozen=True, slots=True)
class EncapOutcome:
    """The result of an encapsulation."""

    packet: bytes | None
    """As passed to the HFI port, with any ICRC; None if there was no destination."""
    vl: int
    """Virtual lane, a whole byte as configured."""
    entropy: int
    """8 bits."""
    counters: dict[str, int]
    """Transmit counters that are not 0."""


class VportState(StrEnum):
    """What was done to a vport before the packet arrived."""

    UP = "up"
    CLOSED = "closed"
    DORMANT = "dormant"
    """Opened, then config_state set to DROP_ALL."""
    NO_CARRIER = "no_carrier"
    """Opened, then the HFI port went down."""


@dataclass(frozen=True, slots=True)
class VportSetup:
    """One vport of the receiving port."""

    vport_num: int
    vesw_id: int
    mtu: int
    """Of the netdev, in bytes."""
    state: VportState


RxOutcome = tuple[dict[int, bytes], dict[int, dict[str, int]]]
"""The Ethernet frames that were delivered, and the receive counters that are not 0, both by vport."""


_ERRORS: Final = {
    "tx": ("errors", "fifo_errors", "carrier_errors", "dlid_zero", "drop_state"),
    "rx": ("errors", "fifo_errors", "nohandler", "drop_state", "runt", "oversize"),
}


def traffic_counters(counters: VnicCounters, way: Literal["tx", "rx"]) -> dict[str, int]:
    """Return the counters of a direction that are not 0, under the names of the vectors."""
    traffic: TrafficCounters = getattr(counters, way)
    found = {f"{way}_packets": traffic.packets, f"{way}_bytes": traffic.bytes}
    found |= {f"{way}_{name}": getattr(counters, f"{way}_{name}") for name in _ERRORS[way]}
    return {name: count for name, count in (found | group_counters(traffic)).items() if count}


def group_counters(traffic: TrafficCounters) -> dict[str, int]:
    """Return the counters by kind and size, under the names of the vectors."""
    return {
        "unicast": traffic.unicast,
        "mcastbcast": traffic.mcastbcast,
        "untagged": traffic.untagged,
        "vlan": traffic.vlan,
        **{f"s_{name}": count for name, count in zip(SIZE_NAMES, traffic.sizes, strict=True)},
    }
