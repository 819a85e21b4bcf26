"""What the place of a fault means: links and their directions, by the names that people know them by."""

from __future__ import annotations

from hfi_sim.base.errors import FaultError
from hfi_sim.base.text import unknown_name
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.nodes.cable import Link, LinkDirection, LinkPort


def node_of(port: LinkPort) -> str:
    """Return the name of the node that a port belongs to."""
    return port.name.rpartition(":")[0]


def directions_of(fabric: Fabric, target: str, direction: str | None = None) -> list[LinkDirection]:
    """Return the directions of links that `target` names.

    Args:    target: `h1:1--sw0:3`, `h1--sw0` (all links between two nodes), `h1->sw0` (one way), a node, a port,
             or `*`. direction: tx or rx as seen from the end that stands first, for `*` in the names of the links;
             None for both.
    Raises:  FaultError: nothing is called so; the nearest name is in the message.
    """
    if target == "*":
        sides = {None: (0, 1), "tx": (0,), "rx": (1,)}[direction]
        return [link.directions[side] for link in fabric.links for side in sides]
    if "->" in target:
        source, _, sink = target.partition("->")
        found = [way for way in _all(fabric) if _is(way.source, source) and _is(way.target, sink)]
    elif "--" in target:
        near, _, far = target.partition("--")
        found = [
            way
            for way in _all(fabric)
            if (direction != "rx" and _is(way.source, near) and _is(way.target, far))
            or (direction != "tx" and _is(way.target, near) and _is(way.source, far))
        ]
    else:
        found = [
            way
            for way in _all(fabric)
            if (direction != "rx" and _is(way.source, target))
            or (direction != "tx" and _is(way.target, target))
        ]
    if not found:
        raise FaultError(_unknown(fabric, target))
    return found


def links_of(fabric: Fabric, target: str) -> list[Link]:
    """Return the links that `target` names, each once.

    Raises:  FaultError: nothing is called so.
    """
    return list(dict.fromkeys(way.link for way in directions_of(fabric, target)))


def cut_between(fabric: Fabric, nodes: list[str]) -> list[Link]:
    """Return the links between `nodes` and the rest. An HFI goes with its switch where it is not named itself.

    Raises:  FaultError: an unknown node, or no link runs between the two sides.
    """
    known = [*fabric.switches, *fabric.hfis]
    for name in nodes:
        if name not in known:
            raise FaultError(unknown_name("node", name, known))
    side = set(nodes)
    for link in fabric.links:
        a, b = (node_of(end) for end in link.ends)
        for near, far in ((a, b), (b, a)):
            if near in side and near in fabric.switches and far in fabric.hfis:
                side.add(far)
    cut = [link for link in fabric.links if len({node_of(end) in side for end in link.ends}) == 2]
    if not cut:
        raise FaultError(f"partition {','.join(nodes)}: no link runs between these and the rest")
    return cut


def _all(fabric: Fabric) -> list[LinkDirection]:
    return [way for link in fabric.links for way in link.directions]


def _is(port: LinkPort, name: str) -> bool:
    return name in (port.name, node_of(port))


def _unknown(fabric: Fabric, target: str) -> str:
    if "--" in target or "->" in target:
        return unknown_name("link", target, [link.name for link in fabric.links])
    nodes = [*fabric.hfis, *fabric.switches]
    if target in nodes:
        return f'"{target}" has no cable'
    return unknown_name("link, port or node", target, [*nodes, *(link.name for link in fabric.links)])
