"""The attributes of management MADs for generators: the tables that dissectors have, and every layout by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hfi_sim.wire.header import Header
from opavnic.management.management_attributes import (
    ADMINISTRATION,
    ADMINISTRATION_IB,
    PERFORMANCE,
    SUBNET,
    SUBNET_IB,
    Kind,
)

TABLES: Final[Mapping[str, Mapping[int, Kind]]] = {
    "SUBNET": SUBNET,
    "SUBNET_IB": SUBNET_IB,
    "ADMINISTRATION": ADMINISTRATION,
    "ADMINISTRATION_IB": ADMINISTRATION_IB,
}
"""Attributes by their number, in the order that dissectors have."""


def kinds_by_name(headers: Iterable[Header], name: Callable[[Header], str]) -> dict[str, Kind]:
    """Return the layout of every attribute by its name, each behind those that stand in it.

    Args:  headers: come before the attributes of TABLES and PERFORMANCE. name: of a header; the first of a name counts.
    """
    kinds: dict[str, Kind] = {}

    def collect(kind: Kind) -> None:
        within = [field.record for field in kind.header.fields.values() if field.record is not None]
        for header in (*within, *kind.inside.values()):
            collect(Kind(header, header.size))
        kinds.setdefault(name(kind.header), kind)

    for header in headers:
        collect(Kind(header, header.size))
    for numbers in TABLES.values():
        for kind in numbers.values():
            collect(kind)
    for counters in PERFORMANCE.values():
        for header in filter(None, counters.parts):
            collect(Kind(header, header.size))
    return kinds
