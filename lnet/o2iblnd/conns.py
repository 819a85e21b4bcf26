"""The connections of a node: opened for routes or accepted from peers; changes are reported to the LND."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from typing import Final

from hfi_sim.base.deadlines import Deadlines
from lnet.base.errors import ProtocolError
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.actions import AcceptConn, Action, CloseConn, OpenConn, RejectConn
from lnet.o2iblnd.handshake import (
    ConnectRefusedError,
    Identity,
    announced,
    build_connect,
    check_params,
    check_reply,
    check_request,
    params_of,
)
from lnet.o2iblnd.peer import ConnUser, KibPeer, LossCause
from lnet.objects.objects import KibDev, KibNet, KibRoute, RouteState
from lnet.objects.peers import KibTx
from lnet.objects.stats import Traffic
from lnet.settings.config import LndConfig
from lnet.wire.codes import VERSION_1, VERSIONS, MsgType, RejectReason
from lnet.wire.msg import IBLND_MSG_SIZE, ConnParams, KibMsg, KibRej

log = logging.getLogger("lnet.o2iblnd.conns")

_NOT_KNOWN: Final = (1 << 64) - 1
"""The incarnation that is asked for in version 0x11, which ignores it: a peer that has learned 0x12 since then refuses
it as stale, and says so."""


class ConnTable:
    """All connections by key. `new_key` makes the keys, including those of connections that peers request."""

    def __init__(
        self,
        stamp: int,
        cookie: int,
        config: LndConfig,
        nis: dict[Net, KibNet],
        user: ConnUser,
        emit: Callable[[Action], None],
        traffic: Traffic,
    ) -> None:
        self._traffic = traffic
        self._stamp = stamp
        self._cookie = cookie
        self._config = config
        self._nis = nis
        self._user = user
        self._emit = emit
        self._by_key: dict[int, KibPeer] = {}
        self._by_route: dict[KibRoute, KibPeer] = {}
        self._accepted: dict[tuple[Nid, KibDev, int], int] = {}
        """Keys of the connections that peers made, by NID, device and LID of the peer."""
        self._deadlines: Deadlines[int] = Deadlines(self._due_of)
        self._stamps: dict[Nid, int] = {}
        self._params: dict[Nid, ConnParams] = {}
        self._versions: dict[Nid, int] = {}
        """Of peers that speak a lower version than this node."""
        self._last_key = 0

    def __iter__(self) -> Iterator[KibPeer]:
        return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def new_key(self) -> int:
        """Return a key that has never been used."""
        self._last_key += 1
        return self._last_key

    def on_route(self, route: KibRoute) -> KibPeer | None:
        """Return the connection of a route, or None."""
        return self._by_route.get(route)

    def stamp_of(self, nid: Nid) -> int:
        """Return the last known incarnation of a peer; 0 if it is unknown."""
        return self._stamps.get(nid, 0)

    # --- connections that this node makes ------------------------------------------------------------------

    def open(self, net: KibNet, route: KibRoute) -> KibPeer:
        """Connect a route. A route that has failed is only probed: it carries no message until it is up."""
        nid = route.rt_nid
        version = self._version_of(nid)
        peer = self._make(self.new_key(), net, nid, route.rt_dev, route, version)
        self._by_route[route] = peer
        failed = route.state is RouteState.DISCONNECTED
        route.state = RouteState.PROBING if failed else RouteState.CONNECTING
        lower = version < self._config.version
        request = build_connect(
            MsgType.CONNREQ,
            self._own(net, route.rt_dev),
            Identity(nid.wire, _NOT_KNOWN if lower else self.stamp_of(nid)),
            self._offer(peer),
            self._announcement(net),
            version=version,
        )
        self._emit(OpenConn(peer.key, route.rt_dev.name, route.rt_addr, request))
        return peer

    def established(self, key: int, private: bytes, now: float) -> None:
        """Handle an accepted connection: check the reply, then use the connection."""
        self._user.at(now)
        peer = self._by_key.get(key)
        if peer is None or peer.route is None:
            return
        own, offer = self._own(peer.net, peer.dev), self._offer(peer)
        try:
            reply = check_reply(private, own, peer.nid.wire, offer, peer.version)
        except ProtocolError as error:
            self.fail(key, str(error), now)
            return
        self._start(peer, reply, now)
        peer.route.came_up(now)
        self._user.route_up(peer.route)
        peer.pump()
        self._deadlines.touch(key)

    def rejected(self, key: int, private: bytes, now: float) -> None:
        """Handle a rejected connection; if the peer named parameters that it accepts, the next request uses them."""
        self._user.at(now)
        peer = self._by_key.get(key)
        if peer is None:
            return
        try:
            rej = KibRej.parse(private)
        except ProtocolError as error:
            self._lose(peer, f"refused, {error}", LossCause.REFUSED, now)
            return
        why, cause = rej.why, LossCause.REFUSED
        if rej.version == VERSION_1 < peer.version and why == RejectReason.FATAL:
            why = RejectReason.CONN_UNCOMPAT  # all that an old peer can say
        if why == RejectReason.CONN_STALE:
            news = self._learn_version(peer, rej.version) or rej.incarnation > self.stamp_of(peer.nid)
            if news:
                self._stamps[peer.nid] = max(rej.incarnation, self.stamp_of(peer.nid))
                cause = LossCause.RENEGOTIATE
        elif why == RejectReason.CONN_UNCOMPAT:
            if self._learn_version(peer, rej.version):
                cause = LossCause.RENEGOTIATE
        elif why in (RejectReason.MSG_QUEUE_SIZE, RejectReason.RDMA_FRAGS):
            own = params_of(self._config, peer.net.tunables, peer.version)
            lower = own.at_most(rej.connparams)
            if lower.queue_depth and lower.max_frags and lower != self._params.get(peer.nid, own):
                self._params[peer.nid] = lower
                cause = LossCause.RENEGOTIATE
        name = RejectReason(why).name if why in set(RejectReason) else f"reason {why}"
        if peer.route is not None:
            peer.route.counters.rejected[name] += 1
        if why == RejectReason.CONN_UNCOMPAT:
            name = f"{name}, it speaks version {rej.version:#x}, not {peer.version:#x}"
        self._lose(peer, f"refused by the peer: {name}", cause, now)

    # --- connections that peers make -----------------------------------------------------------------------

    def requested(self, key: int, dev_name: str, remote_lid: int, private: bytes, now: float) -> None:
        """Handle a peer's connection request to one of this node's devices: accept or reject it."""
        self._user.at(now)
        try:
            request = check_request(private, self._stamp, self._config)
            net, dev, nid = self._addressee(request, dev_name)
            check_params(request, self._stamp, params_of(self._config, net.tunables, request.version))
        except ConnectRefusedError as error:
            log.info("[%s] connection from lid %#x refused: %s", dev_name, remote_lid, error)
            self._emit(RejectConn(key, error.rej.build()))
            return
        old = self._accepted.get((nid, dev, remote_lid))
        if old is not None:
            self.fail(old, "replaced by a newer connection of the peer", now)
        peer = self._make(key, net, nid, dev, None, request.version)
        peer.remote_lid = remote_lid
        self._accepted[nid, dev, remote_lid] = key
        self._start(peer, request, now)
        assert request.connparams is not None  # noqa: S101 - checked by check_request
        reply = build_connect(
            MsgType.CONNACK,
            self._own(net, dev),
            Identity(nid.wire, peer.stamp),
            request.connparams,
            self._announcement(net),
            version=request.version,
        )
        self._emit(AcceptConn(key, reply))

    def _addressee(self, request: KibMsg, dev_name: str) -> tuple[KibNet, KibDev, Nid]:
        def refuse(why: RejectReason, text: str) -> ConnectRefusedError:
            cp = ConnParams(0, self._config.max_frags, IBLND_MSG_SIZE)
            return ConnectRefusedError(KibRej(why, self._config.version, self._stamp, cp), text)

        nid, wanted = Nid.from_wire(request.srcnid), Nid.from_wire(request.dstnid)
        ni = self._nis.get(wanted.net)
        dev = ni.device(dev_name) if ni is not None else None
        if ni is None or dev is None or ni.nid_of(dev) != wanted or ni.closing or nid.net != wanted.net:
            raise refuse(RejectReason.FATAL, f"{wanted} is not a NID of this node on {dev_name}")
        if not request.srcstamp or request.srcstamp < self.stamp_of(nid):
            raise refuse(RejectReason.CONN_STALE, f"{nid} has been met in a later incarnation")
        return ni, dev, nid

    # --- time ----------------------------------------------------------------------------------------------

    def _due_of(self, key: int) -> float | None:
        peer = self._by_key.get(key)
        return peer.due if peer is not None else None

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        return self._deadlines.next()

    def on_timer(self, now: float) -> None:
        """Probe silent peers; close idle connections, and those whose peer has been silent for too long."""
        for key in self._deadlines.take_due(now):
            peer = self._by_key.get(key)
            if peer is None:
                continue  # closed with another one
            idle = peer.idle_deadline
            if peer.route is None:
                self.fail(key, "silent for too long", now)
            elif idle is not None and idle <= now:
                self.close_idle(peer)
            else:
                peer.keep_alive(now)
                self._deadlines.touch(key)

    # --- messages and ends ---------------------------------------------------------------------------------

    def submit(self, peer: KibPeer, tx: KibTx) -> None:
        """Hand a message to a connection, which sends it as soon as it is up and has a credit."""
        peer.submit(tx)
        peer.pump()
        self._deadlines.touch(peer.key)

    def cancel(self, tx: KibTx) -> None:
        """Take a message off its connection, if it is on one."""
        if tx.peer is not None:
            tx.peer.cancel(tx)
            self._deadlines.touch(tx.peer.key)

    def message(self, key: int, tag: int, data: bytes, now: float) -> None:
        """Deliver a message to its connection; close the connection if the peer violates the protocol."""
        self._user.at(now)
        peer = self._by_key.get(key)
        if peer is None:
            return  # it was closed here
        try:
            peer.receive(tag, data, now)
        except ProtocolError as error:
            self._traffic.counters["errors"] += 1
            log.warning("[%s] protocol error of %s: %s", peer.dev.name, peer.nid, error)
            self.fail(key, str(error), now)
            return
        peer.pump()
        self._deadlines.touch(key)

    def sent(self, key: int, number: int, now: float) -> None:
        """Handle the transport's acknowledgement of message `number` of a connection."""
        self._user.at(now)
        peer = self._by_key.get(key)
        if peer is not None:
            peer.sent(number, now)
            self._deadlines.touch(key)

    def closed(self, key: int, reason: str, now: float) -> None:
        """Handle a connection that the transport lost or could not establish."""
        self._user.at(now)
        peer = self._by_key.get(key)
        if peer is not None:
            cause = LossCause.BROKEN if peer.up else LossCause.UNREACHABLE
            self._lose(peer, reason, cause, now)

    def fail(self, key: int, reason: str, now: float, cause: LossCause = LossCause.BROKEN) -> None:
        """Close a connection and report it as lost."""
        peer = self._by_key.get(key)
        if peer is not None:
            self._emit(CloseConn(key))
            self._lose(peer, reason, cause, now)

    def close_idle(self, peer: KibPeer) -> None:
        """Close an unused connection and reset its route to new."""
        self._emit(CloseConn(peer.key))
        self._forget(peer)
        if peer.route is not None:
            peer.route.state = RouteState.NEW

    def _lose(self, peer: KibPeer, reason: str, cause: LossCause, now: float) -> None:
        self._forget(peer)
        left = peer.abandon()
        if peer.route is not None:
            peer.route.went_down(now, reason)
            self._user.route_lost(peer.route, left, reason, cause)

    def _forget(self, peer: KibPeer) -> None:
        del self._by_key[peer.key]
        if peer.route is not None:
            del self._by_route[peer.route]
        else:
            self._accepted.pop((peer.nid, peer.dev, peer.remote_lid), None)

    def _make(
        self, key: int, net: KibNet, nid: Nid, dev: KibDev, route: KibRoute | None, version: int
    ) -> KibPeer:
        peer = KibPeer(
            key,
            net,
            nid,
            dev,
            route=route,
            own=self._own(net, dev),
            cookie=self._cookie,
            config=self._config,
            user=self._user,
            emit=self._emit,
            traffic=self._traffic,
            version=version,
        )
        self._by_key[key] = peer
        return peer

    def _start(self, peer: KibPeer, message: KibMsg, now: float) -> None:
        assert message.connparams is not None  # noqa: S101 - checked by the handshake
        known = self.stamp_of(peer.nid)
        self._stamps[peer.nid] = max(known, message.srcstamp)
        peer.come_up(message.connparams, message.srcstamp)
        peer.last_used = peer.last_heard = now
        self._deadlines.touch(peer.key)
        if known and message.srcstamp > known:
            for old in self:
                if old.nid == peer.nid and old.up and old.stamp < message.srcstamp:
                    self.fail(old.key, "the peer has restarted", now)
        addresses = announced(message.extra)
        if self._config.announce and addresses:
            self._user.peer_announces(peer.nid, addresses, now)

    def _version_of(self, nid: Nid) -> int:
        return min(self._versions.get(nid, self._config.version), self._config.version)

    def _learn_version(self, peer: KibPeer, version: int) -> bool:
        """Keep the version that a peer speaks; return whether the next request to it has another one than the last."""
        if version in VERSIONS:
            self._versions[peer.nid] = version
        return self._version_of(peer.nid) != peer.version

    def _offer(self, peer: KibPeer) -> ConnParams:
        """Return the parameters to request: what the peer is known to accept, or those of the network."""
        own = params_of(self._config, peer.net.tunables, peer.version)
        return own.at_most(self._params.get(peer.nid, own))

    def _own(self, net: KibNet, dev: KibDev) -> Identity:
        return Identity(net.nid_of(dev).wire, self._stamp)

    def _announcement(self, net: KibNet) -> tuple[IPv4Address, ...]:
        return tuple(dev.addr for dev in net.ibn_devs) if self._config.announce else ()
