"""The members of a fabric, and which nodes are refused for which reason. Does no I/O.

A node announces itself by a liveliness token. A token has no payload, so its key holds everything that others need to
know, and they learn all of it at once. Each node judges the others by what it knows itself; there is no vote.

A node that has joined has precedence: of two nodes with the same name, and of two coordinators, the later one is
refused. Of nodes first seen at the same moment, as by a node that joins, the one with the lower epoch stays, so that
all joining nodes decide alike. Only a coordinator with another lab file has precedence over members that came before
it. A refused node keeps announcing itself, and is judged anew whenever a node that had joined is gone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from hfi_sim.base.state_table import StateTable
from opavnic.cluster.errors import ClusterInputError, MessageError
from opavnic.cluster.protocol.frames import PROTOCOL
from opavnic.cluster.protocol.transport import NodeName, NodeState, Presence

# --- which of the announced nodes have a live connection to this one. Does no I/O --------------------------
# A token alone does not show that. When the lease of a connection ends, Zenoh flushes the socket before it
# withdraws the
# tokens received over it. With TLS, and with more data under way than the kernel accepts, that lasts until TCP
# gives up,
# which takes minutes. The removal of the link, however, is reported at once.


class Liveness:
    """The tokens that are present, and the links of their sessions.

    A node uses its epoch as the id of its session, which connects the two. For a session with another id no link is
    known, and its token alone counts.
    """

    def __init__(self) -> None:
        self._tokens: dict[int, set[Hello]] = {}
        """Tokens by epoch."""
        self._links: dict[int, set[str]] = {}
        """Links by the id of the session at their other end."""
        self._cut: set[int] = set()
        """Epochs whose tokens are still present but whose last link is gone."""

    def announced(self, hello: Hello) -> bool:
        """Note a token; return whether its node is alive."""
        self._tokens.setdefault(hello.epoch, set()).add(hello)
        return hello.epoch not in self._cut

    def withdrawn(self, hello: Hello) -> None:
        """Note that a token is gone, and drop the links of its session if it was the last token of it."""
        tokens = self._tokens.get(hello.epoch, set())
        tokens.discard(hello)
        if not tokens:
            self._tokens.pop(hello.epoch, None)
            self._links.pop(hello.epoch, None)
            self._cut.discard(hello.epoch)

    def linked(self, session: int, link: str) -> list[Hello]:
        """Note a new link; return the nodes that are alive again because of it."""
        self._links.setdefault(session, set()).add(link)
        if session not in self._cut:
            return []
        self._cut.discard(session)
        return list(self._tokens[session])

    def unlinked(self, session: int, link: str) -> list[Hello]:
        """Note that a link is gone; return the nodes that are dead because of it."""
        links = self._links.get(session, set())
        links.discard(link)
        if links:
            return []
        self._links.pop(session, None)
        if session not in self._tokens or session in self._cut:
            return []
        self._cut.add(session)
        return list(self._tokens[session])


# -----------------------------------------------------------------------------------------------------------

NO_DIGEST: Final = "-"
"""Digest of a node without a lab file of its own: it gets the coordinator's."""
RESERVED_S: Final = 5.0
"""How long the coordinator reserves a name for a node that it has admitted and does not see yet."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_TOKEN: Final = re.compile(
    rf"(?P<fabric>[0-9a-f]{{1,16}})/(?P<name>{_NAME.pattern})/(?P<role>[^/]*)/(?P<protocol>[0-9]{{1,9}})(?P<rest>/.*)?",
    re.DOTALL,
)
_REST: Final = re.compile(r"/(?P<epoch>(?!0+/)[0-9a-f]{1,16})/(?P<digest>-|[0-9a-f]{8,64})")
_MAX_FABRIC: Final = (1 << 32) - 1


class MachineRole(StrEnum):
    """The role of a node in the fabric."""

    COORDINATOR = "coordinator"
    MEMBER = "member"


def node_name(text: str) -> NodeName:
    """Return text as a node name. Raises ClusterInputError if it is not a valid name."""
    if not _NAME.fullmatch(text):
        raise ClusterInputError(
            f'node name "{text}": 1 to 63 letters, digits, dots, hyphens and underscores are right, with a letter or '
            "digit at both ends, such as rack1-m2"
        )
    return NodeName(text)


@dataclass(frozen=True, slots=True)
class Hello:
    """What a node announces about itself."""

    name: NodeName
    role: MachineRole
    fabric: int
    epoch: int
    """Drawn at each start."""
    digest: str = NO_DIGEST
    """Of its lab file: hexadecimal, or NO_DIGEST."""
    protocol: int = PROTOCOL

    def chunks(self) -> str:
        """Return it as the end of a token's key: name/role/protocol/epoch/digest."""
        return f"{self.name}/{self.role}/{self.protocol}/{self.epoch:x}/{self.digest}"

    @classmethod
    def parse(cls, fabric: str, chunks: str) -> Hello:
        """Read a token's key. Raises MessageError if it is malformed in every version."""
        token = _TOKEN.fullmatch(f"{fabric}/{chunks}")
        if token is None or int(token["fabric"], 16) > _MAX_FABRIC:
            raise MessageError(
                "token", f'"{fabric[:20]}/{chunks[:200]}" is not fabric/name/role/protocol/...'
            )
        name, number, protocol = NodeName(token["name"]), int(token["fabric"], 16), int(token["protocol"])
        if protocol != PROTOCOL:  # the format of later fields in another version is unknown
            return cls(name, MachineRole.MEMBER, number, 0, protocol=protocol)
        rest = _REST.fullmatch(token["rest"] or "")
        if rest is None or token["role"] not in list(MachineRole):
            raise MessageError("token", f'"{chunks[:200]}" is not name/role/protocol/epoch/digest')
        return cls(name, MachineRole(token["role"]), number, int(rest["epoch"], 16), rest["digest"], protocol)


class MembershipEvent(Enum):
    """The events in the membership of a node."""

    ADMISSION = "announced, no objection"
    OBJECTION = "objection"
    VANISHED = "token or connection ends"


MEMBERSHIP: Final = StateTable(
    ((Presence.GONE,), MembershipEvent.ADMISSION, Presence.JOINED),
    ((Presence.GONE, Presence.JOINED), MembershipEvent.OBJECTION, Presence.REFUSED),
    ((Presence.JOINED, Presence.REFUSED), MembershipEvent.VANISHED, Presence.GONE),
)


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A change of membership."""

    name: NodeName
    state: NodeState


class ClusterMembership:
    """The nodes of one fabric, as one of them sees it."""

    def __init__(self, own: Hello, coordinators: Collection[NodeName] = ()) -> None:
        """Args:  coordinators: the only nodes that may be coordinator; empty: any."""
        self.own = own
        self._coordinators = coordinators
        self._seen: dict[Hello, NodeState] = {}
        """The nodes that announce themselves, without this one."""
        self._reserved: dict[NodeName, tuple[int, float]] = {}
        """Admitted names: the epoch that each is reserved for, and until when."""

    @property
    def coordinator(self) -> Hello | None:
        """The fabric's coordinator; may be this node."""
        if self.own.role is MachineRole.COORDINATOR:
            return self.own
        return next((one for one in self._that(Presence.JOINED) if one.role is MachineRole.COORDINATOR), None)

    def nodes(self) -> dict[NodeName, Hello]:
        """Return the nodes that are part of the fabric, without this one."""
        return {hello.name: hello for hello in self._that(Presence.JOINED)}

    def present(self) -> list[NodeEvent]:
        """Return the events by which the nodes of `nodes` have joined."""
        return [NodeEvent(hello.name, self._seen[hello]) for hello in self._that(Presence.JOINED)]

    def all_seen(self) -> list[Hello]:
        """Return all nodes that announce themselves, without this one."""
        return list(self._seen)

    def refused(self) -> dict[NodeName, str]:
        """Return the nodes that announce themselves and are refused, with the reasons."""
        return {hello.name: self._seen[hello].reason for hello in self._that(Presence.REFUSED)}

    def _that(self, presence: Presence) -> list[Hello]:
        return [hello for hello, state in self._seen.items() if state.presence is presence]

    def appeared(self, hellos: list[Hello]) -> list[NodeEvent]:
        """Handle nodes that announce themselves at one moment."""
        events: list[NodeEvent] = []
        for hello in sorted(hellos, key=lambda one: (one.role is not MachineRole.COORDINATOR, one.epoch)):
            if hello != self.own and hello not in self._seen:
                events += self._judge(hello)
        return events

    def admit(self, hello: Hello, now: float) -> str | None:
        """Handle a node's request to the coordinator to join; return the reason for refusing it, or None.

        Members see only the nodes that they have a connection to; the coordinator sees all, and admits the first of two
        that ask at the same time. An admitted name is reserved until the node's token appears.
        """
        epoch, until = self._reserved.get(hello.name, (hello.epoch, 0.0))
        if epoch != hello.epoch and now < until:
            return _taken(hello.name)
        if hello not in self._that(Presence.JOINED):
            reason = self._objection(hello)
            if reason is not None:
                return reason
        self._reserved[hello.name] = hello.epoch, now + RESERVED_S
        return None

    def vanished(self, hello: Hello) -> list[NodeEvent]:
        """Handle a node that has disappeared; nodes refused because of it are judged again."""
        if hello not in self._seen:
            return []
        was_refused = self._seen[hello].presence is Presence.REFUSED
        gone = self._enter(hello, MembershipEvent.VANISHED)
        if was_refused:
            return []
        waiting = self._that(Presence.REFUSED)
        for other in waiting:
            self._enter(other, MembershipEvent.VANISHED)
        return [gone, *self.appeared(waiting)]

    def own_refusal(self) -> str | None:
        """Return the reason why this node, about to join, may not be part of the fabric now, or None."""
        for other in self._seen:
            if other.name == self.own.name:
                return _taken(other.name)
            if other.protocol == PROTOCOL and {other.role, self.own.role} == {MachineRole.COORDINATOR}:
                return _second_coordinator(self.own, other)
        coordinator = self.coordinator
        if coordinator is not None and not _same_file(self.own, coordinator):
            return _other_file(self.own, coordinator)
        return None

    def _judge(self, hello: Hello) -> Iterator[NodeEvent]:
        """Let a node join, or refuse it; a coordinator that joins refuses the members with another lab file."""
        reason = self._objection(hello)
        if reason is not None:
            yield self._enter(hello, MembershipEvent.OBJECTION, reason)
            return
        self._reserved.pop(hello.name, None)
        joined = self._enter(hello, MembershipEvent.ADMISSION)
        for other in self._that(Presence.JOINED) if hello.role is MachineRole.COORDINATOR else ():
            if not _same_file(other, hello):
                yield NodeEvent(other.name, NodeState(Presence.GONE, epoch=other.epoch))
                yield self._enter(other, MembershipEvent.OBJECTION, _other_file(other, hello))
        yield joined

    def _enter(self, hello: Hello, verdict: MembershipEvent, reason: str = "") -> NodeEvent:
        before = self._seen.pop(hello, NodeState(Presence.GONE)).presence
        presence = MEMBERSHIP.after(before, verdict)
        state = NodeState(presence, reason, hello.role is MachineRole.COORDINATOR, hello.epoch)
        if presence is not Presence.GONE:
            self._seen[hello] = state
        return NodeEvent(hello.name, state)

    def _objection(self, hello: Hello) -> str | None:
        if hello.protocol != PROTOCOL:
            return (
                f"node {hello.name} uses version {hello.protocol} of the protocol, this node version {PROTOCOL}: "
                "install the same opavnic on both"
            )
        if (
            hello.role is MachineRole.COORDINATOR
            and self._coordinators
            and hello.name not in self._coordinators
        ):
            return f"node {hello.name} may not be coordinator: the credentials name {', '.join(self._coordinators)}"
        if hello.name == self.own.name or hello.name in self.nodes():
            return _taken(hello.name)
        coordinator = self.coordinator
        if coordinator is not None:
            if hello.role is MachineRole.COORDINATOR:
                return _second_coordinator(hello, coordinator)
            if not _same_file(hello, coordinator):
                return _other_file(hello, coordinator)
        return None


def _taken(name: NodeName) -> str:
    return f"node {name}: the fabric has a node of this name already: choose another one with --name"


def _second_coordinator(second: Hello, first: Hello) -> str:
    return (
        f"node {second.name}: fabric {second.fabric:#x} has a coordinator already, {first.name}: join it with "
        "`opavnic node --join`, or give the other lab another fabric id"
    )


def _same_file(one: Hello, other: Hello) -> bool:
    return NO_DIGEST in (one.digest, other.digest) or one.digest == other.digest


def _other_file(hello: Hello, coordinator: Hello) -> str:
    return (
        f"node {hello.name} brings another lab file ({hello.digest[:12]}) than the coordinator {coordinator.name} runs "
        f"({coordinator.digest[:12]}): bring that one, or none"
    )
