"""The tables of docs/ema-attributes.md, made from the declarations, so that page and code cannot drift apart.

The page marks the place of a table with `<!-- table: NAME -->` and `<!-- end of table -->`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vema.attributes import class_port_info, counters, iface_macs, mac_entries, notice, vesw_port_info
from vema.attributes.fields import offset_table

_PLACE: Final = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

TABLES: Final[Mapping[str, Any]] = {
    "class-port-info": class_port_info.LAYOUT,
    "vesw-port-info": vesw_port_info.LAYOUT,
    "mac-entries": mac_entries.LAYOUT,
    "mac-entry": mac_entries.ENTRY_LAYOUT,
    "iface-macs": iface_macs.LAYOUT,
    "summary-counters": counters.SUMMARY_LAYOUT,
    "error-counters": counters.ERROR_LAYOUT,
    "notice": notice.LAYOUT,
}
"""The declarations by the names of their tables."""


def refresh(page: str) -> str:
    """Return the text of a page with every marked table made anew.

    Raises:  ValueError: the page marks a table that does not exist.
    """

    def made_anew(place: re.Match[str]) -> str:
        head, name, end = place.groups()
        if name not in TABLES:
            raise ValueError(f"no table {name!r}; there are {', '.join(sorted(TABLES))}")
        return head + offset_table(TABLES[name]) + end

    return _PLACE.sub(made_anew, page)
