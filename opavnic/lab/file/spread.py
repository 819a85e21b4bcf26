"""Counts and ranges in a lab file, written out before anything else reads it: hosts, members, switches, links."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from vema.em.desired.problems import KeyPath, Problem
from vema.em.desired.ranges import MAX_NAMES, Spread, spread_vesws

FREE_KEYS: Final = "x-"
"""Keys at the top of a file that begin so hold what YAML anchors refer to."""
_SWITCHES: Final[KeyPath] = ("fabric", "topology", "switches")
_LINKS: Final[KeyPath] = ("fabric", "topology", "links")


def spread_lab(data: Any) -> Spread:
    """Return the data of a lab file without counts and ranges. Data that has none comes back as it is, without its
    `x-` keys.

    `hosts: 16` and `hosts: {h[1-16]: {}}` become h1 to h16; `members: all` all hosts; a link between two ranges becomes
    one link for each pair, in order.
    """
    spread = Spread(data)
    if not isinstance(data, Mapping):
        return spread
    data = {key: value for key, value in data.items() if not str(key).startswith(FREE_KEYS)}
    hosts = _hosts(spread, data.get("hosts"))
    spread.data = {**data, "hosts": hosts} if "hosts" in data else dict(data)
    spread_vesws(spread, [str(name) for name in hosts] if isinstance(hosts, Mapping) else None)
    fabric = data.get("fabric")
    topology = fabric.get("topology") if isinstance(fabric, Mapping) else None
    if isinstance(topology, Mapping):
        written = dict(topology)
        if isinstance(written.get("switches"), Mapping):
            written["switches"] = _keys(spread, written["switches"], _SWITCHES)
        if isinstance(written.get("links"), list):
            written["links"] = _links(spread, written["links"])
        spread.data["fabric"] = {**fabric, "topology": written}
    return spread


def _hosts(spread: Spread, hosts: Any) -> Any:
    if isinstance(hosts, int) and not isinstance(hosts, bool):
        if not 1 <= hosts <= MAX_NAMES:
            spread.problems.append(Problem(("hosts",), f"{hosts} hosts; a lab has 1 to {MAX_NAMES}"))
            return {}
        spread.origins |= {("hosts", f"h{number}"): ("hosts",) for number in range(1, hosts + 1)}
        return {f"h{number}": {} for number in range(1, hosts + 1)}
    if isinstance(hosts, list):
        names = [str(name) for name in hosts if isinstance(name, str | int)] or ["h1", "h2"]
        shown = ", ".join(f"{name}: {{}}" for name in names[:2])
        spread.problems.append(Problem(("hosts",), f"is a mapping, such as {{{shown}}}, not a list"))
    return _keys(spread, hosts, ("hosts",)) if isinstance(hosts, Mapping) else hosts


def _keys(spread: Spread, section: Mapping[Any, Any], path: KeyPath) -> dict[Any, Any]:
    """Write out the keys of a mapping; each name gets a copy of the value."""
    written: dict[Any, Any] = {}
    said: dict[str, str] = {}
    for key, value in section.items():
        here = (*path, key)
        for name in spread.one(key, here) if isinstance(key, str) else (key,):
            if name in written:
                spread.problems.append(Problem(here, f'"{name}" is already in "{said[name]}"'))
            said.setdefault(name, key)
            written.setdefault(name, value if name == key else copy.deepcopy(value))
            if name != key:
                spread.origins[(*path, name)] = here
    return written


def _links(spread: Spread, links: list[Any]) -> list[Any]:
    written: list[Any] = []
    for index, link in enumerate(links):
        here: KeyPath = (*_LINKS, index)
        ends = link.get("ends") if isinstance(link, Mapping) else link
        pairs: list[list[Any]] = []
        if isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, str) for end in ends):
            near, far = (spread.one(end, here) for end in ends)
            if len(near) == len(far):
                pairs = [list(pair) for pair in zip(near, far, strict=True)]
            else:
                text = (
                    f'"{ends[0]}" means {len(near)} ends, "{ends[1]}" {len(far)}; a link has one at each side'
                )
                spread.problems.append(Problem(here, text))
        for pair in pairs or (ends,):
            spread.origins[(*_LINKS, len(written))] = here
            written.append(
                pair if not isinstance(link, Mapping) else {**link, "ends": pair} if "ends" in link else link
            )
    return written
