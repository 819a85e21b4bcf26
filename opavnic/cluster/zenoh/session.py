"""Opens a node's Zenoh session."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from opavnic.base.packages import advice
from opavnic.cluster.errors import ClusterError, ClusterInputError
from opavnic.cluster.protocol.zenoh_config import Address, SessionPlan, config, to_json5

if TYPE_CHECKING:
    import zenoh

# --- the addresses at which other machines reach this node -------------------------------------------------

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


def parse_addresses(texts: object, most: int) -> list[Address]:
    """Return the valid ones of the addresses that a node announces."""
    found = []
    for text in texts[:most] if isinstance(texts, list) else ():
        with contextlib.suppress(ClusterInputError):
            found.append(Address.parse(text if isinstance(text, str) else ""))
    return found


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


# -----------------------------------------------------------------------------------------------------------


def open_session(plan: SessionPlan, fabric: int | None, epoch: int = 0) -> zenoh.Session:
    """Open the session of a plan, for all fabrics if `fabric` is None; see `config`.

    Raises:  ClusterError: Zenoh is not installed. ClusterInputError: the session cannot listen.
    """
    try:
        import zenoh
    except ImportError:
        raise ClusterError(f"a fabric over several machines needs Zenoh: {advice('cluster')}") from None
    try:
        return zenoh.open(zenoh.Config.from_json5(to_json5(config(plan, fabric, epoch))))
    except zenoh.ZError as error:
        # connections to others are made in the background, so this is a failure to listen
        where = f"cannot listen on {', '.join(map(str, plan.listen))}: " if plan.listen else ""
        raise ClusterInputError(f"node {plan.name}: {where}{_first_line(error)}") from None


async def live_keys(
    session: zenoh.Session, root: str, soon: Callable[..., None], timeout_s: float
) -> list[str]:
    """Return the keys of the liveliness tokens that are present. Args: soon: runs a function in the event loop."""
    import zenoh

    found: list[str] = []
    done = asyncio.Event()

    def on_reply(reply: zenoh.Reply) -> None:
        if reply.ok is not None:
            soon(found.append, str(reply.ok.key_expr))

    handler = zenoh.handlers.Callback(on_reply, lambda: soon(done.set), indirect=False)
    session.liveliness().get(f"{root}/live/**", handler, timeout=timeout_s)
    await done.wait()
    return found


def _first_line(error: Exception) -> str:
    """Return Zenoh's message, without source locations."""
    return re.sub(r" at /\S+:\d+\.?", "", str(error).splitlines()[0] if str(error) else type(error).__name__)
