"""The section `fabric` of a lab file: shape, links, credits, routing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    create_model,
    model_serializer,
    model_validator,
)

from hfi_sim.base.clock import to_seconds
from hfi_sim.base.errors import FabricError, QuantityError
from hfi_sim.base.options import NANOSECONDS, RATE, SHARE, SIZE, SIZE_OR_TIME, WHOLE, WHOLES, Quantity
from hfi_sim.base.quantities import (
    SizeOrTime,
    parse_delay,
    parse_share,
    parse_size_or_time,
    share_text,
    size_or_time_text,
)
from hfi_sim.engine.link.config import (
    CREDIT_OPTIONS,
    CREDITS,
    LINK_OPTIONS,
    FlowControl,
    LinkConfig,
    LinkOption,
)
from hfi_sim.engine.link.two_way import TwoWay
from hfi_sim.fabric.topology import DEFAULT_SHAPE, SHAPES
from hfi_sim.routing import DEFAULT_ENGINE, ENGINES
from hfi_sim.wire.packet import MAX_PACKET
from opavnic.lab.file.sections import Delay, OneOf, Schema, also_accepts
from vema.base.sections import AS_WRITTEN, Rate, Section, Size, empty_is_default
from vema.base.types import MAX_FABRIC_ID

Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
Count = Annotated[int | None, Field(strict=True, ge=1)]


def _check_position(value: object) -> object:
    if (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(one, int | float) for one in value)
    ):
        return value
    raise ValueError(f"{value!r} is not a position: two numbers, [to the right, down]")


Position = Annotated[tuple[Coordinate, Coordinate], BeforeValidator(_check_position)]

Probability = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema({"type": ["string", "number"], "description": "1%, 0.01"}),
]
Queue = Annotated[
    SizeOrTime,
    PlainValidator(parse_size_or_time),
    PlainSerializer(size_or_time_text),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "description": "bytes: 65536, 64K, 16M; or what the link sends in a time: 20ms",
        }
    ),
]


def _loss(value: object) -> float | None:
    if value is None:
        return None
    share = parse_share(value)
    if share > 1:
        raise QuantityError(f"{value!r}: of all packets, 100% is the most")
    return share


def _credits_section(value: object) -> object:
    if value is True:  # YAML 1.1 reads `on` as true, `off` as false
        return {}
    if isinstance(value, str):
        raise ValueError(f"should be on, off, or a mapping such as {{vls: 2}}, not {value!r:.60}")
    return None if value is False else value


def _type(option: LinkOption) -> Any:
    """Return how an option is in lab files: times in seconds."""
    if option.quantity in (WHOLE, WHOLES):
        most = None if option.most == math.inf else int(option.most)
        number = Annotated[int, Field(strict=True, ge=int(option.least), le=most)]
        return number if option.quantity is WHOLE else list[number]
    if option.quantity is CREDITS:
        return Annotated[Credits | None, BeforeValidator(_credits_section), also_accepts(True, False)]
    of = _TYPES[option.quantity]
    return of | None if option.default is None else of


_TYPES: Final[Mapping[Quantity, Any]] = {
    RATE: Rate,
    NANOSECONDS: Delay,
    SIZE: Size,
    SHARE: Probability,
    SIZE_OR_TIME: Queue | None,
}


def _key(option: LinkOption) -> tuple[Any, Any]:
    """Return the type of an option's key, and its default."""

    def check(value: Any) -> Any:
        if value is not None and (misfit := option.misfit(_engine_value(option, value))):
            raise ValueError(misfit)
        if isinstance(value, SizeOrTime) and value.size and value.size < MAX_PACKET:
            raise ValueError(f"a queue of {value.size} bytes cannot hold the longest packet, {MAX_PACKET}")
        return value

    default: Any = None if option.shown_default else option.default
    if option.quantity is NANOSECONDS and default is not None:
        default = to_seconds(default)
    elif option.quantity is WHOLES:
        default = Field(default_factory=list)
    return Annotated[_type(option), AfterValidator(check), option], default


def _values(options: Iterable[LinkOption], section: Section) -> dict[str, Any]:
    """Return the fields of what the fabric expects, from the keys of a section that have a value."""
    values = ((option, getattr(section, option.key)) for option in options)
    return {option.field: _engine_value(option, value) for option, value in values if value is not None}


def _engine_value(option: LinkOption, value: Any) -> Any:
    return option.quantity.parse(value.flow() if isinstance(value, Credits) else value)


def _keys(options: Iterable[LinkOption]) -> dict[str, Any]:
    return {option.key: _key(option) for option in options}


class Credits(create_model("_CreditKeys", __base__=Section, **_keys(CREDIT_OPTIONS))):  # type: ignore[misc] # a field for each row
    """Makes links lossless: a full receiver stops its sender, separately on each VL."""

    @model_validator(mode="after")
    def _fits(self) -> Credits:
        try:
            self.flow()
        except FabricError as error:
            raise ValueError(str(error)) from None
        return self

    def flow(self) -> FlowControl:
        """Return the same values as the fabric expects them."""
        return FlowControl(**_values(CREDIT_OPTIONS, self))


class WayModel(create_model("_LinkKeys", __base__=Section, **_keys(LINK_OPTIONS))):  # type: ignore[misc] # a field for each row
    """The properties of one direction of a link, where they differ from those of both."""

    delay: str | None = None
    """netem's spelling of `latency`, or of `latency` and `jitter`: 200us, 200us 10us."""
    loss: Annotated[
        float | None,
        BeforeValidator(_loss),
        WithJsonSchema({"type": ["string", "number", "null"], "description": "1%, 0.01"}),
    ] = None
    """The share of packets that is lost: short for `loss on LINK SHARE` under `faults`."""

    @model_validator(mode="before")
    @classmethod
    def _netem_delay(cls, data: Any) -> Any:
        """Replace `delay` by `latency` and `jitter`."""
        for key, value in data.items() if isinstance(data, dict) else ():
            if (
                key not in _DIRECTIONS
                and isinstance(value, dict)
                and value
                and value.keys() <= set(_DIRECTIONS)
            ):
                shown = ", ".join(f"{way}: {{{key}: {told}}}" for way, told in value.items())
                raise ValueError(f"{key}: directions come before their options: {shown}")
        if not isinstance(data, dict) or not isinstance(data.get("delay"), str | int | float):
            return data
        words = str(data["delay"]).split()
        said = dict(zip(("latency", "jitter"), words, strict=False))
        if not 1 <= len(words) <= len(said):
            raise ValueError(f'delay "{data["delay"]}" is not TIME or TIME JITTER, such as 200us 10us')
        if twice := said.keys() & data.keys():
            raise ValueError(f"delay sets latency and jitter; {' and '.join(sorted(twice))} is there too")
        for word in words:
            try:
                parse_delay(word)
            except QuantityError as error:
                raise ValueError(f"delay: {error}") from None
        return {**{key: value for key, value in data.items() if key != "delay"}, **said}

    def said(self) -> dict[str, Any]:
        """Return what is written of it, by the keys of options."""
        return {
            option.key: getattr(self, option.key)
            for option in LINK_OPTIONS
            if option.key in self.model_fields_set
        }


class LinkModel(WayModel):
    """The properties of every link of the fabric that does not set its own."""

    up: Annotated[WayModel, BeforeValidator(empty_is_default)] = WayModel()
    """What differs from the end that stands first to the second; in shapes other than explicit from a host to its
    switch."""
    down: Annotated[WayModel, BeforeValidator(empty_is_default)] = WayModel()
    """What differs on the way back."""

    def options(self, *general: LinkModel) -> TwoWay:
        """Return the same values as the fabric expects them. Args: general: what holds where this link says nothing."""
        layers = [*general, self]
        up = [said for layer in layers for said in (layer.said(), layer.up.said())]
        down = [said for layer in layers for said in (layer.said(), layer.down.said())]
        return TwoWay(up=_config(up), down=_config(down))

    def losses(self, forth: str, back: str, both: str) -> list[str]:
        """Return the faults that `loss` stands for. Args: the places of the directions, and of the link."""
        ways = ((self, both), (self.up, forth), (self.down, back))
        return [f"loss on {place} {share_text(way.loss)}" for way, place in ways if way.loss is not None]


def _config(layers: Iterable[Mapping[str, Any]]) -> LinkConfig:
    """Return the options of a direction; what a later layer says holds."""
    said = {key: value for layer in layers for key, value in layer.items()}
    values = ((option, said.get(option.key)) for option in LINK_OPTIONS)
    return LinkConfig(
        **{option.field: _engine_value(option, value) for option, value in values if value is not None}
    )


_PAIR: Final = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
"""A link that is written as just its two ends."""


class CableModel(LinkModel):
    """One link of an explicit topology: [h1, sw0:1], or {ends: [h1, sw0:1], rate: 25G, latency: 1us}, or with
    directions that differ: {ends: [h1, sw0:1], rate: 20M, up: {rate: 1M}}."""

    ends: Annotated[list[str], Field(min_length=2, max_length=2)]
    """Each is NODE:PORT, or NODE for port 1."""

    @model_serializer(mode="wrap")
    def _as_written(self, inner: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        return inner(self) if self.has_options or info.context != AS_WRITTEN else list(self.ends)

    @property
    def has_options(self) -> bool:
        """Whether it says more than its ends."""
        return bool(self.model_fields_set - {"ends"})


_DIRECTIONS: Final = ("up", "down")


def _ends_alone(value: object) -> object:
    if not isinstance(value, list | dict | CableModel):
        raise ValueError(f"{value!r} is neither [END, END] nor {{ends: [END, END], rate: ...}}")
    return {"ends": value} if isinstance(value, list) else value


def _check_switch(options: dict[str, Any] | None) -> dict[str, Any] | None:
    for key in ("ports", "guid", "lid"):
        value = (options or {}).get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{key}: {value!r:.60} is not a whole number")
    return options


EXPLICIT: Final = "explicit"
"""The kind of topology that lists switches and links."""
_NUMBERS: Final[dict[str, Any]] = {
    name: (str | None if name == "dims" else Count, None)
    for shape in SHAPES.values()
    for name in shape.options
}
_Numbers = create_model(
    "_Numbers", __base__=Section, kind=(Annotated[str, OneOf(*SHAPES, EXPLICIT)], DEFAULT_SHAPE), **_NUMBERS
)


def _meanings() -> dict[str, str]:
    """Return what the keys of shapes mean: `mesh, torus: switches along each axis`."""
    return {"kind": "single-switch: every HFI port on one switch, sw0."} | {
        name: ", ".join(kind for kind, shape in SHAPES.items() if name in shape.options) + f": {meaning}."
        for of in SHAPES.values()
        for name, meaning in of.options.items()
    }


class TopologyModel(_Numbers):  # type: ignore[valid-type, misc]
    """How HFIs are connected: a shape with its numbers, or `explicit` with switches and links."""

    MEANINGS: ClassVar[Mapping[str, str]] = _meanings()
    switches: dict[str, Annotated[dict[str, Any] | None, AfterValidator(_check_switch)]] | None = None
    """explicit: name -> {ports: 36}; also guid, lid, description."""
    links: list[Annotated[CableModel, BeforeValidator(_ends_alone), Schema(_PAIR)]] | None = None
    """explicit: [h1, sw0:1], or {ends: [h1, sw0:1], rate: 25G, latency: 1us, jitter: 100ns, credits: on, up: {...}}."""

    def options(self) -> dict[str, Any]:
        """Return the options that are set, with links unchanged."""
        return {name: value for name, value in self if value is not None}


def _kind_alone(value: object) -> object:
    """Return the section of a shape that is written as its name alone: `topology: fat-tree`."""
    return {"kind": value} if isinstance(value, str) else empty_is_default(value)


REFUSE: Final = "refuse"
ALLOW: Final = "allow"


class FabricModel(Section):
    """The fabric that connects all hosts."""

    id: Annotated[int, Field(strict=True, ge=0, le=MAX_FABRIC_ID)] = 0x001
    """10 bits; part of every locally administered MAC."""
    topology: Annotated[TopologyModel, BeforeValidator(_kind_alone), also_accepts(*SHAPES)] = TopologyModel()
    link: Annotated[LinkModel, BeforeValidator(empty_is_default)] = LinkModel()
    routing: Annotated[str, OneOf(*ENGINES)] = DEFAULT_ENGINE
    deadlock: Annotated[str, OneOf(REFUSE, ALLOW)] = REFUSE
    """Of routes that can deadlock on links with credits: allow them for a lecture."""
    positions: Annotated[dict[str, Position], BeforeValidator(empty_is_default)] = Field(default_factory=dict)
    """Where the web view draws HFIs and switches: [to the right, down] in any unit, by name. Others stand below a
    neighbour that has a position; without any, the shape decides."""
    descriptions: Annotated[str, Field(min_length=1, max_length=64)] = "%h %d"
    """What HFIs say of themselves (NodeDescription); %h: host, %d: hfi1_0, hfi1_1, ..., %n: its name in the lab."""
