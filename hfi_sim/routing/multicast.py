"""Multicast trees: one spanning tree of the switches, and for each group what is left of it when it is pruned."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from hfi_sim.routing.graph import Channel, Routes, SwitchGraph


class SpanningForest:
    """A spanning tree of each connected part of the fabric."""

    def __init__(self, graph: SwitchGraph, routes: Routes | None = None) -> None:
        """Plant them where routes say; else by breadth-first search from the first switch of each part."""
        self._parent: list[tuple[int, int, int] | None] = [None] * len(graph.names)
        """For each switch: parent, own port towards it, the parent's port; None for a root."""
        if routes is not None and routes.parents:
            for at, parent in routes.parents.items():
                port = min(number for number, far in graph.arcs[at].items() if far == parent)
                self._parent[at] = (parent, port, graph.far_port[at, port])
            return
        seen: set[int] = set()
        roots = () if routes is None else routes.roots
        for root in (*roots, *range(len(graph.names))):
            if root in seen:
                continue
            seen.add(root)
            queue = deque([root])
            while queue:
                at = queue.popleft()
                for port_num, far in sorted(graph.arcs[at].items()):
                    if far not in seen:
                        seen.add(far)
                        self._parent[far] = (at, graph.far_port[at, port_num], port_num)
                        queue.append(far)

    def turns(self, leaves: Collection[int]) -> dict[Channel | None, set[Channel]]:
        """Return which channels each channel of the trees leads to, between leaves; None: where hosts begin.

        Args:  leaves: the switches that have hosts.
        """
        ports = {at: found - {0} for at, found in self.prune({leaf: {0} for leaf in leaves}).items()}
        found: dict[Channel | None, set[Channel]] = {}
        for at, step in enumerate(self._parent):
            if step is not None and step[1] in ports.get(at, ()) and step[2] in ports.get(step[0], ()):
                parent, own_port, parent_port = step
                found[at, own_port] = {(parent, port) for port in ports[parent] if port != parent_port}
                found[parent, parent_port] = {(at, port) for port in ports[at] if port != own_port}
        found[None] = {(leaf, port) for leaf in leaves for port in ports.get(leaf, ())}
        return found

    def prune(self, members: Mapping[int, set[int]]) -> dict[int, frozenset[int]]:
        """Return the ports of a group's tree at each switch.

        Args:  members: for each switch, the ports with members behind them.
        """
        ports: dict[int, set[int]] = {switch: set(found) for switch, found in members.items() if found}
        children: dict[int, list[int]] = {}
        marked: set[int] = set()
        tops: set[int] = set()
        for start in list(ports):
            at = start
            while at not in marked:
                marked.add(at)
                step = self._parent[at]
                if step is None:
                    tops.add(at)
                    break
                parent, own_port, parent_port = step
                ports.setdefault(at, set()).add(own_port)
                ports.setdefault(parent, set()).add(parent_port)
                children.setdefault(parent, []).append(at)
                at = parent
        for top in tops:
            self._shorten(top, ports, children, members)
        return {switch: frozenset(found) for switch, found in ports.items() if found}

    def _shorten(
        self,
        top: int,
        ports: dict[int, set[int]],
        children: dict[int, list[int]],
        members: Mapping[int, set[int]],
    ) -> None:
        """Cut the branch above the first switch where the tree forks or has a member."""
        while not members.get(top) and len(children.get(top, ())) == 1:
            below = children[top][0]
            step = self._parent[below]
            assert step is not None  # noqa: S101 - a child has a parent
            del ports[top]
            ports[below].discard(step[1])
            top = below
