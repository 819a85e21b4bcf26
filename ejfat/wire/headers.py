"""The headers behind UDP: load balancer (versions 1, 2, 3), reassembly (8 and 20 bytes), sync. Big-endian.

Source: seed 002, "Load Balancer Meta-Data" and "Reassembly Engine Meta-Data"; versions 2 and 3, the 20-byte
    reassembly header and the sync message from the public sources of today's load balancer and its clients.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import construct as c

from hfi_sim.errors import WireError

LB_PORT = 0x4C42
"""UDP destination port "LB": 19522."""
LB_MAGIC = 0x4C42
SYNC_MAGIC = 0x4C43
PROTOCOL_RE = 1
"""Protocol number in the LB header: a reassembly header follows."""

_ENDED = "the data ends inside the header"


def _need(name: str, data: bytes | memoryview, size: int) -> None:
    if len(data) < size:
        raise WireError(name, len(data), f"{_ENDED}: {len(data)} of {size} bytes")


def _fits(name: str, value: int, bits: int) -> None:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} {value:#x} does not fit {bits} bits")


def _check_magic(data: bytes | memoryview, magic: int, versions: tuple[int, ...]) -> None:
    found = int.from_bytes(data[0:2], "big")
    if found != magic:
        raise WireError("magic", 0, f"{found:#06x}, expected {magic:#06x}")
    if data[2] not in versions:
        raise WireError("version", 2, f"{data[2]}, expected {' or '.join(map(str, versions))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LbHeaderV1:
    """The load balancer's header of the document: a tick and nothing else to choose by.

    Source: seed 002, the P4 listing (`udplb_t`), the pcap generator and the Lua dissector.
    Differs: the text draws 16 bytes with an entropy field; that form became version 2.
    """

    tick: int
    protocol: int = PROTOCOL_RE

    VERSION: ClassVar[int] = 1
    SIZE: ClassVar[int] = 12
    STRUCT: ClassVar[struct.Struct] = struct.Struct(">HBBQ")
    LAYOUT: ClassVar[Any] = c.Struct(
        "magic" / c.Const(LB_MAGIC, c.Int16ub),
        "version" / c.Const(1, c.Int8ub),
        "protocol" / c.Int8ub,
        "tick" / c.Int64ub,
    )

    @property
    def slot_select(self) -> int:
        """The 16 bits that choose the calendar slot: the low bits of the tick."""
        return self.tick & 0xFFFF

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 12 bytes, another magic or version.
        """
        _need("udplb", data, cls.SIZE)
        _check_magic(data, LB_MAGIC, (cls.VERSION,))
        _, _, protocol, tick = cls.STRUCT.unpack_from(data)
        return cls(tick=tick, protocol=protocol)

    def build(self) -> bytes:
        """Return the 12 bytes.

        Raises:  ValueError: a field does not fit its width.
        """
        _fits("tick", self.tick, 64)
        _fits("protocol", self.protocol, 8)
        return self.STRUCT.pack(LB_MAGIC, self.VERSION, self.protocol, self.tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class LbHeaderV2:
    """Version 2: the slot comes from the tick, the port at the worker from the entropy.

    Source: seed 002, the header drawn in the text, which version 2 of the public P4 program implements.
    """

    tick: int
    entropy: int = 0
    protocol: int = PROTOCOL_RE
    reserved: int = 0
    """16 bits, zero from a well-behaved sender; carried through."""

    VERSION: ClassVar[int] = 2
    SIZE: ClassVar[int] = 16
    STRUCT: ClassVar[struct.Struct] = struct.Struct(">HBBHHQ")
    LAYOUT: ClassVar[Any] = c.Struct(
        "magic" / c.Const(LB_MAGIC, c.Int16ub),
        "version" / c.Const(2, c.Int8ub),
        "protocol" / c.Int8ub,
        "reserved" / c.Int16ub,
        "entropy" / c.Int16ub,
        "tick" / c.Int64ub,
    )

    @property
    def slot_select(self) -> int:
        """The 16 bits that choose the calendar slot: the low bits of the tick."""
        return self.tick & 0xFFFF

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 16 bytes, another magic or version.
        """
        _need("udplb", data, cls.SIZE)
        _check_magic(data, LB_MAGIC, (cls.VERSION,))
        _, _, protocol, reserved, entropy, tick = cls.STRUCT.unpack_from(data)
        return cls(tick=tick, entropy=entropy, protocol=protocol, reserved=reserved)

    def build(self) -> bytes:
        """Return the 16 bytes.

        Raises:  ValueError: a field does not fit its width.
        """
        _fits("tick", self.tick, 64)
        _fits("entropy", self.entropy, 16)
        _fits("protocol", self.protocol, 8)
        _fits("reserved", self.reserved, 16)
        return self.STRUCT.pack(LB_MAGIC, self.VERSION, self.protocol, self.reserved, self.entropy, self.tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class LbHeaderV3:
    """Version 3: slot and port have fields of their own, the tick chooses the epoch only."""

    tick: int
    slot_select: int
    port_select: int = 0
    protocol: int = PROTOCOL_RE

    VERSION: ClassVar[int] = 3
    SIZE: ClassVar[int] = 16
    STRUCT: ClassVar[struct.Struct] = struct.Struct(">HBBHHQ")
    LAYOUT: ClassVar[Any] = c.Struct(
        "magic" / c.Const(LB_MAGIC, c.Int16ub),
        "version" / c.Const(3, c.Int8ub),
        "protocol" / c.Int8ub,
        "slot_select" / c.Int16ub,
        "port_select" / c.Int16ub,
        "tick" / c.Int64ub,
    )

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 16 bytes, another magic or version.
        """
        _need("udplb", data, cls.SIZE)
        _check_magic(data, LB_MAGIC, (cls.VERSION,))
        _, _, protocol, slot_select, port_select, tick = cls.STRUCT.unpack_from(data)
        return cls(tick=tick, slot_select=slot_select, port_select=port_select, protocol=protocol)

    def build(self) -> bytes:
        """Return the 16 bytes.

        Raises:  ValueError: a field does not fit its width.
        """
        _fits("tick", self.tick, 64)
        _fits("slot_select", self.slot_select, 16)
        _fits("port_select", self.port_select, 16)
        _fits("protocol", self.protocol, 8)
        return self.STRUCT.pack(
            LB_MAGIC, self.VERSION, self.protocol, self.slot_select, self.port_select, self.tick
        )


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
    _need("udplb", data, 4)
    _check_magic(data, LB_MAGIC, (1, 2, 3))
    return _LB_VERSIONS[data[2]].parse(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """The document's reassembly header (8 bytes): flags for first and last, and where the segment belongs.

    Source: seed 002, "Reassembly Engine Meta-Data". Bit 14 says first, bit 15 last (the lowest of the word).
    """

    data_id: int
    offset: int
    """Byte offset in the event (or the packet's number, by agreement of sender and receiver)."""
    first: bool = False
    last: bool = False
    version: int = 0
    reserved: int = 0
    """10 bits."""

    SIZE: ClassVar[int] = 8
    STRUCT: ClassVar[struct.Struct] = struct.Struct(">HHI")
    LAYOUT: ClassVar[Any] = c.BitStruct(
        "version" / c.BitsInteger(4),
        "reserved" / c.BitsInteger(10),
        "first" / c.Flag,
        "last" / c.Flag,
        "data_id" / c.BitsInteger(16),
        "offset" / c.BitsInteger(32),
    )

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 8 bytes.
        """
        _need("segment", data, cls.SIZE)
        word, data_id, offset = cls.STRUCT.unpack_from(data)
        return cls(
            version=word >> 12,
            reserved=word >> 2 & 0x3FF,
            first=bool(word & 2),
            last=bool(word & 1),
            data_id=data_id,
            offset=offset,
        )

    def build(self) -> bytes:
        """Return the 8 bytes.

        Raises:  ValueError: a field does not fit its width.
        """
        for name, value, bits in (
            ("version", self.version, 4),
            ("reserved", self.reserved, 10),
            ("data_id", self.data_id, 16),
            ("offset", self.offset, 32),
        ):
            _fits(name, value, bits)
        word = self.version << 12 | self.reserved << 2 | self.first << 1 | self.last
        return self.STRUCT.pack(word, self.data_id, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReHeader:
    """Today's reassembly header (20 bytes): the event's whole length travels in every packet."""

    data_id: int
    offset: int
    length: int
    """Bytes of the whole event, not of this segment."""
    event: int
    version: int = 1
    flags: int = 0
    """The 12 bits behind the version; clients of today refuse others than 0."""

    SIZE: ClassVar[int] = 20
    STRUCT: ClassVar[struct.Struct] = struct.Struct(">HHIIQ")
    LAYOUT: ClassVar[Any] = c.BitStruct(
        "version" / c.BitsInteger(4),
        "flags" / c.BitsInteger(12),
        "data_id" / c.BitsInteger(16),
        "offset" / c.BitsInteger(32),
        "length" / c.BitsInteger(32),
        "event" / c.BitsInteger(64),
    )

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read the header at the start of `data`.

        Raises:  WireError: fewer than 20 bytes, a version other than 1, bits set behind it.
        """
        _need("re", data, cls.SIZE)
        word, data_id, offset, length, event = cls.STRUCT.unpack_from(data)
        if word != 0x1000:
            raise WireError("re.version", 0, f"{word:#06x}, expected 0x1000: version 1, no other bit")
        return cls(data_id=data_id, offset=offset, length=length, event=event)

    def build(self) -> bytes:
        """Return the 20 bytes.

        Raises:  ValueError: a field does not fit its width.
        """
        for name, value, bits in (
            ("version", self.version, 4),
            ("flags", self.flags, 12),
            ("data_id", self.data_id, 16),
            ("offset", self.offset, 32),
            ("length", self.length, 32),
            ("event", self.event, 64),
        ):
            _fits(name, value, bits)
        word = self.version << 12 | self.flags
        return self.STRUCT.pack(word, self.data_id, self.offset, self.length, self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncHeader:
    """What a sender tells the control plane about its ticks: where they are now, and how fast they go."""

    source_id: int
    event: int
    rate_hz: int
    unix_ns: int
    """The sender's clock, nanoseconds since 1970."""
    version: int = 2
    reserved: int = 0

    SIZE: ClassVar[int] = 28
    STRUCT: ClassVar[struct.Struct] = struct.Struct(">HBBIQIQ")
    LAYOUT: ClassVar[Any] = c.Struct(
        "magic" / c.Const(SYNC_MAGIC, c.Int16ub),
        "version" / c.Int8ub,
        "reserved" / c.Int8ub,
        "source_id" / c.Int32ub,
        "event" / c.Int64ub,
        "rate_hz" / c.Int32ub,
        "unix_ns" / c.Int64ub,
    )

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self:
        """Read a sync message: exactly 28 bytes.

        Raises:  WireError: another length, magic or version.
        """
        _need("sync", data, cls.SIZE)
        if len(data) > cls.SIZE:
            raise WireError("sync", cls.SIZE, f"{len(data) - cls.SIZE} bytes behind the message")
        _check_magic(data, SYNC_MAGIC, (2,))
        _, version, reserved, source_id, event, rate_hz, unix_ns = cls.STRUCT.unpack_from(data)
        return cls(
            source_id=source_id,
            event=event,
            rate_hz=rate_hz,
            unix_ns=unix_ns,
            version=version,
            reserved=reserved,
        )

    def build(self) -> bytes:
        """Return the 28 bytes.

        Raises:  ValueError: a field does not fit its width.
        """
        for name, value, bits in (
            ("version", self.version, 8),
            ("reserved", self.reserved, 8),
            ("source_id", self.source_id, 32),
            ("event", self.event, 64),
            ("rate_hz", self.rate_hz, 32),
            ("unix_ns", self.unix_ns, 64),
        ):
            _fits(name, value, bits)
        return self.STRUCT.pack(
            SYNC_MAGIC, self.version, self.reserved, self.source_id, self.event, self.rate_hz, self.unix_ns
        )
