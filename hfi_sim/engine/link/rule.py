"""A packet fault as an engine sees it: its kind, the packets that it matches, and how often it hits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hfi_sim.base.errors import FaultError
from hfi_sim.wire.field import Place
from hfi_sim.wire.l4 import L4, EthernetL4, FmHeader
from hfi_sim.wire.lrh16b import Lrh16B, dlid_of, l4_of, sc_of, slid_of
from hfi_sim.wire.mad.header import MadHeader

_MAD_AT: Final = Lrh16B.SIZE + FmHeader.SIZE
_VESW_ID: Final = EthernetL4.HEADER.place("vesw_id")
_ATTR_ID: Final = MadHeader.HEADER.place("attr_id")
_METHOD: Final = MadHeader.HEADER.place("method")
_VESW_ID_AT: Final = Lrh16B.SIZE + _VESW_ID.offset

_FIELD_BITS: Final = {
    **{name: Lrh16B.HEADER.fields[name].bits for name in ("l4", "slid", "dlid", "sc")},
    "lid": Lrh16B.HEADER.fields["slid"].bits,
    **{place.name: place.width_bits for place in (_VESW_ID, _ATTR_ID, _METHOD)},
}
"""Width in bits of the fields that a match compares."""
_SHOWN: Final = 10**20


def short(number: float) -> str:
    """Return a number in a form short enough for an error message."""
    if isinstance(number, int) and abs(number) > _SHOWN:
        return f"a number of {number.bit_length()} bits"
    return f"{number:g}"


class FaultKind(StrEnum):
    """All kinds. The first five act on packets, the others on links and nodes."""

    LOSS = "loss"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"
    DELAY = "delay"
    RATE = "rate"
    LINK_DOWN = "link-down"
    PORT_ERROR = "port-error"
    SWITCH_REBOOT = "switch-reboot"
    HFI_REMOVAL = "hfi-removal"
    PARTITION = "partition"
    CRASH = "crash"


PACKET_KINDS: Final = frozenset(
    {FaultKind.LOSS, FaultKind.DUPLICATE, FaultKind.REORDER, FaultKind.CORRUPT, FaultKind.DELAY}
)


@dataclass(frozen=True, slots=True)
class Match:
    """Which packets are meant; all given conditions must hold.

    Raises:  FaultError: an unknown direction, or a number too large for its field.
    """

    l4: int | None = None
    lid: int | None = None
    """Either the source or the destination."""
    slid: int | None = None
    dlid: int | None = None
    sc: int | None = None
    vesw_id: int | None = None
    """Ethernet packets of one virtual switch."""
    attr_id: int | None = None
    """MADs of one attribute."""
    method: int | None = None
    """MADs of one method."""
    direction: str | None = None
    """tx: packets that the named end sends; rx: packets that it receives."""

    def __post_init__(self) -> None:
        if self.direction not in (None, "tx", "rx"):
            raise FaultError(f'direction "{self.direction}" is neither tx nor rx')
        for name, bits in _FIELD_BITS.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1 << bits:
                word = name.removesuffix("_id")
                raise FaultError(
                    f"{word} is {short(value)}; the field has {bits} bits: 0 to {(1 << bits) - 1:#x}"
                )

    def fits(self, packet: bytes) -> bool:
        """Return whether the packet matches; data shorter than a header matches only without conditions."""
        if len(packet) < Lrh16B.SIZE:
            return all(getattr(self, name) is None for name in _FIELD_BITS)
        return (
            (self.l4 is None or l4_of(packet) == self.l4)
            and (self.slid is None or slid_of(packet) == self.slid)
            and (self.dlid is None or dlid_of(packet) == self.dlid)
            and (self.lid is None or self.lid in (slid_of(packet), dlid_of(packet)))
            and (self.sc is None or sc_of(packet) == self.sc)
            and (self.vesw_id is None or _vesw_id(packet) == self.vesw_id)
            and (self.attr_id is None or _mad_field(packet, _ATTR_ID) == self.attr_id)
            and (self.method is None or _mad_field(packet, _METHOD) == self.method)
        )


def _vesw_id(packet: bytes) -> int | None:
    if l4_of(packet) != L4.ETHERNET or len(packet) < _VESW_ID_AT + _VESW_ID.size:
        return None
    return int.from_bytes(packet[_VESW_ID_AT : _VESW_ID_AT + _VESW_ID.size], "little")


def _mad_field(packet: bytes, place: Place) -> int | None:
    start = _MAD_AT + place.offset
    end = start + place.size
    if l4_of(packet) != L4.FM or len(packet) < end:
        return None
    return int.from_bytes(packet[start:end], "big")


@dataclass(slots=True)
class Tally:
    """What a fault has done, over all the directions that it is on."""

    seen: int = 0
    """Packets that matched."""
    hits: int = 0
    """Packets that it hit."""


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One packet fault, the same on every direction that it is on."""

    number: int
    """Reported when it is spent."""
    kind: FaultKind
    """One of `PACKET_KINDS`."""
    chance: int
    """The probability as a share of 2**53 (`hfi_sim.base.random_stream`)."""
    match: Match
    tally: Tally
    """Counted by the engine."""
    skip: int = 0
    """Matching packets that are skipped first."""
    count: int | None = None
    """Packets to hit before it is spent; None: unlimited."""
    delay_ns: int = 0
    bits: int = 1
    copies: int = 1
    behind: int = 1
    """reorder: how many later packets overtake it."""
    hold_ns: int = 0
    """reorder: the longest time that it is held back."""

    @property
    def is_spent(self) -> bool:
        """Whether it has hit its maximum number of packets."""
        return self.count is not None and self.tally.hits >= self.count
