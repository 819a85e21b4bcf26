"""Multicast trees: one spanning tree of the switches, and for each group what is left of it when it is pruned."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from hfi_sim.routing.graph import SwitchGraph


class SpanningForest:
    """A spanning tree of each connected part of the fabric, by breadth-first search from its first switch."""

    def __init__(self, graph: SwitchGraph) -> None:
        self._parent: list[tuple[int, int, int] | None] = [None] * len(graph.names)
        """For each switch: parent, own port towards it, the parent's port; None for a root."""
        seen: set[int] = set()
        for root in range(len(graph.names)):
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
