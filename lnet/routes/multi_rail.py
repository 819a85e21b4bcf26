"""Multi-Rail beside channel bonding: discovery of peers, pushes to them, and recovery pings. Sans-IO.

    first message to a NID:  ping it -> its NIDs -> push it ours -> send
    an interface here goes down or comes back: push to every peer
    an interface that failed: ping it after 1 s, then after 2 s, 4 s, ... until its health is back

A NID that a peer tells may be known already as a peer of its own: the two are joined, with all that is in flight.

Source: the public lnet_peer_discovery(), lnet_peer_push_event(), lnet_recover_local_nis(), lnet_recover_peer_nis().
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from hfi_sim.base.deadlines import Deadlines
from lnet.base.errors import ProtocolError
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable
from lnet.objects.objects import KibDev, KibNet, KibRoute, is_multi_rail
from lnet.objects.peers import LocalNi, Peer, PeerNi, PeerState
from lnet.objects.stats import SendDone, SendFailed, Traffic, TxKind
from lnet.routes.messages import MessageTable
from lnet.routes.rails import Rails
from lnet.settings.config import LndConfig
from lnet.settings.health import MAX_HEALTH
from lnet.wire.lnet_hdr import LnetHdr
from lnet.wire.ping import (
    FEATURE_BASE,
    FEATURE_DISCOVERY,
    FEATURE_MULTI_RAIL,
    FEATURE_NI_STATUS,
    MAX_NIDS,
    MAX_REPLY,
    PING_MATCH_BITS,
    RESERVED_PORTAL,
    PingInfo,
)

log = logging.getLogger("lnet.routes.multi_rail")


class MultiRail:
    """The networks of a node that have a NID for each device."""

    def __init__(
        self, nis: Mapping[Net, KibNet], conns: ConnTable, table: MessageTable, traffic: Traffic
    ) -> None:
        """Make it without interfaces. Args: those of the node."""
        self.table = table
        self.way = Rails(
            table,
            traffic,
            discover=self.discover,
            restarted=self._restarted,
            health_changed=self._health_changed,
        )
        self._nis = nis
        self._conns = conns
        self._sequence = 1
        self._recovery: Deadlines[LocalNi | PeerNi] = Deadlines(lambda ni: ni.health.next_ping)

    @property
    def config(self) -> LndConfig:
        """The settings of the node."""
        return self.table.config

    def reconfigure(self, config: LndConfig) -> None:
        """Use other settings from the next message on; tell peers whether this node discovers them."""
        discovery, self.table.config = self.config.discovery, config
        if config.discovery != discovery:
            self.tell()

    # --- what this node tells ------------------------------------------------------------------------------

    def info(self) -> PingInfo:
        """Return what a ping of this node is answered with."""
        features = FEATURE_BASE | FEATURE_NI_STATUS
        nids: list[tuple[Nid, bool]] = []
        for ni in self._nis.values():
            for nid, devs in ni.nids.items():
                local = self.table.locals.get(devs[0])
                nids.append((nid, local.up if local is not None else ni.usable))
        if self.table.locals:
            features |= FEATURE_MULTI_RAIL | (FEATURE_DISCOVERY if self.config.discovery else 0)
        return PingInfo(tuple(nids[: MAX_NIDS - 1]), features, self._sequence)

    def add_device(self, net: KibNet, dev: KibDev) -> None:
        """Add an interface, and tell the peers."""
        self.way.add_device(net, dev)
        self.tell()

    def remove_device(self, dev: KibDev, reason: str) -> None:
        """Remove an interface, and tell the peers."""
        self.way.remove_device(dev, reason)
        self.tell()

    def tell(self) -> None:
        """Push what is new here to every peer with Multi-Rail."""
        self._sequence += 1
        for local in self.table.locals.values():
            local.told_up = local.up
        for peer in self.table.known_peers():
            if peer.multi_rail:
                self._push(peer, lambda report: None)

    def _push(self, peer: Peer, then: Callable[[SendDone | SendFailed], None]) -> None:
        self._send(TxKind.PUT, peer.primary, then, data=self.info().build())

    def _ping(
        self, nid: Nid, then: Callable[[SendDone | SendFailed], None], *, recovery: bool = False
    ) -> None:
        self._send(TxKind.GET, nid, then, length=MAX_REPLY, recovery=recovery)

    def _send(
        self,
        kind: TxKind,
        nid: Nid,
        then: Callable[[SendDone | SendFailed], None],
        *,
        data: bytes = b"",
        length: int = 0,
        recovery: bool = False,
    ) -> None:
        """Send a message of LNet itself; it fails like any other, also where its network is gone."""
        tx = self.table.make(kind, nid, self.config.transaction_timeout_s / (2 if recovery else 1))
        tx.data, tx.length = data, length
        tx.match_bits, tx.ptl_index = PING_MATCH_BITS, RESERVED_PORTAL
        tx.then, tx.recovery, tx.only = then, recovery, nid if recovery else None
        self.table.send(tx)

    # --- what the user tells -------------------------------------------------------------------------------

    def add_peer(self, primary: Nid, nids: Iterable[Nid], *, multi_rail: bool) -> None:
        """Make a peer known with its NIDs (lnetctl peer add); the caller has checked that they are free."""
        peer = self.table.peer_of(primary)
        peer.configured = True
        for nid in nids:
            self.table.join(peer, nid)
        peer.multi_rail = multi_rail
        if peer.state is PeerState.NEW:
            peer.state = PeerState.KNOWN
        self._go_on(peer)

    def remove_peer(self, primary: Nid, nids: Iterable[Nid]) -> None:
        """Forget NIDs of a peer, or with none given all of it (lnetctl peer del); its messages fail."""
        peer = self.table.peers[primary]
        some = list(nids)
        if some and set(some) != set(peer.nis):
            for nid in some:
                if nid in peer.nis:
                    self.table.drop_ni(peer, nid)
        else:
            self.table.drop_peer(peer, errno.EHOSTUNREACH, f"the peer {primary} was removed")

    # --- what peers tell -----------------------------------------------------------------------------------

    def ask(self, nid: Nid, then: Callable[[SendFailed | None], None], *, force: bool) -> Peer:
        """Discover the peer with a NID, or with `force` discover it anew (lnetctl discover).

        Args:  then: called with the failure, or None: at once, if the peer is known.
        """
        peer = self.table.peer_of(nid)
        if peer.state is PeerState.KNOWN and peer.stamp and not force:
            then(None)
            return peer
        peer.asked.append(then)
        self.discover(peer)
        return peer

    def discover(self, peer: Peer) -> None:
        """Ask a peer for its interfaces, and push it those of this node; nothing, if that is under way."""
        if peer.state is PeerState.DISCOVERING:
            return
        peer.state = PeerState.DISCOVERING
        peer.discovery = token = object()
        self._ping(peer.primary, partial(self._pinged, token))

    def _discovering(self, token: object) -> Peer | None:
        """Return the peer that is being discovered; None: it was removed, or became known in another way."""
        return next((peer for peer in self.table.peers.values() if peer.discovery is token), None)

    def _pinged(self, token: object, report: SendDone | SendFailed) -> None:
        peer = self._discovering(token)
        if peer is None:
            return
        if isinstance(report, SendDone):
            try:
                self._merge(peer, PingInfo.parse(report.data))
            except ProtocolError as error:
                report = SendFailed(report.msg_id, report.nid, -errno.EPROTO, str(error))
        if isinstance(report, SendFailed):
            log.info("[%s] discovery failed: %s", peer.primary, report.reason)
            peer.state, peer.discovery = PeerState.KNOWN if peer.configured else PeerState.NEW, None
            self._told(peer, report)
            return
        peer.stamp = self._conns.stamp_of(report.nid)
        if peer.multi_rail:
            self._push(peer, partial(self._pushed, token))
        else:
            self._known(peer)

    def _pushed(self, token: object, report: SendDone | SendFailed) -> None:
        peer = self._discovering(token)
        if isinstance(report, SendFailed):
            log.info("[%s] push failed: %s", report.nid, report.reason)
        if peer is not None:
            self._known(peer)

    def _known(self, peer: Peer) -> None:
        peer.state, peer.discovery = PeerState.KNOWN, None
        log.info("[%s] discovered: %s", peer.primary, ", ".join(map(str, peer.nis)))
        self._told(peer, None)

    def _told(self, peer: Peer, failed: SendFailed | None) -> None:
        """Go on after a discovery."""
        asked, peer.asked = peer.asked, []
        self.table.discovered(peer, failed)
        for then in asked:
            then(failed)

    def _go_on(self, peer: Peer) -> None:
        """Go on with what waited for a discovery, where none is needed any more."""
        if peer.state is PeerState.KNOWN:
            peer.discovery = None
            self._told(peer, None)

    def pushed(self, source: Nid, data: bytes) -> None:
        """Take what a peer says of itself without being asked. What cannot be read changes nothing."""
        try:
            info = PingInfo.parse(data)
        except ProtocolError as error:
            log.warning("[%s] push: %s", source, error)
            return
        if source not in [nid for nid, _ in info.nids] or not is_multi_rail(self._nis.get(source.net)):
            return
        peer = self.table.peers.get(source) or self.table.peers.get(info.nids[0][0])
        stamp = self._conns.stamp_of
        if peer is None or (source not in peer.nis and stamp(source) != stamp(peer.primary)):
            peer = self.table.peer_of(source)  # no node can speak for another: its incarnation differs
        self._merge(peer, info)
        self._go_on(peer)

    def _merge(self, peer: Peer, info: PingInfo) -> None:
        """Take over the interfaces of a peer; what was known as another peer by one of its NIDs becomes part of it."""
        stamp = self._conns.stamp_of
        if info.sequence and info.sequence < peer.sequence and peer.stamp == stamp(peer.primary):
            return  # an older push that came late
        table = self.table
        told = {nid: up for nid, up in info.nids if is_multi_rail(self._nis.get(nid.net))}
        for nid in told:
            if nid not in peer.nis and not self._another_node(peer, nid):
                table.join(peer, nid)
        peer.sequence, peer.multi_rail = info.sequence, info.multi_rail
        for nid, up in told.items():
            ni = peer.nis.get(nid)
            if ni is None:
                continue
            if ni.up and not up:
                ni.health.worse(self.config)
                ni.health.queue(table.now, self.config)
                self._health_changed(ni)
            ni.up = up
        for nid in [nid for nid in peer.nis if nid not in told]:
            if len(peer.nis) > 1:
                table.drop_ni(peer, nid)  # also of a configured peer: what it says itself counts for more
        if told and next(iter(told)) in peer.nis:
            peer.primary = next(iter(told))

    def _another_node(self, peer: Peer, nid: Nid) -> bool:
        """Return whether a NID that a peer tells is one of this node, or of one met as another incarnation."""
        met, stamp = self._conns.stamp_of(nid), self._conns.stamp_of(peer.primary)
        own = {local.nid for local in self.table.locals.values()}
        return nid in own or bool(met and stamp and met != stamp)

    # --- messages ------------------------------------------------------------------------------------------

    def read(self, hdr: LnetHdr) -> bytes | None:
        """Answer a GET that is a ping; None: it is none."""
        if (hdr.ptl_index, hdr.match_bits) != (RESERVED_PORTAL, PING_MATCH_BITS):
            return None
        return self.info().build()

    def _restarted(self, peer: Peer, route: KibRoute) -> None:
        """Discover a peer anew that has restarted."""
        stamp = self._conns.stamp_of(route.rt_nid)
        if peer.state is PeerState.KNOWN and stamp > peer.stamp:
            peer.stamp, peer.sequence = stamp, 0
            self.discover(peer)

    # --- time ----------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        return self._recovery.next()

    def on_timer(self, now: float) -> None:
        """Ping interfaces that are to recover."""
        for ni in self._recovery.take_due(now):
            self._recover(ni, now)
            self._recovery.touch(ni)

    def _recover(self, ni: LocalNi | PeerNi, now: float) -> None:
        if isinstance(ni, LocalNi):
            over = self.table.locals.get(ni.dev) is not ni
        else:
            peer = self.table.peers.get(ni.nid)
            over = peer is None or peer.nis.get(ni.nid) is not ni or ni.health.aged_out(now, self.config)
        if over or ni.health.value == MAX_HEALTH:
            ni.health.leave_queue()
            return
        ni.health.pinged(now, self.config)
        self._ping(ni.nid, partial(self._recovered, ni), recovery=True)

    def _recovered(self, ni: LocalNi | PeerNi, report: SendDone | SendFailed) -> None:
        """A recovery ping of a local interface reaches it from any other: its success is that of the interface."""
        if isinstance(report, SendDone) and isinstance(ni, LocalNi) and report.route.rt_dev is not ni.dev:
            self.way.praise(ni)

    def _health_changed(self, ni: LocalNi | PeerNi) -> None:
        self._recovery.touch(ni)
        if isinstance(ni, LocalNi) and ni.up != ni.told_up:
            self.tell()

    def set_health_of(self, ni: LocalNi | PeerNi, value: int) -> None:
        """Set the health of an interface; below MAX_HEALTH it is pinged until it recovers."""
        ni.health.set(value)
        ni.health.queue(self.table.now, self.config)
        self._health_changed(ni)
