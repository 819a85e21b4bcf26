"""What is wrong with cables and nodes, as all drawings of a fabric say it: a sign and a word, not a colour alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hfi_sim.base.drawing import RED
from hfi_sim.base.text import counted
from hfi_sim.fabric.topology.model import Cable, Node, end_text

DOWN_SIGN: Final = "✕"
FAULT_SIGN: Final = "⚠"
DOWN: Final = RED
"""The colour of what is down or wrong."""
FAULTY: Final = "#9450b4"
"""The colour of what has a fault set."""


def fault_text(numbers: Iterable[int]) -> str:
    """Return the sign of faults with their numbers; empty: there are none."""
    said = ", ".join(map(str, numbers))
    return f"{FAULT_SIGN} {said}" if said else ""


class Marks:
    """What is to be marked in a drawing of a topology."""

    def __init__(self, down: Iterable[str] = (), faults: Mapping[int, str] | None = None) -> None:
        """Args: down: cables that are down, with their ends in either order, and directions `a->b` that are cut.
        faults: the place of each fault that is set, by its number.
        """
        self._down = frozenset(down)
        self._faults = faults or {}

    def state(self, cable: Cable) -> str:
        """Return `up`, `down`, or to which node nothing passes: `down to sw0`."""
        a, b = end_text(cable.a), end_text(cable.b)
        if not self._down.isdisjoint((f"{a}--{b}", f"{b}--{a}")):
            return "down"
        cut = [end[0] for end, way in ((cable.b, f"{a}->{b}"), (cable.a, f"{b}->{a}")) if way in self._down]
        return f"down to {' and '.join(cut)}" if cut else "up"

    def cable_faults(self, cable: Cable) -> tuple[int, ...]:
        """Return the numbers of the faults whose place is this cable, a direction, or a port of it."""
        return tuple(number for number, place in self._faults.items() if _is_on_cable(place, cable))

    def node_faults(self, node: Node) -> tuple[int, ...]:
        """Return the numbers of the faults whose place is this node, or its host."""
        names = {node.name, node.host}
        return tuple(n for n, place in self._faults.items() if not names.isdisjoint(place.split(",")))

    def text(self, cable: Cable) -> str:
        """Return the signs and words for a cable; empty: nothing is wrong with it."""
        state = self.state(cable)
        down = "" if state == "up" else f"{DOWN_SIGN} {state}"
        return "  ".join(filter(None, (down, fault_text(self.cable_faults(cable)))))

    def summary(self, cables: Iterable[Cable]) -> str:
        """Return how many cables are down and how many faults are set; empty: nothing is wrong."""
        down = sum(self.state(cable) != "up" for cable in cables)
        said = [f"{DOWN_SIGN} {counted(down, 'cable')} down"] if down else []
        said += [f"{FAULT_SIGN} {counted(len(self._faults), 'fault')} set"] if self._faults else []
        return ", ".join(said)

    def colour(self, cable: Cable, otherwise: str) -> str:
        """Return the colour of a cable: what is worst about it decides."""
        if self.state(cable) != "up":
            return DOWN
        return FAULTY if self.cable_faults(cable) else otherwise

    def name(self, node: Node) -> str:
        """Return the name of a node, after the sign of a fault where one is set."""
        return f"{FAULT_SIGN} {node.name}" if self.node_faults(node) else node.name


def _is_on_cable(place: str, cable: Cable) -> bool:
    ends = place.replace("->", "--").split("--")
    a, b = ({end_text(end), end[0]} for end in (cable.a, cable.b))
    if len(ends) == 1:
        return place in (end_text(cable.a), end_text(cable.b))
    return (ends[0] in a and ends[1] in b) or (ends[0] in b and ends[1] in a)
