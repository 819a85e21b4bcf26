"""The configuration of a node's Zenoh session: addresses, credentials, access control. Does no I/O.

Members have one session each, with the coordinator, which passes on the requests of one member to another. The key of
a request is `opavnic/FROM/TO/VERB`. FROM is always the node that asks, so that access control can restrict each
certificate to its own keys. TO is COORDINATOR in the request of a member that does not know its name yet.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from opavnic.cluster.errors import ClusterInputError
from opavnic.cluster.protocol.membership import NodeName

ROOT: Final = "opavnic"
COORDINATOR: Final = NodeName("-")
LEASE_S: Final = 5.0
"""Time without a message after which a node counts as gone, as with a dead machine or a partition. A process
that dies is noticed at once, because its connection closes.
"""
JOIN_TIMEOUT_S: Final = 60.0
"""How long a joining node looks for a coordinator: machines are started in any order."""
MAX_MESSAGE: Final = 1 << 21
"""Bytes of a message that a node assembles from fragments; replies are the longest."""
DEFAULT_PORT: Final = 7447
MAX_MEMBERS: Final = 10_000
"""Most nodes of a fabric."""
_ADDRESS: Final = re.compile(
    r"(?P<proto>[a-z]+)/(?P<host>\[[0-9a-fA-F:.%a-z]+\]|[^:/\[\]]+):(?P<port>\d{1,5})"
)
_PROTOCOLS: Final = ("tls", "tcp")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens, or where it connects to: tls/HOST:PORT."""

    proto: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.proto}/{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, *, is_listen: bool = False) -> Address:
        """Parse an address. Raises ClusterInputError, which shows a valid form."""
        match = _ADDRESS.fullmatch(text)
        lowest = 0 if is_listen else 1
        if match is None or match["proto"] not in _PROTOCOLS or not lowest <= int(match["port"]) <= 65535:
            raise ClusterInputError(
                f'address "{text}": tls/ADDRESS:PORT is right, such as tls/192.0.2.1:{DEFAULT_PORT}; tcp/... only on '
                "the loopback, or with --insecure"
            )
        return cls(match["proto"], match["host"], int(match["port"]))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files of a node's certificate, and the other members. See opavnic.cluster.zenoh.credentials."""

    ca: str
    certificate: str
    key: str
    name: NodeName
    """The certificate's common name."""
    members: tuple[NodeName, ...]
    """Names of all nodes that the CA made certificates for, this one included."""
    coordinators: tuple[NodeName, ...] = ()
    """The members that may be coordinator; empty: any."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What the user asked for."""

    name: NodeName
    listen: tuple[Address, ...] = ()
    join: tuple[Address, ...] = ()
    credentials: Credentials | None = None
    is_insecure: bool = False
    lease_s: float = LEASE_S
    join_timeout_s: float = JOIN_TIMEOUT_S
    """How long a joining node looks for a coordinator."""


def with_listen(plan: SessionPlan) -> SessionPlan:
    """Return a plan with addresses to listen on; by default as wide as the address of the coordinator requires.

    Members listen for packets alone. A coordinator listens to all machines if it has
    credentials, and to its own machine otherwise.
    """
    if plan.listen:
        return plan
    if plan.join:
        first = plan.join[0]
        every = "[::]" if first.host.startswith("[") else "0.0.0.0"  # noqa: S104 - with TLS, or as was asked for
        local = "[::1]" if first.host.startswith("[") else "127.0.0.1"
        return replace(plan, listen=(Address(first.proto, local if first.is_loopback else every, 0),))
    if plan.credentials is not None:
        return replace(plan, listen=(Address("tls", "0.0.0.0", DEFAULT_PORT),))  # noqa: S104 - with TLS
    return replace(plan, listen=(Address("tcp", "127.0.0.1", DEFAULT_PORT),))


def check(plan: SessionPlan) -> None:
    """Refuse a configuration that would let strangers in. Raises ClusterInputError with the remedy."""
    for address in (*plan.listen, *plan.join):
        if address.proto == "tls" and plan.credentials is None:
            raise ClusterInputError(
                f"{address}: TLS needs credentials: make them with `opavnic cluster ca DIR`, and give this node's "
                "folder with --credentials"
            )
        if address.proto != "tls" and not address.is_loopback and not plan.is_insecure:
            raise ClusterInputError(
                f"{address}: any machine that reaches this address could join the fabric. Use tls/{address.host}:"
                f"{address.port} with --credentials, or say --insecure if only your own machines reach it"
            )
    if plan.credentials is not None:
        own = plan.credentials
        if own.name != plan.name:
            raise ClusterInputError(
                f"node {plan.name}: the certificate in {own.certificate} is that of {own.name}: leave --name away, or "
                "give the right folder"
            )


def config(plan: SessionPlan, epoch: int) -> dict[str, Any]:
    """Return the configuration as JSON data. Args: epoch: the session's id, by which others match links to nodes."""
    tx = {
        "lease": round(plan.lease_s * 1000),
        "queue": {
            # longer than the lease, so that the link ends first, which Zenoh reports
            "congestion_control": {"block": {"wait_before_close": round(2e6 * plan.lease_s)}},
        },
    }  # fmt: skip
    link: dict[str, Any] = {
        "tx": tx,
        "rx": {"buffer_size": 1 << 20, "max_message_size": MAX_MESSAGE},
        "protocols": list(_PROTOCOLS),
    }
    wanted: dict[str, Any] = {
        "id": f"{epoch:x}",
        "mode": "client" if plan.join else "peer",
        "listen": {
            "endpoints": [] if plan.join else [str(address) for address in plan.listen],
            "exit_on_failure": True,
        },
        "connect": {
            "endpoints": [str(address) for address in plan.join],
            "timeout_ms": round(plan.join_timeout_s * 1000),  # the first time; later without a limit
            "exit_on_failure": True,
            "retry": {"period_init_ms": 200, "period_max_ms": 1000},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "adminspace": {"enabled": False},
        "transport": {"link": link, "shared_memory": {"enabled": False}},
    }
    if plan.credentials is not None:
        own = plan.credentials
        link["protocols"] = ["tls"]
        link["tls"] = {
            "root_ca_certificate": own.ca,
            "listen_certificate": own.certificate,
            "listen_private_key": own.key,
            "connect_certificate": own.certificate,
            "connect_private_key": own.key,
            "enable_mtls": True,
            # the CA belongs to the fabric, and access control uses the name in the certificate, so the address of a
            # member proves nothing more
            "verify_name_on_connect": False,
            "close_link_on_expiration": True,
        }
        wanted["access_control"] = access_control(own, is_member=bool(plan.join))
    return wanted


def access_control(own: Credentials, *, is_member: bool) -> dict[str, Any]:
    """Return the access rules of a node: who may send what to it, by the common name of its certificate."""
    rules, subjects, policies = [], [], []
    for name in (own.coordinators or own.members) if is_member else own.members:
        if name == own.name:
            continue
        mine = [*_of_coordinator(name)] if is_member else [*_of_member(name)]
        rules += mine
        subjects.append({"id": name, "cert_common_names": [name]})
        policies.append({"rules": [rule["id"] for rule in mine], "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _of_coordinator(name: NodeName) -> Iterator[dict[str, Any]]:
    """Yield what passes between a member and the coordinator, as the member sees it: all, also of other members."""
    for flow in ("ingress", "egress"):
        yield _rule(f"{name}-{flow}", flow, ("query", "reply", "declare_queryable"), f"{ROOT}/**")


def _of_member(name: NodeName) -> Iterator[dict[str, Any]]:
    """Yield what a member may send, requests under its name and replies, and what may be sent to it."""
    yield _rule(f"{name}-requests", "ingress", ("query",), f"{ROOT}/{name}/**")
    yield _rule(f"{name}-replies", "ingress", ("reply", "declare_queryable"), f"{ROOT}/*/{name}/*")
    yield _rule(f"{name}-is-requested", "egress", ("query",), f"{ROOT}/*/{name}/*")
    yield _rule(f"{name}-is-replied-to", "egress", ("reply",), f"{ROOT}/{name}/**")


def _rule(name: str, flow: str, messages: Sequence[str], *keys: str) -> dict[str, Any]:
    return {
        "id": name,
        "messages": list(messages),
        "flows": [flow],
        "permission": "allow",
        "key_exprs": list(keys),
    }
