"""Multi-Rail beside channel bonding: discovery of peers, pushes to them, and recovery pings. Sans-IO.

    first message to a NID:  ping it -> its NIDs -> push it ours -> send
    an interface here goes down or comes back: push to every peer
    an interface that failed: ping it after 1 s, then after 2 s, 4 s, ... until its health is back

Source: the public lnet_peer_discovery(), lnet_peer_push_event(), lnet_recover_local_nis(), lnet_recover_peer_nis().
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from hfi_sim.base.deadlines import Deadlines
from lnet.base.errors import ProtocolError
from lnet.base.nid import Net, Nid
from lnet.o2iblnd.conns import ConnTable
from lnet.objects.objects import KibDev, KibNet, KibRoute, LnetNi
from lnet.objects.stats import Traffic
from lnet.objects.tx import Report, SendDone, SendFailed, TxKind
from lnet.routes.rail_table import RailTable, is_multi_rail
from lnet.routes.rails import LocalNi, PeerNi, PeerState, RailPeer
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
        self,
        config: LndConfig,
        nis: Mapping[Net, LnetNi],
        conns: ConnTable,
        *,
        new_id: Callable[[], int],
        report: Callable[[Report], None],
        traffic: Traffic,
    ) -> None:
        """Make it without interfaces. Args: as for RailTable."""
        self.config = config
        self.new_id = new_id
        self.table = RailTable(
            config,
            nis,
            conns,
            new_id=new_id,
            report=report,
            discover=self.discover,
            health_changed=self._health_changed,
            traffic=traffic,
        )
        self._nis = nis
        self._conns = conns
        self._sequence = 1
        self._recovery: Deadlines[LocalNi | PeerNi] = Deadlines(lambda ni: ni.health.next_ping)

    def reconfigure(self, config: LndConfig) -> None:
        """Use other settings from the next message on; tell peers whether this node discovers them."""
        discovery = self.config.discovery
        self.config = self.table.config = config
        if config.discovery != discovery:
            self.tell()

    # --- what this node tells ------------------------------------------------------------------------------

    def info(self) -> PingInfo:
        """Return what a ping of this node is answered with."""
        features = FEATURE_BASE | FEATURE_NI_STATUS
        nids: list[tuple[Nid, bool]] = []
        for ni in self._nis.values():
            for nid, devs in ni.ni_data.nids.items():
                local = self.table.locals.get(devs[0])
                nids.append((nid, local.up if local is not None else ni.ni_data.usable))
        if self.table.locals:
            features |= FEATURE_MULTI_RAIL | (FEATURE_DISCOVERY if self.config.discovery else 0)
        return PingInfo(tuple(nids[: MAX_NIDS - 1]), features, self._sequence)

    def add_device(self, net: KibNet, dev: KibDev) -> None:
        """Add an interface, and tell the peers."""
        self.table.add_device(net, dev)
        self.tell()

    def remove_device(self, dev: KibDev) -> None:
        """Remove an interface, and tell the peers."""
        self.table.remove_device(dev)
        self.tell()

    def tell(self) -> None:
        """Push what is new here to every peer with Multi-Rail."""
        self._sequence += 1
        for local in self.table.locals.values():
            local.told_up = local.up
        for peer in self.table.known_peers():
            if peer.multi_rail and peer.primary.net in self._nis:
                self._push(peer, lambda report: None)

    def _push(self, peer: RailPeer, then: Callable[[SendDone | SendFailed], None]) -> None:
        bits, portal = PING_MATCH_BITS, RESERVED_PORTAL
        self.table.internal(
            TxKind.PUT, peer.primary, then, data=self.info().build(), match_bits=bits, ptl_index=portal
        )

    # --- what the user tells -------------------------------------------------------------------------------

    def add_peer(self, primary: Nid, nids: Iterable[Nid], *, multi_rail: bool) -> None:
        """Make a peer known with its NIDs (lnetctl peer add); the caller has checked that they are free."""
        table = self.table
        peer = table.peer_of(primary)
        peer.configured = True
        peer.multi_rail = multi_rail
        for nid in nids:
            if nid not in peer.nis:
                other = table.peers.get(nid)
                peer.nis[nid] = other.nis[nid] if other is not None else PeerNi(nid)
                table.peers[nid] = peer
        if peer.state is PeerState.NEW:
            peer.state = PeerState.KNOWN
            table.discovered(peer, None)

    def remove_peer(self, primary: Nid, nids: Iterable[Nid]) -> None:
        """Forget NIDs of a peer, or with none given all of it (lnetctl peer del); its messages fail."""
        peer = self.table.peers[primary]
        some = list(nids)
        if some and set(some) != set(peer.nis):
            for nid in some:
                self.table.drop_ni(peer, nid)
        else:
            self.table.drop_peer(peer)

    # --- what peers tell -----------------------------------------------------------------------------------

    def ask(self, nid: Nid, then: Callable[[SendFailed | None], None], *, force: bool) -> RailPeer:
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

    def discover(self, peer: RailPeer) -> None:
        """Ask a peer for its interfaces, and push it those of this node; nothing, if that is under way."""
        if peer.state is PeerState.DISCOVERING:
            return
        peer.state = PeerState.DISCOVERING
        self._ping(peer.primary, partial(self._pinged, peer))

    def _ping(
        self, nid: Nid, then: Callable[[SendDone | SendFailed], None], *, recovery: bool = False
    ) -> None:
        self.table.internal(
            TxKind.GET,
            nid,
            then,
            length=MAX_REPLY,
            match_bits=PING_MATCH_BITS,
            ptl_index=RESERVED_PORTAL,
            recovery=recovery,
            only=nid if recovery else None,
        )

    def _pinged(self, peer: RailPeer, report: SendDone | SendFailed) -> None:
        if isinstance(report, SendDone):
            try:
                self._merge(peer, PingInfo.parse(report.data))
            except ProtocolError as error:
                report = SendFailed(report.msg_id, report.nid, -71, str(error))
        if isinstance(report, SendFailed):
            log.info("[%s] discovery failed: %s", peer.primary, report.reason)
            peer.state = PeerState.KNOWN if peer.configured else PeerState.NEW
            self._told(peer, report)
            return
        peer.stamp = self._conns.stamp_of(report.nid)
        if peer.multi_rail:
            self._push(peer, partial(self._pushed, peer))
        else:
            self._known(peer)

    def _pushed(self, peer: RailPeer, report: SendDone | SendFailed) -> None:
        if isinstance(report, SendFailed):
            log.info("[%s] push failed: %s", peer.primary, report.reason)
        self._known(peer)

    def _known(self, peer: RailPeer) -> None:
        peer.state = PeerState.KNOWN
        log.info("[%s] discovered: %s", peer.primary, ", ".join(map(str, peer.nis)))
        self._told(peer, None)

    def _told(self, peer: RailPeer, failed: SendFailed | None) -> None:
        """Go on after a discovery."""
        asked, peer.asked = peer.asked, []
        self.table.discovered(peer, failed)
        for then in asked:
            then(failed)

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

    def _merge(self, peer: RailPeer, info: PingInfo) -> None:
        """Take over the interfaces of a peer; those of other peers stay with them."""
        if (
            info.sequence
            and info.sequence < peer.sequence
            and peer.stamp == self._conns.stamp_of(peer.primary)
        ):
            return  # an older push that came late
        peer.sequence, peer.multi_rail = info.sequence, info.multi_rail
        told = {nid: up for nid, up in info.nids if is_multi_rail(self._nis.get(nid.net))}
        table = self.table
        for nid, up in told.items():
            if nid not in peer.nis:
                other = table.peers.get(nid)
                if other is not None and (other.state is not PeerState.NEW or other.queue.in_flight):
                    continue
                peer.nis[nid] = other.nis[nid] if other is not None else PeerNi(nid)
                table.peers[nid] = peer
            ni = peer.nis[nid]
            if ni.up and not up:
                ni.health.worse(self.config)
                ni.health.queue(table.now, self.config)
                self._health_changed(ni)
            ni.up = up
        for nid in [nid for nid in peer.nis if nid not in told and len(peer.nis) > 1]:
            table.drop_ni(peer, nid)  # also of a configured peer: what it says itself counts for more
        if told and next(iter(told)) in peer.nis and not peer.queue.in_flight:
            self._name(peer, next(iter(told)))

    def _name(self, peer: RailPeer, primary: Nid) -> None:
        """Name a peer by the NID that it puts first."""
        for ni in self._nis.values():
            routes = ni.ni_data.ibn_routes.pop(peer.primary, None)
            if routes is not None:
                routes.nid = primary
                ni.ni_data.ibn_routes[primary] = routes
        peer.primary = primary

    # --- messages and devices ------------------------------------------------------------------------------

    def read(self, hdr: LnetHdr) -> bytes | None:
        """Answer a GET that is a ping; None: it is none."""
        if (hdr.ptl_index, hdr.match_bits) != (RESERVED_PORTAL, PING_MATCH_BITS):
            return None
        return self.info().build()

    def route_up(self, route: KibRoute) -> None:
        """Discover a peer anew that has restarted."""
        peer = self.table.peers.get(route.rt_nid)
        stamp = self._conns.stamp_of(route.rt_nid)
        if peer is not None and peer.state is PeerState.KNOWN and stamp > peer.stamp:
            peer.stamp, peer.sequence = stamp, 0
            self.discover(peer)

    def device_changed(self, dev: KibDev) -> None:
        """Handle a device that failed or came back."""
        if dev in self.table.locals:
            self.tell()

    # --- time ----------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `on_timer` is due, or None."""
        times = [time for time in (self.table.deadline(), self._recovery.next()) if time is not None]
        return min(times, default=None)

    def on_timer(self, now: float) -> None:
        """Fail overdue messages and ping interfaces that are to recover."""
        self.table.expire(now)
        for ni in self._recovery.take_due(now):
            self._recover(ni, now)
            self._recovery.touch(ni)

    def _recover(self, ni: LocalNi | PeerNi, now: float) -> None:
        here = ni.nid in {local.nid for local in self.table.locals.values()}
        gone = isinstance(ni, PeerNi) and ni.nid not in self.table.peers
        aged_out = isinstance(ni, PeerNi) and ni.health.aged_out(now, self.config)
        if ni.health.value == MAX_HEALTH or gone or aged_out or (isinstance(ni, LocalNi) and not here):
            ni.health.leave_queue()
            return
        ni.health.pinged(now, self.config)
        self._ping(ni.nid, partial(self._recovered, ni), recovery=True)

    def _recovered(self, ni: LocalNi | PeerNi, report: SendDone | SendFailed) -> None:
        """A recovery ping of a local interface reaches it from any other: its success is that of the interface."""
        if isinstance(report, SendDone) and isinstance(ni, LocalNi) and report.route.rt_dev is not ni.dev:
            self.table.praise(ni)

    def _health_changed(self, ni: LocalNi | PeerNi) -> None:
        self._recovery.touch(ni)
        if isinstance(ni, LocalNi) and ni.up != ni.told_up:
            self.tell()

    def set_health(self, nid: Nid, value: int) -> None:
        """Set the health of a local interface, or else of one of a peer (lnetctl net set, peer set).

        Raises:  KeyError: no interface has the NID.
        """
        local = next((ni for ni in self.table.locals.values() if ni.nid == nid), None)
        self.set_health_of(local or self.table.peers[nid].nis[nid], value)

    def set_health_of(self, ni: LocalNi | PeerNi, value: int) -> None:
        """Set the health of an interface; below MAX_HEALTH it is pinged until it recovers."""
        ni.health.set(value)
        ni.health.queue(self.table.now, self.config)
        self._health_changed(ni)
