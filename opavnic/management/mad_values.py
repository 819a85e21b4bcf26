"""Attributes of the EMA class as plain values: assignments field=value on the command line, and JSON.

Numbers may be written in decimal or as 0x...; MAC addresses with colons; reserved bytes and arrays of bytes as
hex; lists with commas. NAME[INDEX] is one element of a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from hfi_sim.base.errors import QuantityError, WireError
from hfi_sim.base.quantities import parse_whole
from hfi_sim.base.types import LID_PERMISSIVE, MacAddr, parse_mac
from hfi_sim.wire.mad.header import DATA_OFFSET_VENDOR, MadHeader
from vema.attributes.attr_id import VALUE_KINDS, AttrId
from vema.attributes.mac_entries import MacEntry

NAMES: Final = {attr_id.command: attr_id for attr_id in AttrId if attr_id.row.get or attr_id.row.set}
"""Names of the attributes on the command line; the names in the documents (VeswPortInfo) and numbers also work."""


def _spelling(name: str) -> str:
    return re.sub("[-_]", "", name).lower()


_SPELLINGS: Final = {
    **{_spelling(name): attr_id for name, attr_id in NAMES.items()},
    **{_spelling(attr_id.name): attr_id for attr_id in NAMES.values()},
    "veswportmacentries": AttrId.MAC_ENTRIES,
}
_ASSIGNMENT: Final = re.compile(r"(?P<name>\w+)(\[(?P<index>\d+)\])?=(?P<value>.*)")
_MAC_SIZE: Final = 6
_BYTE: Final = 0xFF


def attribute_id(text: str) -> int:
    """Return the number of an attribute from its name or number.

    Raises:  ValueError: neither; the message lists the names.
    """
    known = _SPELLINGS.get(_spelling(text))
    if known is not None:
        return known
    try:
        number = parse_whole(text)
    except QuantityError:
        raise ValueError(
            f'"{text}" is not an attribute: {", ".join(NAMES)}, or a number such as 0x11'
        ) from None
    if not 0 <= number <= 0xFFFF:
        raise ValueError(f"attribute {text} does not fit 16 bits")
    return number


def to_json(value: Any) -> Any:
    """Return an attribute, or a part of one, as plain data: bytes as hex, MAC addresses with colons."""
    if is_dataclass(value):
        return {item.name: _field_json(item.name, getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, bytes):
        return value.hex(":") if len(value) == _MAC_SIZE else value.hex()
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return int(value) if isinstance(value, int) else value


def _field_json(name: str, value: Any) -> Any:
    """Return a field as plain data; six reserved bytes are not a MAC address."""
    return value.hex() if name.startswith("reserved_") else to_json(value)


def mad_json(mad: bytes) -> dict[str, Any]:
    """Return a MAD as plain data: the header, and the attribute if it is known.

    Raises:  WireError: shorter than a MAD header.
    """
    header = MadHeader.parse(mad)
    shown: dict[str, Any] = {"header": to_json(header)}
    kind = VALUE_KINDS.get(header.attr_id)
    if kind is not None and not header.status:
        try:
            shown["attribute"] = to_json(kind.parse(mad[DATA_OFFSET_VENDOR:]))
        except WireError as error:
            shown["error"] = str(error)
    return shown


def assign(attribute: Any, assignments: Sequence[str]) -> Any:
    """Return an attribute with fields replaced according to `field=value` assignments.

    Raises:  ValueError: an unknown field, or an invalid value.
    """
    for assignment in assignments:
        match = _ASSIGNMENT.fullmatch(assignment)
        if match is None:
            raise ValueError(f'"{assignment}" is not field=value')
        name = match["name"]
        known = [item.name for item in fields(attribute)]
        if name not in known:
            raise ValueError(f'no field "{name}" (known: {", ".join(known)})')
        old = getattr(attribute, name)
        if match["index"] is not None:
            value: Any = _with_item(name, old, int(match["index"]), match["value"])
        else:
            value = _value(name, old, match["value"])
        attribute = replace(attribute, **{name: value})
        try:
            attribute.build()
        except ValueError as error:
            raise ValueError(f"{assignment}: {error}") from None
    return attribute


def from_json(attribute: Any, data: Mapping[str, Any]) -> Any:
    """Return an attribute with the fields that plain data have, as `to_json` gives them.

    Raises:  ValueError: an unknown field, or an invalid value.
    """
    known = [item.name for item in fields(attribute)]
    for name, value in data.items():
        if name not in known:
            raise ValueError(f'no field "{name}" (known: {", ".join(known)})')
        try:
            plain = _from_json(name, getattr(attribute, name), value)
            attribute = replace(attribute, **{name: plain})
            attribute.build()
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{name}: {value!r:.60}: {error}") from None
    return attribute


def _from_json(name: str, old: object, value: Any) -> Any:
    if name == "entries":
        return tuple(_entry_of(entry) for entry in value)
    if is_dataclass(old):
        return from_json(old, value)
    if isinstance(old, bytes):
        return bytes.fromhex(value.replace(":", ""))
    if isinstance(old, tuple):
        return tuple(value)
    return type(old)(value) if isinstance(old, bool) else value


def _entry_of(value: Any) -> MacEntry | None:
    """Read an entry of a MAC table: nothing, MAC@LID, or its three fields."""
    if value is None:
        return None
    if isinstance(value, str):
        return _entry(value)
    entry: MacEntry = from_json(MacEntry(MacAddr(bytes(_MAC_SIZE)), bytes(_MAC_SIZE), 0), value)
    return entry


def entry_text(entry: Mapping[str, Any] | None) -> str | None:
    """Return an entry of a MAC table as MAC@LID, `-` for a hole; None: it has more to it than that.

    Args:  entry: as `to_json` gives it.
    """
    if entry is None:
        return "-"
    if entry["mask"] != "ff:ff:ff:ff:ff:ff" or entry["dlid_sd"] & _BYTE:
        return None
    return f"{entry['mac']}@{entry['dlid_sd'] >> 8:#x}"


def _with_item(name: str, old: object, index: int, text: str) -> Any:
    if not isinstance(old, bytes | tuple) or index >= len(old):
        raise ValueError(f"{name}[{index}] does not exist")
    items = list(old)
    items[index] = _number(name, text)
    if isinstance(old, bytes) and not 0 <= items[index] <= _BYTE:
        raise ValueError(f"{name}[{index}]={text}: a byte is 0 to {_BYTE}")
    return bytes(items) if isinstance(old, bytes) else tuple(items)


def _value(name: str, old: object, text: str) -> Any:
    if name == "entries":
        return tuple(_entry(part.strip()) for part in text.split(",") if part.strip())
    if isinstance(old, tuple):
        return tuple(_number(name, part) for part in text.split(",") if part)
    if isinstance(old, bytes):
        if len(old) == _MAC_SIZE and (":" in text or "-" in text):
            return parse_mac(text)
        try:
            data = bytes.fromhex(text)
        except ValueError:
            raise ValueError(f"{name}: {text!r} is not hex") from None
        if len(data) != len(old):
            raise ValueError(f"{name}: {len(data)} bytes, but the field has {len(old)}")
        return data
    return _number(name, text)


def _entry(text: str) -> MacEntry | None:
    """Read MAC@LID, or `-` for a hole."""
    if text == "-":
        return None
    mac, _, lid = text.partition("@")
    number = _number("entries", lid)
    if not 0 <= number <= LID_PERMISSIVE:
        raise ValueError(f"entries: {text}: a LID is 0 to {LID_PERMISSIVE:#x}")
    return MacEntry(parse_mac(mac), b"\xff" * _MAC_SIZE, number << 8)


def _number(name: str, text: str) -> int:
    try:
        return parse_whole(text)
    except QuantityError as error:
        raise ValueError(f"{name}: {error}") from None
