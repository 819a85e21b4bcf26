"""SummaryCounters 0x0020 and ErrorCounters 0x0022 of a vport. Big-endian, read only, never cleared.

Source: seed 001, "counters"; the public driver's opa_vnic_get_summary_counters() and
opa_vnic_get_error_counters().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from hfi_sim.wire.field import Field
from hfi_sim.wire.header import WireHeader, declared
from vema.base.types import READ_ONLY, ZERO, reserved


def _number(bits: int, meaning: str) -> Field:
    return Field(bits, meaning, access=READ_ONLY)


def _count(meaning: str) -> Field:
    return _number(64, meaning)


def _unused(size: int) -> Field:
    return reserved(size, ZERO)


@declared("SummaryCounters", "SummaryCounters", "big", names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCounters(WireHeader):
    """The frames that a vport has sent and received."""

    vport_num: Annotated[int, _number(16, "number of the vport")]
    vesw_id: Annotated[int, _number(16, "virtual Ethernet switch that it is on now")]
    opa_port_num: Annotated[int, _number(32, "number of the HFI port")]
    tx_errors: Annotated[int, _count("frames not sent: fifo, carrier, state, no destination")] = 0
    rx_errors: Annotated[int, _count("frames not delivered: fifo, no VNIC, state, oversize, runt")] = 0
    tx_packets: Annotated[int, _count("attempts to send")] = 0
    rx_packets: Annotated[int, _count("frames received")] = 0
    tx_bytes: Annotated[int, _count("bytes sent, 4 of FCS each")] = 0
    rx_bytes: Annotated[int, _count("bytes received, 4 of FCS each")] = 0
    tx_unicast: Annotated[int, _count("sent: frames to one station")] = 0
    tx_mcastbcast: Annotated[int, _count("sent: frames to many")] = 0
    tx_untagged: Annotated[int, _count("sent: frames without a VLAN tag")] = 0
    tx_vlan: Annotated[int, _count("sent: frames with a VLAN tag")] = 0
    tx_64: Annotated[int, _count("sent: up to 64 bytes, FCS included")] = 0
    tx_65_127: Annotated[int, _count("sent: 65 to 127 bytes")] = 0
    tx_128_255: Annotated[int, _count("sent: 128 to 255 bytes")] = 0
    tx_256_511: Annotated[int, _count("sent: 256 to 511 bytes")] = 0
    tx_512_1023: Annotated[int, _count("sent: 512 to 1023 bytes")] = 0
    tx_1024_1518: Annotated[int, _count("sent: 1024 to 1518 bytes")] = 0
    tx_1519_max: Annotated[int, _count("sent: 1519 bytes and more")] = 0
    rx_unicast: Annotated[int, _count("received: frames to one station")] = 0
    rx_mcastbcast: Annotated[int, _count("received: frames to many")] = 0
    rx_untagged: Annotated[int, _count("received: frames without a VLAN tag")] = 0
    rx_vlan: Annotated[int, _count("received: frames with a VLAN tag")] = 0
    rx_64: Annotated[int, _count("received: up to 64 bytes, FCS included")] = 0
    rx_65_127: Annotated[int, _count("received: 65 to 127 bytes")] = 0
    rx_128_255: Annotated[int, _count("received: 128 to 255 bytes")] = 0
    rx_256_511: Annotated[int, _count("received: 256 to 511 bytes")] = 0
    rx_512_1023: Annotated[int, _count("received: 512 to 1023 bytes")] = 0
    rx_1024_1518: Annotated[int, _count("received: 1024 to 1518 bytes")] = 0
    rx_1519_max: Annotated[int, _count("received: 1519 bytes and more")] = 0
    reserved_232: Annotated[bytes, _unused(128)] = bytes(128)


@declared("ErrorCounters", "ErrorCounters", "big", names_itself=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounters(WireHeader):
    """The frames that a vport could not send or deliver, by reason."""

    vport_num: Annotated[int, _number(16, "number of the vport")]
    vesw_id: Annotated[int, _number(16, "virtual Ethernet switch that it is on now")]
    opa_port_num: Annotated[int, _number(32, "number of the HFI port")]
    tx_errors: Annotated[int, _count("frames not sent, as in SummaryCounters")] = 0
    rx_errors: Annotated[int, _count("frames not delivered, as in SummaryCounters")] = 0
    reserved_24: Annotated[bytes, _unused(8)] = bytes(8)
    tx_smac_filt: Annotated[int, _count("source address not in the MAC table's source entries")] = 0
    reserved_40: Annotated[bytes, _unused(8)] = bytes(8)
    reserved_48: Annotated[bytes, _unused(8)] = bytes(8)
    reserved_56: Annotated[bytes, _unused(8)] = bytes(8)
    tx_dlid_zero: Annotated[int, _count("no destination LID")] = 0
    reserved_72: Annotated[bytes, _unused(8)] = bytes(8)
    tx_logic: Annotated[int, _count("fifo and carrier errors")] = 0
    reserved_88: Annotated[bytes, _unused(8)] = bytes(8)
    tx_drop_state: Annotated[int, _count("sent while not operational")] = 0
    rx_bad_veswid: Annotated[int, _count("for a virtual switch that no VNIC here is on")] = 0
    reserved_112: Annotated[bytes, _unused(8)] = bytes(8)
    rx_runt: Annotated[int, _count("frames under 60 bytes")] = 0
    rx_oversize: Annotated[int, _count("frames over MTU + 18 bytes")] = 0
    reserved_136: Annotated[bytes, _unused(8)] = bytes(8)
    rx_eth_down: Annotated[int, _count("always 0")] = 0
    rx_drop_state: Annotated[int, _count("received while not operational")] = 0
    rx_logic: Annotated[int, _count("fifo errors")] = 0
    reserved_168: Annotated[bytes, _unused(136)] = bytes(136)


def _counts(header: type[WireHeader]) -> tuple[str, ...]:
    return tuple(name for name in header.HEADER.names if name.startswith(("tx_", "rx_")))


FRAMES: Final = _counts(SummaryCounters)
"""The counters of SummaryCounters."""
REASONS: Final = tuple(name for name in _counts(ErrorCounters) if name not in FRAMES)
"""The counters of ErrorCounters that say why."""
