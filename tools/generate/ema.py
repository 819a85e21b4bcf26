"""The declarations of the EM attributes' values, by the names of generated tables: vesw_port_info, mac_entry."""

from __future__ import annotations

import re
from typing import Final

from hfi_sim.wire.header import Header
from opavnic.observe.layer_rows import layout
from vema.attributes.attr_id import VALUE_KINDS, Value

KINDS: Final = tuple(dict.fromkeys(VALUE_KINDS.values()))
"""Each class of values once."""


def table_name(kind: type[Value]) -> str:
    """Return the name of the table of a class: `VeswPortInfo` is vesw_port_info."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def item(kind: type[Value]) -> Header | None:
    """Return the declaration of an item of a list; None: it is none."""
    declared: Header | None = getattr(kind, "ITEM", None)
    return declared


def records(kind: type[Value]) -> dict[str, Header]:
    """Return the headers that are fields of the attribute."""
    fields = layout(kind).fields.values()
    within = [field.record for field in fields if field.record is not None]
    return {header.name.replace(" ", "_").lower(): header for header in within}


def tables() -> dict[str, Header]:
    """Return every declaration by the name of its table; lists are whole."""
    found: dict[str, Header] = {}
    for kind in KINDS:
        found |= {table_name(kind): layout(kind), **records(kind)}
    return found
