"""A picture of a fabric as text, and of what its tasks wait for: what a person asks first about a test that hangs."""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.quantities import size_text
from hfi_sim.base.text import counted
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import Link

if TYPE_CHECKING:
    from opavnic.scenario.scenario import Scenario

_LINKS: Final = 16
_EVENTS: Final = 8
_TASKS: Final = 8
_SOURCE: Final = 90
"""Characters of a line of source that are shown."""
_LIBRARY: Final = (
    str(Path(asyncio.__file__).parent),
    *(
        str(Path(__file__).parents[2] / package)
        for package in ("hfi_sim", "vema", "opavnic", "ejfat", "lnet")
    ),
)
"""Directories whose frames belong to libraries."""


def is_own(file: str) -> bool:
    """Return whether a source file is the user's: neither asyncio nor a package of this project."""
    return not file.startswith(_LIBRARY) and not file.startswith("<")


def fabric_text(scenario: Scenario) -> str:
    """Return the fabric in lines: links with port states, queues and drops, VNICs, faults, the last events.

    Of many links those are shown that are down, hold packets or have dropped some, and then the busiest.
    """
    fabric = scenario.fabric
    switches = counted(len(fabric.switches), "switch", "switches")
    lines = [
        f"fabric: {counted(len(scenario.hosts), 'host')}, {switches}, {counted(len(fabric.links), 'link')}"
    ]
    links = sorted(fabric.links, key=_dullness)
    lines += _columns(_link_row(link) for link in links[:_LINKS])
    if len(links) > _LINKS:
        lines.append(f"  and {len(links) - _LINKS} more links, all up, empty and without drops")
    if elsewhere := list(_other_drops(fabric)):
        lines += ["drops:", *_columns(elsewhere)]
    if vnics := [vnic for host in scenario.hosts for vnic in host.vnics.values()]:
        lines.append("VNICs:")
        rows = [
            (
                vnic.name,
                "up" if scenario.is_up(vnic) else "not up",
                counted(vnic.frames, "frame") + " received",
            )
            for vnic in vnics
        ]
        lines += list(_columns(rows))[:_LINKS]
        lines += [f"  and {len(rows) - _LINKS} more"] if len(rows) > _LINKS else []
    if faults := scenario.faults.show():
        lines.append("faults:")
        lines += [f"  {row['fault']} ({row['state']}, {row['hits']} hits)" for row in faults]
    lines.append("last events:")
    lines += [f"  {when * 1e3:12.6f} ms  {what}" for when, what in list(scenario.timeline.events)[-_EVENTS:]]
    return "\n".join(lines)


def waits_text(test: asyncio.Task[Any], before: Iterable[asyncio.Task[Any]]) -> str:
    """Return what each task waits for, the test first. Args: before: tasks that are older than the test."""
    others = sorted(asyncio.all_tasks() - {test, *before}, key=lambda task: task.get_name())
    rows = [
        ("the test", _wait(test)),
        *((f"task {task.get_name()}", _wait(task)) for task in others[:_TASKS]),
    ]
    lines = ["waiting:", *_columns(rows)]
    if len(others) > _TASKS:
        lines.append(f"  and {counted(len(others) - _TASKS, 'more task', 'more tasks')}")
    return "\n".join(lines)


def _wait(task: asyncio.Task[Any]) -> str:
    """Return `test_it.py:14 in test_never: await asyncio.Event().wait()`, the innermost line that is the user's."""
    frames = list(_suspended(task.get_coro()))
    own = [frame for frame in frames if is_own(frame.f_code.co_filename)] or frames[-1:]
    if not own:
        return "nothing that Python can name"
    frame = own[-1]
    file = frame.f_code.co_filename
    source = linecache.getline(file, frame.f_lineno).strip()
    shown = source if len(source) <= _SOURCE else source[: _SOURCE - 3] + "..."
    return f"{Path(file).name}:{frame.f_lineno} in {frame.f_code.co_name}: {shown}"


def _suspended(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine, the outermost first.

    Source: the attributes of coroutines, generators and asynchronous generators in the documentation of `inspect`.
    """
    while waiting is not None:
        for kind, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            if hasattr(waiting, kind):
                frame = getattr(waiting, kind)
                if frame is not None:
                    yield frame
                waiting = getattr(waiting, inner)
                break
        else:
            return


def _dullness(link: Link) -> tuple[bool, bool, bool, int]:
    ways = link.directions
    return (
        link.up,
        not any(way.counters.dropped for way in ways),
        not any(way.counters.in_flight for way in ways),
        -sum(way.counters.out_packets for way in ways),
    )


def _link_row(link: Link) -> tuple[str, ...]:
    near, far = (getattr(end, "state", None) for end in link.ends)
    states = "/".join(state.name.lower() if state is not None else "?" for state in (near, far))
    forth, back = (way.counters for way in link.directions)
    said = [
        f"{way.counters.in_flight} queued in {way.name}" for way in link.directions if way.counters.in_flight
    ]
    said += [
        f"{size_text(waiting)}B wait for credits of VL {vl} in {way.name}"
        for way in link.directions
        if (lanes := way.lanes) is not None
        for vl, waiting in enumerate(lanes.waiting)
        if waiting
    ]
    said += [
        f"{number} {reason.value} in {way.name}"
        for way in link.directions
        for reason, number in way.counters.drops.items()
    ]
    cut = [f"{way.name} CUT" for way in link.directions if not way.up]
    state = f"DOWN ({', '.join(sorted(link.downed_by))})" if not link.up else ", ".join(cut) or "up"
    packets = f"-> {forth.out_packets}  <- {back.out_packets} packets"
    return link.name, state, states, packets, "; ".join(said)


def _other_drops(fabric: Fabric) -> Iterator[tuple[str, str]]:
    ways = {way.name for link in fabric.links for way in link.directions}
    for name, drops in fabric.drops().items():
        if name not in ways:
            yield name, ", ".join(f"{number} {reason}" for reason, number in drops.items())


def _columns(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
