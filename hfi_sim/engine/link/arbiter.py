"""VL arbitration of a link: two tables, and within each the lanes share bytes in proportion to weights.

A lane that has nothing to send, or no credits, is passed over and accumulates no credit for later.

Source: InfiniBand architecture 7.6.9 (VL arbitration): a high and a low priority table, weights, and a limit of
        high priority after which a packet of low priority gets its chance; VL15 goes before all. Omni-Path links
        have the same.
Differs: there an entry of a table sends until its weight, in units of 64 bytes, is used up, and the rest of a
         packet is forgotten; here it is remembered, so that the shares hold for packets of any size. All entries of
         a lane in a table count as one, wherever they stand. A lane that is in no table sends when no other lane
         can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hfi_sim.base.errors import FabricError
from hfi_sim.base.types import SC_MANAGEMENT
from hfi_sim.engine.link.config import (
    HOQ_UNIT_NS,
    LAST_VL,
    MAX_HOQ_CODE,
    MAX_MTU,
    MAX_ROOM,
    MAX_TABLE_WEIGHT,
    MAX_VLS,
    MTU_HEADROOM,
    SERVICE_CHANNELS,
    FlowControl,
)

SCALE: Final = 720_720
"""The charge of a lane of weight 1 for a byte; divisible by every weight from 1 to 16."""
FIRST: Final = 0
HIGH: Final = 1
LOW: Final = 2
REST: Final = 3
"""The tables in order; `FIRST` and `REST` are for lanes in neither of the real ones."""
_TABLES: Final = (FIRST, HIGH, LOW, REST)


class Turn(NamedTuple):
    """The lane that sends, and the table that selected it."""

    vl: int
    table: int


class Arbiter:
    """The arbiter of one direction of a link. It is told what was sent, and asked what to send next."""

    def __init__(
        self,
        low: Sequence[int],
        high: Sequence[int] = (),
        high_limit_bytes: int | None = None,
        first: int | None = None,
    ):
        """Start with nothing sent.

        Args:  low, high: weight of each VL in either table; 0: none. high_limit_bytes: after this many bytes from
               the high table, one packet from the low table goes first, if any waits; None: never. first: a VL that
               goes before all others.
        """
        vls = range(len(low))
        high = tuple(high) or (0,) * len(low)
        self._weights = (
            [int(vl == first) for vl in vls],
            [0 if vl == first else high[vl] for vl in vls],
            [0 if vl == first else low[vl] for vl in vls],
            [int(vl != first and not high[vl] and not low[vl]) for vl in vls],
        )
        """By table and VL."""
        self._tables_of = [[table for table in _TABLES if self._weights[table][vl]] for vl in vls]
        self._limit = high_limit_bytes
        self._high_run = 0
        self._served = [[0] * len(low) for _ in _TABLES]
        """Bytes times `SCALE` over weight, by table and VL: of the lanes in a table, the one with the least is next."""
        self._level = [0 for _ in _TABLES]
        """By table, the value of the VL that was served last: a lane that becomes ready starts there."""

    def shares_like(self, other: Arbiter) -> bool:
        """Return whether both share a wire by the same rules, regardless of what they have sent."""
        return (self._weights, self._limit) == (other._weights, other._limit)

    def woke(self, vl: int) -> None:
        """Note that a VL can send now and could not before."""
        for table in self._tables_of[vl]:
            served = self._served[table]
            served[vl] = max(served[vl], self._level[table])

    def choose(self, ready: Sequence[int]) -> Turn:
        """Return which of these VLs, at least one, sends its next packet."""
        table = next(table for table in _TABLES if self._are_in(table, ready))
        if (
            table == HIGH
            and self._limit is not None
            and self._high_run > self._limit
            and self._are_in(LOW, ready)
        ):
            table = LOW
        served = self._served[table]
        return Turn(min(self._are_in(table, ready), key=lambda vl: (served[vl], vl)), table)

    def _are_in(self, table: int, ready: Sequence[int]) -> list[int]:
        weights = self._weights[table]
        return [vl for vl in ready if weights[vl]]

    def alone(self, vl: int) -> Turn:
        """Return the turn of a VL that sends because no other VL has anything to send."""
        return Turn(vl, self._tables_of[vl][0])

    def sent(self, turn: Turn, size: int) -> None:
        """Note that a VL has sent `size` bytes."""
        vl, table = turn
        if table != FIRST:
            self._high_run = self._high_run + size if table == HIGH else 0
        served = self._served[table]
        self._level[table] = served[vl]
        served[vl] += size * SCALE // self._weights[table][vl]


@dataclass(frozen=True, slots=True)
class Arbitration:
    """How VLs share a wire: the VLArb tables of a port, with the weights of all entries of a VL added up.

    Raises:  FabricError: not 16 weights, or one below 0; a limit below 0.
    """

    low: tuple[int, ...]
    """Weight of each of 16 VLs in the low-priority table; 0: not in the table."""
    high: tuple[int, ...] = (0,) * MAX_VLS
    """The same for the high-priority table."""
    high_limit_bytes: int | None = None
    """As in `FlowControl`."""

    def __post_init__(self) -> None:
        for name, weights in (("low", self.low), ("high", self.high)):
            if len(weights) != MAX_VLS:
                raise FabricError(f"{len(weights)} weights of {name} priority; there are {MAX_VLS} VLs")
            for vl, weight in enumerate(weights):
                if not 0 <= weight <= MAX_TABLE_WEIGHT:
                    raise FabricError(
                        f"VL {vl} has the weight {weight} in the table of {name} priority; "
                        f"weights there are 0 to {MAX_TABLE_WEIGHT}"
                    )
        if self.high_limit_bytes is not None and self.high_limit_bytes < 0:
            raise FabricError(f"the limit of high priority is {self.high_limit_bytes} bytes, below 0")


@dataclass(frozen=True, slots=True)
class Buffers:
    """Room at the far end of a link that packets of each VL may occupy: BufferControl of the sending port, in bytes.

    Raises:  FabricError: not 16 VLs, or room below 0.
    """

    dedicated: tuple[int, ...]
    """For each of 16 VLs, room reserved for its packets (TxDedicatedLimit)."""
    shared: tuple[int, ...]
    """For each VL, how much it may use of the shared room (TxSharedLimit)."""
    overall_shared: int
    """The room shared by all VLs (TxOverallSharedLimit)."""

    def __post_init__(self) -> None:
        for name, rooms in (("dedicated", self.dedicated), ("shared", self.shared)):
            if len(rooms) != MAX_VLS:
                raise FabricError(f"{name} room for {len(rooms)} VLs; there are {MAX_VLS}")
        for room in (*self.dedicated, *self.shared, self.overall_shared):
            if not 0 <= room <= MAX_ROOM:
                raise FabricError(f"a VL has room for {room} bytes; rooms are 0 to {MAX_ROOM}")


@dataclass(frozen=True, slots=True)
class Egress:
    """How packets leave a port by its link, as set by the subnet manager.

    Raises:  FabricError: tables of another size, a VL that is not 0 to 15, an MTU below 0.
    """

    sc_to_vl: tuple[int, ...] = ()
    """SC2VLt: the VL of each service channel; empty: as the link has it. VLs beyond those of the link are taken
    modulo their number.
    """
    vl_mtus: tuple[int, ...] = ()
    """MTU of each VL in bytes, see `MTU_HEADROOM`; 0: nothing leaves on it. Empty: no limits."""
    arbitration: Arbitration | None = None
    """How VLs share the wire of a link with credits; None: as the link has it."""
    buffers: Buffers | None = None
    """What VLs may occupy at the far end of a link with credits; None: as the link has it."""
    hoq_codes: tuple[int, ...] = ()
    """HOQLife of each VL of a switch's port; empty: as the link has it."""

    def __post_init__(self) -> None:
        if self.sc_to_vl and len(self.sc_to_vl) != SERVICE_CHANNELS:
            raise FabricError(
                f"the SC to VL table has {len(self.sc_to_vl)} entries; there are {SERVICE_CHANNELS} service channels"
            )
        for sc, vl in enumerate(self.sc_to_vl):
            if not 0 <= vl < MAX_VLS:
                raise FabricError(f"the SC to VL table sends SC {sc} to VL {vl}; VLs are 0 to {MAX_VLS - 1}")
        if self.vl_mtus and len(self.vl_mtus) != MAX_VLS:
            raise FabricError(f"MTUs for {len(self.vl_mtus)} VLs; VLs are 0 to {MAX_VLS - 1}")
        if self.hoq_codes and len(self.hoq_codes) != MAX_VLS:
            raise FabricError(
                f"head-of-queue lifetimes for {len(self.hoq_codes)} VLs; VLs are 0 to {MAX_VLS - 1}"
            )
        for vl, mtu in enumerate(self.vl_mtus):
            if not 0 <= mtu <= MAX_MTU:
                raise FabricError(f"the MTU of VL {vl} is {mtu} bytes; MTUs are 0 to {MAX_MTU}")

    def hoq_lives_ns(self, flow: FlowControl, lanes: int) -> list[int]:
        """Return the head-of-queue lifetime of each lane of a link; 0: none."""
        codes = self.hoq_codes or (flow.hoq_code,) * MAX_VLS
        lives = [HOQ_UNIT_NS << code if code <= MAX_HOQ_CODE else 0 for code in codes[: flow.vls]]
        return lives + [0] * (lanes - flow.vls)

    def is_too_long(self, size: int, vl: int) -> bool:
        """Return whether a packet of `size` bytes is longer than the MTU of its VL."""
        if not self.vl_mtus:
            return False
        mtu = self.vl_mtus[vl]
        return mtu == 0 or size > mtu + MTU_HEADROOM


def vls_without_table(flow: FlowControl | None) -> tuple[int, ...]:
    """Return the VL of each service channel at a port without a table: as the link has it.

    A link without credits has one queue. SC15 is VL15 in any case; otherwise an MTU that a fabric manager sets for
    data could block it.
    """
    vls = [0] * SERVICE_CHANNELS if flow is None else list(flow.map())
    vls[SC_MANAGEMENT] = LAST_VL
    return tuple(vls)


def _of_lanes(of_vls: Sequence[int], vls: int, lanes: int) -> list[int]:
    """Add up the values of VLs that share a lane: the VL modulo the number of VLs. Lanes beyond have 0."""
    return [sum(of_vls[lane::vls]) if lane < vls else 0 for lane in range(lanes)]


def arbiter_of(flow: FlowControl, arbitration: Arbitration | None, lanes: int) -> Arbiter | None:
    """Return the arbiter of the lanes of a direction; None if there is only one.

    Args:  lanes: the most there have ever been, `flow.vls` or more: unused ones are still sending their last
           packets.
    """
    if lanes == 1:
        return None
    leaving = [1] * (lanes - flow.vls)
    if arbitration is not None:
        high, low = (_of_lanes(of, flow.vls, lanes) for of in (arbitration.high, arbitration.low))
        low[flow.vls :] = leaving
        return Arbiter(low, high, arbitration.high_limit_bytes, LAST_VL if flow.vls == MAX_VLS else None)
    weights = [*(flow.weights or (1,) * flow.vls), *leaving]
    high = [weight if lane in flow.high else 0 for lane, weight in enumerate(weights)]
    low = [0 if lane in flow.high else weight for lane, weight in enumerate(weights)]
    return Arbiter(low, high, flow.high_limit_bytes)


@dataclass(frozen=True, slots=True)
class Rooms:
    """What the lanes of a direction may occupy at its far end, in bytes; index: lane."""

    dedicated: Sequence[int]
    shared: Sequence[int]
    """Of the shared room."""
    overall: int
    """The shared room."""

    @classmethod
    def of(cls, flow: FlowControl, buffers: Buffers | None, lanes: int) -> Rooms:
        """Return the rooms of a direction. Args: lanes: as for `arbiter_of`."""
        if buffers is None:
            buffers = Buffers(
                (flow.buffer_bytes,) * flow.vls + (0,) * (MAX_VLS - flow.vls),
                (flow.shared_bytes,) * flow.vls + (0,) * (MAX_VLS - flow.vls),
                flow.shared_bytes,
            )
        return cls(
            _of_lanes(buffers.dedicated, flow.vls, lanes),
            _of_lanes(buffers.shared, flow.vls, lanes),
            buffers.overall_shared,
        )
