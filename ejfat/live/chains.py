"""The connections to upstream control planes: single requests, and the reports of each chain."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from google.protobuf.json_format import Parse

from ejfat.base.errors import EjfatError, UpstreamError
from ejfat.control.chains import Chain
from ejfat.control.grpc.messages import total_report
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import ControlPlane, Reservation
from ejfat.events.uri import EjfatUri
from ejfat.live.feedback import GONE, REPORT_PERIOD_S, RETURN_PERIOD_S, CallError, call, channel_to

log = logging.getLogger("ejfat.live.chains")
_LEAVE_S = 2.0
"""Seconds to wait for an upstream control plane that is told goodbye; it removes a silent worker by itself."""

Key = tuple[int, int]
"""Reservation and chain."""


async def ask(uri: EjfatUri, rpc: str, request: Any) -> Any:
    """Return the reply of a URI's control plane to a request with the URI's token.

    Raises:  UpstreamError: refused, or not reachable.
    """
    try:
        async with channel_to(uri) as channel:
            return await call(getattr(pb_grpc.LoadBalancerStub(channel), rpc), request, uri.token)
    except CallError as error:
        raise UpstreamError(f"upstream {uri.host}:{uri.port}: {error}") from None


class ChainReports:
    """A task for each chain: reports upstream what the workers here report, ten times a second."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._tasks: dict[Key, tuple[Chain, asyncio.Task[None]]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def follow(self) -> None:
        """Report for new chains, and deregister those that are gone."""
        wanted = {
            (number, chain.number): (reservation, chain)
            for number, reservation in self._plane.reservations.items()
            for chain in reservation.balancer.chains.values()
        }
        for key, (reservation, chain) in wanted.items():
            if key not in self._tasks:
                self._tasks[key] = (chain, asyncio.create_task(self._report(key, reservation, chain)))
        await self._end([key for key in self._tasks if key not in wanted], leave=True)

    def follow_soon(self) -> None:
        """Do as `follow`, without waiting."""
        if self._tasks or any(one.balancer.chains for one in self._plane.reservations.values()):
            task = asyncio.get_running_loop().create_task(self.follow())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def stop(self, *, leave: bool) -> None:
        """End all reports; deregister upstream if nothing would continue them."""
        await asyncio.gather(*self._leaving)
        await self._end(list(self._tasks), leave=leave)

    async def _report(self, key: Key, reservation: Reservation, chain: Chain) -> None:
        uri = EjfatUri.parse(chain.uri)
        name = f"chain {chain.number} to {uri.host}:{uri.port}"
        is_well = True
        async with channel_to(uri) as channel:
            stub = pb_grpc.LoadBalancerStub(channel)
            while True:
                try:
                    await call(stub.SendState, _state(reservation, uri, chain), chain.session_token)
                except CallError as error:
                    if is_well:
                        log.warning("%s: %s", name, error)
                    is_well = False
                    if error.status in GONE and chain.registration:
                        chain, task = await _rejoin(reservation, uri, chain, stub), self._tasks[key][1]
                        self._tasks[key] = (chain, task)
                else:
                    if not is_well:
                        log.warning("%s: reports are taken again", name)
                    is_well = True
                await asyncio.sleep(REPORT_PERIOD_S if is_well else RETURN_PERIOD_S)

    async def _end(self, keys: list[Key], *, leave: bool) -> None:
        ended = [self._tasks.pop(key) for key in keys]
        for _, task in ended:
            task.cancel()
        await asyncio.gather(*(task for _, task in ended), return_exceptions=True)
        if leave:
            await asyncio.gather(*(_leave(chain) for chain, _ in ended))


def _state(reservation: Reservation, uri: EjfatUri, chain: Chain) -> pb.SendStateRequest:
    state = total_report(reservation.balancer.sessions.values())
    state.lbId, state.sessionId = uri.lb_id, chain.session_id
    state.timestamp.GetCurrentTime()
    return state


async def _rejoin(
    reservation: Reservation, uri: EjfatUri, chain: Chain, stub: pb_grpc.LoadBalancerStub
) -> Chain:
    """Register again upstream, where the session has ended; return the chain as it is then."""
    try:
        session = await call(stub.Register, Parse(chain.registration, pb.RegisterRequest()), uri.token)
        return reservation.balancer.rejoin(chain.number, session.sessionId, session.token)
    except EjfatError as error:
        log.debug("chain %d: cannot register again: %s", chain.number, error)
        return chain


async def _leave(chain: Chain) -> None:
    uri = EjfatUri.parse(chain.uri)
    request = pb.DeregisterRequest(lbId=uri.lb_id, sessionId=chain.session_id)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S), channel_to(uri) as channel:
                await call(pb_grpc.LoadBalancerStub(channel).Deregister, request, chain.session_token)
    except EjfatError as error:
        log.warning("chain %d to %s:%d: not deregistered: %s", chain.number, uri.host, uri.port, error)
