"""SummaryCounters 0x0020 and ErrorCounters 0x0022 of a vport. Big-endian, read only, never cleared.

Source: seed 001, "counters"; the public driver's opa_vnic_get_summary_counters() and
opa_vnic_get_error_counters().
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self

import construct

from vema.attributes.fields import READ_ONLY, ZERO, check_size, note, reserved

GROUP: Final = (
    ("unicast", "frames to one station"),
    ("mcastbcast", "frames to many"),
    ("untagged", "frames without a VLAN tag"),
    ("vlan", "frames with a VLAN tag"),
    ("64", "up to 64 bytes, FCS included"),
    ("65_127", "65 to 127 bytes"),
    ("128_255", "128 to 255 bytes"),
    ("256_511", "256 to 511 bytes"),
    ("512_1023", "512 to 1023 bytes"),
    ("1024_1518", "1024 to 1518 bytes"),
    ("1519_max", "1519 bytes and more"),
)
"""The eleven counters of a direction, in wire order."""


def _count(name: str, meaning: str) -> Any:
    return name / construct.Int64ub * note(READ_ONLY, meaning)


def _unused(offset: int) -> Any:
    return reserved(offset, 8, ZERO)


_HEADER: Final = (
    "vport_num" / construct.Int16ub * note(READ_ONLY, "number of the vport"),
    "vesw_id" / construct.Int16ub * note(READ_ONLY, "virtual Ethernet switch that it is on now"),
    "opa_port_num" / construct.Int32ub * note(READ_ONLY, "number of the HFI port"),
)

SUMMARY_LAYOUT: Final = construct.Struct(
    *_HEADER,
    _count("tx_errors", "frames not sent: fifo, carrier, state, no destination"),
    _count("rx_errors", "frames not delivered: fifo, no VNIC, state, oversize, runt"),
    _count("tx_packets", "attempts to send"),
    _count("rx_packets", "frames received"),
    _count("tx_bytes", "bytes sent, 4 of FCS each"),
    _count("rx_bytes", "bytes received, 4 of FCS each"),
    *(_count(f"tx_{name}", f"sent: {meaning}") for name, meaning in GROUP),
    *(_count(f"rx_{name}", f"received: {meaning}") for name, meaning in GROUP),
    reserved(232, 128, ZERO),
)
"""SummaryCounters in document order."""

ERROR_LAYOUT: Final = construct.Struct(
    *_HEADER,
    _count("tx_errors", "frames not sent, as in SummaryCounters"),
    _count("rx_errors", "frames not delivered, as in SummaryCounters"),
    _unused(24),
    _count("tx_smac_filt", "source address not in the MAC table's source entries"),
    _unused(40),
    _unused(48),
    _unused(56),
    _count("tx_dlid_zero", "no destination LID"),
    _unused(72),
    _count("tx_logic", "fifo and carrier errors"),
    _unused(88),
    _count("tx_drop_state", "sent while not operational"),
    _count("rx_bad_veswid", "for a virtual switch that no VNIC here is on"),
    _unused(112),
    _count("rx_runt", "frames under 60 bytes"),
    _count("rx_oversize", "frames over MTU + 18 bytes"),
    _unused(136),
    _count("rx_eth_down", "always 0"),
    _count("rx_drop_state", "received while not operational"),
    _count("rx_logic", "fifo errors"),
    reserved(168, 136, ZERO),
)
"""ErrorCounters in document order."""

_SUMMARY: Final = struct.Struct(">HHI28Q128x")
_ERROR: Final = struct.Struct(">HHI2Q8xQ24xQ8xQ8xQQ8xQQ8xQQQ136x")
_UINT64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class CounterGroup:
    """Frames of one direction by kind and by size (FCS included)."""

    unicast: int = 0
    mcastbcast: int = 0
    untagged: int = 0
    vlan: int = 0
    sizes: tuple[int, ...] = (0,) * 7
    """Up to 64 bytes, 65-127, 128-255, 256-511, 512-1023, 1024-1518, 1519 and more."""

    def in_order(self) -> tuple[int, ...]:
        """Return all eleven counters, in wire order."""
        return (self.unicast, self.mcastbcast, self.untagged, self.vlan, *self.sizes)

    @classmethod
    def of(cls, values: tuple[int, ...]) -> Self:
        """Return a group from its eleven counters, in wire order."""
        unicast, mcastbcast, untagged, vlan, *sizes = values
        return cls(unicast, mcastbcast, untagged, vlan, tuple(sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCounters:
    """What a vport has sent and received."""

    SIZE: ClassVar[int] = 360

    vport_num: int
    vesw_id: int
    opa_port_num: int
    tx_errors: int = 0
    rx_errors: int = 0
    tx_packets: int = 0
    rx_packets: int = 0
    tx_bytes: int = 0
    rx_bytes: int = 0
    tx_group: CounterGroup = CounterGroup()
    rx_group: CounterGroup = CounterGroup()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 360 bytes.
        """
        check_size("SummaryCounters", data, cls.SIZE)
        values = _SUMMARY.unpack_from(data)
        plain = dict(zip(_SUMMARY_NAMES, values[:9], strict=True))
        return cls(**plain, tx_group=CounterGroup.of(values[9:20]), rx_group=CounterGroup.of(values[20:]))

    def build(self) -> bytes:
        """Return the 360 bytes; counters are taken modulo 2**64."""
        counters = (
            *(getattr(self, name) for name in _SUMMARY_NAMES[3:]),
            *self.tx_group.in_order(),
            *self.rx_group.in_order(),
        )
        head = (self.vport_num, self.vesw_id, self.opa_port_num)
        return _SUMMARY.pack(*head, *(value & _UINT64 for value in counters))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounters:
    """What a vport could not send or deliver, and why."""

    SIZE: ClassVar[int] = 304

    vport_num: int
    vesw_id: int
    opa_port_num: int
    tx_errors: int = 0
    rx_errors: int = 0
    tx_smac_filt: int = 0
    tx_dlid_zero: int = 0
    tx_logic: int = 0
    tx_drop_state: int = 0
    rx_bad_veswid: int = 0
    rx_runt: int = 0
    rx_oversize: int = 0
    rx_eth_down: int = 0
    rx_drop_state: int = 0
    rx_logic: int = 0

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 304 bytes.
        """
        check_size("ErrorCounters", data, cls.SIZE)
        return cls(**dict(zip(_ERROR_NAMES, _ERROR.unpack_from(data), strict=True)))

    def build(self) -> bytes:
        """Return the 304 bytes; counters are taken modulo 2**64."""
        counters = (getattr(self, name) & _UINT64 for name in _ERROR_NAMES[3:])
        return _ERROR.pack(self.vport_num, self.vesw_id, self.opa_port_num, *counters)


_SUMMARY_NAMES: Final = tuple(field.name for field in fields(SummaryCounters))[:9]
_ERROR_NAMES: Final = tuple(field.name for field in fields(ErrorCounters))
