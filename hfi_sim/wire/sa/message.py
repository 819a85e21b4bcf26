"""A message of subnet administration: a MAD with RMPP header and SA header, then one record or a table of them.

Records have codes of rates and MTUs, and selectors beside them.

Source: the InfiniBand architecture, 15.2.1 (SA MADs) and 15.2.5.16 (PathRecord); opa-ff, ib_types.h and
ib_generalServices.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Self, TypeVar

from hfi_sim.base.errors import WireError
from hfi_sim.wire.field import HEX, Field
from hfi_sim.wire.header import WireHeader, declared
from hfi_sim.wire.mad.attributes import CLASS_VERSION_IB, CLASS_VERSION_OPA
from hfi_sim.wire.mad.header import (
    BASE_VERSION_IB,
    BASE_VERSION_OPA,
    Mad,
    MadClass,
    MadHeader,
    RmppHeader,
    mad_size,
)
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, RmppFlag, RmppType
from hfi_sim.wire.sa.record import SaRecord
from hfi_sim.wire.sa.records import SELECT_EXACTLY, SELECT_GREATER, SELECT_LESS
from hfi_sim.wire.sma.port_info import MTU_BYTES, MtuCode

OFFSET_UNIT: Final = 8
"""Bytes that AttributeOffset counts in."""
R = TypeVar("R", bound=SaRecord)


@declared(
    "sa_header", "SA header", "big", source="the InfiniBand architecture, 15.2.1; opa-ff ib_generalServices.h"
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SaHeader(WireHeader):
    """Bytes 36 to 55 of an SA MAD."""

    sm_key: Annotated[int, Field(64, "SM_Key: 0, or the key that makes the sender trusted", HEX)] = 0
    attribute_offset: Annotated[
        int, Field(16, "from one record of a table to the next, in units of 8 bytes")
    ] = 0
    reserved: Annotated[int, Field(16, "0", HEX)] = 0
    component_mask: Annotated[
        int, Field(64, "a bit for each component that the sender has filled in", HEX)
    ] = 0


_RMPP_AT: Final = MadHeader.SIZE
_SA_AT: Final = _RMPP_AT + RmppHeader.SIZE
DATA_AT: Final = _SA_AT + SaHeader.SIZE
"""Where the records of an SA message begin."""


def room_of(base_version: int) -> int:
    """Return the bytes of records that one MAD holds."""
    return mad_size(base_version) - DATA_AT


@dataclass(frozen=True, slots=True)
class SaMessage:
    """One message, as long as its table is; `hfi_sim.wire.mad.rmpp` makes MADs of it where one is too short."""

    header: MadHeader
    rmpp: RmppHeader
    sa: SaHeader
    data: bytes
    """The records, each `sa.attribute_offset` units of 8 bytes after the one before it."""

    @classmethod
    def parse(cls, message: bytes) -> Self:
        """Read a message. Raises: WireError: it ends inside its headers."""
        if len(message) < DATA_AT:
            raise WireError("sa_header", len(message), f"{len(message)} bytes, an SA message needs {DATA_AT}")
        return cls(
            MadHeader.parse(message),
            RmppHeader.parse(message[_RMPP_AT:]),
            SaHeader.parse(message[_SA_AT:]),
            bytes(message[DATA_AT:]),
        )

    @classmethod
    def of(cls, mad: Mad) -> Self:
        """Read a message that a MAD stack has received. Raises: WireError: it ends inside its headers."""
        return cls.parse(mad.build())

    @classmethod
    def request(
        cls, method: int, attr_id: int, record: SaRecord | None = None, *, mask: int = 0, tid: int = 0
    ) -> Self:
        """Return a request for records, in the class version of `record`; OPA's without one.

        It is as long as a MAD is: Intel's fabric manager refuses a request that ends before its record would (0x0200).

        Args:  record: holds the components that `mask` has a bit for (`SaRecord.mask`).
        """
        ib = record is not None and record.IB
        header = MadHeader(
            base_version=BASE_VERSION_IB if ib else BASE_VERSION_OPA,
            mgmt_class=MadClass.SUBN_ADM,
            class_version=CLASS_VERSION_IB if ib else CLASS_VERSION_OPA,
            method=method,
            tid=tid,
            attr_id=attr_id,
        )
        data = (b"" if record is None else record.build()).ljust(room_of(header.base_version), b"\0")
        return cls(header, RmppHeader(), SaHeader(component_mask=mask), data)

    def build(self) -> bytes:
        """Return the bytes, not filled up."""
        return self.header.build() + self.rmpp.build() + self.sa.build() + self.data

    def mad(self) -> Mad:
        """Return the message as a MAD stack sends it."""
        return Mad(self.header, self.rmpp.build() + self.sa.build() + self.data)

    def one(self, kind: type[R]) -> R:
        """Return the record of a Get, of a Set or of their response.

        Raises:  WireError: the message is too short for it.
        """
        return kind.parse(self.data)

    def table(self, kind: type[R]) -> list[R]:
        """Return the records of a table; none where AttributeOffset is 0 or too small for the record.

        What follows the last whole record is left out: a table of one MAD is filled up with zeros.
        """
        step = self.sa.attribute_offset * OFFSET_UNIT
        if step < kind.SIZE:
            return []
        data = self.data
        if not self.rmpp.rtime_flags & RmppFlag.ACTIVE:
            data = data[:step]
        return [kind.parse(data[at : at + kind.SIZE]) for at in range(0, len(data) - kind.SIZE + 1, step)]


def stride(size: int) -> int:
    """Return AttributeOffset of records with `size` bytes."""
    return -(-size // OFFSET_UNIT)


def table_header() -> RmppHeader:
    """Return the RMPP header of a table: one MAD of a table is an RMPP message too."""
    return RmppHeader(version=RMPP_VERSION, type=RmppType.DATA, rtime_flags=RmppFlag.ACTIVE)


LIFE: Final = 16
"""Lifetime of a packet: 4.096 us times 2 to this."""
PACKET_LIFE_S: Final = 4.096e-6 * 2**LIFE
_RATES: Final = (
    (2.5, 2), (5, 5), (10, 3), (12.5, 11), (20, 6), (25, 15), (28, 19), (30, 4), (37.5, 7), (50, 12), (53, 20), (60, 8),
    (75, 9), (100, 16), (112, 13), (120, 10), (168, 14), (200, 17), (300, 18), (400, 21), (600, 22), (800, 23),
)  # fmt: skip
"""Gbit/s and code, in the order of speed.

Omni-Path gives some codes of InfiniBand a meaning of its own: 12.5, 37.5, 50 and 75 stand for 14, 40, 56 and 80 Gbit/s.
Above 300 they are those that InfiniBand has added since.

Source: stl_sm_types.h of opa-ff: STL_STATIC_RATE_12_5G and so on; ib_verbs.h of Linux: enum ib_rate.
"""
MTUS: Final = tuple(int(code) for code in MTU_BYTES if code)
RATES: Final = tuple(code for _, code in _RATES)


def rate_code(bps: float) -> int:
    """Return the code of the fastest rate that is not above `bps`; the slowest, if none is."""
    return next((code for gbps, code in reversed(_RATES) if gbps * 1e9 <= bps), _RATES[0][1])


def mtu_code(size: int) -> int:
    """Return the code of the largest MTU that is not above `size` bytes."""
    return max(
        (int(code) for code, length in MTU_BYTES.items() if code and length <= size),
        default=int(MtuCode.MTU_256),
    )


def is_wanted(value: int, selector: int, wanted: int, order: tuple[int, ...]) -> bool:
    """Return whether a value is what a selector and the value beside it ask for; codes compare by their order."""
    if value not in order or wanted not in order:
        return selector not in (SELECT_GREATER, SELECT_LESS, SELECT_EXACTLY) or value == wanted
    at, other = order.index(value), order.index(wanted)
    if selector == SELECT_GREATER:
        return at > other
    if selector == SELECT_LESS:
        return at < other
    return selector != SELECT_EXACTLY or at == other


def choose(selector: int, wanted: int, order: tuple[int, ...]) -> int | None:
    """Return the value that a selector and the value beside it ask a new group to have; None: there is none."""
    if selector not in (SELECT_GREATER, SELECT_LESS, SELECT_EXACTLY):
        return order[-1]
    if wanted not in order:
        return None
    step = {SELECT_GREATER: 1, SELECT_LESS: -1, SELECT_EXACTLY: 0}[selector]
    at = order.index(wanted) + step
    return order[at] if 0 <= at < len(order) else None
