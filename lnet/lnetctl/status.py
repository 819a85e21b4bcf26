"""The document of `lnetctl net_status`: devices and routes."""

from __future__ import annotations

from lnet.lnetctl.commands import Document
from lnet.node.node import LnetNode
from lnet.o2iblnd.peer import KibPeer
from lnet.objects.objects import KibDev, KibNet, KibRoute, LnetNi
from lnet.settings.yaml_text import Quoted


def status_document(node: LnetNode, ni: LnetNi) -> Document:
    """Return a network with its devices and routes."""
    net, lnd, now = ni.ni_data, node.lnd, node.time()
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
        "nid": str(ni.ni_nid),
        "status": net_state(net),
        "incarnation": lnd.stamp,
        "bonding": net.bonding.value,
        "devices": devices,
        "routes": [
            _route_document(route, now, lnd.conns.stamp_of(route.rt_nid))
            for routes in net.ibn_routes.values()
            for route in routes
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
