"""The public `loadbalancer.LoadBalancer` service over the control plane.

Source: the public interface, with token roles as the public clients use them. An admin token reserves and frees, a
    reservation's token registers workers and edits senders, a session's token reports and deregisters. Each also
    allows what the narrower ones allow.
Differs: slot demands on a reservation with strategy dynamic, and requests for unknown time series, are refused.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import BadRequestError, ControlError, ForbiddenError, UnknownError
from ejfat.control.grpc import chain_service, messages
from ejfat.control.grpc.messages import COMPAT_TAG, overview_row, reservation_reply, status_reply
from ejfat.control.grpc.serving import Caller, Context, answered
from ejfat.control.health import issues_of_family
from ejfat.control.history import RETENTION_S, Selector, Series
from ejfat.control.members import ReceiverCounters, Session, Worker
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import ControlPlane, Reservation, instance_path
from ejfat.control.tokens import Action, Permission, Resource, Token

log = logging.getLogger("ejfat.control.grpc")
_SERIES_S = 60.0
"""Seconds that time series go back by default."""
_ANY_INSTANCE = {Resource.LOAD_BALANCER: ""}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The functions that the service needs from its environment."""

    now: Callable[[], float]
    """Seconds since 1970 by a clock that does not step."""
    new_secret: Callable[[], str]
    """Returns an unguessable token."""
    resolve: Callable[[IpAddress], Awaitable[int | None]]
    """Returns the MAC of a worker; None if it does not answer."""
    changed: Callable[[], Awaitable[None]]
    """Called after each change; returns when the state has been saved."""
    version: str
    """Of this program."""
    ask: chain_service.Ask = chain_service.ask_nobody
    """Sends a request to an upstream control plane."""
    uri: Callable[[Reservation | None, str, str], str] = lambda reservation, token, peer: ""
    """Returns the URI with a token for a gRPC peer, and a reservation if there is one."""
    unix: Callable[[], float] | None = None
    """The machine's clock, by which clients give and see times; None: `now`."""

    def ahead(self) -> float:
        """Return the seconds by which the machine's clock has stepped ahead of `now`."""
        return 0.0 if self.unix is None else self.unix() - self.now()

    def until(self, time: Timestamp) -> float | None:
        """Return a time that a client gave by the clock of `now`; None if it gave none."""
        given = messages.until(time)
        return None if given is None else given - self.ahead()


def changes(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Do as `answered`, and answer when the state has been saved."""

    @answered
    @functools.wraps(method)
    async def change(service: LoadBalancerService, request: Any, by: Caller) -> Any:
        reply = await method(service, request, by)
        await service._world.changed()
        return reply

    return change


class LoadBalancerService(pb_grpc.LoadBalancerServicer):  # type: ignore[misc]
    """Handles requests to the control plane."""

    def __init__(self, plane: ControlPlane, world: Surroundings) -> None:
        self._plane = plane
        self._world = world

    # reservations

    @changes
    async def ReserveLoadBalancer(
        self, request: pb.ReserveLoadBalancerRequest, by: Caller
    ) -> pb.ReserveLoadBalancerReply:
        parent = self._plane.tokens.find(by.secret)
        paths = [instance_path(lb_id) for lb_id in range(len(self._plane.config.instances))]
        allowed = [lb_id for lb_id, path in enumerate(paths) if parent.allows(Action.RESERVE, path)]
        if not allowed:
            self._plane.tokens.require(by.secret, Action.RESERVE, _ANY_INSTANCE)
        now = self._world.now()
        reservation = self._plane.reserve(
            request.name,
            senders=messages.addresses(request.senderAddresses),
            until=self._world.until(request.until),
            strategy=messages.strategy(request.strategy),
            family={pb.IPV4: 4, pb.IPV6: 6}.get(request.ipFamily, 0),
            among=allowed,
            now=now,
        )
        token = self._grant(parent, request.name, Resource.RESERVATION, str(reservation.reservation_id))
        uri = self._world.uri(reservation, token, by.peer)
        return reservation_reply(self._plane, reservation, token=token, uri=uri)

    @answered
    async def GetLoadBalancer(
        self, request: pb.GetLoadBalancerRequest, by: Caller
    ) -> pb.ReserveLoadBalancerReply:
        return reservation_reply(self._plane, self._allowed(by.secret, request.lbId, Action.READ_ONLY))

    @changes
    async def FreeLoadBalancer(
        self, request: pb.FreeLoadBalancerRequest, by: Caller
    ) -> pb.FreeLoadBalancerReply:
        self._plane.free(self._allowed(by.secret, request.lbId, Action.RESERVE))
        return pb.FreeLoadBalancerReply()

    @changes
    async def ExtendReservation(
        self, request: pb.ExtendReservationRequest, by: Caller
    ) -> pb.ExtendReservationReply:
        reservation = self._allowed(by.secret, request.lbId, Action.RESERVE)
        until = self._world.until(request.until)
        if until is not None and until <= self._world.now():
            raise BadRequestError("the new end is in the past")
        reservation.balancer.expires_at = until
        return pb.ExtendReservationReply(until=request.until)

    @changes
    async def ResetLoadBalancer(
        self, request: pb.ResetLoadBalancerRequest, by: Caller
    ) -> pb.ResetLoadBalancerReply:
        balancer = self._allowed(by.secret, request.lbId, Action.UPDATE).balancer
        if request.senders:
            self._plane.program(balancer.remove_senders(list(balancer.senders)))
        if request.workers:
            for session in list(balancer.sessions.values()):
                balancer.deregister(session.session_id)
        if request.epochs:
            self._plane.program(balancer.epochs.clear())
        if request.sync:
            balancer.watch.ticks.restart()
        return pb.ResetLoadBalancerReply(
            sync=request.sync, epochs=request.epochs, senders=request.senders, workers=request.workers
        )

    @changes
    async def AddSenders(self, request: pb.AddSendersRequest, by: Caller) -> pb.AddSendersReply:
        reservation = self._allowed(by.secret, request.lbId, Action.UPDATE)
        self._plane.program(reservation.balancer.add_senders(messages.addresses(request.senderAddresses)))
        return pb.AddSendersReply()

    @changes
    async def RemoveSenders(self, request: pb.RemoveSendersRequest, by: Caller) -> pb.RemoveSendersReply:
        reservation = self._allowed(by.secret, request.lbId, Action.UPDATE)
        self._plane.program(reservation.balancer.remove_senders(messages.addresses(request.senderAddresses)))
        return pb.RemoveSendersReply()

    # workers

    @changes
    async def Register(self, request: pb.RegisterRequest, by: Caller) -> pb.RegisterReply:
        reservation = self._allowed(by.secret, request.lbId, Action.REGISTER)
        worker = Worker(
            name=request.name,
            ip=messages.address(request.ipAddress),
            port=request.udpPort,
            port_bits=int(request.portRange),
            weight=request.weight,
            min_factor=request.minFactor,
            max_factor=request.maxFactor,
            keep_lb_header=request.keepLbHeader,
            slot_demands=messages.slot_ranges(request.slotDemands),
        )
        worker.check()
        mac = self._plane.mac_of_own(reservation, worker) or await self._world.resolve(worker.ip)
        if mac is None:
            raise ControlError(f"{worker.ip} does not answer; its MAC address is unknown")
        worker.mac = mac
        # the reservation may have been freed while the worker was being resolved
        reservation = self._allowed(by.secret, request.lbId, Action.REGISTER)
        parent = self._plane.tokens.find(by.secret)
        session = self._plane.register(reservation, worker, self._world.now())
        for issue in issues_of_family(session, reservation.balancer):
            log.warning("%s: %s", reservation.balancer.name, issue.message)
        token = self._grant(
            parent,
            request.name,
            Resource.SESSION,
            reservation.session_path(session.session_id)[Resource.SESSION],
        )
        return pb.RegisterReply(token=token, sessionId=str(session.session_id))

    @changes
    async def SetSlotDemands(self, request: pb.SetSlotDemandsRequest, by: Caller) -> pb.SetSlotDemandsReply:
        balancer = self._allowed(by.secret, request.lbId, Action.UPDATE).balancer
        wanted = {}
        for item in request.slotConstraints:
            wanted[messages.session_number(item.sessionId)] = messages.slot_ranges(item.slots)
        balancer.demand_slots(wanted)
        return pb.SetSlotDemandsReply()

    @changes
    async def Deregister(self, request: pb.DeregisterRequest, by: Caller) -> pb.DeregisterReply:
        reservation, session = self._allowed_session(by.secret, request.lbId, request.sessionId)
        reservation.balancer.deregister(session.session_id)
        path = reservation.session_path(session.session_id)
        self._plane.tokens.revoke_for(Resource.SESSION, path[Resource.SESSION])
        return pb.DeregisterReply()

    @answered
    async def SendState(self, request: pb.SendStateRequest, by: Caller) -> pb.SendStateReply:
        _, session = self._allowed_session(by.secret, request.lbId, request.sessionId)
        session.report(
            self._world.now(),
            fill=request.fillPercent,
            control=request.controlSignal,
            ready=request.isReady,
            counters=ReceiverCounters(
                **{name: getattr(request, field) for name, field in messages.COUNTERS.items()}
            ),
        )
        return pb.SendStateReply()

    # chains

    @changes
    async def ChainLoadBalancer(
        self, request: pb.ChainLoadBalancerRequest, by: Caller
    ) -> pb.ChainLoadBalancerReply:
        reservation = self._allowed(by.secret, request.lbId, Action.UPDATE)
        chain = await chain_service.join(self._plane, reservation, request, self._world.ask)
        return pb.ChainLoadBalancerReply(chainId=str(chain.number))

    @changes
    async def UnchainLoadBalancer(
        self, request: pb.UnchainLoadBalancerRequest, by: Caller
    ) -> pb.UnchainLoadBalancerReply:
        reservation = self._allowed(by.secret, request.lbId, Action.UPDATE)
        chain_service.leave(self._plane, reservation, request.chainId)
        return pb.UnchainLoadBalancerReply()

    @answered
    async def GetChainGraph(self, request: pb.GetChainGraphRequest, by: Caller) -> pb.GetChainGraphReply:
        reservation = self._allowed(by.secret, request.lbId, Action.READ_ONLY)
        return await chain_service.graph(self._plane, reservation, list(request.visited), self._world.ask)

    # status

    @answered
    async def LoadBalancerStatus(
        self, request: pb.LoadBalancerStatusRequest, by: Caller
    ) -> pb.LoadBalancerStatusReply:
        reservation = self._allowed(by.secret, request.lbId, Action.READ_ONLY)
        return status_reply(self._plane, reservation, self._world.now(), self._world.ahead())

    @answered
    async def Overview(self, request: pb.OverviewRequest, by: Caller) -> pb.OverviewReply:
        token = self._plane.tokens.find(by.secret)
        readable = [
            reservation
            for reservation in self._plane.reservations.values()
            if token.allows(Action.READ_ONLY, reservation.path)
        ]
        now, ahead = self._world.now(), self._world.ahead()
        return pb.OverviewReply(loadBalancers=[overview_row(self._plane, r, now, ahead) for r in readable])

    @answered
    async def Timeseries(self, request: pb.TimeseriesRequest, by: Caller) -> pb.TimeseriesResponse:
        now, ahead = self._world.now(), self._world.ahead()
        since = max(self._world.until(request.since) or now - _SERIES_S, now - RETENTION_S)
        series: dict[str, Series] = {}
        for text in request.seriesSelector:
            for selector in self._readable(by.secret, Selector.parse(text)):
                series.update(self._plane.history.select(selector, since))
        found = [messages.timeseries(name, samples, ahead) for name, samples in series.items()]
        reply = pb.TimeseriesResponse(timeseries=found)
        reply.since.CopyFrom(messages.timestamp(since + ahead))
        return reply

    async def Version(self, request: pb.VersionRequest, context: Context) -> pb.VersionReply:
        return pb.VersionReply(commit=self._world.version, build=self._world.version, compatTag=COMPAT_TAG)

    # tokens

    @changes
    async def CreateToken(self, request: pb.CreateTokenRequest, by: Caller) -> pb.CreateTokenReply:
        parent = self._plane.tokens.find(by.secret)
        permissions = [messages.permission(item) for item in request.permissions]
        if not permissions:
            raise BadRequestError("a token needs a permission")
        for wanted in permissions:
            if not self._may_grant(parent, wanted):
                raise ForbiddenError(f"token {parent.token_id} cannot grant {wanted.action.name}")
        child = self._world.new_secret()
        self._plane.tokens.add(
            child,
            request.name,
            permissions,
            parent=parent.token_id,
            now=self._world.now() + self._world.ahead(),
        )
        of = next((p.resource_id for p in permissions if p.resource is Resource.RESERVATION), "")
        reservation = self._plane.find(of)
        return pb.CreateTokenReply(token=child, ejfatUri=self._world.uri(reservation, child, by.peer))

    @answered
    async def ListTokenPermissions(
        self, request: pb.ListTokenPermissionsRequest, by: Caller
    ) -> pb.ListTokenPermissionsReply:
        return pb.ListTokenPermissionsReply(token=messages.details(self._selected(by.secret, request.target)))

    @answered
    async def ListChildTokens(
        self, request: pb.ListChildTokensRequest, by: Caller
    ) -> pb.ListChildTokensReply:
        token = self._selected(by.secret, request.target)
        below = self._plane.tokens.descendants(token.token_id)
        return pb.ListChildTokensReply(tokens=[messages.details(one) for one in below])

    @changes
    async def RevokeToken(self, request: pb.RevokeTokenRequest, by: Caller) -> pb.RevokeTokenReply:
        token = self._selected(by.secret, request.target)
        if token.parent is None:
            raise ForbiddenError(
                "the operator's own token is not revoked but replaced: restart with another one"
            )
        self._plane.tokens.revoke(token.token_id)
        return pb.RevokeTokenReply()

    # helpers

    def _readable(self, secret: str, selector: Selector) -> list[Selector]:
        """Return a selector for each selected reservation that the token may read.

        Raises:  ForbiddenError: the token may not read the named reservation. UnknownError: it does not exist.
        """
        token = self._plane.tokens.find(secret)
        if selector.reservation is not None:
            reservation = self._plane.get(selector.reservation)
            path = reservation.path
            if selector.session not in (None, "*"):
                number = messages.session_number(selector.session)
                path = reservation.session_path(reservation.balancer.session(number).session_id)
            self._plane.tokens.require(secret, Action.READ_ONLY, path)
            return [selector]
        return [
            replace(selector, reservation=str(number))
            for number, reservation in self._plane.reservations.items()
            if token.allows(Action.READ_ONLY, reservation.path)
        ]

    def _may_grant(self, parent: Token, wanted: Permission) -> bool:
        """Return whether the holder of a token may make one with this permission."""
        if wanted.resource is Resource.ALL:
            return any(p.resource is Resource.ALL and p.covers(wanted.action, {}) for p in parent.permissions)
        path: dict[Resource, str] = {wanted.resource: wanted.resource_id}
        if wanted.resource in (Resource.RESERVATION, Resource.SESSION):
            reservation = self._plane.find(wanted.resource_id.partition("/")[0])
            path = ({} if reservation is None else reservation.path) | path
        return parent.allows(wanted.action, path)

    def _allowed(self, secret: str, lb_id: str, action: Action) -> Reservation:
        self._plane.tokens.find(secret)  # first, so that an unknown token does not reveal which ids exist
        reservation = self._plane.get(lb_id)
        self._plane.tokens.require(secret, action, reservation.path)
        return reservation

    def _allowed_session(self, secret: str, lb_id: str, session_id: str) -> tuple[Reservation, Session]:
        self._plane.tokens.find(secret)
        number = messages.session_number(session_id)
        if lb_id:
            reservation = self._plane.get(lb_id)
        else:
            owners = [r for r in self._plane.reservations.values() if number in r.balancer.sessions]
            if len(owners) != 1:
                raise UnknownError(f"session {session_id} needs the id of its load balancer")
            reservation = owners[0]
        session = reservation.balancer.session(number)
        self._plane.tokens.require(secret, Action.UPDATE, reservation.session_path(number))
        return reservation, session

    def _grant(self, parent: Token, name: str, resource: Resource, resource_id: str) -> str:
        secret = self._world.new_secret()
        permission = Permission(resource, resource_id, Action.UPDATE)
        made = self._world.now() + self._world.ahead()
        self._plane.tokens.add(secret, name, [permission], parent=parent.token_id, now=made)
        return secret

    def _selected(self, secret: str, selector: pb.TokenSelector) -> Token:
        own = self._plane.tokens.find(secret)
        kind = selector.WhichOneof("token_selector")
        if kind == "token":
            found = self._plane.tokens.find(selector.token)
        elif kind == "id" and selector.id:
            found = self._plane.tokens.get(selector.id)
        else:
            found = own
        if not self._plane.tokens.descends(found.token_id, own.token_id):
            raise ForbiddenError(f"token {found.token_id} was not made by token {own.token_id}")
        return found
