"""Faults as people write them: one line on a command line, or a mapping in a YAML file.

    loss on h1 20% l4=mad for=2s          a fifth of the MADs at h1 is lost, for two seconds
    corrupt on h1->sw0 count=3            the next three packets from h1 arrive damaged
    delay on * 50% delay=10us             half of all packets take 10 us longer on every link
    link-down on sw0--sw1 for=1ms every=10ms count=5
    partition on sw0,sw1 after=1s

The same as a mapping: {kind: loss, on: h1, probability: 20%, l4: mad, for: 2s}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hfi_sim.base.errors import FaultError, QuantityError
from hfi_sim.base.options import Option, options_of
from hfi_sim.base.quantities import parse_share
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.link.rule import Match
from hfi_sim.fabric.faults.kinds import FAULT_OPTIONS, FaultSpec, kind_named

_MATCHES: Final = {option.key: option for option in options_of(Match)}


def parse_fault(text: str) -> FaultSpec:
    """Read a fault from one line.

    Raises:  FaultError: what is wrong, with the nearest name.
    """
    words = text.split()
    form = f'"{text}" is not KIND on PLACE [OPTION=VALUE ...], for example: loss on h1 20%'
    if said_on := len(words) > 1 and words[1] == "on":
        del words[1]
    if len(words) < 2:
        raise FaultError(form)
    data: dict[str, Any] = {"kind": words[0], "on": words[1]}
    for word in words[2:]:
        key, equals, value = word.partition("=")
        if not equals:
            key, value = "probability", word
            try:
                parse_share(word)
            except QuantityError:
                if not said_on and word == words[2] and not word[0].isdigit():
                    raise FaultError(form) from None
                means = f": write {word}%" if word.isdecimal() else ""
                if words[0] in FAULT_OPTIONS and word[0].isdigit():
                    means = f": write {words[0]}={word}"
                raise FaultError(
                    f'"{text}": "{word}" is neither OPTION=VALUE nor a probability such as 20%{means}'
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
    kind, place = kind_named(str(data.get("kind", ""))), data.get("on")
    if not isinstance(place, str) or not place:
        raise FaultError(f"fault {kind}: say where, for example: {kind} on h1")
    options: dict[str, Any] = {}
    matches: dict[str, Any] = {}
    for key, value in data.items():
        if key in ("kind", "on"):
            continue
        if key not in FAULT_OPTIONS and key not in _MATCHES:
            raise FaultError(f"fault {kind}: {unknown_name('option', str(key), [*FAULT_OPTIONS, *_MATCHES])}")
        (options if key in FAULT_OPTIONS else matches)[key] = value
    try:
        chosen = _read(FAULT_OPTIONS, options)
        match = Match(**_read(_MATCHES, matches))
    except FaultError as error:
        raise FaultError(f"fault {kind}: {error}") from None
    return FaultSpec(kind, place, match=match, **chosen)


def _read(table: Mapping[str, Option], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields and values of what people wrote. Raises FaultError: a value that cannot be read, with its key."""
    values: dict[str, Any] = {}
    for key, value in data.items():
        try:
            values[table[key].field] = table[key].quantity.parse(value)
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
    words = [spec.kind.value, "on", spec.on]
    for options, values in ((FAULT_OPTIONS, spec), (_MATCHES, spec.match)):
        for key, option in options.items():
            value = getattr(values, option.field)
            if value is not None and value != option.default:
                words.append(f"{key}={option.quantity.text(value)}")
    return " ".join(words)
