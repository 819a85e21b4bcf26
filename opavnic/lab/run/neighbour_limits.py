"""What a lab lacks because it is large: link-local addresses, and room in the neighbour tables of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import Final

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.text import counted
from hfi_sim.netdev.neighbours import NeighbourClient, NeighbourTable
from opavnic.lab.file.model import LabModel

_SETTINGS: Final = "net.ipv{version}.neigh.default.gc_thresh{number}={value}"


def entries_needed(model: LabModel, kernels: Collection[str]) -> dict[int, int]:
    """Return the entries that a lab needs in the tables of IPv4 and of IPv6 when all of its hosts talk to each other.

    Args:  kernels: the hosts whose kernels share the tables of this machine.
    """
    needed = {4: 0, 6: 0}
    for vesw in model.vesws:
        here = sum(port.host in kernels for port in model.members_of(vesw))
        for version, entries in vesw.neighbour_entries.items() if vesw.neighbours == "kernel" else ():
            needed[version] += here * entries
    return needed


def limits_of_size(model: LabModel, kernels: Collection[str]) -> list[str]:
    """Return what a lab with TAPs does not have on this machine because of its size, a line each."""
    said = [
        f"{vesw.name} has {counted(len(vesw.members), 'member')}: they get no IPv6 link-local addresses "
        "(`link_local: true` gives them)"
        for vesw in model.vesws
        if vesw.link_local == "auto" and not vesw.has_link_local
    ]
    with contextlib.suppress(NetdevError), contextlib.closing(NeighbourClient()) as client:
        said += filter(None, [too_small(model, kernels, client.tables())])
    return said


def too_small(model: LabModel, kernels: Collection[str], tables: Mapping[int, NeighbourTable]) -> str:
    """Return which limits are too low for a lab and what to set, in one line; an empty string if none is.

    Args:  kernels: as for `entries_needed`. tables: those of the machine, by IP version.
    """
    needed = entries_needed(model, kernels)
    short = {version: table for version, table in tables.items() if needed[version] > table.hard_limit}
    if not short:
        return ""
    limits = ", ".join(f"IPv{version} {table.hard_limit}" for version, table in short.items())
    settings = []
    for version, table in short.items():
        soft = 1 << (needed[version] + table.entries - 1).bit_length()
        settings += [
            _SETTINGS.format(version=version, number=number, value=value)
            for number, value in ((2, soft), (3, 2 * soft))
        ]
    return (
        f"{counted(len(kernels), 'host')} that all talk to each other need {max(needed[it] for it in short)} neighbour "
        f"entries; this machine holds fewer, for all network namespaces together ({limits}), and refuses "
        f"packets beyond that: let the virtual switch have `neighbours: static`, or sysctl -w {' '.join(settings)}"
    )
