"""How a link is set up, and how packets leave by it, as an engine is told: immutable, replaced whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hfi_sim.errors import FabricError
from hfi_sim.link.arbiter import Arbiter
from hfi_sim.wire.packet import MAX_PACKET

DEFAULT_RATE_BPS: Final = 100e9
DEFAULT_LATENCY_S: Final = 300e-9
DEFAULT_QUEUE_BYTES: Final = 16 << 20

SERVICE_CHANNELS: Final = 32
MAX_VLS: Final = 16
MAX_MTU: Final = 10240
"""The largest MTU of OPA, in bytes."""
MTU_HEADROOM: Final = 124
"""An MTU is of the payload: so many bytes may come on top, for headers and ICRC.

Source: hfi1 chip.c lrh_max_header_bytes: a receive header entry of 32 words, less the RHF, with the ICRC.
"""
MAX_WEIGHT: Final = 255
"""A byte in the tables of a port."""


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """A link as an engine sees it, the same in both directions."""

    up: bool
    rate_bps: int
    """1 and more."""
    latency_ns: int
    jitter_ns: int
    """Most of an extra delay that is drawn for each packet; packets still arrive in order."""
    queue_bytes: int
    """What waits at the near end while the wire is busy; a packet that would exceed it is dropped (link_overflow)."""
    flow: FlowControl | None
    """Credits, which make the link lossless; None: it has none."""


@dataclass(frozen=True, slots=True)
class FlowControl:
    """How a link with credits is set up, the same in both directions.

    Raises:  FabricError: the number of VLs is not 1 to 16, a buffer cannot hold the longest packet, or a
             service channel is mapped to a VL that does not exist.
    """

    vls: int = 1
    buffer_bytes: int = 64 << 10
    """Buffer of each VL at the receiving end."""
    sc_to_vl: Sequence[int] = ()
    """The VL of each service channel 0 to 31; empty: SC modulo the number of VLs."""
    fecn_bytes: int = 32 << 10
    """A switch marks FECN on what it sends while this much, waiting or in the buffer, is ahead on the VL."""
    weights: Sequence[int] = ()
    """Weight of each VL in sharing the wire, 1 to 255; empty: all equal."""
    high: Sequence[int] = ()
    """VLs with priority over all others."""
    high_limit_bytes: int | None = None
    """After this many bytes of those, one packet of another VL goes first, if any waits; None: never."""

    def __post_init__(self) -> None:
        if not 1 <= self.vls <= MAX_VLS:
            raise FabricError(f"{self.vls} VLs; a link has 1 to {MAX_VLS}")
        if self.buffer_bytes < MAX_PACKET:
            raise FabricError(
                f"a VL buffer of {self.buffer_bytes} bytes cannot hold the longest packet, {MAX_PACKET}"
            )
        if self.sc_to_vl and len(self.sc_to_vl) != SERVICE_CHANNELS:
            raise FabricError(
                f"the SC to VL map has {len(self.sc_to_vl)} entries; there are {SERVICE_CHANNELS} service channels"
            )
        for sc, vl in enumerate(self.sc_to_vl):
            if not 0 <= vl < self.vls:
                raise FabricError(f"the SC to VL map sends SC {sc} to VL {vl}; VLs are 0 to {self.vls - 1}")
        if self.weights and len(self.weights) != self.vls:
            raise FabricError(f"{len(self.weights)} weights for {self.vls} VLs: each VL has one")
        for vl, weight in enumerate(self.weights):
            if not 1 <= weight <= MAX_WEIGHT:
                raise FabricError(f"VL {vl} has the weight {weight}; weights are 1 to {MAX_WEIGHT}")
        for vl in self.high:
            if not 0 <= vl < self.vls:
                raise FabricError(f"VL {vl} has high priority and is not there; VLs are 0 to {self.vls - 1}")
        if self.high_limit_bytes is not None and self.high_limit_bytes < 0:
            raise FabricError(f"the limit of high priority is {self.high_limit_bytes} bytes, below 0")

    def map(self) -> tuple[int, ...]:
        """Return the VL of each service channel."""
        return tuple(self.sc_to_vl) or tuple(sc % self.vls for sc in range(SERVICE_CHANNELS))

    def arbiter(self) -> Arbiter | None:
        """Return the arbiter of the VLs; None if there is only one VL."""
        if self.vls == 1:
            return None
        return Arbiter(self.weights or (1,) * self.vls, self.high, self.high_limit_bytes)


@dataclass(frozen=True, slots=True)
class Egress:
    """How packets leave a port by its link, as the subnet manager says.

    Raises:  FabricError: tables of another size, a VL that is not 0 to 15, an MTU below 0.
    """

    sc_to_vl: tuple[int, ...] = ()
    """SC2VLt: the VL of each service channel; empty: as the link has it. A VL that the link has not shares one of its
    own: it is taken modulo their number."""
    vl_mtus: tuple[int, ...] = ()
    """MTU of each VL in bytes, see `MTU_HEADROOM`; 0: nothing leaves on it. Empty: no limits."""

    def __post_init__(self) -> None:
        if self.sc_to_vl and len(self.sc_to_vl) != SERVICE_CHANNELS:
            raise FabricError(
                f"the SC to VL table has {len(self.sc_to_vl)} entries; there are {SERVICE_CHANNELS} service channels"
            )
        for sc, vl in enumerate(self.sc_to_vl):
            if not 0 <= vl < MAX_VLS:
                raise FabricError(f"the SC to VL table sends SC {sc} to VL {vl}; VLs are 0 to {MAX_VLS - 1}")
        if self.vl_mtus and len(self.vl_mtus) != MAX_VLS:
            raise FabricError(f"there are MTUs of {len(self.vl_mtus)} VLs; VLs are 0 to {MAX_VLS - 1}")
        for vl, mtu in enumerate(self.vl_mtus):
            if not 0 <= mtu <= MAX_MTU:
                raise FabricError(f"the MTU of VL {vl} is {mtu} bytes; MTUs are 0 to {MAX_MTU}")

    def is_too_long(self, size: int, vl: int) -> bool:
        """Return whether a packet of `size` bytes is longer than the MTU of its VL."""
        if not self.vl_mtus:
            return False
        mtu = self.vl_mtus[vl]
        return mtu == 0 or size > mtu + MTU_HEADROOM
