"""A worker's side of the control service: register, report, deregister."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from ejfat.base.errors import BadRequestError, EjfatError
from ejfat.control.feedback import FillController, Gains
from ejfat.control.grpc.listening import check_listen
from ejfat.control.grpc.messages import mismatch, put_counters
from ejfat.control.members import ReceiverCounters
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.events.uri import EjfatUri
from opavnic.base.files import MAX_TEXT, FileError, read_bytes

log = logging.getLogger("ejfat.live.feedback")
REPORT_PERIOD_S = 0.1
_RECONNECT = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000))
"""With gRPC's default of 120 s, the control plane would remove the worker long after it is back itself."""
RETURN_PERIOD_S = 1.0
GONE = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
)
"""With one of these, a control plane answers a session that it has ended."""
_ASKED_WRONGLY = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
"""A server that stops cancels the calls it is handling."""


class CallError(EjfatError):
    """A request that the control plane refused, or that did not reach it."""

    def __init__(self, details: str, status: grpc.StatusCode) -> None:
        super().__init__(f"control plane: {details} ({status.name})")
        self.status = status


class BadCallError(CallError, BadRequestError):
    """An invalid request: a value out of range, or an object that the control plane does not know."""


def channel_to(uri: EjfatUri, control: str = "", ca: Path | None = None) -> grpc.aio.Channel:
    """Return a channel to the control plane of a URI or, if given, to `control` (HOST:PORT or unix:PATH).

    Args:    ca: certificates (PEM) to trust, for a URI with TLS; None: those of the system.
    Raises:  BadRequestError: `control` is not such an address, or `ca` cannot be read or is not used.
    """
    if ca is not None and (control or not uri.tls):
        raise BadRequestError("certificates are used with TLS alone: the URI begins with ejfats:// then")
    if control:
        check_listen(control)
        return grpc.aio.insecure_channel(control, options=_RECONNECT)
    host = f"[{uri.host}]" if ":" in uri.host else uri.host
    address = f"{host}:{uri.port}"
    if uri.tls:
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(_roots(ca)), options=_RECONNECT)
    return grpc.aio.insecure_channel(address, options=_RECONNECT)


def _roots(ca: Path | None) -> bytes | None:
    try:
        return None if ca is None else read_bytes(ca, MAX_TEXT, "certificate")
    except FileError as error:
        raise BadRequestError(str(error)) from None


async def call(rpc: Any, request: Any, token: str) -> Any:
    """Return the reply to a request.

    Raises:  CallError: refused, with the message of the server, or not reachable.
    """
    try:
        return await rpc(request, metadata=(("authorization", f"Bearer {token}"),), timeout=10)
    except grpc.aio.AioRpcError as error:
        kind = BadCallError if error.code() in _ASKED_WRONGLY else CallError
        raise kind(error.details() or "no reason", error.code()) from None


async def check_version(stub: pb_grpc.LoadBalancerStub, token: str) -> pb.VersionReply:
    """Ask a control plane for its version.

    Raises:  EjfatError: this program does not know its protocol. CallError: refused, or not reachable.
    """
    reply: pb.VersionReply = await call(stub.Version, pb.VersionRequest(), token)
    wrong = mismatch(reply.compatTag, reply.build)
    if wrong:
        raise EjfatError(wrong)
    return reply


class Reporter:
    """A session of a worker."""

    def __init__(
        self,
        uri: EjfatUri,
        request: pb.RegisterRequest,
        gains: Gains,
        *,
        set_point: float = 0.0,
        control: str = "",
        ca: Path | None = None,
    ) -> None:
        self._uri = uri
        self._request = request
        self._controller = FillController(gains, set_point=set_point)
        self._channel = channel_to(uri, control, ca)
        self._stub = pb_grpc.LoadBalancerStub(self._channel)
        self._session: pb.RegisterReply | None = None
        self._trouble: grpc.StatusCode | None = None
        """Status with which the last report failed; None if it was accepted."""

    async def register(self) -> str:
        """Open the session and return its id.

        Raises:  EjfatError: refused, or the control plane is not reachable or speaks another protocol.
        """
        await check_version(self._stub, self._uri.token)
        self._request.lbId = self._uri.lb_id
        self._session = await call(self._stub.Register, self._request, self._uri.token)
        return str(self._session.sessionId)

    async def report(self, measure: Callable[[], tuple[float, ReceiverCounters]]) -> None:
        """Report ten times a second until cancelled.

        Args:    measure: returns the fill level of the queue, 0 to 1, and the counters.

        Reporting continues if a report fails. The log says when reports begin to fail, when the reason changes, and
        when they are accepted again. If the control plane has ended the session, for example because this host was
        suspended, another one is opened with the token of the URI.
        """
        assert self._session is not None  # noqa: S101 - register comes first
        loop = asyncio.get_running_loop()
        while True:
            fill, counters = measure()
            state = pb.SendStateRequest(
                lbId=self._uri.lb_id,
                sessionId=self._session.sessionId,
                fillPercent=fill,
                controlSignal=self._controller.update(fill, loop.time()),
                isReady=True,
            )
            put_counters(state, counters)
            state.timestamp.GetCurrentTime()
            try:
                await call(self._stub.SendState, state, self._session.token)
            except CallError as error:
                self._note(error)
                if error.status in GONE:
                    await self._return()
            else:
                self._note(None)
            await asyncio.sleep(REPORT_PERIOD_S)

    async def _return(self) -> None:
        """Open a session again instead of one that has ended; if that is refused, wait before the next try."""
        assert self._session is not None  # noqa: S101 - register comes first
        ended = self._session.sessionId
        try:
            log.warning("session %s has ended: registered again as session %s", ended, await self.register())
        except EjfatError as error:
            log.debug("cannot register again: %s", error)
            await asyncio.sleep(RETURN_PERIOD_S)

    def _note(self, error: CallError | None) -> None:
        """Log a change in whether, or why, reports fail."""
        status = None if error is None else _AWAY[0] if error.status in _AWAY else error.status
        if status is self._trouble:
            return
        self._trouble = status
        if error is None:
            log.warning("reports are taken again")
        else:
            log.warning("reports are refused, and go on: %s", error)

    async def close(self) -> None:
        """Deregister, if the control plane can be reached, and close the channel."""
        if self._session is not None:
            request = pb.DeregisterRequest(lbId=self._uri.lb_id, sessionId=self._session.sessionId)
            try:
                await call(self._stub.Deregister, request, self._session.token)
            except EjfatError as error:
                log.warning("not deregistered: %s", error)
        await self._channel.close()
