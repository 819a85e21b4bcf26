"""The transport between machines over Zenoh: a session, its tokens and keys. Makes no decisions: its cores do.

Zenoh's threads only pass on what they get: everything else runs in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from opavnic.cluster.errors import (
    ClusterError,
    ClusterInputError,
    JoinRefusedError,
    MessageError,
    PeerRequestError,
)
from opavnic.cluster.protocol.membership import (
    NO_DIGEST,
    ClusterMembership,
    Hello,
    Liveness,
    MachineRole,
    NodeEvent,
)
from opavnic.cluster.protocol.transport import NodeName, NodeState, Presence
from opavnic.cluster.protocol.zenoh_config import (
    MAX_MEMBERS,
    ROOT,
    Address,
    SessionPlan,
    check,
    with_listen,
)
from opavnic.cluster.zenoh.requests import Requests
from opavnic.cluster.zenoh.session import (
    live_keys,
    open_session,
    parse_addresses,
    reachable,
    say_of,
    with_port,
)
from opavnic.cluster.zenoh.sockets import PeerListener, PeerSocket

if TYPE_CHECKING:
    import zenoh

MAX_ADDRESSES: Final = 8
"""Most addresses that a node may announce."""
JOIN: Final = "join"
"""The verb by which a node asks the coordinator to join."""
WHERE: Final = "where"
"""The verb by which a node asks where to connect to another."""
PEERS: Final = "peers"
"""The verb by which a node asks the coordinator where all others listen."""
_LOOK_AGAIN_S: Final = 0.1


class ZenohTransport:
    """One node's end of the transport: membership of the fabric, requests with replies, and connections between nodes.

    All methods and callbacks run in the event loop that called `start`.
    """

    def __init__(
        self, plan: SessionPlan, role: MachineRole, *, fabric: int | None = None, digest: str = NO_DIGEST
    ) -> None:
        """Args:    fabric: its id; a member may omit it and gets the coordinator's. digest: of the lab file.

        Raises:  ClusterInputError: the plan would let strangers in, or a coordinator has no fabric id.
        """
        plan = with_listen(plan)
        check(plan)
        if role is MachineRole.COORDINATOR and fabric is None:
            raise ClusterInputError(f"node {plan.name}: a coordinator has a fabric id")
        may = plan.credentials.coordinators if plan.credentials is not None else ()
        if role is MachineRole.COORDINATOR and may and plan.name not in may:
            raise ClusterInputError(
                f"node {plan.name}: the credentials name {', '.join(may)} as coordinator: start it there, or make "
                "others with `opavnic cluster ca --coordinator`"
            )
        self.on_node: Callable[[NodeName, NodeState], None] = lambda name, state: None
        self._plan, self._role, self._digest = plan, role, digest
        self._fabric = fabric
        self._epoch = secrets.randbits(63) | 1
        self._listener = PeerListener(plan.credentials)
        self._requests = Requests(plan.name, self._is_admitted)
        self.verbs = self._requests.verbs
        """What replies to the requests of other nodes."""
        self.verbs |= {JOIN: self._requested_to_join, WHERE: self._where, PEERS: self._peers}
        self._membership = self._see_nobody()
        self._sight = Liveness()
        self._addresses: dict[NodeName, list[str]] = {}
        """On the coordinator: the addresses that nodes listen on."""
        self._finding: dict[NodeName, asyncio.Task[None]] = {}
        """Work on the addresses of a node: to learn them, or to connect to them."""
        self._session: zenoh.Session | None = None
        self._opening: asyncio.Task[None] | None = None
        """Opens another session in place of the one that was."""
        self._is_ending = False
        self._declared: list[Any] = []

    @property
    def name(self) -> NodeName:
        """The name of this node."""
        return self._plan.name

    @property
    def fabric(self) -> int:
        """The fabric's id. Raises ClusterError before `start` has found it."""
        if self._fabric is None:
            raise ClusterError(f"node {self.name}: has not joined a fabric yet")
        return self._fabric

    @property
    def epoch(self) -> int:
        """The number that this process has drawn; see NodeState."""
        return self._epoch

    @property
    def membership(self) -> ClusterMembership:
        """The other members, and the nodes that are refused."""
        return self._membership

    async def start(self) -> None:
        """Join the fabric.

        Raises:  JoinRefusedError: this node may not be in it. ClusterInputError: an address or credentials that cannot
                 be used. ClusterError: no coordinator answers.
        """
        self._loop = asyncio.get_running_loop()
        self._requests.begin(self._loop)
        if self._plan.join:
            await self._join_by_a_first_session()
        self._session = await asyncio.to_thread(open_session, self._plan, self._fabric, self._epoch)
        try:
            self._listener.listen(self._plan.listen)
            if self._plan.join:
                await self._find_coordinator(self._loop.time() + self._plan.join_timeout_s)
            else:
                self._membership = self._see_nobody()
            self._tell(self._membership.present())
            self._declare()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave the fabric."""
        self._is_ending = True
        if self._opening is not None:
            await self._opening
        session, self._session = self._session, None
        if session is None:
            return
        for task in self._finding.values():
            task.cancel()
        await asyncio.gather(*self._finding.values(), return_exceptions=True)
        await self._requests.close()
        self._listener.close()
        self._declared.clear()
        await asyncio.to_thread(session.close)

    def expect(self, node: NodeName, accepted: Callable[[PeerSocket], None]) -> dict[str, Any]:
        """Expect a connection of a node; return what it needs for `connect`."""
        listen = [Address("tcp", f"[{host}]" if ":" in host else host, 0) for host in self._listener.hosts]
        return {
            "hosts": [address.host.strip("[]") for address in self._reachable(listen)],
            "port": self._listener.port,
            "ticket": self._listener.expect(node, accepted),
        }

    async def connect(self, node: NodeName, expected: Mapping[str, Any]) -> PeerSocket:
        """Connect to a node. Args: expected: from its `expect`. Raises ClusterError, OSError: it cannot be reached."""
        match expected:
            case {"hosts": [*hosts], "port": int(port), "ticket": str(ticket)} if 0 < port < 65536:
                return await self._listener.connect(node, list(map(str, hosts[:MAX_ADDRESSES])), port, ticket)
        raise ClusterError(f"node {node} does not say where to connect to")

    def _reachable(self, listen: Sequence[Address]) -> list[Address]:
        assert self._session is not None  # noqa: S101 - it has been asked
        return reachable(listen, [link.src for link in self._session.info.links()])

    async def request(
        self, node: NodeName, verb: str, body: dict[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Send a request to a node and return the reply of its `verbs`; see Requests.send. Raises PeerRequestError."""
        if self._session is None:
            raise PeerRequestError(f"node {node}: {verb}: this node has left the fabric")
        return await self._requests.send(self._session, self._root, node, verb, body, timeout_s)

    @property
    def _root(self) -> str:
        return f"{ROOT}/{self.fabric:x}"

    def _is_admitted(self, sender: NodeName, verb: str) -> bool:
        return verb == JOIN or sender in self._membership.nodes()

    async def _where(self, _sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        return {"addresses": list(map(str, self._reachable(self._plan.listen)))}

    async def _peers(self, _sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        present = self._membership.nodes()
        return {name: known for name, known in self._addresses.items() if name in present}

    def _see_nobody(self) -> ClusterMembership:
        credentials = self._plan.credentials
        own = Hello(self.name, self._role, self._fabric or 0, self._epoch, self._digest)
        return ClusterMembership(own, credentials.coordinators if credentials is not None else ())

    async def _join_by_a_first_session(self) -> None:
        """Ask the coordinator, over a session that does not listen, whether this node may join, and for the
        other members.

        The session that follows connects to all of them, and reconnects whenever a connection ends. By
        gossip alone Zenoh finds a peer once, and two peers separated by a partition would stay apart.
        """
        self._plan = replace(self._plan, listen=tuple(with_port(address) for address in self._plan.listen))
        deadline = self._loop.time() + self._plan.join_timeout_s
        name_free_by = self._loop.time() + self._plan.lease_s
        self._session = await asyncio.to_thread(open_session, replace(self._plan, listen=()), self._fabric)
        try:
            while True:
                coordinator = await self._find_coordinator(deadline)
                refusal = self._membership.own_refusal()
                if refusal is None:
                    refusal = await self._request_to_join(coordinator)
                if refusal is None:
                    return
                # the token of a machine that died under this name disappears after its lease
                if refusal and self._loop.time() >= name_free_by:
                    raise JoinRefusedError(refusal)
                if self._loop.time() >= deadline:
                    raise ClusterError(f"node {self.name}: the coordinator {coordinator} does not answer")
                await asyncio.sleep(_LOOK_AGAIN_S)
        finally:
            session, self._session = self._session, None
            await asyncio.to_thread(session.close)

    async def _find_coordinator(self, deadline: float) -> NodeName:
        """Look for nodes until there is a coordinator, and return its name."""
        while True:
            seen = await self._look()
            if self._fabric is None:
                self._choose_fabric(seen)
            if self._fabric is not None:
                self._membership = self._see_nobody()
                self._membership.appeared([hello for hello in seen if hello.fabric == self._fabric])
                found = [
                    one for one in seen if one.role is MachineRole.COORDINATOR and one.fabric == self._fabric
                ]
                if found:
                    return found[0].name
            if self._loop.time() >= deadline:
                seen_there = [await asyncio.to_thread(say_of, address) for address in self._plan.join]
                raise ClusterError(
                    f"node {self.name}: no coordinator answers at {', '.join(seen_there)}: does `opavnic up --cluster` "
                    "run there, are the credentials from the same CA, and is the time of day right on both?"
                )
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _request_to_join(self, coordinator: NodeName) -> str | None:
        """Return None if the coordinator admits this node, the reason if it refuses, or "" if it does not
        answer yet.
        """
        own = list(map(str, self._reachable(self._plan.listen)))
        try:
            answer = await self.request(
                coordinator, JOIN, {"hello": self._membership.own.chunks(), "addresses": own}, timeout_s=2.0
            )
        except PeerRequestError:
            return ""
        match answer:
            case {"refusal": None, "peers": list(peers)}:
                others = parse_addresses(peers, MAX_MEMBERS * MAX_ADDRESSES)
                self._plan = replace(self._plan, join=tuple(dict.fromkeys((*self._plan.join, *others))))
                return None
            case {"refusal": str(refusal)}:
                return refusal
        return ""

    async def _requested_to_join(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a node's request to join."""
        if self._role is not MachineRole.COORDINATOR:
            return {"refusal": f"node {self.name} is not the coordinator: join that"}
        try:
            hello = Hello.parse(f"{self.fabric:x}", str(body.get("hello", "")))
        except MessageError as error:
            return {"refusal": str(error)}
        if hello.name != sender:
            return {"refusal": f"node {sender} asks for {hello.name}"}
        refusal = self._membership.admit(hello, self._loop.time())
        if refusal is not None:
            return {"refusal": refusal}
        self._addresses[sender] = own = list(map(str, parse_addresses(body.get("addresses"), MAX_ADDRESSES)))
        peers = [address for known in (await self._peers(sender, {})).values() for address in known]
        return {"refusal": None, "peers": [address for address in peers if address not in own]}

    async def _look(self) -> list[Hello]:
        """Return the nodes whose tokens are present now."""
        assert self._session is not None  # noqa: S101 - started
        root = f"{ROOT}/{'*' if self._fabric is None else f'{self._fabric:x}'}"
        keys = await live_keys(self._session, root, self._requests.soon, self._plan.lease_s)
        return [hello for hello in map(self._read_token, keys) if hello is not None]

    def _choose_fabric(self, seen: list[Hello]) -> None:
        fabrics = sorted({one.fabric for one in seen if one.role is MachineRole.COORDINATOR})
        if len(fabrics) > 1:
            names = ", ".join(f"{fabric:#x}" for fabric in fabrics)
            raise ClusterInputError(
                f"node {self.name}: there are several fabrics here, {names}: say which with --fabric"
            )
        if fabrics:
            self._fabric = fabrics[0]
            return
        other = next((one for one in seen if one.epoch == 0), None)
        if other is not None:  # of another version, where only the name and the version are known
            self._membership.appeared([other])
            raise JoinRefusedError(self._membership.refused()[other.name])

    def _declare(self) -> None:
        import zenoh

        session, root = self._session, self._root
        assert session is not None  # noqa: S101 - started
        direct = zenoh.handlers.Callback
        self._declared = [
            session.info.declare_link_events_listener(direct(self._on_link, indirect=False), history=True),
            self._requests.declare(session, root),
            session.liveliness().declare_token(f"{root}/live/{self._membership.own.chunks()}"),
            session.liveliness().declare_subscriber(
                f"{root}/live/**", direct(self._on_token, indirect=False), history=True
            ),
        ]

    # in Zenoh's threads

    def _on_token(self, sample: zenoh.Sample) -> None:
        import zenoh

        self._requests.soon(self._token, str(sample.key_expr), sample.kind == zenoh.SampleKind.PUT)

    def _on_link(self, event: zenoh.LinkEvent) -> None:
        import zenoh

        link = event.link
        is_there = event.kind == zenoh.SampleKind.PUT
        self._requests.soon(self._link, int(str(link.zid), 16), f"{link.src} {link.dst}", is_there)

    # in the loop

    def _read_token(self, key: str) -> Hello | None:
        _, _, rest = key.partition("/")
        fabric, _, rest = rest.partition("/live/")
        try:
            return Hello.parse(fabric, rest)
        except MessageError:
            return None

    def _token(self, key: str, is_there: bool) -> None:
        hello = self._read_token(key)
        if hello is None or hello == self._membership.own:
            return
        if not is_there:
            self._sight.withdrawn(hello)
            self._tell(self._membership.vanished(hello))
        elif self._sight.announced(hello):
            self._tell(self._membership.appeared([hello]))

    def _link(self, session: int, link: str, is_there: bool) -> None:
        if is_there:
            self._tell(self._membership.appeared(self._sight.linked(session, link)))
        else:
            for hello in self._sight.unlinked(session, link):
                self._tell(self._membership.vanished(hello))

    def _tell(self, events: Sequence[NodeEvent]) -> None:
        for event in events:
            name, presence = event.name, event.state.presence
            if self._role is MachineRole.COORDINATOR:
                if presence is Presence.JOINED and name not in self._addresses:
                    self._find(name, self._learn_addresses(name))
            elif presence is Presence.GONE:
                self._find(name, self._connect_again(name))
            self.on_node(event.name, event.state)

    def _find(self, name: NodeName, work: Coroutine[None, None, None]) -> None:
        if (before := self._finding.pop(name, None)) is not None:
            before.cancel()
        self._finding[name] = self._loop.create_task(work)

    async def _learn_addresses(self, name: NodeName) -> None:
        """Learn where a node listens that another process of the coordinator has admitted."""
        while name in self._membership.nodes():
            with contextlib.suppress(PeerRequestError):
                found = parse_addresses((await self.request(name, WHERE, {})).get("addresses"), MAX_ADDRESSES)
                self._addresses.setdefault(name, list(map(str, found)))
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _connect_again(self, name: NodeName) -> None:
        """Connect to a node that the coordinator sees and this node does not.

        Zenoh connects again to the addresses that its session was opened with; to others, of which it has heard by
        gossip, once only. So this node opens another session, if the addresses are news to it, or if Zenoh has not
        connected for long. Of two nodes the one with the lower name is first.
        """
        wait_s = self._plan.lease_s * (1 if self.name < name else 3)
        patience_s, times = 8 * self._plan.lease_s, 0
        while name not in self._membership.nodes():
            await asyncio.sleep(wait_s)
            patience_s -= wait_s
            wait_s = self._plan.lease_s
            coordinator = self._membership.coordinator
            if name in self._membership.nodes() or coordinator is None or coordinator.name == name:
                continue
            with contextlib.suppress(PeerRequestError):
                found = parse_addresses(
                    (await self.request(coordinator.name, PEERS, {})).get(name), MAX_ADDRESSES
                )
                is_news = not set(found) <= set(self._plan.join)
                is_idle = self._opening is None or self._opening.done()
                if found and is_idle and (is_news or patience_s < 0):
                    self._opening = self._loop.create_task(self._open_again(found))
                    times += 1
                    patience_s = self._plan.lease_s * (8 << times)

    async def _open_again(self, addresses: Sequence[Address]) -> None:
        """Leave the fabric, and come back with a session that knows some addresses."""
        self._plan = replace(self._plan, join=tuple(dict.fromkeys((*self._plan.join, *addresses))))
        session, self._session = self._session, None
        if session is None:
            return
        self._declared.clear()
        self._sight = Liveness()
        for hello in self._membership.all_seen():
            self._tell(self._membership.vanished(hello))
        await asyncio.to_thread(session.close)
        while not self._is_ending:
            with contextlib.suppress(ClusterInputError):  # the port may be taken for a moment
                # under another id than before: to Zenoh on other nodes, the session that was may still be there
                self._session = await asyncio.to_thread(open_session, self._plan, self._fabric)
                self._declare()
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
