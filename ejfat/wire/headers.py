"""The headers behind UDP: load balancer (versions 1, 2, 3), reassembly (8 and 20 bytes), sync. Big-endian.

The annotations of each class are the declaration of its header; see `hfi_sim.wire.header`. The scapy layers, the rows
of the Wireshark dissector and the constants of native/ come from it.

Source: seed 002, "Load Balancer Meta-Data" and "Reassembly Engine Meta-Data"; versions 2 and 3, the 20-byte
    reassembly header and the sync message from the public sources of the load balancer and its clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Self

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import FLAG, HEX, Field
from hfi_sim.wire.header import WireBytes, WireHeader, declared

LB_PORT = 0x4C42
"""UDP destination port "LB": 19522."""
LB_MAGIC = 0x4C42
SYNC_MAGIC = 0x4C43
PROTOCOL_RE = 1
_LAST_RE_VERSION = 2
"""Protocol number in the LB header for a reassembly header."""

_MAGIC: Final = Field(16, "0x4c42, as text LB", HEX, codes={LB_MAGIC: "LB"})
_PROTOCOL: Final = Field(8, "what follows", codes={PROTOCOL_RE: "reassembly header"})
_TICK: Final = Field(64, "number of the event, by which a worker is chosen")
_DATA_ID: Final = Field(16, "which source within the event the data come from", HEX)


def _check_magic(data: WireBytes, magic: int, versions: tuple[int, ...]) -> None:
    found = int.from_bytes(data[0:2], "big")
    if found != magic:
        raise WireError("magic", 0, f"{found:#06x}, expected {magic:#06x}")
    if data[2] not in versions:
        raise WireError("version", 2, f"{data[2]}, expected {' or '.join(map(str, versions))}")


class _LbHeader(WireHeader):
    """A load balancer header of the version `VERSION`."""

    __slots__ = ()

    VERSION: ClassVar[int]
    magic: int
    version: int

    @classmethod
    def parse(cls, data: WireBytes) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: too few bytes, another magic or version.
        """
        header = cls.HEADER.make(cls, data)
        if header.magic != LB_MAGIC or header.version != cls.VERSION:
            _check_magic(data, LB_MAGIC, (cls.VERSION,))
        return header


@declared("udplb", "load balancer header", "big", source="seed 002, the P4 listing (`udplb_t`)")
@dataclass(frozen=True, slots=True, kw_only=True)
class LbHeaderV1(_LbHeader):
    """Version 1: a tick only.

    Source: seed 002, the P4 listing (`udplb_t`), the pcap generator and the Lua dissector.
    Differs: the text shows 16 bytes with an entropy field; that form became version 2.
    """

    magic: Annotated[int, _MAGIC] = LB_MAGIC
    version: Annotated[int, Field(8, "1")] = 1
    protocol: Annotated[int, _PROTOCOL] = PROTOCOL_RE
    tick: Annotated[int, _TICK]

    VERSION: ClassVar[int] = 1

    @property
    def slot_select(self) -> int:
        """The 16 bits that choose the calendar slot: the low bits of the tick."""
        return self.tick & 0xFFFF


@declared("udplb", "load balancer header", "big", source="seed 002, the header drawn in the text")
@dataclass(frozen=True, slots=True, kw_only=True)
class LbHeaderV2(_LbHeader):
    """Version 2: the slot comes from the tick, the port at the worker from the entropy.

    Source: seed 002, the header drawn in the text, which version 2 of the public P4 program implements.
    """

    magic: Annotated[int, _MAGIC] = LB_MAGIC
    version: Annotated[int, Field(8, "2")] = 2
    protocol: Annotated[int, _PROTOCOL] = PROTOCOL_RE
    reserved: Annotated[int, Field(16, "0 from a well-behaved sender; carried through", HEX)] = 0
    entropy: Annotated[int, Field(16, "chooses the port at the worker", HEX)] = 0
    tick: Annotated[int, _TICK]

    VERSION: ClassVar[int] = 2

    @property
    def slot_select(self) -> int:
        """The 16 bits that choose the calendar slot: the low bits of the tick."""
        return self.tick & 0xFFFF


@declared("udplb", "load balancer header", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class LbHeaderV3(_LbHeader):
    """Version 3: slot and port have their own fields; the tick only selects the epoch."""

    magic: Annotated[int, _MAGIC] = LB_MAGIC
    version: Annotated[int, Field(8, "3")] = 3
    protocol: Annotated[int, _PROTOCOL] = PROTOCOL_RE
    slot_select: Annotated[int, Field(16, "chooses the slot of the calendar", HEX)]
    port_select: Annotated[int, Field(16, "chooses the port at the worker", HEX)] = 0
    tick: Annotated[int, Field(64, "number of the event, by which the epoch is chosen")]

    VERSION: ClassVar[int] = 3


LbHeader = LbHeaderV1 | LbHeaderV2 | LbHeaderV3

_LB_VERSIONS: dict[int, type[LbHeaderV1] | type[LbHeaderV2] | type[LbHeaderV3]] = {
    1: LbHeaderV1,
    2: LbHeaderV2,
    3: LbHeaderV3,
}


def parse_lb(data: bytes | memoryview) -> LbHeader:
    """Read a load balancer header of any version.

    Raises:  WireError: too short for its version, another magic, an unknown version.
    """
    if len(data) < LbHeaderV1.SIZE:
        LbHeaderV1.HEADER.check_size(data)
    if data[2] not in _LB_VERSIONS:
        _check_magic(data, LB_MAGIC, tuple(_LB_VERSIONS))
    return _LB_VERSIONS[data[2]].parse(data)


@declared("segment", "segment header", "big", source='seed 002, "Reassembly Engine Meta-Data"')
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader(WireHeader):
    """The reassembly header of version 1 (8 bytes): flags for the first and last segment, and the offset.

    Source: seed 002, "Reassembly Engine Meta-Data".

    Bit 14 is the flag for first, bit 15 (the lowest of the word) for last.
    """

    version: Annotated[int, Field(4, "0")] = 0
    reserved: Annotated[int, Field(10, "0", HEX)] = 0
    first: Annotated[bool, Field(1, "the first segment of the event", FLAG)] = False
    last: Annotated[bool, Field(1, "the last segment of the event", FLAG)] = False
    data_id: Annotated[int, _DATA_ID]
    offset: Annotated[int, Field(32, "first byte in the event (or number of the packet, by agreement)")]


@declared("re", "reassembly header", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReHeader(WireHeader):
    """The reassembly header of versions 2 and 3 (20 bytes): every packet has the length of the event."""

    version: Annotated[int, Field(4, "1; 0 and 2 from two of the public senders")] = 1
    flags: Annotated[int, Field(12, "0; the public clients refuse anything else", HEX)] = 0
    data_id: Annotated[int, _DATA_ID]
    offset: Annotated[int, Field(32, "first byte in the event")]
    length: Annotated[int, Field(32, "bytes of the whole event, not of this segment")]
    event: Annotated[int, Field(64, "number of the event")]

    @classmethod
    def parse(cls, data: WireBytes) -> Self:
        """Read the header at the start of `data`.

        Public senders write the version 1 (E2SAR), 0 (`udplbd dataplane send`) and 2 (JLab's packetizer) into the same
        header.

        Raises:  WireError: fewer than 20 bytes, another version, or flags that are not 0.
        """
        header = cls.HEADER.make(cls, data)
        if header.version > _LAST_RE_VERSION or header.flags:
            word = int.from_bytes(data[:2])
            raise WireError("re.version", 0, f"{word:#06x}, expected 0x1000, 0x0000 or 0x2000: no other bit")
        return header


@declared("sync", "sync message", "big")
@dataclass(frozen=True, slots=True, kw_only=True)
class SyncHeader(WireHeader):
    """A sync message: the current tick of a sender and its rate, sent to the control plane."""

    magic: Annotated[int, Field(16, "0x4c43, as text LC", HEX, codes={SYNC_MAGIC: "LC"})] = SYNC_MAGIC
    version: Annotated[int, Field(8, "2")] = 2
    reserved: Annotated[int, Field(8, "0", HEX)] = 0
    source_id: Annotated[int, Field(32, "number of the sender")]
    event: Annotated[int, Field(64, "number of the event that it sends now")]
    rate_hz: Annotated[int, Field(32, "events per second")]
    unix_ns: Annotated[int, Field(64, "the sender's clock, nanoseconds since 1970")]

    @classmethod
    def parse(cls, data: WireBytes) -> Self:
        """Read a sync message: exactly 28 bytes.

        Raises:  WireError: another length, magic or version.
        """
        header = cls.HEADER.make(cls, data)
        if len(data) > cls.SIZE:
            raise WireError("sync", cls.SIZE, f"{len(data) - cls.SIZE} bytes after the message")
        if header.magic != SYNC_MAGIC or header.version != 2:
            _check_magic(data, SYNC_MAGIC, (2,))
        return header
