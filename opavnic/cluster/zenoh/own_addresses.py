"""The addresses at which other machines reach this node."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.protocol.zenoh_config import Address

LOOK_S: Final = 1.0
"""Time limit for connecting to a machine that did not answer, for the error message."""


def with_port(address: Address) -> Address:
    """Return an address to listen on; port 0 is replaced by a port that is free now.

    Other machines are told the port before Zenoh listens on it. Raises ClusterInputError if the host is not an address
    of this machine.
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
        raise ClusterInputError(f"cannot listen on {address}: {error.strerror}") from None


def reachable(listen: Sequence[Address], seen_from: Sequence[str]) -> list[Address]:
    """Return the addresses to announce: wildcards are replaced by this node's addresses towards the coordinator.

    Args:    seen_from: source locators of links to the coordinator, such as "tls/192.0.2.2:40112".
    """
    found: list[Address] = []
    hosts = [Address.parse(locator.partition("#")[0].partition("?")[0]).host for locator in seen_from]
    for address in listen:
        if _is_wildcard(address.host):
            found += [replace(address, host=host) for host in dict.fromkeys(hosts)]
        else:
            found.append(address)
    return found


def say_of(address: Address) -> str:
    """Return an address that gave no answer, with the reason as far as known, for a person. Blocks for up to LOOK_S."""
    try:
        with socket.create_connection((address.host.strip("[]"), address.port), LOOK_S):
            return f"{address} (the port is open)"
    except OSError as error:
        return f"{address} ({error.strerror or 'no answer'})"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
