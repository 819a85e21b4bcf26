"""At which addresses other machines find this node."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.zenoh_config import Address


def with_port(address: Address) -> Address:
    """Return an address to listen on with a port that is free now, if it leaves that to the kernel (port 0).

    Others are told the port before Zenoh listens on it. Raises ClusterInputError if the host is none of this machine.
    """
    if address.port:
        return address
    host = address.host.strip("[]")
    try:
        family, kind, proto, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with closing(socket.socket(family, kind, proto)) as one:
            one.bind(where)
            return replace(address, port=int(one.getsockname()[1]))
    except OSError as error:
        raise ClusterInputError(f"{address}: {error.strerror}") from None


def reachable(listen: Sequence[Address], seen_from: Sequence[str]) -> list[Address]:
    """Return the addresses to tell others: wildcards replaced by those that this node has towards the coordinator.

    Args:    seen_from: source locators of links to it, such as "tls/192.0.2.2:40112".
    """
    found: list[Address] = []
    hosts = [Address.parse(locator.partition("#")[0].partition("?")[0]).host for locator in seen_from]
    for address in listen:
        if _is_wildcard(address.host):
            found += [replace(address, host=host) for host in dict.fromkeys(hosts)]
        else:
            found.append(address)
    return found


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
