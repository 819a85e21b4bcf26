"""The requests about chains: join an upstream reservation as a worker, leave it, show the way upstream.

Source: the public control plane; see `ejfat.control.chains` for what differs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.json_format import MessageToJson

from ejfat.base.errors import BadRequestError, ControlError, ExhaustedError, UnknownError, UpstreamError
from ejfat.control.chains import FIRST_PORT, MAX_CHAINS, PORT_BITS, Chain
from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.control.plane import ControlPlane, Reservation
from ejfat.events.uri import EjfatUri
from ejfat.wire.headers import LB_PORT

log = logging.getLogger("ejfat.control.chains")
_VERSIONS = {pb.IPV4: 4, pb.IPV6: 6}
_LONGEST_WAY = 64
"""Control planes on the way upstream."""

Ask = Callable[[EjfatUri, str, Any], Awaitable[Any]]
"""Sends a request with the token of a URI to its control plane: URI, name of the RPC, request. Raises UpstreamError."""


async def ask_nobody(uri: EjfatUri, rpc: str, request: Any) -> Any:
    """Refuse every request.

    Raises:  UpstreamError: always.
    """
    raise UpstreamError(f"{uri.host}:{uri.port} cannot be asked from here")


async def join(
    plane: ControlPlane, reservation: Reservation, request: pb.ChainLoadBalancerRequest, ask: Ask
) -> Chain:
    """Register a reservation's load balancer upstream, and keep the chain.

    Raises:  BadRequestError: an invalid value. ControlError: packets would go round in a circle, or not come back to
        this load balancer, or it has no address of this IP version. UpstreamError: refused upstream, or not reachable.
    """
    uri = EjfatUri.parse(request.ejfatUri)
    if not uri.lb_id or not uri.token:
        raise BadRequestError(
            "the upstream URI needs a token and a reservation: ejfat://TOKEN@HOST:PORT/lb/ID"
        )
    version = _VERSIONS.get(request.ipFamily)
    if version is None:
        raise BadRequestError(
            "ipFamily of a chain: expected IPV4 or IPV6, because upstream a worker has one address"
        )
    _check_room(reservation)
    own = [one for one in plane.config.instances[reservation.instance].all if one.version == version]
    if not own:
        raise ControlError(f"{reservation.balancer.name} has no IPv{version} address")
    info = await ask(uri, "GetLoadBalancer", pb.GetLoadBalancerRequest(lbId=uri.lb_id))
    _check_address(plane, reservation, uri.lb_id, {info.dataIpv4Address, info.dataIpv6Address})
    question = pb.GetChainGraphRequest(lbId=uri.lb_id, visited=[_identity(plane, reservation)])
    try:
        graph = await ask(uri, "GetChainGraph", question)
    except UpstreamError as error:  # it may not know this request
        log.warning("whether the chain makes a circle is unknown: %s", error)
    else:
        if graph.cycleDetected:
            raise ControlError(
                f"{uri.host}:{uri.port} is downstream of this load balancer: that would be a forwarding loop"
            )
    worker = pb.RegisterRequest(
        lbId=uri.lb_id,
        name=f"chain-{reservation.reservation_id}",
        weight=request.weight,
        ipAddress=str(own[0]),
        udpPort=FIRST_PORT,
        portRange=pb.PortRange.Name(PORT_BITS),
        minFactor=request.minFactor,
        maxFactor=request.maxFactor,
        keepLbHeader=True,
        slotDemands=request.slotDemands,
    )
    session = await ask(uri, "Register", worker)
    if plane.reservations.get(reservation.reservation_id) is not reservation:
        raise UnknownError(f"load balancer {reservation.reservation_id} was freed meanwhile")
    _check_room(reservation)
    chain, updates = reservation.balancer.add_chain(
        str(uri),
        session.sessionId,
        session.token,
        info.dataIpv4Address,
        info.dataIpv6Address,
        MessageToJson(worker, indent=None),
    )
    plane.program(updates)
    return chain


async def graph(
    plane: ControlPlane, reservation: Reservation, visited: list[str], ask: Ask
) -> pb.GetChainGraphReply:
    """Return the chains from a reservation upstream, as far as the control planes on the way answer.

    Args:    visited: the control planes on the way here. If this one is among them, the reply says so, without edges.
    """
    identity = _identity(plane, reservation)
    if identity in visited or len(visited) >= _LONGEST_WAY:
        return pb.GetChainGraphReply(cycleDetected=True)
    addresses = plane.config.instances[reservation.instance]
    reply = pb.GetChainGraphReply()
    for chain in list(reservation.balancer.chains.values()):
        uri = EjfatUri.parse(chain.uri)
        reply.edges.add(
            upstreamLbId=uri.lb_id,
            upstreamDataIpv4=chain.data_ipv4,
            upstreamDataIpv6=chain.data_ipv6,
            downstreamLbId=str(reservation.reservation_id),
            downstreamDataIpv4=str(addresses.ipv4 or ""),
            downstreamDataIpv6=str(addresses.ipv6 or ""),
            chainId=str(chain.number),
        )
        question = pb.GetChainGraphRequest(lbId=uri.lb_id, visited=[*visited, identity])
        try:
            further = await ask(uri, "GetChainGraph", question)
        except UpstreamError as error:
            log.warning("chain %d: %s", chain.number, error)
            continue
        reply.edges.extend(further.edges)
        if further.cycleDetected:
            reply.cycleDetected = True
            break
    return reply


def leave(plane: ControlPlane, reservation: Reservation, text: str) -> None:
    """Forget a chain; the reporter to upstream then deregisters there.

    Raises:  UnknownError: the reservation has no such chain.
    """
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    plane.program(reservation.balancer.remove_chain(number, text))


def _check_address(plane: ControlPlane, reservation: Reservation, lb_id: str, upstream: set[str]) -> None:
    """Refuse an upstream load balancer on one of our addresses, unless it is another instance here."""
    found = plane.find(lb_id)
    for number, instance in enumerate(plane.config.instances):
        for address in upstream.intersection(map(str, instance.all)):
            if number == reservation.instance or found is None or found.instance != number:
                raise ControlError(
                    f"{address} is an address of this load balancer too: packets would not get from one to the other; "
                    "chain to one with another address"
                )


def _check_room(reservation: Reservation) -> None:
    if len(reservation.balancer.chains) >= MAX_CHAINS:
        raise ExhaustedError(f"{reservation.balancer.name} has {MAX_CHAINS} chains, which is the most")


def _identity(plane: ControlPlane, reservation: Reservation) -> str:
    """Return HOST:PORT/ID, by which this control plane knows itself among others."""
    address = plane.config.instances[reservation.instance].all[0]
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"{host}:{LB_PORT}/{reservation.reservation_id}"
