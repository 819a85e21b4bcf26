"""Kinds of faults and options of packet faults, each one row; and a packet fault as an engine sees it.

A new option is a row here; what it does is in `hfi_sim.engine.link.faults` and native/engine/src/link/faults.rs.
Options of other faults: `hfi_sim.fabric.faults.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Annotated, Any, Final, Self

from hfi_sim.base.errors import FaultError, QuantityError
from hfi_sim.base.options import HEX, NANOSECONDS, WHOLE, Option, Quantity, options_of, short
from hfi_sim.base.quantities import parse_whole
from hfi_sim.base.text import unknown_name
from hfi_sim.wire.field import Place
from hfi_sim.wire.lrh16b import L4, EthernetL4, FmHeader, Lrh16B, dlid_of, is_9b, l4_of, sc_of, slid_of
from hfi_sim.wire.mad.header import MadHeader
from hfi_sim.wire.packet import MAX_PACKET
from hfi_sim.wire.packet_9b import mad_at

_MAD_AT: Final = Lrh16B.SIZE + FmHeader.SIZE
_VESW_ID: Final = EthernetL4.HEADER.place("vesw_id")
_ATTR_ID: Final = MadHeader.HEADER.place("attr_id")
_METHOD: Final = MadHeader.HEADER.place("method")
_VESW_ID_AT: Final = Lrh16B.SIZE + _VESW_ID.offset
_LID_BITS: Final = Lrh16B.HEADER.fields["slid"].bits

MAX_TIME_S: Final = 1e9
MAX_COUNT: Final = 10**9
MAX_BITS: Final = 8 * MAX_PACKET
MAX_COPIES: Final = 1000

_ANYWHERE: Final = (
    "a host, switch, port (`h1:1`), link (`h1--sw0`), one direction of it (`h1->sw0`), or `*` for all"
)
_L4_NAMES: Final = {"ethernet": L4.ETHERNET, "eth": L4.ETHERNET, "mad": L4.FM, "fm": L4.FM}


class FaultTarget(Enum):
    """What the faults of a kind act on, and how people name it."""

    PACKETS = "packets", _ANYWHERE
    LINKS = "links", _ANYWHERE
    SWITCH = "switch", "a switch"
    HFI = "HFI", "an HFI"
    NODES = "nodes", "nodes, separated by commas"
    PROGRAM = "program", "a host, `em`"

    @property
    def places(self) -> str:
        """What may stand behind `on`."""
        return self.value[1]


class FaultKind(StrEnum):
    """All kinds: what they act on, what happens, and how many seconds they last unless told."""

    target: FaultTarget
    text: str
    lasts_s: float | None

    def __new__(
        cls,
        value: str,
        target: FaultTarget = FaultTarget.PACKETS,
        text: str = "",
        lasts_s: float | None = None,
    ) -> Self:
        """Make the member `value`."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.target, member.text, member.lasts_s = target, text, lasts_s
        return member

    LOSS = "loss", FaultTarget.PACKETS, "packets are lost (`link_fault`)"
    DUPLICATE = "duplicate", FaultTarget.PACKETS, "`copies` additional packets arrive"
    REORDER = (
        "reorder",
        FaultTarget.PACKETS,
        "a packet is held back until `behind` later ones have overtaken it, for `hold` at most",
    )
    CORRUPT = "corrupt", FaultTarget.PACKETS, "`bits` bits flip; the ICRC detects this (`rx_icrc`)"
    DELAY = "delay", FaultTarget.PACKETS, "packets take `delay` longer"
    RATE = "rate", FaultTarget.LINKS, "links slow down to `rate`, or one direction of a link does"
    LINK_DOWN = (
        "link-down",
        FaultTarget.LINKS,
        "links are down; where only one direction is meant, nothing passes in that (`link_down`), and the ports "
        "stay up",
    )
    PORT_ERROR = (
        "port-error",
        FaultTarget.LINKS,
        "links go down and come back at once; of one direction, what is on its way there is lost",
        0.0,
    )
    SWITCH_REBOOT = (
        "switch-reboot",
        FaultTarget.SWITCH,
        "a switch is off for a second, or for `for`, and comes back with empty tables",
        1.0,
    )
    HFI_REMOVAL = (
        "hfi-removal",
        FaultTarget.HFI,
        "an HFI is pulled out: it reports a fatal event; its agent, VNICs and links are gone",
    )
    REGISTER_ERROR = (
        "register-error",
        FaultTarget.HFI,
        "the HFI of a host with `kernel: hfi1` finds a parity error in itself: it freezes, what passes is lost, and "
        "hfi1 lets it go on; other HFIs have no registers, and are refused",
        0.0,
    )
    PARTITION = (
        "partition",
        FaultTarget.NODES,
        "no link works between these nodes and the rest; hosts go with their switch",
    )
    CRASH = (
        "crash",
        FaultTarget.PROGRAM,
        "the driver of a host is gone, with its agent, its VNICs and LNet; it comes back with its state lost, and the "
        "Ethernet Manager configures it again. On `em`: the lab's own Ethernet Manager is gone, while agents and VNICs "
        "go on; it comes back with its database",
    )


PACKET_KINDS: Final = frozenset(kind for kind in FaultKind if kind.target is FaultTarget.PACKETS)


@dataclass(frozen=True, slots=True)
class FaultOption(Option):
    """The row of an option of faults."""

    kinds: frozenset[FaultKind] = frozenset(FaultKind)
    """Those that have it."""
    required: str = ""
    """What a fault is told that does not set it; empty: it need not."""

    def is_for(self, kind: object) -> bool:
        """Return whether a kind has it; one of a program or a package has what all kinds have."""
        return kind in self.kinds or (not isinstance(kind, FaultKind) and self.kinds.issuperset(FaultKind))


def _only(kind: FaultKind) -> frozenset[FaultKind]:
    return frozenset({kind})


@dataclass(frozen=True, slots=True)
class MatchOption(Option):
    """The row of a condition on packets. Its range is that of a field."""

    bits: int = 0
    """Width of the field; 0: it is not a field of a packet."""

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with a value that does not fit the field."""
        if not self.bits or value is None or 0 <= value < 1 << self.bits:
            return None
        return f"{self.key} is {short(value)}; the field has {self.bits} bits: 0 to {(1 << self.bits) - 1:#x}"


def _l4(value: object) -> int:
    if isinstance(value, str) and value.lower() in _L4_NAMES:
        return int(_L4_NAMES[value.lower()])
    try:
        return parse_whole(value)
    except QuantityError:
        raise FaultError(
            f"{unknown_name('L4 type', str(value), _L4_NAMES)}, or a number such as 0x55"
        ) from None


def _of_lrh(key: str, meaning: str, quantity: Quantity = WHOLE) -> MatchOption:
    return MatchOption(key, quantity, meaning, bits=Lrh16B.HEADER.fields[key].bits)


@dataclass(frozen=True, slots=True)
class Match:
    """Which packets are meant; all given conditions must hold.

    Raises:  FaultError: an unknown direction, or a number too large for its field.
    """

    l4: Annotated[
        int | None, _of_lrh("l4", "L4 type: `ethernet`, `mad`, or a number", Quantity(_l4, hex))
    ] = None
    lid: Annotated[
        int | None, MatchOption("lid", WHOLE, "LID of the source or of the destination", bits=_LID_BITS)
    ] = None
    slid: Annotated[int | None, _of_lrh("slid", "LID of the source")] = None
    dlid: Annotated[int | None, _of_lrh("dlid", "LID of the destination")] = None
    sc: Annotated[int | None, _of_lrh("sc", "service channel")] = None
    vesw_id: Annotated[
        int | None,
        MatchOption("vesw", WHOLE, "Ethernet packets of this virtual switch", bits=_VESW_ID.width_bits),
    ] = None
    attr_id: Annotated[
        int | None, MatchOption("attr", HEX, "MADs of this attribute", bits=_ATTR_ID.width_bits)
    ] = None
    method: Annotated[
        int | None, MatchOption("method", HEX, "MADs of this method", bits=_METHOD.width_bits)
    ] = None
    direction: Annotated[
        str | None,
        MatchOption(
            "direction",
            Quantity(str),
            "`tx` or `rx`, as seen from what follows `on`; faults of links take it too",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.direction not in (None, "tx", "rx"):
            raise FaultError(f'direction "{self.direction}" is neither tx nor rx')
        for option in options_of(Match):
            if problem := option.problem(getattr(self, option.field)):
                raise FaultError(problem)

    def fits(self, packet: bytes) -> bool:
        """Return whether the packet matches; data shorter than a header matches only without conditions."""
        if len(packet) < Lrh16B.SIZE:
            return self == Match(direction=self.direction)
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
    if l4_of(packet) != L4.FM:
        return None
    at = mad_at(packet) if is_9b(packet) else _MAD_AT
    if at is None or len(packet) < at + place.offset + place.size:
        return None
    start, end = at + place.offset, at + place.offset + place.size
    return int.from_bytes(packet[start:end], "big")


@dataclass(slots=True)
class Tally:
    """What a fault has done, over all the directions that it is on."""

    seen: int = 0
    """Packets that matched."""
    hits: int = 0
    """Packets that it hit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketOptions:
    """What engines know of the options of a packet fault. `FaultSpec` has these and what concerns no engine."""

    count: Annotated[
        int | None,
        FaultOption("count", WHOLE, "packets to hit, or beginnings, after which it is over", 1, MAX_COUNT),
    ] = None
    skip: Annotated[
        int, FaultOption("skip", WHOLE, "packets to spare first", 0, MAX_COUNT, kinds=PACKET_KINDS)
    ] = 0
    delay_ns: Annotated[
        int,
        FaultOption(
            "delay",
            NANOSECONDS,
            "how much longer a packet takes",
            0,
            MAX_TIME_S,
            kinds=_only(FaultKind.DELAY),
            required="say how long, for example delay=10us",
        ),
    ] = 0
    bits: Annotated[
        int,
        FaultOption(
            "bits",
            WHOLE,
            "bits that flip, between header and tail, where the ICRC covers them",
            1,
            MAX_BITS,
            kinds=_only(FaultKind.CORRUPT),
        ),
    ] = 1
    copies: Annotated[
        int,
        FaultOption(
            "copies", WHOLE, "additional packets that arrive", 1, MAX_COPIES, kinds=_only(FaultKind.DUPLICATE)
        ),
    ] = 1
    behind: Annotated[
        int,
        FaultOption(
            "behind", WHOLE, "later packets that overtake it", 1, MAX_COUNT, kinds=_only(FaultKind.REORDER)
        ),
    ] = 1
    hold_ns: Annotated[
        int,
        FaultOption(
            "hold",
            NANOSECONDS,
            "the longest time that it is held back",
            0,
            MAX_TIME_S,
            kinds=_only(FaultKind.REORDER),
        ),
    ] = 1_000_000


@dataclass(frozen=True, slots=True)
class FaultRule(PacketOptions):
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

    @property
    def is_spent(self) -> bool:
        """Whether it has hit its maximum number of packets."""
        return self.count is not None and self.tally.hits >= self.count
