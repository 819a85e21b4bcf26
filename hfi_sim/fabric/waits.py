"""Which lanes of links with credits wait for which others, and what of that will never end: a deadlock.

A virtual lane of a direction is stuck if its first packet has no room at the far end, and all that is in the way there
waits in turn for lanes that are stuck. No packet of these moves again, unless a link or a table changes, or the
head-of-queue lifetime of one ends. A multicast packet is stuck if one of its copies is: its room stays occupied.
"""

from __future__ import annotations

from dataclasses import dataclass

from hfi_sim.engine.link.credits import LanesStatus
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import LinkDirection

Lane = tuple[int, int]
"""A direction of a link, by its number in the engine, and a VL."""


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Lanes that wait for each other."""

    cycle: list[str]
    """The lanes of one circle in their order: `sw0:2->sw1:3`, with ` VL 1` where there are several."""
    waits: list[tuple[str, str]]
    """Each lane that is stuck, and each one that it waits for."""

    @property
    def text(self) -> str:
        """The circle in one line."""
        return " waits for ".join([*self.cycle, self.cycle[0]])


def find_deadlock(fabric: Fabric) -> Deadlock | None:
    """Return the lanes that are stuck; None: all can move."""
    found = _look(fabric)
    # where an engine goes on meanwhile, lanes are seen one after the other; what is stuck is the same at a second look
    return found if found is not None and found == _look(fabric) else None


def _look(fabric: Fabric) -> Deadlock | None:
    lanes: dict[int, tuple[LinkDirection, LanesStatus]] = {}
    for link in fabric.links:
        for direction in [way for way in link.directions if way.has_credits and way.up]:
            status = direction.lanes
            if status is not None and status.occupied:
                lanes[direction.number] = direction, status
    behind: dict[Lane, dict[Lane | int, tuple[int, set[Lane]]]] = {}
    """Of a lane, what occupies its room: packets that wait in one lane, by that, and others by their number; the bytes,
    and the lanes in which they wait."""
    for number, (_, status) in lanes.items():
        for vl, of_direction, of_vl, packet, size in status.held:
            held = behind.setdefault((of_direction, of_vl), {})
            held.setdefault(packet or (number, vl), (size, set()))[1].add((number, vl))
    stuck = {
        (number, vl)
        for number, (_, status) in lanes.items()
        for vl, is_blocked in enumerate(status.blocked)
        if is_blocked
    }

    def moves(lane: Lane) -> bool:
        """Return whether something that is in a lane's way can move on."""
        direction, status = lanes[lane[0]]
        shares = direction.source.buffers is not None or bool(
            direction.planned.flow and direction.planned.flow.shared_bytes
        )
        for vl in range(len(status.occupied)) if shares else (lane[1],):
            held = sum(size for size, where in behind.get((lane[0], vl), {}).values() if where & stuck)
            if status.occupied[vl] > held:
                return True
        return False

    while free := {lane for lane in stuck if moves(lane)}:
        stuck -= free
    if not stuck:
        return None
    several = any(len(lanes[number][1].occupied) > 1 for number, _ in stuck)
    names = {(number, vl): lanes[number][0].name + (f" VL {vl}" if several else "") for number, vl in stuck}
    onward = {
        lane: sorted({after for _, where in behind.get(lane, {}).values() for after in where & stuck})
        for lane in sorted(stuck)
    }
    at = next(iter(onward))
    path: list[Lane] = []
    while at not in path:
        path.append(at)
        at = onward[at][0]
    return Deadlock(
        [names[lane] for lane in path[path.index(at) :]],
        [(names[lane], names[after]) for lane, found in onward.items() for after in found],
    )
