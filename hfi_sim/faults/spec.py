"""What a fault is: its kind, its place, its time, and the packets that it means."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Final

from hfi_sim.errors import FaultError
from hfi_sim.mad.header import MadHeader
from hfi_sim.wire.field import Place
from hfi_sim.wire.l4 import L4, EthernetL4, FmHeader
from hfi_sim.wire.lrh16b import Lrh16B, dlid_of, l4_of, sc_of, slid_of
from hfi_sim.wire.packet import MAX_PACKET

_MAD_AT: Final = Lrh16B.SIZE + FmHeader.SIZE
_VESW_ID: Final = EthernetL4.HEADER.place("vesw_id")
_ATTR_ID: Final = MadHeader.HEADER.place("attr_id")
_METHOD: Final = MadHeader.HEADER.place("method")
_VESW_ID_AT: Final = Lrh16B.SIZE + _VESW_ID.offset

MAX_TIME_S: Final = 1e9
MIN_EVERY_S: Final = 1e-6
"""Faults that come more often keep a lab from everything else."""
MAX_RATE_BPS: Final = 1e15
MAX_COUNT: Final = 10**9
MAX_BITS: Final = 8 * MAX_PACKET
MAX_COPIES: Final = 1000
_SHOWN: Final = 10**20


def _short(number: float) -> str:
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
_OPTIONS_OF: Final[dict[str, tuple[str, frozenset[FaultKind]]]] = {
    "probability": ("probability", PACKET_KINDS),
    "skip": ("skip", PACKET_KINDS),
    "delay_s": ("delay", frozenset({FaultKind.DELAY})),
    "rate_bps": ("rate", frozenset({FaultKind.RATE})),
    "bits": ("bits", frozenset({FaultKind.CORRUPT})),
    "copies": ("copies", frozenset({FaultKind.DUPLICATE})),
    "behind": ("behind", frozenset({FaultKind.REORDER})),
    "hold_s": ("hold", frozenset({FaultKind.REORDER})),
}
"""Options that only some kinds use: field -> its name for people, and the kinds."""
_FIELD_BITS: Final = {
    **{name: Lrh16B.HEADER.fields[name].bits for name in ("l4", "slid", "dlid", "sc")},
    "lid": Lrh16B.HEADER.fields["slid"].bits,
    **{place.name: place.width_bits for place in (_VESW_ID, _ATTR_ID, _METHOD)},
}
"""How long the fields are that a match compares with."""
_MOMENTARY: Final = {FaultKind.PORT_ERROR: 0.0, FaultKind.SWITCH_REBOOT: 1.0}
"""How long these last, in seconds, unless told."""


@dataclass(frozen=True, slots=True)
class Match:
    """Which packets are meant; all that is given must hold.

    Raises:  FaultError: a direction that is none, a number that no packet can bear.
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
    """tx: what the named end sends; rx: what it receives."""

    def __post_init__(self) -> None:
        if self.direction not in (None, "tx", "rx"):
            raise FaultError(f'direction "{self.direction}" is neither tx nor rx')
        for name, bits in _FIELD_BITS.items():
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1 << bits:
                word = name.removesuffix("_id")
                raise FaultError(
                    f"{word} is {_short(value)}; the field has {bits} bits: 0 to {(1 << bits) - 1:#x}"
                )

    def fits(self, packet: bytes) -> bool:
        """Return whether the packet is one of those."""
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


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One fault as it is asked for.

    Raises:  FaultError: a value out of range, or an option that the kind does not have.
    """

    kind: FaultKind
    on: str
    """A link, port or node by name, `*` for every link; nodes joined by commas for partition."""
    probability: float = 1.0
    """0 to 1, drawn for each packet that fits."""
    match: Match = field(default_factory=Match)
    after_s: float = 0.0
    """From when the fault is set until it begins."""
    for_s: float | None = None
    """How long it lasts; None: until it is removed."""
    every_s: float | None = None
    """Begin again this long after each beginning."""
    count: int | None = None
    """Packets to hit, or beginnings, after which it is over."""
    skip: int = 0
    """Packets that fit and are spared first."""
    delay_s: float = 0.0
    """delay: how much longer a packet takes."""
    rate_bps: float = 0.0
    """rate: what the link has left."""
    bits: int = 1
    """corrupt: how many bits flip, between header and tail, where the ICRC covers them."""
    copies: int = 1
    """duplicate: how many more."""
    behind: int = 1
    """reorder: how many later packets overtake it."""
    hold_s: float = 1e-3
    """reorder: at the latest it goes on after this."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("after", self.after_s, 0, MAX_TIME_S),
            ("for", self.for_s, 0, MAX_TIME_S),
            ("every", self.every_s, MIN_EVERY_S, MAX_TIME_S),
            ("delay", self.delay_s, 0, MAX_TIME_S),
            ("hold", self.hold_s, 0, MAX_TIME_S),
            ("rate", self.rate_bps, 0, MAX_RATE_BPS),
            ("count", self.count, 1, MAX_COUNT),
            ("skip", self.skip, 0, MAX_COUNT),
            ("bits", self.bits, 1, MAX_BITS),
            ("copies", self.copies, 1, MAX_COPIES),
            ("behind", self.behind, 1, MAX_COUNT),
        ):
            if value is not None and not least <= value <= most:
                raise FaultError(f"fault {self.kind}: {name} is {_short(value)}, not {least:g} to {most:g}")
        if not 0 <= self.probability <= 1:
            raise FaultError(
                f"fault {self.kind}: probability {self.probability:g} is not 0 to 1 (0% to 100%)"
            )
        for name, (word, kinds) in _OPTIONS_OF.items():
            if self.kind not in kinds and getattr(self, name) != _DEFAULTS[name]:
                known = ", ".join(kind for kind in FaultKind if kind in kinds)
                raise FaultError(f"fault {self.kind} has no option {word}; it is for {known}")
        if self.kind is FaultKind.DELAY and self.delay_s <= 0:
            raise FaultError("fault delay: say how long, for example delay=10us")
        if self.kind is FaultKind.RATE and self.rate_bps <= 0:
            raise FaultError("fault rate: say what is left, above 0, for example rate=1G")
        if self.kind not in PACKET_KINDS and self.match != Match():
            raise FaultError(f"fault {self.kind} acts on links and nodes; it cannot choose packets")
        if self.every_s is not None and self.duration_s is None:
            raise FaultError(f"fault {self.kind}: every needs a fault that ends: give it for=")

    @property
    def is_plain(self) -> bool:
        """Whether it only loses or damages packets by chance: all alike, without end and without counting."""
        return (
            self.kind in (FaultKind.LOSS, FaultKind.CORRUPT)
            and replace(self.match, direction=None) == Match()
            and self.for_s is None
            and self.every_s is None
            and self.count is None
            and self.skip == 0
        )

    @property
    def duration_s(self) -> float | None:
        """How long each occurrence lasts, in seconds; None: it does not end by itself."""
        return self.for_s if self.for_s is not None else _MOMENTARY.get(self.kind)


_DEFAULTS: Final = {entry.name: entry.default for entry in fields(FaultSpec)}
