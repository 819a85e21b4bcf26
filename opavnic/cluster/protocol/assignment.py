"""Which of several machines carries which node of a graph: balanced first, then with little traffic between machines.

An assignment is judged by its `Cost`. A few nodes are assigned as well as possible, by branch and bound; more by local
search, which moves nodes, nodes with their leaves, and pairs of either, as long as the cost falls. Pure and
deterministic: all numbers are integers, and of assignments that cost the same the first one found stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

_MOST_EXACT: Final = 12
"""Nodes without a given machine up to which the best assignment is looked for."""
_MOST_STEPS: Final = 5_000
"""Steps of that search; what has been found until then is taken."""
_MOST_PAIRED: Final = 60
"""Nodes up to which pairs are exchanged, whose number grows with the square."""
_PASSES: Final = 8
"""How often all nodes are looked at; almost all is gained in the first few."""
_MILLION: Final = 1_000_000


class Cost(NamedTuple):
    """What an assignment costs; the first part in which two differ decides."""

    unbalanced: int
    """Load by which machines are above, or below, their share of it."""
    cut: int
    """Traffic between machines."""
    peak: int
    """Load of the busiest machine, in millionths of its capacity."""
    crowd: int
    """The sum of the squares of the numbers of nodes: machines are to carry as many."""


@dataclass(frozen=True, slots=True)
class Assignable:
    """Nodes to be assigned to machines, both by number."""

    capacities: Sequence[int]
    """Of machines; each is to carry its share of the load."""
    loads: Sequence[int]
    """Of nodes."""
    traffic: Sequence[Mapping[int, int]]
    """Of each node with others."""
    given: Mapping[int, int]
    """Node -> its machine, where that is decided already."""
    slack_percent: int = 0
    """How much more than its share a machine may carry; 0: it should not carry less either."""

    def shares(self) -> tuple[list[int], list[int]]:
        """Return the least and the most that each machine should carry."""
        total, capacity = sum(self.loads), sum(self.capacities)
        most = [-(-total * own * (100 + self.slack_percent) // (100 * capacity)) for own in self.capacities]
        least = [0 if self.slack_percent else total * own // capacity for own in self.capacities]
        return least, most


class _Search:
    """An assignment that changes, and its cost."""

    def __init__(self, task: Assignable, at: Sequence[int]) -> None:
        self.task = task
        self.at = list(at)
        self.least, self.most = task.shares()
        self.carried = [0] * len(task.capacities)
        self.counts = [0] * len(task.capacities)
        self.cut = 0
        for node, machine in enumerate(self.at):
            self.count(node, machine, 1)
            self.cut += self.cut_by(node, machine, range(node))

    def count(self, node: int, machine: int, times: int) -> None:
        """Count a node at a machine, or (-1) no more."""
        self.carried[machine] += times * self.task.loads[node]
        self.counts[machine] += times

    def cut_by(self, node: int, machine: int, others: range) -> int:
        """Return the traffic of a node with those of some others that are elsewhere."""
        traffic = self.task.traffic[node]
        return sum(rate for far, rate in traffic.items() if far in others and self.at[far] != machine)

    def unbalanced(self, still: int = 0) -> int:
        """Return the load above and below the shares, if as much load is still to come."""
        above = sum(max(0, own - most) for own, most in zip(self.carried, self.most, strict=True))
        below = sum(max(0, least - own) for own, least in zip(self.carried, self.least, strict=True))
        return above + max(0, below - still)

    def cost(self) -> Cost:
        """Return the cost as it is."""
        capacities = self.task.capacities
        peak = max(own * _MILLION // all_ for own, all_ in zip(self.carried, capacities, strict=True))
        return Cost(self.unbalanced(), self.cut, peak, sum(count * count for count in self.counts))

    def move(self, node: int, machine: int) -> None:
        """Assign a node to another machine."""
        every = range(len(self.at))
        self.cut -= self.cut_by(node, self.at[node], every)
        self.count(node, self.at[node], -1)
        self.at[node] = machine
        self.count(node, machine, 1)
        self.cut += self.cut_by(node, machine, every)

    def try_moves(self, moves: Sequence[tuple[int, int]], best: Cost) -> Cost:
        """Move nodes if that costs less than `best`; return the cost then."""
        before = [(node, self.at[node]) for node, _ in moves]
        for node, machine in moves:
            self.move(node, machine)
        cost = self.cost()
        if cost < best:
            return cost
        for node, machine in before:
            self.move(node, machine)
        return best


def assign(task: Assignable) -> list[int]:
    """Return the machine of each node."""
    search = _Search(task, _first(task))
    _improve(search)
    return _best(search)


def cost_of(task: Assignable, at: Sequence[int]) -> Cost:
    """Return what an assignment costs."""
    return _Search(task, at).cost()


def _first(task: Assignable) -> list[int]:
    """Fill one machine after the other up to its share: with nodes and their leaves together, as far as they fit."""
    at = [task.given.get(node, 0) for node in range(len(task.loads))]
    room = task.shares()[1]
    for node, machine in task.given.items():
        room[machine] -= task.loads[node]
    grouped = [group for group in _groups(task) if len(group) > 1]
    together = {node for group in grouped for node in group}
    alone = [[node] for node in range(len(at)) if node not in together and node not in task.given]
    for group in sorted((*grouped, *alone), key=min):
        fits = sum(task.loads[node] for node in group) <= max(room)
        for part in [group] if fits else [[node] for node in group]:
            load = sum(task.loads[node] for node in part)
            machine = next(
                (number for number, left in enumerate(room) if left >= load), room.index(max(room))
            )
            room[machine] -= load
            for node in part:
                at[node] = machine
    return at


def _groups(task: Assignable) -> list[list[int]]:
    """Return the nodes without a given machine, each alone, and with the leaves that have traffic with it only."""
    free = [node for node in range(len(task.loads)) if node not in task.given]
    groups = [[node] for node in free]
    for node in free:
        leaves = [far for far in task.traffic[node] if far not in task.given and len(task.traffic[far]) == 1]
        if leaves and (len(task.traffic[node]) > 1 or node < leaves[0]):
            groups.append([node, *leaves])
    return groups


def _improve(search: _Search) -> None:
    """Move and exchange nodes, as long as that lowers the cost."""
    groups, machines = _groups(search.task), range(len(search.task.capacities))
    paired = len(search.at) <= _MOST_PAIRED
    best = search.cost()
    for _ in range(_PASSES):
        before = best
        for group in groups:
            for machine in machines:
                if any(search.at[node] != machine for node in group):
                    best = search.try_moves([(node, machine) for node in group], best)
        for one, other in combinations(groups, 2) if paired else ():
            here, there = search.at[one[0]], search.at[other[0]]
            if here != there and not set(one) & set(other):
                moves = [*((node, there) for node in one), *((node, here) for node in other)]
                best = search.try_moves(moves, best)
        if best == before:
            break


def _best(found: _Search) -> list[int]:
    """Look for an assignment that is better than one that was found, as far as the nodes are few enough."""
    task, best, best_at, steps = found.task, found.cost(), list(found.at), 0
    free = [node for node in range(len(found.at)) if node not in task.given]
    if len(free) > _MOST_EXACT:
        return best_at
    at, is_done = found.at, [node in task.given for node in range(len(found.at))]
    for node in free:
        found.count(node, at[node], -1)

    def joined(node: int, machine: int) -> int:
        return sum(rate for far, rate in task.traffic[node].items() if is_done[far] and at[far] != machine)

    def branch(place: int, still: int) -> None:
        nonlocal best, best_at, steps
        steps += 1
        if steps > _MOST_STEPS or (found.unbalanced(still), found.cut) > best[:2]:
            return
        if place == len(free):
            if (cost := found.cost()) < best:
                best, best_at = cost, list(at)
            return
        node, cut = free[place], found.cut
        for machine in range(len(task.capacities)):
            at[node], found.cut = machine, cut + joined(node, machine)
            is_done[node] = True
            found.count(node, machine, 1)
            branch(place + 1, still - task.loads[node])
            found.count(node, machine, -1)
            is_done[node] = False
        found.cut = cut

    found.cut = sum(joined(node, machine) for node, machine in task.given.items()) // 2
    branch(0, sum(task.loads[node] for node in free))
    return best_at
