"""SummaryCounters 0x0020 and ErrorCounters 0x0022 of a vport. Big-endian, read only, never cleared.

Source: seed 001, "counters"; the public driver's opa_vnic_get_summary_counters() and
opa_vnic_get_error_counters().
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Self

from hfi_sim.wire.field import BITS_PER_BYTE, Field
from hfi_sim.wire.header import Header, annotated
from vema.base.types import READ_ONLY, ZERO, reserved

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


_UINT64: Final = (1 << 64) - 1


def _number(bits: int, meaning: str) -> Field:
    return Field(bits, meaning, access=READ_ONLY)


def _count(meaning: str) -> Field:
    return _number(64, meaning)


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
    """The frames that a vport has sent and received."""

    HEADER: ClassVar[Header]
    SIZE: ClassVar[int] = 360

    vport_num: Annotated[int, _number(16, "number of the vport")]
    vesw_id: Annotated[int, _number(16, "virtual Ethernet switch that it is on now")]
    opa_port_num: Annotated[int, _number(32, "number of the HFI port")]
    tx_errors: Annotated[int, _count("frames not sent: fifo, carrier, state, no destination")] = 0
    rx_errors: Annotated[int, _count("frames not delivered: fifo, no VNIC, state, oversize, runt")] = 0
    tx_packets: Annotated[int, _count("attempts to send")] = 0
    rx_packets: Annotated[int, _count("frames received")] = 0
    tx_bytes: Annotated[int, _count("bytes sent, 4 of FCS each")] = 0
    rx_bytes: Annotated[int, _count("bytes received, 4 of FCS each")] = 0
    tx_group: CounterGroup = CounterGroup()
    rx_group: CounterGroup = CounterGroup()

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 360 bytes.
        """
        values = cls.HEADER.unpack(data)
        plain = dict(zip(cls.HEADER.names, values[:9], strict=False))
        return cls(**plain, tx_group=CounterGroup.of(values[9:20]), rx_group=CounterGroup.of(values[20:31]))

    def build(self) -> bytes:
        """Return the 360 bytes; counters are taken modulo 2**64."""
        counters = (
            *(getattr(self, name) for name in self.HEADER.names[3:9]),
            *self.tx_group.in_order(),
            *self.rx_group.in_order(),
        )
        head = (self.vport_num, self.vesw_id, self.opa_port_num)
        return self.HEADER.codec.pack(*head, *(value & _UINT64 for value in counters), _UNUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounters:
    """The frames that a vport could not send or deliver, by reason."""

    HEADER: ClassVar[Header]
    SIZE: ClassVar[int] = 304

    vport_num: Annotated[int, _number(16, "number of the vport")]
    vesw_id: Annotated[int, _number(16, "virtual Ethernet switch that it is on now")]
    opa_port_num: Annotated[int, _number(32, "number of the HFI port")]
    tx_errors: Annotated[int, _count("frames not sent, as in SummaryCounters")] = 0
    rx_errors: Annotated[int, _count("frames not delivered, as in SummaryCounters")] = 0
    tx_smac_filt: Annotated[int, _count("source address not in the MAC table's source entries")] = 0
    tx_dlid_zero: Annotated[int, _count("no destination LID")] = 0
    tx_logic: Annotated[int, _count("fifo and carrier errors")] = 0
    tx_drop_state: Annotated[int, _count("sent while not operational")] = 0
    rx_bad_veswid: Annotated[int, _count("for a virtual switch that no VNIC here is on")] = 0
    rx_runt: Annotated[int, _count("frames under 60 bytes")] = 0
    rx_oversize: Annotated[int, _count("frames over MTU + 18 bytes")] = 0
    rx_eth_down: Annotated[int, _count("always 0")] = 0
    rx_drop_state: Annotated[int, _count("received while not operational")] = 0
    rx_logic: Annotated[int, _count("fifo errors")] = 0

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the attribute at the start of `data`.

        Raises:  WireError: fewer than 304 bytes.
        """
        values = dict(zip(cls.HEADER.names, cls.HEADER.unpack(data), strict=True))
        return cls(**{name: values[name] for name in _ERRORS})

    def build(self) -> bytes:
        """Return the 304 bytes; counters are taken modulo 2**64."""
        values = (getattr(self, name) & _UINT64 if name in _ERRORS else _UNUSED for name in self.HEADER.names)
        return self.HEADER.codec.pack(*values)


_SUMMARY: Final = annotated(SummaryCounters) | {
    f"{way}_{name}": _count(f"{done}: {meaning}")
    for way, done in (("tx", "sent"), ("rx", "received"))
    for name, meaning in GROUP
}
_ERRORS: Final = annotated(ErrorCounters)
REASONS: Final = tuple(_ERRORS)[5:]
"""The counters of ErrorCounters that say why."""
_WORD: Final = (8,)
_UNUSED: Final = b""
"""Value of reserved bytes: struct pads it with zeros."""


def _header(name: str, fields: Mapping[str, Field], unused: Mapping[str, tuple[int, ...]]) -> Header:
    """Declare counters with reserved bytes between them; `unused` gives the sizes of the reserved fields after each."""
    declared: dict[str, Field] = {}
    offset = 0
    for counter, field in fields.items():
        declared[counter] = field
        offset += field.bits // BITS_PER_BYTE
        for size in unused.get(counter, ()):
            declared[f"reserved_{offset}"] = reserved(size, ZERO)
            offset += size
    return Header(name, name, "big", declared, module=__name__, names_itself=True)


SummaryCounters.HEADER = _header("SummaryCounters", _SUMMARY, {"rx_1519_max": (128,)})
ErrorCounters.HEADER = _header(
    "ErrorCounters",
    _ERRORS,
    {
        "rx_errors": _WORD,
        "tx_smac_filt": _WORD * 3,
        "tx_dlid_zero": _WORD,
        "tx_logic": _WORD,
        "rx_bad_veswid": _WORD,
        "rx_oversize": _WORD,
        "rx_logic": (136,),
    },
)
