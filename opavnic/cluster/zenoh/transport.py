"""The transport between machines over Zenoh: membership of the fabric, requests, and connections for packets.

Zenoh's threads only pass on what they get: everything else runs in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from opavnic.cluster.errors import ClusterError, ClusterInputError, JoinRefusedError, PeerRequestError
from opavnic.cluster.protocol.frames import PROTOCOL
from opavnic.cluster.protocol.membership import NO_DIGEST, ClusterMembership, NodeEvent, NodeName, NodeState
from opavnic.cluster.protocol.zenoh_config import COORDINATOR, SessionPlan, check, with_listen
from opavnic.cluster.zenoh.requests import Requests
from opavnic.cluster.zenoh.session import check_zenoh, open_session
from opavnic.cluster.zenoh.sockets import PeerListener, PeerSocket
from opavnic.cluster.zenoh.tasks import Tasks

if TYPE_CHECKING:
    import zenoh

log = logging.getLogger("opavnic.cluster")

MAX_HOSTS: Final = 8
"""Most hosts that a connection is tried to."""
JOIN: Final = "join"
"""The verb by which a member requests to join, and hears who else has."""
CHANGED: Final = "changed"
"""The verb by which the coordinator tells members that they should request that again."""
_AGAIN_S: Final = 0.1


class ZenohTransport:
    """One node's end of the transport. All methods and callbacks run in the event loop that called `start`."""

    def __init__(self, plan: SessionPlan, digest: str = NO_DIGEST) -> None:
        """Prepare a node: a member if the plan has an address to join, and the coordinator otherwise.

        Args:    digest: of the lab file.
        Raises:  ClusterInputError: the plan would let strangers in. ClusterError: Zenoh is not installed.
        """
        check_zenoh()
        self._plan = plan = with_listen(plan)
        check(plan)
        may = plan.credentials.coordinators if plan.credentials is not None else ()
        if not plan.join and may and plan.name not in may:
            raise ClusterInputError(
                f"node {plan.name}: the credentials name {', '.join(may)} as coordinator: start it there, or make "
                "others with `opavnic cluster ca --coordinator`"
            )
        self.on_node: Callable[[NodeName, NodeState | None], None] = lambda name, state: None
        """A machine has joined, or (None) has left."""
        self.name = plan.name
        self.epoch = secrets.randbits(63) | 1
        """See NodeState."""
        self._digest = digest
        self._membership = ClusterMembership(plan.name, digest)
        self.nodes = self._membership.nodes
        """The other machines of the fabric."""
        self._listener = PeerListener(plan.credentials)
        self._requests = Requests(plan.name, lambda sender, verb: verb == JOIN or sender in self.nodes)
        self.verbs = self._requests.verbs
        """What replies to the requests of other nodes."""
        self.verbs |= {CHANGED: self._has_changed} if plan.join else {JOIN: self._requested_to_join}
        self._again = asyncio.Event()
        """Of a member: it should request to join again."""
        self._tasks = Tasks()
        self._session: zenoh.Session | None = None
        self._declared: list[Any] = []

    async def start(self) -> None:
        """Join the fabric.

        Raises:  JoinRefusedError: this node may not be in it. ClusterInputError: an address or credentials that cannot
                 be used. ClusterError: no coordinator answers.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._listener.listen(self._plan.listen, is_beside=not self._plan.join)
            self._session = await asyncio.to_thread(open_session, self._plan, self.epoch)
            self._declare(self._session)
            if self._plan.join:
                await self._join_first()
                self._tasks.start(self._keep_joined())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave the fabric."""
        session, self._session = self._session, None
        await self._tasks.end()
        self._listener.close()
        if session is not None:
            await self._requests.close()
            self._declared.clear()
            await asyncio.to_thread(session.close)

    def _declare(self, session: zenoh.Session) -> None:
        import zenoh

        on_link = zenoh.handlers.Callback(self._on_link, indirect=False)
        names = (self.name,) if self._plan.join else (self.name, COORDINATOR)
        self._declared = [
            *(self._requests.declare(session, name) for name in names),
            session.info.declare_link_events_listener(on_link, history=True),
        ]

    # --- requests and connections --------------------------------------------------------------------------

    async def request(
        self, node: NodeName, verb: str, body: Mapping[str, Any], *, timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Send a request to a node and return the reply of its `verbs`; see Requests.send. Raises PeerRequestError."""
        if self._session is None:
            raise PeerRequestError(f"node {node}: {verb}: this node has left the fabric")
        return await self._requests.send(self._session, node, verb, body, timeout_s)

    def expect(self, node: NodeName, accepted: Callable[[PeerSocket], None]) -> dict[str, Any]:
        """Expect a connection of a node; return what it needs for `connect`."""
        assert self._session is not None  # noqa: S101 - it has been asked
        return self._listener.expect(node, accepted, [link.src for link in self._session.info.links()])

    async def connect(self, node: NodeName, expected: Mapping[str, Any]) -> PeerSocket:
        """Connect to a node. Args: expected: from its `expect`. Raises ClusterError, OSError: it cannot be reached."""
        match expected:
            case {"hosts": [*hosts], "port": int(port), "ticket": str(ticket)} if 0 < port < 65536:
                return await self._listener.connect(node, list(map(str, hosts[:MAX_HOSTS])), port, ticket)
        raise ClusterError(f"node {node} does not say where to connect to")

    # --- membership -------------------------------------------------------------------------------------------

    def _on_link(self, event: zenoh.LinkEvent) -> None:
        """Pass on, in one of Zenoh's threads, that a link is there or gone."""
        import zenoh

        link, is_there = event.link, event.kind == zenoh.SampleKind.PUT
        self._requests.soon(self._link, int(str(link.zid), 16), f"{link.src} {link.dst}", is_there)

    def _link(self, session: int, link: str, is_there: bool) -> None:
        if is_there:
            self._membership.linked(session, link)
            self._again.set()
        else:
            self._tell(self._membership.unlinked(session, link))

    def _tell(self, events: Iterable[NodeEvent]) -> None:
        """Tell what has changed; the coordinator tells the members, too."""
        changes = list(events)
        for name, state in changes:
            self.on_node(name, state)
        for name in self.nodes if changes and not self._plan.join else ():
            self._tasks.start(self._say_changed(name))

    async def _say_changed(self, name: NodeName) -> None:
        with contextlib.suppress(PeerRequestError):  # it asks again by itself
            await self.request(name, CHANGED, {})

    async def _has_changed(self, _sender: NodeName, _body: dict[str, Any]) -> dict[str, Any]:
        self._again.set()
        return {}

    async def _requested_to_join(self, sender: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        try:
            admitted = self._membership.admit(sender, body)
        except JoinRefusedError as error:
            log.info("refused: %s", error)
            return {"refusal": str(error), "is_taken": error.is_taken}
        if body.get("heard") == self.epoch:
            self._tell(self._membership.enter(sender, admitted))
        return {"coordinator": self.name, "machines": self._membership.told(self.epoch)}

    async def _join(self) -> None:
        """Request to join, and hear who else has; again, if only now this node knows the process of the coordinator.

        Raises:  JoinRefusedError: this node may not join. ClusterError: there is no answer.
        """
        hello = {"protocol": PROTOCOL, "epoch": self.epoch, "digest": self._digest}
        heard = -1
        while heard != (heard := self._membership.coordinator_epoch):
            body = {**hello, "heard": heard}
            match await self.request(COORDINATOR, JOIN, body, timeout_s=self._plan.lease_s):
                case {"refusal": str(refusal), **rest}:
                    raise JoinRefusedError(refusal, is_taken=rest.get("is_taken") is True)
                case {"coordinator": str(name), "machines": {**machines}}:
                    self._tell(self._membership.hear(name, machines, self._loop.time()))
                case _:
                    raise ClusterError("malformed reply of the coordinator")

    async def _join_first(self) -> None:
        """Join; the name of a machine that has died may be taken until its lease ends."""
        begin = self._loop.time()
        while True:
            passed_s = self._loop.time() - begin
            try:
                return await self._join()
            except JoinRefusedError as error:
                if not error.is_taken or passed_s >= self._plan.lease_s:
                    raise
            except ClusterError as error:
                if passed_s >= self._plan.join_timeout_s:
                    raise ClusterError(
                        f"node {self.name}: the coordinator does not answer: {error}"
                    ) from error
            await asyncio.sleep(_AGAIN_S)

    async def _keep_joined(self) -> None:
        """Join again whenever there is a new link or news, and at times: what was missed is made good."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._plan.lease_s):
                    await self._again.wait()
            self._again.clear()
            try:
                await self._join()
            except JoinRefusedError as error:
                log.warning("refused: %s", error)
            except ClusterError as error:
                log.info("not joined: %s", error)
                await asyncio.sleep(_AGAIN_S)
                if self._membership.is_linked:
                    self._again.set()
