"""The entries of `net show` and `peer show` at each level of `-v`, with the keys and the order of the real tool; those
of `net_status`, which the real tool does not have.

Source: the public local_ni_list and its neighbours, lnet_peer_ni_list and its neighbours, LNET_PEER_* for the state.
"""

from __future__ import annotations

from typing import Final

from lnet.base.nid import Nid
from lnet.lnetctl.commands import Document
from lnet.node.lnd import Lnd
from lnet.node.node import LnetNode
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.objects import KibDev, KibNet, KibRoute
from lnet.objects.peers import Peer, PeerNi, PeerState
from lnet.objects.stats import KINDS, NiStats, no_stats
from lnet.settings.config import NAMES
from lnet.settings.health import Health, HealthStatus
from lnet.settings.yaml_text import Quoted

BACKUP: Final = -1
"""The level of `export --backup`: only what a later import needs."""
LO_NID: Final = "0@lo"

_MULTI_RAIL: Final = 1 << 0
_CONFIGURED: Final = 1 << 3
_DISCOVERED: Final = 1 << 4
_DISCOVERING: Final = 1 << 6
_NIDS_UPTODATE: Final = 1 << 8


def lo_document(level: int) -> Document:
    """Return the network lo, which never carries anything here."""
    entry: Document = {"nid": LO_NID, "status": "up"}
    if level >= 1:
        entry |= _statistics(no_stats(), level)
        if level > 1:
            entry["health stats"] = local_health(Health(), fatal=False)
        entry |= {"tunables": dict.fromkeys(NAMES, 0), "dev cpt": 0, "CPT": "[0]"}
    return {"net type": "lo", "local NI(s)": [entry]}


def net_document(lnd: Lnd, net: KibNet, level: int) -> Document:
    """Return a network with all its NIs."""
    return {
        "net type": str(net.net),
        "local NI(s)": [_ni_document(lnd, net, nid, devs, level) for nid, devs in net.nids.items()],
    }


def _ni_document(lnd: Lnd, net: KibNet, nid: Nid, devs: list[KibDev], level: int) -> Document:
    rail = lnd.rails.table.locals.get(devs[0])
    up = net.usable if rail is None else rail.up
    backup = level == BACKUP
    entry: Document = {}
    if not backup:
        entry |= {"nid": str(nid), "status": "removing" if net.closing else "up" if up else "down"}
    entry["interfaces"] = {index: dev.name for index, dev in enumerate(devs)}
    if level >= 1:
        entry |= _statistics(lnd.traffic.locals[nid], level)
        if level > 1:
            health = rail.health if rail is not None else Health()
            entry["health stats"] = local_health(health, fatal=not any(dev.state.usable for dev in devs))
    if level:
        entry["tunables"] = net.tunables.common()
        entry["lnd tunables"] = net.tunables.lnd(None if backup else lnd.config.timeout_s)
        if not backup:
            entry["dev cpt"] = 0
        entry["CPT"] = f"[{','.join(map(str, net.tunables.cpts))}]"
    return entry


def local_health(health: Health, *, fatal: bool) -> Document:
    """Return `health stats` of an interface of this node."""
    failed = health.failures
    return {
        "fatal_error": int(fatal),
        "health value": health.value,
        "interrupts": failed[HealthStatus.LOCAL_INTERRUPT],
        "dropped": failed[HealthStatus.LOCAL_DROPPED],
        "aborted": failed[HealthStatus.LOCAL_ABORTED],
        "no route": failed[HealthStatus.LOCAL_NO_ROUTE],
        "timeouts": failed[HealthStatus.LOCAL_TIMEOUT],
        "error": failed[HealthStatus.LOCAL_ERROR],
        **_pings(health),
    }


def _pings(health: Health) -> Document:
    return {"ping_count": health.ping_count, "next_ping": int(health.next_ping or 0)}


def _statistics(stats: NiStats, level: int) -> Document:
    sent, received, dropped = (stats[what].total() for what in ("sent", "received", "dropped"))
    entry: Document = {"statistics": {"send_count": sent, "recv_count": received, "drop_count": dropped}}
    if level > 1:
        entry |= {f"{what}_stats": {kind: counts[kind] for kind in KINDS} for what, counts in stats.items()}
    return entry


def rail_peer_document(lnd: Lnd, peer: Peer, level: int) -> Document:
    """Return a peer on a network with Multi-Rail."""
    entry: Document = {"primary nid": str(peer.primary), "Multi-Rail": peer.multi_rail}
    if level >= 3:
        entry["peer state"] = _state(peer)
    entry["peer ni"] = [_peer_ni_document(lnd, ni, level) for ni in peer.nis.values()]
    return entry


def _state(peer: Peer) -> int:
    """Return the bits of lp_state that mean something here."""
    known = _DISCOVERED | _NIDS_UPTODATE if peer.stamp else _NIDS_UPTODATE if peer.configured else 0
    bits = {
        PeerState.NEW: 0,
        PeerState.DISCOVERING: _DISCOVERING,
        PeerState.KNOWN: known,
    }[peer.state]
    return bits | _MULTI_RAIL * peer.multi_rail | _CONFIGURED * peer.configured


def _peer_ni_document(lnd: Lnd, ni: PeerNi, level: int) -> Document:
    net = lnd.nis.get(ni.nid.net)
    most = net.tunables.peer_credits if net is not None else 0
    entry: Document = {"nid": str(ni.nid)}
    if level == BACKUP:
        return entry
    entry["state"] = "up" if ni.up else "down"
    if level:
        entry |= _credits(most, most - ni.in_flight, most - ni.most_in_flight, 1 + ni.in_flight)
        entry |= _statistics(lnd.traffic.remotes[ni.nid], level)
    if level > 1:
        entry["health stats"] = _peer_health(ni.health)
    return entry


def _credits(most: int, left: int, least: int, refcount: int) -> Document:
    return {
        "max_ni_tx_credits": most,
        "available_tx_credits": left,
        "min_tx_credits": least,
        "tx_q_num_of_buf": max(0, -left),
        "available_rtr_credits": most,
        "min_rtr_credits": most,
        "refcount": refcount,
    }


def _peer_health(health: Health) -> Document:
    failed = health.failures
    return {
        "health value": health.value,
        "dropped": failed[HealthStatus.REMOTE_DROPPED],
        "timeout": failed[HealthStatus.REMOTE_TIMEOUT],
        "error": failed[HealthStatus.REMOTE_ERROR],
        "network timeout": failed[HealthStatus.NETWORK_TIMEOUT],
        **_pings(health),
    }


def bonded_peer_document(lnd: Lnd, peer: Peer, level: int) -> Document:
    """Return a peer on a network with channel bonding: it has one NID, and the credits of all routes to it."""
    nid, routes = peer.primary, peer.routes
    ni: Document = {"nid": str(nid)}
    entry: Document = {"primary nid": str(nid), "Multi-Rail": False}
    if level >= 3:
        entry["peer state"] = 0
    entry["peer ni"] = [ni]
    if level == BACKUP:
        return entry
    ni["state"] = (
        "up" if any(route.rt_dev.state.usable and route.state.usable for route in routes) else "down"
    )
    if level:
        net = lnd.nis.get(nid.net)
        most = net.tunables.peer_credits * len(routes) if net is not None else 0
        count = len(peer.in_flight)
        ni |= _credits(most, most - count, min(most - count, most), 1 + count)
        ni |= _statistics(lnd.traffic.remotes[nid], level)
    if level > 1:
        ni["health stats"] = _peer_health(Health())
    return entry


def status_document(node: LnetNode, ni: KibNet) -> Document:
    """Return a network with its devices and routes."""
    net, lnd, now = ni, node.lnd, node.time()
    port_of = {name: interface.port.name for name, interface in node.interfaces.items()}
    rails = lnd.rails.table.locals
    devices = []
    for dev in net.ibn_devs:
        document = _device_document(dev, port_of[dev.name])
        rail = rails.get(dev)
        if rail is not None:
            document |= {"nid": str(rail.nid), "health value": rail.health.value}
        devices.append(document)
    return {
        "net": str(net.net),
        "nid": str(ni.nid),
        "status": net_state(net),
        "incarnation": lnd.stamp,
        "bonding": net.bonding.value,
        "devices": devices,
        "routes": [
            _route_document(route, now, lnd.conns.stamp_of(route.rt_nid))
            for route in lnd.messages.routes_on(net.net)
        ],
    }


def connection_document(conn: KibPeer) -> Document:
    """Return one connection, made by this node or by the peer."""
    return {
        "peer nid": str(conn.nid),
        "dev": conn.dev.name,
        "made by": "peer" if conn.route is None else "this node",
        "remote ip": "" if conn.route is None else str(conn.route.rt_addr),
        "state": "up" if conn.up else "connecting",
        "version": f"{conn.version:#x}",
        "credits": conn.credits,
        "queue depth": conn.params.queue_depth,
        "waiting": conn.waiting,
        "in flight": conn.in_flight,
    }


def net_state(net: KibNet) -> str:
    """Return `up`, `down` (no usable device) or `removing`."""
    if net.closing:
        return "removing"
    return "up" if net.usable else "down"


def _device_document(dev: KibDev, port: str) -> Document:
    return {
        "interface": dev.name,
        "hfi port": port,
        "ip": str(dev.addr),
        "state": dev.state.value,
        "speed_gbps": round(dev.speed_gbps, 3),
    }


def _route_document(route: KibRoute, now: float, stamp: int) -> Document:
    document: Document = {
        "nid": str(route.rt_nid),
        "dev": route.rt_dev.name,
        "local ip": str(route.rt_dev.addr),
        "remote ip": str(route.rt_addr),
        "state": route.state.value,
        "statistics": {
            "messages": route.counters.messages,
            "bytes": route.counters.bytes,
            "retries": route.counters.retries,
            "connects": route.counters.connects,
            "down_s": round(route.down_for(now), 3),
        },
    }
    if stamp:
        document["peer incarnation"] = stamp
    if route.counters.rejected:
        document["rejected"] = dict(route.counters.rejected)
    if route.last_error:
        document["last error"] = Quoted(route.last_error)
    return document
