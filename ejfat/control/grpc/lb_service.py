"""The public `loadbalancer.LoadBalancer` service over our control plane.

Source: the public interface; token roles as the public clients use them: admin reserves and frees, a reservation's
    token registers workers and edits senders, a session's token reports and deregisters.
Differs: slot demands and time series are not implemented (status UNIMPLEMENTED).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from ejfat.control.balancer import Strategy
from ejfat.control.grpc.serving import answer
from ejfat.control.members import ReceiverCounters, Session, SessionState, Worker
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.pb import loadbalancer_pb2_grpc as pb_grpc
from ejfat.control.plane import ControlPlane, Reservation
from ejfat.control.programming import IpAddress
from ejfat.control.tokens import Action, Permission, Resource, Token
from ejfat.errors import BadRequestError, ForbiddenError, UnknownError
from ejfat.schema import SLOTS

COMPAT_TAG = "ejfat-lb-1"
_ANY_INSTANCE = {Resource.LOAD_BALANCER: ""}
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the service needs of the world."""

    now: Callable[[], float]
    """Unix time in seconds."""
    new_secret: Callable[[], str]
    """A token that nobody can guess."""
    resolve: Callable[[IpAddress], Awaitable[int | None]]
    """The MAC of a worker, None where it does not answer."""
    changed: Callable[[], None]
    """Called after every change, to save the state."""
    version: str = "unknown"


class LoadBalancerService(pb_grpc.LoadBalancerServicer):  # type: ignore[misc]
    """Requests to the control plane."""

    def __init__(self, plane: ControlPlane, world: Surroundings) -> None:
        self._plane = plane
        self._world = world

    # reservations

    async def ReserveLoadBalancer(self, request: pb.ReserveLoadBalancerRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.ReserveLoadBalancerReply:
            parent = self._plane.tokens.require(secret, Action.RESERVE, _ANY_INSTANCE)
            now = self._world.now()
            reservation = self._plane.reserve(
                request.name,
                senders=_addresses(request.senderAddresses),
                until=_until(request.until),
                strategy=_strategy(request.strategy),
                now=now,
            )
            token = self._grant(parent, request.name, Resource.RESERVATION, str(reservation.reservation_id))
            self._world.changed()
            return self._reply(reservation, token)

        return await answer(context, handle)

    async def GetLoadBalancer(self, request: pb.GetLoadBalancerRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.ReserveLoadBalancerReply:
            return self._reply(self._allowed(secret, request.lbId, Action.READ_ONLY))

        return await answer(context, handle)

    async def FreeLoadBalancer(self, request: pb.FreeLoadBalancerRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.FreeLoadBalancerReply:
            self._plane.free(self._allowed(secret, request.lbId, Action.RESERVE))
            self._world.changed()
            return pb.FreeLoadBalancerReply()

        return await answer(context, handle)

    async def ExtendReservation(self, request: pb.ExtendReservationRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.ExtendReservationReply:
            reservation = self._allowed(secret, request.lbId, Action.RESERVE)
            until = _until(request.until)
            if until is not None and until <= self._world.now():
                raise BadRequestError("the new end is in the past")
            reservation.balancer.expires_at = until
            self._world.changed()
            return pb.ExtendReservationReply(until=request.until)

        return await answer(context, handle)

    async def ResetLoadBalancer(self, request: pb.ResetLoadBalancerRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.ResetLoadBalancerReply:
            balancer = self._allowed(secret, request.lbId, Action.UPDATE).balancer
            if request.senders:
                self._plane.program(balancer.remove_senders(list(balancer.senders)))
            if request.workers:
                for session in list(balancer.sessions.values()):
                    balancer.deregister(session.session_id)
            if request.epochs:
                self._plane.program(balancer.epochs.clear())
            if request.sync:
                balancer.ticks.restart()
            self._world.changed()
            return pb.ResetLoadBalancerReply(
                sync=request.sync, epochs=request.epochs, senders=request.senders, workers=request.workers
            )

        return await answer(context, handle)

    async def AddSenders(self, request: pb.AddSendersRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.AddSendersReply:
            reservation = self._allowed(secret, request.lbId, Action.UPDATE)
            self._plane.program(reservation.balancer.add_senders(_addresses(request.senderAddresses)))
            self._world.changed()
            return pb.AddSendersReply()

        return await answer(context, handle)

    async def RemoveSenders(self, request: pb.RemoveSendersRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.RemoveSendersReply:
            reservation = self._allowed(secret, request.lbId, Action.UPDATE)
            self._plane.program(reservation.balancer.remove_senders(_addresses(request.senderAddresses)))
            self._world.changed()
            return pb.RemoveSendersReply()

        return await answer(context, handle)

    # workers

    async def Register(self, request: pb.RegisterRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.RegisterReply:
            reservation = self._allowed(secret, request.lbId, Action.REGISTER)
            parent = self._plane.tokens.find(secret)
            if request.slotDemands:
                raise BadRequestError("slot demands are not supported; weights and factors are")
            worker = Worker(
                name=request.name,
                ip=_address(request.ipAddress),
                port=request.udpPort,
                port_bits=int(request.portRange),
                weight=request.weight,
                min_factor=request.minFactor,
                max_factor=request.maxFactor,
                keep_lb_header=request.keepLbHeader,
            )
            worker.check()
            mac = await self._world.resolve(worker.ip)
            if mac is None:
                raise BadRequestError(f"{worker.ip} does not answer: no MAC address to send to")
            worker.mac = mac
            session, updates = reservation.balancer.register(worker, self._world.now())
            self._plane.program(updates)
            token = self._grant(parent, request.name, Resource.SESSION, str(session.session_id), reservation)
            self._world.changed()
            return pb.RegisterReply(token=token, sessionId=str(session.session_id))

        return await answer(context, handle)

    async def Deregister(self, request: pb.DeregisterRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.DeregisterReply:
            reservation, session = self._allowed_session(secret, request.lbId, request.sessionId)
            reservation.balancer.deregister(session.session_id)
            path = reservation.session_path(session.session_id)
            self._plane.tokens.revoke_for(Resource.SESSION, path[Resource.SESSION])
            self._world.changed()
            return pb.DeregisterReply()

        return await answer(context, handle)

    async def SendState(self, request: pb.SendStateRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.SendStateReply:
            _, session = self._allowed_session(secret, request.lbId, request.sessionId)
            counters = ReceiverCounters(
                events_received=request.totalEventsRecv,
                events_reassembled=request.totalEventsReassembled,
                reassembly_errors=request.totalEventsReassemblyErr,
                events_dequeued=request.totalEventsDequeued,
                enqueue_errors=request.totalEventEnqueueErr,
                bytes_received=request.totalBytesRecv,
                packets_received=request.totalPacketsRecv,
            )
            session.report(
                self._world.now(),
                fill=request.fillPercent,
                control=request.controlSignal,
                ready=request.isReady,
                counters=counters,
            )
            return pb.SendStateReply()

        return await answer(context, handle)

    # what there is

    async def LoadBalancerStatus(self, request: pb.LoadBalancerStatusRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.LoadBalancerStatusReply:
            return self._status(self._allowed(secret, request.lbId, Action.READ_ONLY))

        return await answer(context, handle)

    async def Overview(self, request: pb.OverviewRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.OverviewReply:
            token = self._plane.tokens.find(secret)
            readable = [
                reservation
                for reservation in self._plane.reservations.values()
                if any(
                    permission.covers(Action.READ_ONLY, reservation.path) for permission in token.permissions
                )
            ]
            rows = [
                pb.Overview(name=r.balancer.name, reservation=self._reply(r), status=self._status(r))
                for r in readable
            ]
            return pb.OverviewReply(loadBalancers=rows)

        return await answer(context, handle)

    async def Version(self, request: pb.VersionRequest, context: Context) -> pb.VersionReply:
        return pb.VersionReply(commit=self._world.version, build=self._world.version, compatTag=COMPAT_TAG)

    # tokens

    async def CreateToken(self, request: pb.CreateTokenRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.CreateTokenReply:
            parent = self._plane.tokens.find(secret)
            permissions = [
                Permission(Resource(p.resourceType), p.resourceId, Action(p.permission))
                for p in request.permissions
            ]
            if not permissions:
                raise BadRequestError("a token needs a permission")
            for wanted in permissions:
                if not any(_includes(held, wanted) for held in parent.permissions):
                    raise ForbiddenError(f"token {parent.token_id} cannot give {wanted.action.name} away")
            child = self._world.new_secret()
            self._plane.tokens.add(
                child, request.name, permissions, parent=parent.token_id, now=self._world.now()
            )
            self._world.changed()
            return pb.CreateTokenReply(token=child)

        return await answer(context, handle)

    async def ListTokenPermissions(self, request: pb.ListTokenPermissionsRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.ListTokenPermissionsReply:
            return pb.ListTokenPermissionsReply(token=_details(self._selected(secret, request.target)))

        return await answer(context, handle)

    async def ListChildTokens(self, request: pb.ListChildTokensRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.ListChildTokensReply:
            token = self._selected(secret, request.target)
            children = self._plane.tokens.children(token.token_id)
            return pb.ListChildTokensReply(tokens=[_details(child) for child in children])

        return await answer(context, handle)

    async def RevokeToken(self, request: pb.RevokeTokenRequest, context: Context) -> Any:
        async def handle(secret: str) -> pb.RevokeTokenReply:
            token = self._selected(secret, request.target)
            if token.parent is None:
                raise ForbiddenError("the operator's own token cannot be revoked over the network")
            self._plane.tokens.revoke(token.token_id)
            self._world.changed()
            return pb.RevokeTokenReply()

        return await answer(context, handle)

    # inside

    def _allowed(self, secret: str, lb_id: str, action: Action) -> Reservation:
        self._plane.tokens.find(secret)  # a stranger does not learn which ids exist
        reservation = self._plane.get(lb_id)
        self._plane.tokens.require(secret, action, reservation.path)
        return reservation

    def _allowed_session(self, secret: str, lb_id: str, session_id: str) -> tuple[Reservation, Session]:
        self._plane.tokens.find(secret)
        if not session_id.isdecimal():
            raise UnknownError(f"no session {session_id!r}")
        number = int(session_id)
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

    def _grant(
        self,
        parent: Token,
        name: str,
        resource: Resource,
        resource_id: str,
        within: Reservation | None = None,
    ) -> str:
        secret = self._world.new_secret()
        if within is not None:  # session numbers are counted per reservation
            resource_id = f"{within.reservation_id}/{resource_id}"
        permission = Permission(resource, resource_id, Action.UPDATE)
        self._plane.tokens.add(secret, name, [permission], parent=parent.token_id, now=self._world.now())
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

    def _reply(self, reservation: Reservation, token: str = "") -> pb.ReserveLoadBalancerReply:
        config = self._plane.config
        addresses = config.instances[reservation.lb_id]
        sync = ip_address(config.sync_host)
        return pb.ReserveLoadBalancerReply(
            token=token,
            lbId=str(reservation.reservation_id),
            syncIpv4Address=config.sync_host if sync.version == 4 else "",
            syncIpv6Address=config.sync_host if sync.version == 6 else "",
            syncUdpPort=config.sync_port + reservation.lb_id,
            dataIpv4Address=str(addresses.ipv4 or ""),
            dataIpv6Address=str(addresses.ipv6 or ""),
            dataMinPort=config.data_min_port,
            dataMaxPort=config.data_max_port,
            fpgaLbId=reservation.lb_id,
            strategy=reservation.balancer.strategy.value,
        )

    def _status(self, reservation: Reservation) -> pb.LoadBalancerStatusReply:
        balancer = reservation.balancer
        now = self._world.now()
        slots = balancer.slots()
        epoch = balancer.epochs.current
        reply = pb.LoadBalancerStatusReply(
            timestamp=_timestamp(now),
            currentEpoch=epoch.number if epoch else 0,
            currentPredictedEventNumber=balancer.ticks.latest(now) or 0,
            workers=[
                _worker_status(session, slots.get(session.session_id, 0))
                for session in balancer.sessions.values()
                if session.state is not SessionState.GONE
            ],
            senderAddresses=sorted(map(str, balancer.senders)),
            slotResolution=SLOTS,
        )
        if balancer.expires_at is not None:
            reply.expiresAt.CopyFrom(_timestamp(balancer.expires_at))
        return reply


def _worker_status(session: Session, slots: int) -> pb.WorkerStatus:
    worker, counters = session.worker, session.counters
    return pb.WorkerStatus(
        name=worker.name,
        fillPercent=session.fill,
        controlSignal=session.control,
        slotsAssigned=slots,
        lastUpdated=_timestamp(session.reported_at),
        ipAddress=str(worker.ip),
        udpPort=worker.port,
        portRange=pb.PortRange.Name(worker.port_bits),
        minFactor=worker.min_factor,
        maxFactor=worker.max_factor,
        keepLbHeader=worker.keep_lb_header,
        totalEventsRecv=counters.events_received,
        totalEventsReassembled=counters.events_reassembled,
        totalEventsReassemblyErr=counters.reassembly_errors,
        totalEventsDequeued=counters.events_dequeued,
        totalEventEnqueueErr=counters.enqueue_errors,
        totalBytesRecv=counters.bytes_received,
        totalPacketsRecv=counters.packets_received,
    )


def _includes(held: Permission, wanted: Permission) -> bool:
    """Return whether who holds one permission may give the other away."""
    if wanted.resource is Resource.ALL:
        return held.resource is Resource.ALL and held.covers(wanted.action, {})
    return held.covers(wanted.action, {wanted.resource: wanted.resource_id})


def _details(token: Token) -> pb.TokenDetails:
    permissions = [
        pb.TokenPermission(
            resourceType=pb.TokenPermission.ResourceType.Name(p.resource),
            resourceId=p.resource_id,
            permission=pb.TokenPermission.PermissionType.Name(p.action),
        )
        for p in token.permissions
    ]
    created = _timestamp(token.created_at).ToJsonString()
    return pb.TokenDetails(name=token.name, permissions=permissions, created_at=created, id=token.token_id)


def _address(text: str) -> IpAddress:
    try:
        return ip_address(text)
    except ValueError:
        raise BadRequestError(f"{text!r} is no IP address") from None


def _addresses(texts: Sequence[str]) -> list[IpAddress]:
    return [_address(text) for text in texts]


def _strategy(text: str) -> Strategy:
    try:
        return Strategy(text or Strategy.DYNAMIC)
    except ValueError:
        raise BadRequestError(f"strategy {text!r}, expected dynamic or static") from None


def _until(stamp: Timestamp) -> float | None:
    """Return Unix time; 0 means no end."""
    return stamp.seconds + stamp.nanos / 1e9 or None


def _timestamp(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromNanoseconds(round(seconds * 1e9))
    return stamp
