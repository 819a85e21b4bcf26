"""What a lab file says of the queueing disciplines of a host: `qdiscs: {blue: {kind: tbf, rate: 10M}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from hfi_sim.base.quantities import parse_size, parse_whole
from hfi_sim.base.text import nearest
from hfi_sim.netdev import qdiscs
from opavnic.lab.file.sections import Delay
from vema.base.sections import Rate, Section, Size

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pfifo": ("limit",),
    "bfifo": ("limit",),
    "tbf": ("rate", "burst", "latency"),
    "prio": ("bands", "classes"),
    "htb": ("default", "classes"),
    "codel": (),
    "fq": (),
    "fq_codel": (),
    "noqueue": (),
    "pfifo_fast": (),
    "sfq": (),
}
"""The kinds, each with its keys. Those without keys have the kernel's defaults."""
_NEEDED: Final = {"pfifo": "limit", "bfifo": "limit", "tbf": "rate", "htb": "classes"}
_LATENCY_S: Final = 0.05
_BURST_S: Final = 0.001
_LEAST_BURST: Final = 1600
_LEAST_BUCKET: Final = 64 << 10
_MOST_BYTES: Final = (1 << 32) - 1
_HEX: Final = frozenset("0123456789abcdef")


def _check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f'"{kind}" is no qdisc that a lab file can say ({nearest(kind, KINDS)})')
    return kind


def _minor(value: object) -> str:
    text = str(value).lower()
    if isinstance(value, bool) or not 0 < len(text) <= 4 or not set(text) <= _HEX or not int(text, 16):
        raise ValueError(f"{value!r} is not the number of a class, 1 to ffff: 10 is what tc calls 1:10")
    return text


Minor = Annotated[
    str,
    BeforeValidator(_minor),
    WithJsonSchema(
        {"type": ["string", "integer"], "description": "1 to ffff, in hex as tc has it: 10 is 1:10"}
    ),
]


class ClassOfQdisc(Section):
    """A class of htb, or a band of prio, of which only `qdisc` is said."""

    rate: Rate | None = None
    ceil: Rate | None = None
    """With what other classes leave; default: `rate`."""
    burst: Size | None = None
    """Default: what `rate` sends in 1 ms, at least 1600 bytes."""
    prio: Annotated[int, Field(strict=True, ge=0, le=7)] = 0
    """The lower number is served first."""
    qdisc: QdiscSection | None = None
    """Default: the kernel's own queue."""

    def told(self, minor: str) -> qdiscs.QdiscClass:
        """Return it as the kernel is told it."""
        rate, ceiling = _bytes(self.rate or 0), _bytes(self.ceil or self.rate or 0)
        burst = self.burst or max(_LEAST_BURST, int(rate * _BURST_S))
        leaf = None if self.qdisc is None else self.qdisc.told
        return qdiscs.QdiscClass(int(minor, 16), rate, ceiling, burst if rate else 0, self.prio, leaf)


class QdiscSection(Section):
    """A queueing discipline, as `tc qdisc` makes it."""

    kind: Annotated[str, AfterValidator(_check_kind), WithJsonSchema({"type": "string", "enum": list(KINDS)})]
    limit: Annotated[
        int | None,
        BeforeValidator(lambda value: value),
        WithJsonSchema(
            {"type": ["string", "integer"], "description": "packets of pfifo, bytes of bfifo: 64K"}
        ),
    ] = None
    """Packets of pfifo, bytes of bfifo."""
    rate: Rate | None = None
    """Of tbf."""
    burst: Size | None = None
    """Of tbf; default: what `rate` sends in 1 ms, at least 64 KiB."""
    latency: Delay | None = None
    """Of tbf: how long a packet waits at most; default: 50 ms."""
    bands: Annotated[int, Field(strict=True, ge=2, le=16)] | None = None
    """Of prio; default: 3."""
    default: Minor | None = None
    """Of htb: the class of what no filter has classified; default: none, which is not limited."""
    classes: dict[Minor, ClassOfQdisc] = Field(default_factory=dict)
    """Of htb, by number; of prio, its bands from 1 with a queueing discipline of their own."""

    @model_validator(mode="before")
    @classmethod
    def _limit_of_kind(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f"{value!r:.60} is not a mapping such as {{kind: tbf, rate: 10M}}")
        if isinstance(value, Mapping) and value.get("limit") is not None:
            parse = parse_size if value.get("kind") == "bfifo" else parse_whole
            return {**value, "limit": parse(value["limit"])}
        return value

    @model_validator(mode="after")
    def _fits(self) -> QdiscSection:
        known = KINDS[self.kind]
        for key in type(self).model_fields:
            if key != "kind" and getattr(self, key) not in (None, {}) and key not in known:
                has = nearest(key, known) if known else "it has none"
                raise ValueError(f'{self.kind} has no key "{key}" ({has})')
        needed = _NEEDED.get(self.kind)
        if needed and getattr(self, needed) in (None, {}):
            raise ValueError(f"{self.kind} needs {needed}")
        if self.limit is not None and not 1 <= self.limit <= _MOST_BYTES:
            raise ValueError(f"limit {self.limit} is not within 1 to {_MOST_BYTES}")
        if self.default is not None and self.default not in self.classes:
            raise ValueError(f"default {self.default} is not among its classes: {', '.join(self.classes)}")
        for minor, its in self.classes.items():
            self._check_class(minor, its)
        return self

    def _check_class(self, minor: str, its: ClassOfQdisc) -> None:
        if self.kind == "htb":
            if its.rate is None:
                raise ValueError(f"class {minor} needs rate")
            if its.ceil is not None and its.ceil < its.rate:
                raise ValueError(f"class {minor}: ceil is below rate")
            return
        bands = self.bands or 3
        if int(minor, 16) > bands:
            raise ValueError(f"class {minor} is not one of its {bands} bands")
        if its.qdisc is None or its.model_fields_set != {"qdisc"}:
            raise ValueError(f"class {minor}: of a band of prio, qdisc is said, and no more")

    @property
    def told(self) -> qdiscs.Qdisc:
        """Return it as the kernel is told it."""
        rate = _bytes(self.rate or 0)
        burst = self.burst or max(_LEAST_BUCKET, int(rate * _BURST_S))
        latency = _LATENCY_S if self.latency is None else self.latency
        return qdiscs.Qdisc(
            self.kind,
            limit=min(int(rate * latency) + burst, _MOST_BYTES) if self.kind == "tbf" else self.limit or 0,
            rate=rate,
            burst=burst if self.kind == "tbf" else 0,
            bands=(self.bands or 3) if self.kind == "prio" else 0,
            default=int(self.default or "0", 16),
            classes=tuple(its.told(minor) for minor, its in self.classes.items()),
        )


def _bytes(rate: float) -> int:
    return int(rate / 8)
