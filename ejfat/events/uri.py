"""EJFAT URIs: the address of the control plane, the reservation, and the addresses for sync messages and data.

    ejfat[s]://[TOKEN@]HOST[:PORT]/[lb/[ID]][?sync=IP:PORT][&data=IP[:PORT]][&sessionid=ID]

There may be several `sync` and several `data`, of either IP version and in any order; of one version the first counts.
The public control plane writes the port range of its data plane, `data=IP:16384-32767`; data is sent to the first port.
A data address without a port has that of another data address, or 19522.
Where it has no address of a version, its client leaves the address out, `sync=:19531`; that means nothing. It
leaves the port of a control plane out that a proxy serves on that of HTTP.

Source: the public clients' format; `ejfats` means TLS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ejfat.base.addresses import IpAddress
from ejfat.base.errors import BadRequestError
from ejfat.wire.headers import LB_PORT

_LOWEST_PORT = 1024
_BRACKETED = re.compile(r"\[([^]]*)\](?::(.+))?")
_BARE_IPV6 = re.compile(r"([^:]*:[^:]*:.*)()")
_HTTP_PORT = {"ejfat": 80, "ejfats": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address and a UDP port."""

    ip: IpAddress
    port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}" if self.ip.version == 4 else f"[{self.ip}]:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EjfatUri:
    """A parsed EJFAT URI."""

    host: str
    port: int
    tls: bool = False
    token: str = ""
    lb_id: str = ""
    sync: tuple[Endpoint, ...] = ()
    data: tuple[Endpoint, ...] = ()
    session_id: str = ""

    def sync_for(self, version: int) -> Endpoint | None:
        """Return where sync messages go, if possible over this IP version; None: the URI does not say."""
        return next((one for one in self.sync if one.ip.version == version), next(iter(self.sync), None))

    def data_for(self, version: int) -> Endpoint | None:
        """Return where data of an IP version go; None: the URI does not say."""
        return next((one for one in self.data if one.ip.version == version), None)

    @classmethod
    def parse(cls, text: str) -> EjfatUri:
        """Read a URI.

        Raises:  BadRequestError: with the error and what was expected.
        """
        try:
            parts = urlsplit(text.strip())
            port = parts.port
        except ValueError as error:
            raise BadRequestError(f"{text!r}: {error}") from None
        if parts.scheme not in ("ejfat", "ejfats"):
            raise BadRequestError(f"{text!r}: scheme {parts.scheme!r}, expected ejfat or ejfats")
        if not parts.hostname:
            raise BadRequestError(f"{text!r}: expected HOST:PORT of the control plane")
        if port is None:
            port = _HTTP_PORT[parts.scheme]
        elif not port:
            raise BadRequestError(f"{text!r}: port 0, expected 1 to 65535")
        path = parts.path.strip("/").split("/")
        if path not in ([""], ["lb"]) and (len(path) != 2 or path[0] != "lb"):
            raise BadRequestError(
                f"{text!r}: path {parts.path!r}, expected /lb/ID, or /lb/ or / without a reservation"
            )
        sync, data, session_id = _query(parts.query, text)
        return cls(
            host=parts.hostname,
            port=port,
            tls=parts.scheme == "ejfats",
            token=unquote(parts.netloc.rpartition("@")[0]),  # a colon is part of it
            lb_id=path[1] if len(path) == 2 else "",
            sync=sync,
            data=data,
            session_id=session_id,
        )

    def __str__(self) -> str:
        token = f"{quote(self.token, safe='')}@" if self.token else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        values = [f"sync={endpoint}" for endpoint in self.sync]
        values += [f"data={endpoint}" for endpoint in self.data]
        values += [f"sessionid={self.session_id}"] if self.session_id else []
        query = "?" + "&".join(values) if values else ""
        path = f"lb/{self.lb_id}" if self.lb_id else ""
        return f"ejfat{'s' if self.tls else ''}://{token}{host}:{self.port}/{path}{query}"


def _query(query: str, text: str) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...], str]:
    found: dict[str, list[Endpoint]] = {"sync": [], "data": []}
    session_id = ""
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "sessionid" and session_id in ("", value):
            session_id = value
        elif key not in found:
            raise BadRequestError(f"{text!r}: {key!r}, expected sync, data or sessionid, sessionid once")
        elif not value.startswith(":"):
            endpoint = parse_endpoint(value, text, default_port=0 if key == "data" else None)
            if endpoint not in found[key]:
                found[key].append(endpoint)
    port = next((one.port for one in found["data"] if one.port), LB_PORT)
    data = tuple(one if one.port else Endpoint(one.ip, port) for one in found["data"])
    return tuple(found["sync"]), data, session_id


def parse_endpoint(value: str, text: str, *, default_port: int | None) -> Endpoint:
    """Read IP:PORT or [IP6]:PORT; of a range of ports, as the public control plane writes it, use the first.

    Args:    text: quoted in error messages. default_port: port of a value without one; None: a port is required.
    Raises:  BadRequestError: not such an address.
    """
    match = _BRACKETED.fullmatch(value) or (None if default_port is None else _BARE_IPV6.fullmatch(value))
    host, port_text = match.groups("") if match is not None else value.rpartition(":")[::2]
    if not host:
        host, port_text = value, ""
    try:
        ip = ip_address(host)
    except ValueError:
        raise BadRequestError(
            f"{text!r}: {value!r} is not an address such as 10.1.2.3:19522 or [fd00::1]:19522"
        ) from None
    if not port_text:
        if default_port is None:
            raise BadRequestError(f"{text!r}: {value!r} needs a port")
        return Endpoint(ip, default_port)
    first, dash, last = port_text.partition("-")
    if dash and default_port is None:
        raise BadRequestError(f"{text!r}: {value!r} needs one port, not a range")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise BadRequestError(f"{text!r}: port {port_text!r} is not a number")
    if dash and _port(int(last), text) < int(first):
        raise BadRequestError(f"{text!r}: port range {port_text} ends before it begins")
    return Endpoint(ip, _port(int(first), text))


def _port(port: int, text: str) -> int:
    if not _LOWEST_PORT <= port <= 0xFFFF:
        raise BadRequestError(f"{text!r}: port {port}, expected {_LOWEST_PORT} to 65535")
    return port
