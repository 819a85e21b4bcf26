"""Faults as people write them: one line on a command line, or a mapping in a YAML file.

    loss on h1 20% l4=mad for=2s          a fifth of the MADs at h1 is lost, for two seconds
    corrupt on h1->sw0 count=3            the next three packets from h1 arrive damaged
    delay on * 50% delay=10us             half of all packets take 10 us longer on every link
    link-down on sw0--sw1 for=1ms every=10ms count=5
    partition on sw0,sw1 after=1s

The same as a mapping: {kind: loss, on: h1, probability: 20%, l4: mad, for: 2s}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hfi_sim.base.did_you_mean import unknown_name
from hfi_sim.base.errors import FaultError, QuantityError
from hfi_sim.base.quantities import (
    parse_rate,
    parse_share,
    parse_time,
    parse_whole,
    rate_text,
    share_text,
    time_text,
)
from hfi_sim.engine.link.rule import FaultKind, Match
from hfi_sim.fabric.faults.spec import FaultSpec
from hfi_sim.wire.l4 import L4

_L4_NAMES: Final = {"ethernet": L4.ETHERNET, "eth": L4.ETHERNET, "mad": L4.FM, "fm": L4.FM}


def _l4(value: object) -> int:
    if isinstance(value, str) and value.lower() in _L4_NAMES:
        return int(_L4_NAMES[value.lower()])
    try:
        return parse_whole(value)
    except QuantityError:
        raise FaultError(
            f"{unknown_name('L4 type', str(value), _L4_NAMES)}, or a number such as 0x55"
        ) from None


_Reader = Callable[[object], Any]
_OPTIONS: Final[dict[str, tuple[str, _Reader]]] = {
    "probability": ("probability", parse_share),
    "after": ("after_s", parse_time),
    "for": ("for_s", parse_time),
    "every": ("every_s", parse_time),
    "count": ("count", parse_whole),
    "skip": ("skip", parse_whole),
    "delay": ("delay_s", parse_time),
    "rate": ("rate_bps", parse_rate),
    "bits": ("bits", parse_whole),
    "copies": ("copies", parse_whole),
    "behind": ("behind", parse_whole),
    "hold": ("hold_s", parse_time),
}
_MATCHES: Final[dict[str, tuple[str, _Reader]]] = {
    "l4": ("l4", _l4),
    "lid": ("lid", parse_whole),
    "slid": ("slid", parse_whole),
    "dlid": ("dlid", parse_whole),
    "sc": ("sc", parse_whole),
    "vesw": ("vesw_id", parse_whole),
    "attr": ("attr_id", parse_whole),
    "method": ("method", parse_whole),
    "direction": ("direction", str),
}
_WRITERS: Final[dict[_Reader, Callable[[float], str]]] = {
    parse_share: share_text,
    parse_time: time_text,
    parse_rate: rate_text,
}
_HEX: Final = frozenset({"l4", "attr", "method"})


def parse_fault(text: str) -> FaultSpec:
    """Read a fault from one line.

    Raises:  FaultError: what is wrong, with the nearest name.
    """
    words = text.split()
    if len(words) > 1 and words[1] == "on":
        del words[1]
    if len(words) < 2:
        raise FaultError(f'"{text}" is not KIND on PLACE [OPTION=VALUE ...], for example: loss on h1 20%')
    data: dict[str, Any] = {"kind": words[0], "on": words[1]}
    for word in words[2:]:
        key, equals, value = word.partition("=")
        if not equals:
            key, value = "probability", word
            try:
                parse_share(word)
            except QuantityError:
                raise FaultError(
                    f'"{text}": "{word}" is neither OPTION=VALUE nor a probability such as 20%'
                ) from None
        if key in data:
            raise FaultError(f'"{text}": {key} appears twice')
        data[key] = value
    return spec_from_data(data)


def spec_from_data(data: Mapping[Any, Any]) -> FaultSpec:
    """Read a fault from a mapping: kind, on, and options; numbers may be numbers or text with a unit.

    Raises:  FaultError: what is wrong, with the nearest name.
    """
    data = {"on" if key is True else key: value for key, value in data.items()}  # YAML 1.1 reads `on` as true
    kinds = [kind.value for kind in FaultKind]
    kind, place = str(data.get("kind", "")), data.get("on")
    if kind not in kinds:
        raise FaultError(unknown_name("fault", kind, kinds))
    if not isinstance(place, str) or not place:
        raise FaultError(f"fault {kind}: say where, for example: {kind} on h1")
    options: dict[str, Any] = {}
    matches: dict[str, Any] = {}
    for key, value in data.items():
        if key in ("kind", "on"):
            continue
        if key not in _OPTIONS and key not in _MATCHES:
            raise FaultError(f"fault {kind}: {unknown_name('option', str(key), [*_OPTIONS, *_MATCHES])}")
        (options if key in _OPTIONS else matches)[key] = value
    try:
        chosen = _read(_OPTIONS, options)
        match = Match(**_read(_MATCHES, matches))
    except FaultError as error:
        raise FaultError(f"fault {kind}: {error}") from None
    return FaultSpec(FaultKind(kind), place, match=match, **chosen)


def _read(table: Mapping[str, tuple[str, _Reader]], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields and values of what people wrote. Raises FaultError: a value that cannot be read, with its key."""
    values: dict[str, Any] = {}
    for key, value in data.items():
        name, reader = table[key]
        try:
            values[name] = reader(value)
        except (FaultError, QuantityError) as error:
            raise FaultError(f"{key}: {error}") from None
    return values


def parse_match(words: Iterable[str]) -> Match:
    """Read which packets are meant: `l4=mad`, `vesw=2`, ..., as in a fault.

    Raises:  FaultError: what is wrong, with the nearest name.
    """
    matches: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise FaultError(f'"{word}" is not MATCH=VALUE such as vesw=2 (known: {", ".join(_MATCHES)})')
        if key not in _MATCHES:
            raise FaultError(unknown_name("match", key, _MATCHES))
        if key in matches:
            raise FaultError(f"{key} appears twice")
        matches[key] = value
    return Match(**_read(_MATCHES, matches))


def spec_text(spec: FaultSpec) -> str:
    """Return the line that `parse_fault` reads as the same fault."""
    default = FaultSpec.__dataclass_fields__
    words = [spec.kind.value, "on", spec.on]
    for key, (name, reader) in _OPTIONS.items():
        value = getattr(spec, name)
        if value is not None and value != default[name].default:
            words.append(f"{key}={_text(value, reader)}")
    for key, (name, _) in _MATCHES.items():
        value = getattr(spec.match, name)
        if value is not None:
            words.append(f"{key}={value:#x}" if key in _HEX else f"{key}={value}")
    return " ".join(words)


def _text(value: float, reader: _Reader) -> str:
    writer = _WRITERS.get(reader)
    return str(value) if writer is None else writer(value)
