"""The page about LNet in the web view: interfaces, peers, routes and connections of every host. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from opavnic.web.scene.part_page import (
    Answers,
    BarSection,
    NoteSection,
    PartPage,
    PlotSection,
    Section,
    TableSection,
    part_named,
)

_MEGA: Final = 1e6
_HEALTHY: Final = 1000


def sections(answers: Answers) -> Iterator[Section]:
    """Yield what the page shows."""
    for path, answer in answers.now.items():
        hosts = answer["hosts"]
        up = {host: said for host, said in hosts.items() if "down" not in said}
        for host, said in hosts.items():
            if host not in up:
                yield NoteSection(host, said["down"], wrong=True)
        before = {
            _key(host, row): row for host, row in _routes(answers.before.get(path, {}).get("hosts", {}))
        }
        rows = [_route_row(answers, host, row, before.get(_key(host, row))) for host, row in _routes(up)]
        yield _interfaces(up)
        yield PlotSection("Payload by route", "Mbit/s", {row["route"]: row["Mbit/s"] for row in rows})
        yield BarSection(
            "Messages by route",
            "messages",
            [f"{host}, {_nid(said)}" for host, said in up.items()],
            _messages_by_route(up),
        )
        yield _routes_table(rows)
        yield _peers(up)
        yield _connections(up)


def _nid(said: Mapping[str, Any]) -> str:
    return ", ".join(net["net"] for net in said["net_status"]) or "no network"


def _routes(hosts: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for host, said in hosts.items():
        for net in said.get("net_status", ()):
            for route in net["routes"]:
                yield host, route


def _key(host: str, route: Mapping[str, Any]) -> tuple[str, ...]:
    return host, route["nid"], route["local ip"], route["remote ip"]


def _route_row(
    answers: Answers, host: str, route: Mapping[str, Any], before: Mapping[str, Any] | None
) -> dict[str, Any]:
    counted = route["statistics"]
    then = {} if before is None else before["statistics"]
    return {
        "route": f"{host}: {route['local ip']} -> {route['remote ip']}",
        "to": route["nid"],
        "dev": route["dev"],
        "state": route["state"],
        "messages": counted["messages"],
        "messages/s": round(answers.rate(counted["messages"], then.get("messages")), 1),
        "bytes": counted["bytes"],
        "Mbit/s": round(8 * answers.rate(counted["bytes"], then.get("bytes")) / _MEGA, 2),
        "retries": counted["retries"],
        "connects": counted["connects"],
        "down": f"{counted['down_s']} s",
        "error": route.get("last error", ""),
    }


def _interfaces(hosts: Mapping[str, Any]) -> TableSection:
    rows = []
    for host, said in hosts.items():
        bonding = {net["net"]: net for net in said["net_status"]}
        for net in said["net"]:
            of_net = bonding.get(net["net type"])
            if of_net is None:
                continue  # the loopback, which carries nothing
            devices = {device["interface"]: device for device in of_net["devices"]}
            for ni in net["local NI(s)"]:
                for name in ni["interfaces"].values():
                    rows.append(_interface_row(host, of_net, ni, devices[name]))
    columns = {
        "interface": "interface", "nid": "NID", "status": "status", "bonding": "bonding", "port": "HFI port",
        "state": "port state", "speed": "Gbit/s", "credits": "credits at most", "peer": "for a peer",
        "health": "health", "sent": "its NID sent", "received": "received", "dropped": "dropped",
    }  # fmt: skip
    return TableSection("Network interfaces", columns, rows, "no host has a network")


def _interface_row(
    host: str, net: Mapping[str, Any], ni: Mapping[str, Any], device: Mapping[str, Any]
) -> dict[str, Any]:
    counted = ni["statistics"]
    return {
        "interface": f"{host}/{device['interface']}",
        "nid": ni["nid"],
        "status": ni["status"],
        "bonding": net["bonding"],
        "port": device["hfi port"],
        "state": device["state"],
        "speed": device["speed_gbps"],
        "credits": ni["tunables"]["credits"],
        "peer": ni["tunables"]["peer_credits"],
        "health": f"{ni['health stats']['health value']} of {_HEALTHY}",
        "sent": counted["send_count"],
        "received": counted["recv_count"],
        "dropped": counted["drop_count"],
    }


def _messages_by_route(hosts: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the messages of each route, in the bar of its host."""
    places = {host: place for place, host in enumerate(hosts)}
    found: dict[str, list[float]] = {}
    for host, route in _routes(hosts):
        lengths = found.setdefault(f"{route['local ip']} -> {route['remote ip']}", [0.0] * len(places))
        lengths[places[host]] += route["statistics"]["messages"]
    return found


def _routes_table(rows: list[dict[str, Any]]) -> TableSection:
    columns = {
        "route": "route", "to": "to NID", "dev": "device", "state": "state", "messages": "messages",
        "messages/s": "messages/s", "bytes": "bytes", "Mbit/s": "Mbit/s", "retries": "retries",
        "connects": "connects", "down": "time down", "error": "last error",
    }  # fmt: skip
    return TableSection("Routes", columns, rows, "no message has been sent yet", marked="error")


def _peers(hosts: Mapping[str, Any]) -> TableSection:
    rows = [
        {
            "peer": f"{host}: {ni['nid']}",
            "primary": peer["primary nid"],
            "multi-rail": "yes" if peer["Multi-Rail"] else "no",
            "state": ni["state"],
            "health": f"{ni['health stats']['health value']} of {_HEALTHY}",
            "credits": f"{ni['available_tx_credits']} of {ni['max_ni_tx_credits']}",
            "least": ni["min_tx_credits"],
            "waiting": ni["tx_q_num_of_buf"],
            "sent": ni["statistics"]["send_count"],
            "received": ni["statistics"]["recv_count"],
            "dropped": ni["statistics"]["drop_count"],
        }
        for host, said in hosts.items()
        for peer in said["peer"]
        for ni in peer["peer ni"]
    ]
    columns = {
        "peer": "peer, as seen by", "primary": "primary NID", "multi-rail": "Multi-Rail", "state": "state",
        "health": "health", "credits": "credits left", "least": "least so far", "waiting": "messages waiting",
        "sent": "sent", "received": "received", "dropped": "dropped",
    }  # fmt: skip
    return TableSection("Peers", columns, rows, "no peer is known yet")


def _connections(hosts: Mapping[str, Any]) -> TableSection:
    rows = [
        {
            "connection": f"{host}/{conn['dev']} #{number}",
            "peer": conn["peer nid"],
            "remote": conn["remote ip"],
            "by": conn["made by"],
            "state": conn["state"],
            "version": conn["version"],
            "credits": f"{conn['credits']} of {conn['queue depth']}",
            "waiting": conn["waiting"],
            "flight": conn["in flight"],
        }
        for host, said in hosts.items()
        for number, conn in enumerate(said["connections"], 1)
    ]
    columns = {
        "connection": "connection", "peer": "peer", "remote": "address there", "by": "made by", "state": "state",
        "version": "version", "credits": "credits left", "waiting": "wait for a credit", "flight": "in flight",
    }  # fmt: skip
    return TableSection("Connections", columns, rows, "none is open")


PAGE: Final = PartPage("lnet", "LNet", asks=part_named("lnet"), sections=sections)
