"""Which machines are part of a fabric: the coordinator alone decides. Does no I/O.

A member has one session, with the coordinator, whose id is the epoch of its process. It is part of the fabric from its
admission until the last link of that session ends. All machines know of each other what the coordinator says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NewType

from opavnic.cluster.errors import ClusterError, ClusterInputError, JoinRefusedError
from opavnic.cluster.protocol.frames import PROTOCOL

NodeName = NewType("NodeName", str)
"""The name of one machine of a fabric: the host name unless `--name` says otherwise."""
NO_DIGEST: Final = "-"
"""Digest of a node without a lab file of its own: it gets the coordinator's."""
REJOIN_S: Final = 60.0
"""How long machines may take to rejoin a coordinator that was started again."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def node_name(text: str) -> NodeName:
    """Return text as a node name. Raises ClusterInputError if it is not a valid name."""
    if not _NAME.fullmatch(text):
        raise ClusterInputError(
            f'node name "{text}": 1 to 63 letters, digits, dots, hyphens and underscores are right, with a letter or '
            "digit at both ends, such as rack1-m2"
        )
    return NodeName(text)


@dataclass(frozen=True, slots=True)
class NodeState:
    """A machine that is part of the fabric."""

    epoch: int
    """A random number that the machine draws when it starts: another number means another process."""
    is_coordinator: bool = False


NodeEvent = tuple[NodeName, NodeState | None]
"""A machine that has joined, or (None) has left."""


class ClusterMembership:
    """The other machines of a fabric."""

    def __init__(self, own: NodeName, digest: str = NO_DIGEST) -> None:
        """Args:  digest: of the lab file of this machine."""
        self.nodes: dict[NodeName, NodeState] = {}
        self._own = own
        self._digest = digest
        self._links: dict[int, set[str]] = {}
        """Links by the id of the session at their other end."""
        self._heard: set[NodeName] = set()
        """The machines that the coordinator has told last."""
        self._teller = 0
        """Its process."""
        self._all_told_at = 0.0
        """When it has heard of all machines that are there."""

    def enter(self, name: NodeName, state: NodeState | None) -> Iterator[NodeEvent]:
        """Note a machine as it is now; yield what has changed. A new process means that the last one has left."""
        known = self.nodes.get(name)
        if known == state:
            return
        if known is not None:
            del self.nodes[name]
            yield name, None
        if state is not None:
            self.nodes[name] = state
            yield name, state

    def linked(self, session: int, link: str) -> None:
        """Note a new link."""
        self._links.setdefault(session, set()).add(link)

    def unlinked(self, session: int, link: str) -> Iterator[NodeEvent]:
        """Note that a link is gone; yield the machines that have left by it."""
        links = self._links.get(session, set())
        links.discard(link)
        if not links:
            self._links.pop(session, None)
            for name in [name for name, state in self.nodes.items() if state.epoch == session]:
                yield from self.enter(name, None)

    @property
    def is_linked(self) -> bool:
        """Whether there is a link to any other machine."""
        return bool(self._links)

    # --- the coordinator -----------------------------------------------------------------------------------

    def admit(self, name: NodeName, hello: Mapping[str, Any]) -> NodeState:
        """Return the state in which a machine that requests to join may `enter`.

        Raises:  JoinRefusedError: it may not join. ClusterError: its link is not known (yet).
        """
        match hello:
            case {"protocol": int(protocol)} if protocol != PROTOCOL:
                raise JoinRefusedError(
                    f"node {name} uses version {protocol} of the protocol, this node version {PROTOCOL}: install the "
                    "same opavnic on both"
                )
            case {"protocol": int(), "epoch": int(epoch), "digest": str(digest)}:
                pass
            case _:
                raise JoinRefusedError(f"node {name}: malformed request to join")
        if NO_DIGEST not in (digest, self._digest) and digest != self._digest:
            raise JoinRefusedError(
                f"node {name} brings another lab file ({digest[:12]}) than the coordinator {self._own} runs "
                f"({self._digest[:12]}): bring that one, or none"
            )
        known = self.nodes.get(name)
        if name == self._own or (known is not None and known.epoch != epoch):
            raise JoinRefusedError(
                f"node {name}: the fabric has a node of this name already: choose another one with --name",
                is_taken=True,
            )
        if other := next(
            (one for one, state in self.nodes.items() if state.epoch == epoch and one != name), ""
        ):
            raise JoinRefusedError(f"node {name}: its process is node {other} of the fabric already")
        if epoch not in self._links:
            raise ClusterError(f"node {name}: no link of session {epoch:x}")
        return NodeState(epoch)

    def told(self, epoch: int) -> dict[str, int]:
        """Return the epoch of each machine. Args: epoch: of this one."""
        return {str(self._own): epoch, **{str(name): state.epoch for name, state in self.nodes.items()}}

    # --- a member ------------------------------------------------------------------------------------------

    @property
    def coordinator_epoch(self) -> int:
        """The process of the coordinator, or 0 if none is present."""
        return next((state.epoch for state in self.nodes.values() if state.is_coordinator), 0)

    def hear(self, coordinator: str, machines: Mapping[Any, Any], now: float) -> Iterator[NodeEvent]:
        """Take over what the coordinator tells: machines that it mentions no longer have left.

        One that was started again has not heard of all yet: those that it has never mentioned stay for a while.

        Args:    now: seconds, of any clock.
        Raises:  ClusterError: it is malformed.
        """
        if not all(isinstance(epoch, int) for epoch in machines.values()):
            raise ClusterError(f"{coordinator} says no epochs of machines")
        states = {
            node_name(name): NodeState(epoch, name == coordinator)
            for name, epoch in machines.items()
            if name != self._own
        }
        if (process := machines.get(coordinator, 0)) != self._teller:
            self._teller, self._heard, self._all_told_at = process, set(), now + REJOIN_S
        known = self.nodes.keys() if now >= self._all_told_at else self._heard
        left, self._heard = known - states.keys(), set(states)
        for name in left:
            yield from self.enter(name, None)
        for name, state in states.items():
            yield from self.enter(name, state)
