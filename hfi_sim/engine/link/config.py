"""The options of links, each one row, and how packets leave by a link; immutable, replaced whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Annotated, Any, Final

from hfi_sim.base.clock import NS_PER_S
from hfi_sim.base.errors import FabricError, QuantityError
from hfi_sim.base.options import (
    NANOSECONDS,
    RATE,
    SIZE,
    SIZE_OR_TIME,
    WHOLE,
    WHOLES,
    Option,
    Quantity,
    options_of,
)
from hfi_sim.base.quantities import SizeOrTime
from hfi_sim.base.text import unknown_name
from hfi_sim.wire.packet import MAX_PACKET

INSTANT_BPS: Final = 1 << 62
"""The highest rate of a wire, at which a packet takes no time."""
MAX_DELAY_S: Final = 3600.0
"""Limit for the delay of a link. A longer one is a wrong unit, and would make a fabric that never answers."""
DEFAULT_QUEUE_S: Final = 0.05
"""What the queue of a link holds unless told otherwise: what its wire sends in this time..."""
MIN_DEFAULT_QUEUE_BYTES: Final = 64 << 10
MAX_DEFAULT_QUEUE_BYTES: Final = 16 << 20
"""...within these limits."""

SERVICE_CHANNELS: Final = 32
MAX_VLS: Final = 16
MAX_MTU: Final = 10240
"""The largest MTU of OPA, in bytes."""
MTU_HEADROOM: Final = 124
"""Bytes that a packet may have in addition to an MTU of payload, for headers and ICRC.

Source: hfi1 chip.c lrh_max_header_bytes: a receive header entry of 32 words, less the RHF, with the ICRC.
"""
MAX_WEIGHT: Final = 255
"""A byte in the tables of a port."""
MAX_TABLE_WEIGHT: Final = 128 * MAX_WEIGHT
"""Of all entries of a VL in a table together; a table has 128."""
MAX_ROOM: Final = (1 << 32) - 1
"""More than the tables of a port can express."""
LAST_VL: Final = MAX_VLS - 1
"""VL15, which carries subnet management."""
HOQ_UNIT_NS: Final = 4096
MAX_HOQ_CODE: Final = 19
"""A head-of-queue lifetime is 4.096 us * 2**n; a higher n: none. Source: InfiniBand architecture 14.2.5.6, HOQLife."""


@dataclass(frozen=True, slots=True)
class LinkOption(Option):
    """The row of an option of links or of their credits: a key in lab files, and what engines work by."""

    engine: str = ""
    """The number that engines read, where it is not the field itself."""


@dataclass(frozen=True, slots=True)
class FlowControl:
    """The credits of one direction of a link.

    Raises:  FabricError: an option is out of its range, a buffer cannot hold the longest packet, a table has another
             length, or a VL does not exist.
    """

    vls: Annotated[int, LinkOption("vls", WHOLE, "virtual lanes", 1, MAX_VLS)] = 1
    buffer_bytes: Annotated[
        int,
        LinkOption(
            "buffer",
            SIZE,
            "bytes that each VL can hold at the receiving end; a full buffer stops the sender on that VL",
        ),
    ] = 64 << 10
    sc_to_vl: Annotated[
        Sequence[int],
        LinkOption(
            "sc_to_vl", WHOLES, "the VL of each sc 0 to 31", 0, LAST_VL, shown_default="sc modulo `vls`"
        ),
    ] = ()
    fecn_bytes: Annotated[
        int,
        LinkOption(
            "fecn",
            SIZE,
            "a switch marks packets with FECN while this many bytes are ahead of them on the VL, waiting or in the "
            "buffer; the receiver answers with BECN",
        ),
    ] = 32 << 10
    weights: Annotated[
        Sequence[int],
        LinkOption(
            "weights",
            WHOLES,
            "each VL's share of the link while others also have packets to send",
            1,
            MAX_WEIGHT,
            shown_default="all equal",
        ),
    ] = ()
    high: Annotated[
        Sequence[int],
        LinkOption("high", WHOLES, "VLs that are sent before all others", 0, LAST_VL, shown_default="none"),
    ] = ()
    high_limit_bytes: Annotated[
        int | None,
        LinkOption(
            "high_limit",
            SIZE,
            "after this many bytes of those VLs, one packet of the others is sent first, if any waits",
            shown_default="never",
        ),
    ] = None
    shared_bytes: Annotated[
        int,
        LinkOption(
            "shared",
            SIZE,
            "bytes at the receiving end beside those buffers, for packets of any VL whose own is full",
        ),
    ] = 0
    hoq_life_ns: Annotated[
        int | None,
        LinkOption(
            "hoq_life",
            NANOSECONDS,
            "a switch drops a packet that is the first of its VL for this long (`link_hoq`); rounded up to "
            "4.096us times a power of two, as ports have it",
            HOQ_UNIT_NS / NS_PER_S,
            (HOQ_UNIT_NS << MAX_HOQ_CODE) / NS_PER_S,
            shown_default="never",
        ),
    ] = None

    def __post_init__(self) -> None:
        for option in options_of(FlowControl):
            if problem := option.problem(getattr(self, option.field)):
                raise FabricError(problem)
        if self.buffer_bytes < MAX_PACKET:
            raise FabricError(
                f"a VL buffer of {self.buffer_bytes} bytes cannot hold the longest packet, {MAX_PACKET}"
            )
        if self.sc_to_vl and len(self.sc_to_vl) != SERVICE_CHANNELS:
            raise FabricError(
                f"the SC to VL map has {len(self.sc_to_vl)} entries; there are {SERVICE_CHANNELS} service channels"
            )
        for sc, vl in enumerate(self.sc_to_vl):
            if vl >= self.vls:
                raise FabricError(f"the SC to VL map sends SC {sc} to VL {vl}; VLs are 0 to {self.vls - 1}")
        if self.weights and len(self.weights) != self.vls:
            raise FabricError(f"{len(self.weights)} weights for {self.vls} VLs: each VL has one")
        for vl in self.high:
            if vl >= self.vls:
                raise FabricError(f"VL {vl} has high priority; VLs are 0 to {self.vls - 1}")

    @property
    def hoq_code(self) -> int:
        """Its head-of-queue lifetime, as HOQLife of PortInfo has it."""
        if self.hoq_life_ns is None:
            return MAX_HOQ_CODE + 1
        return (-(-self.hoq_life_ns // HOQ_UNIT_NS) - 1).bit_length()

    def map(self) -> tuple[int, ...]:
        """Return the VL of each service channel."""
        return tuple(self.sc_to_vl) or tuple(sc % self.vls for sc in range(SERVICE_CHANNELS))


def _flow(value: object) -> FlowControl | None:
    if isinstance(value, bool):  # YAML 1.1 reads `on` as true, `off` as false
        return FlowControl() if value else None
    if not isinstance(value, FlowControl):
        raise FabricError(f"{value!r} is not the credits of a link: a FlowControl, or on or off")
    return value


CREDITS: Final = Quantity(_flow)
_DEFAULT_QUEUE: Final = SizeOrTime()


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """The options of one direction of a link; alone, those of both. `TwoWay` has those of each.

    A new option is a row here; what it does is in a layer of each engine.

    Raises:  FabricError: a value of another type.
    """

    rate_bps: Annotated[float, LinkOption("rate", RATE, "bits per second, above 0")] = 100e9
    latency_ns: Annotated[
        int, LinkOption("latency", NANOSECONDS, "delay of every packet", 0, MAX_DELAY_S)
    ] = 300
    jitter_ns: Annotated[
        int,
        LinkOption(
            "jitter",
            NANOSECONDS,
            "additional delay from 0 to this value, drawn for each packet; packets stay in order",
            0,
            MAX_DELAY_S,
        ),
    ] = 0
    queue: Annotated[
        SizeOrTime,
        LinkOption(
            "queue",
            SIZE_OR_TIME,
            "what may wait for the wire in one direction, `64K` or `20ms`; more is dropped (`link_overflow`)",
            shown_default="50 ms, from 64K to 16M",
            engine="queue_bytes",
        ),
    ] = _DEFAULT_QUEUE
    flow: Annotated[
        FlowControl | None,
        LinkOption(
            "credits",
            CREDITS,
            "`on`, `off`, or a section; with credits nothing is dropped for want of room once it has left its host",
            shown_default="off",
        ),
    ] = None

    def __post_init__(self) -> None:
        for option in LINK_OPTIONS:
            value = getattr(self, option.field)
            if not isinstance(value, _TYPES[option.quantity]):
                raise FabricError(f"{option.field} is {value!r}: {_EXPECTED[option.quantity]}")

    @classmethod
    def parse(cls, **options: object) -> LinkConfig:
        """Return options that are written as in lab files: `LinkConfig.parse(rate="10G", queue="64K")`.

        Args:    options: by the keys that `link:` of a lab file has, each as text or a number.
        Raises:  FabricError: an unknown option, or a value that cannot be read.
        """
        known = {option.key: option for option in LINK_OPTIONS}
        values: dict[str, Any] = {}
        for key, value in options.items():
            if key not in known:
                raise FabricError(unknown_name("option of links", key, known))
            option = known[key]
            try:
                values[option.field] = option.quantity.parse(value)
            except (QuantityError, FabricError) as error:
                raise FabricError(f"{key}: {error}") from None
        return cls(**values)

    @property
    def whole_rate_bps(self) -> int:
        """The rate in whole bits per second, at least one."""
        return max(round(self.rate_bps), 1)

    @property
    def queue_bytes(self) -> int:
        """What may wait at its rate, in bytes; for a time, at least the longest packet."""
        queue, rate_bps = self.queue, self.whole_rate_bps
        if queue.size is not None:
            return queue.size
        if queue.time_s is not None:
            return max(round(queue.time_s * rate_bps / 8), MAX_PACKET)
        sent = round(DEFAULT_QUEUE_S * rate_bps / 8)
        return min(max(sent, MIN_DEFAULT_QUEUE_BYTES), MAX_DEFAULT_QUEUE_BYTES)

    def over(self, others: LinkConfig) -> LinkConfig:
        """Return it with others' values where it has the default. Args: others: such as those of all links."""
        options = ((option.field, getattr(self, option.field), option.default) for option in LINK_OPTIONS)
        return replace(others, **{name: value for name, value, default in options if value != default})

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with its options."""
        if self.rate_bps <= 0:
            yield f"rate {self.rate_bps:g} bit/s is not above 0"
        for option in LINK_OPTIONS:
            if option.field != "rate_bps" and (problem := option.problem(getattr(self, option.field))):
                yield problem


LINK_OPTIONS, CREDIT_OPTIONS = (
    tuple(option for option in options_of(declared) if isinstance(option, LinkOption))
    for declared in (LinkConfig, FlowControl)
)
_TYPES: Final[Mapping[Quantity, tuple[type, ...]]] = {
    RATE: (int, float),
    NANOSECONDS: (int,),
    SIZE_OR_TIME: (SizeOrTime,),
    CREDITS: (FlowControl, NoneType),
}
_EXPECTED: Final[Mapping[Quantity, str]] = {
    RATE: "a rate is a number of bits per second, such as 10e9",
    NANOSECONDS: "a time is a whole number of nanoseconds, such as 5_000",
    SIZE_OR_TIME: "a queue is SizeOrTime(65536), or SizeOrTime(time_s=0.02)",
    CREDITS: "credits are a FlowControl, or None",
}
PLAIN_LINK: Final = LinkConfig()
"""A link with the default of every option."""
