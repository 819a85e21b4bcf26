"""Requests to other nodes, and the replies to theirs: JSON in queries of Zenoh.

Zenoh's threads only pass on what they get: everything else runs in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.errors import HfiSimError
from opavnic.cluster.errors import ClusterError, PeerRequestError
from opavnic.cluster.protocol.membership import NodeName
from opavnic.cluster.protocol.zenoh_config import ROOT
from opavnic.cluster.zenoh.tasks import Tasks

if TYPE_CHECKING:
    import zenoh

log = logging.getLogger("opavnic.cluster")

MAX_BODY: Final = 1 << 20
"""Bytes of a request or a reply as JSON."""
MAX_SERVED: Final = 64
"""Most requests of other nodes that are served at one time."""
MAX_UNREAD: Final = 256
"""Most requests that wait for the event loop; further ones are dropped."""
_VERB: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
Verb = Callable[[NodeName, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Replies to a request of a node. An OpavnicError that it raises reaches the node as PeerRequestError."""


class Requests:
    """The requests of one node."""

    def __init__(self, name: NodeName, is_admitted: Callable[[NodeName, str], bool]) -> None:
        """Args:  is_admitted: returns whether a node may send a request with a verb."""
        self.verbs: dict[str, Verb] = {}
        self._name = name
        self._is_admitted = is_admitted
        self._loop: asyncio.AbstractEventLoop
        self._unread = threading.BoundedSemaphore(MAX_UNREAD)
        self._served = Tasks()

    def soon(self, call: Callable[..., None], *arguments: Any) -> None:
        """Run `call` in the loop, in the order of these calls. From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing can handle it any more
            self._loop.call_soon_threadsafe(call, *arguments)

    async def send(
        self, session: zenoh.Session, node: NodeName, verb: str, body: Mapping[str, Any], timeout_s: float
    ) -> dict[str, Any]:
        """Send a request to a node and return its reply.

        Args:    verb: letters, digits and hyphens. body: JSON, at most MAX_BODY bytes.
        Raises:  PeerRequestError: no reply in time, no such node, or the node's refusal.
        """
        where = f"node {node}: {verb}"
        data = json.dumps(body).encode()
        if not _VERB.fullmatch(verb) or len(data) > MAX_BODY:
            raise PeerRequestError(
                f"{where}: a request of {len(data)} bytes; at most {MAX_BODY}, and a verb of a-z, 0-9, -"
            )
        import zenoh

        replied: asyncio.Future[tuple[bool, bytes]] = self._loop.create_future()

        def on_reply(reply: zenoh.Reply) -> None:
            ok, err = reply.ok, reply.err
            payload = ok.payload if ok is not None else err.payload if err is not None else None
            if payload is not None and len(payload) <= MAX_BODY:
                self.soon(_settle, replied, ok is not None, payload.to_bytes())

        def on_end() -> None:
            self.soon(_settle, replied, False, json.dumps({"error": "no reply"}).encode())

        session.get(
            f"{ROOT}/{self._name}/{node}/{verb}",
            zenoh.handlers.Callback(on_reply, on_end, indirect=False),
            payload=data,
            timeout=timeout_s,
            congestion_control=zenoh.CongestionControl.BLOCK,
            priority=zenoh.Priority.INTERACTIVE_HIGH,
            express=True,
        )
        try:
            async with asyncio.timeout(timeout_s + 1.0):
                is_good, data = await replied
        except TimeoutError:
            raise PeerRequestError(f"{where}: no reply within {timeout_s:g} s") from None
        reply = _json_object(data)
        if is_good and reply is not None:
            return reply
        reason = reply.get("error") if reply is not None else None
        raise PeerRequestError(f"{where}: {reason if isinstance(reason, str) else 'malformed reply'}")

    def declare(self, session: zenoh.Session, name: NodeName) -> Any:
        """Reply, in this loop, to requests for a name that come by a session, as long as what is returned is kept."""
        import zenoh

        self._loop = asyncio.get_running_loop()

        def on_query(query: zenoh.Query) -> None:
            if self._unread.acquire(blocking=False):
                self.soon(self._receive, query)
            else:
                query.drop()

        return session.declare_queryable(
            f"{ROOT}/*/{name}/*", zenoh.handlers.Callback(on_query, indirect=False)
        )

    def _receive(self, query: zenoh.Query) -> None:
        self._unread.release()
        _, sender, _, verb = str(query.key_expr).split("/")
        payload = query.payload
        body = None if payload is None or len(payload) > MAX_BODY else _json_object(payload.to_bytes())
        if body is None:
            self._refuse(query, "malformed request")
        elif not self._is_admitted(NodeName(sender), verb):
            self._refuse(query, f"node {sender} is not part of this fabric")
        elif len(self._served) >= MAX_SERVED:
            self._refuse(query, f"busy with {MAX_SERVED} requests")
        else:
            self._served.start(self._serve(query, NodeName(sender), verb, body))

    async def _serve(self, query: zenoh.Query, sender: NodeName, verb: str, body: dict[str, Any]) -> None:
        try:
            data = json.dumps(await reply_to(self.verbs, sender, verb, body)).encode()
            if len(data) > MAX_BODY:
                raise ClusterError(f"a reply of {len(data)} bytes; at most {MAX_BODY}")
            query.reply(query.key_expr, data, express=True)
            query.drop()
        except HfiSimError as error:
            self._refuse(query, str(error))
        except asyncio.CancelledError:
            self._refuse(query, "is leaving the fabric")
            raise

    def _refuse(self, query: zenoh.Query, reason: str) -> None:
        query.reply_err(json.dumps({"error": reason}).encode())
        query.drop()

    async def close(self) -> None:
        """Refuse the requests that are being served."""
        await self._served.end()


async def reply_to(
    verbs: Mapping[str, Verb], sender: NodeName, verb: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Return the reply to a request, also to a malformed one. Raises HfiSimError: it is refused."""
    serve = verbs.get(verb)
    if serve is None:
        raise ClusterError(f'unknown request "{verb:.64}"')
    try:
        return await serve(sender, body)
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if isinstance(error, HfiSimError):
            raise
        log.warning("invalid %s request from %s: %s: %s", verb, sender, type(error).__name__, error)
        raise ClusterError(f"{verb}: invalid request: {type(error).__name__}: {error}") from error


def _settle(future: asyncio.Future[tuple[bool, bytes]], is_good: bool, data: bytes) -> None:
    if not future.done():
        future.set_result((is_good, data))


def _json_object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
