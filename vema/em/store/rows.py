"""The rows of the EM's database: conversion from and to records. Sans-IO.

A database may be damaged or written by another program, and SQLite allows any type in any column. An invalid row is a
ValueError.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any, Final

from hfi_sim.base.types import MacAddr
from vema.em.store.persisted import CountersRecord, EventRecord, SlotsRecord, VportRecord

Row = Sequence[Any]

_SLOT: Final = struct.Struct(">Q6s")
_KEY_SIZE: Final = 8
_MAC_SIZE: Final = 6


def guid_text(guid: int) -> str:
    """Return a GUID in the form used in rows."""
    return f"{guid:016x}"


def text_of(data: bytes) -> str:
    """Decode text of a database; invalid UTF-8 becomes a replacement character, which `text` rejects."""
    return data.decode("utf-8", "replace")


def text(value: object) -> str:
    """Return `value` if it is undamaged text. Raises ValueError if not."""
    if not isinstance(value, str) or "\N{REPLACEMENT CHARACTER}" in value:
        raise ValueError(f"{value!r} is not text")
    return value


def vport_row(record: VportRecord) -> Row:
    """Return the row of a vport."""
    layout = None if record.layout is None else struct.pack(f">{len(record.layout)}Q", *record.layout)
    return (
        guid_text(record.guid),
        record.vport_num,
        record.vesw_id,
        record.digest,
        layout,
        b"".join(record.uc_macs),
        record.uc_gen,
        b"".join(record.mc_macs),
        record.mc_gen,
        record.base_mac,
    )


def vport_record(row: Row) -> VportRecord:
    """Return the vport in a row. Raises ValueError if the row is invalid."""
    guid, vport_num, vesw_id, digest, layout, uc_macs, uc_gen, mc_macs, mc_gen, base_mac = row
    keys = None
    if layout is not None:
        keys = struct.unpack(f">{len(_pieces(layout, _KEY_SIZE))}Q", layout)
    base = _macs(base_mac)
    if len(base) != 1:
        raise ValueError(f"{base_mac!r} is not a MAC address")
    return VportRecord(
        _guid(guid), _integer(vport_num), _integer(vesw_id), _integer(digest), keys,
        _macs(uc_macs), _integer_or_none(uc_gen), _macs(mc_macs), _integer_or_none(mc_gen), base[0],
    )  # fmt: skip


def slots_row(record: SlotsRecord) -> Row:
    """Return the row of a virtual switch's slots."""
    return record.vesw_id, b"".join(_SLOT.pack(owner, mac) for owner, mac in record.slots)


def slots_record(row: Row) -> SlotsRecord:
    """Return the slots in a row. Raises ValueError if the row is invalid."""
    vesw_id, blob = row
    slots = [_SLOT.unpack(piece) for piece in _pieces(blob, _SLOT.size)]
    return SlotsRecord(_integer(vesw_id), tuple((owner, MacAddr(mac)) for owner, mac in slots))


def event_record(row: Row) -> EventRecord:
    """Return the event in a row. Raises ValueError if the row is invalid."""
    number, time, kind, port, vport_num, vesw_id, what = row
    vport, vesw = _integer_or_none(vport_num), _integer_or_none(vesw_id)
    return EventRecord(text(kind), text(port), vport, vesw, text(what), _integer(number), _time(time))


def counters_record(row: Row) -> CountersRecord:
    """Return the reading in a row. Raises ValueError if the row is invalid."""
    time, guid, vport_num, vesw_id, counts = row
    try:
        values = json.loads(text(counts))
    except RecursionError as error:
        raise ValueError("counts are nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError(f"{values!r} are not counts")
    values = {text(name): _integer(value) for name, value in values.items()}
    return CountersRecord(_guid(guid), _integer(vport_num), _integer(vesw_id), values, _time(time))


def _integer(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not an integer")
    return value


def _integer_or_none(value: object) -> int | None:
    return None if value is None else _integer(value)


def _time(value: object) -> float:
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a time")
    return value


def _guid(value: object) -> int:
    return int(text(value), 16)


def _pieces(blob: object, size: int) -> list[bytes]:
    if not isinstance(blob, bytes) or len(blob) % size:
        raise ValueError(f"{blob!r} is not made of pieces of {size} bytes")
    return [blob[at : at + size] for at in range(0, len(blob), size)]


def _macs(blob: object) -> tuple[MacAddr, ...]:
    return tuple(map(MacAddr, _pieces(blob, _MAC_SIZE)))
