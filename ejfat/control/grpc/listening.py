"""Check the address of a gRPC server, HOST:PORT or unix:PATH, before gRPC gets it.

gRPC itself takes port 99999 for 34463 and -5 for 65531, and prints its own lines on stderr if it cannot bind.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from ipaddress import IPv6Address
from pathlib import Path

from ejfat.base.errors import BadRequestError, EjfatError

_UNIX = "unix:"
LONGEST_PATH = 107
"""Maximum length of a Unix socket's path on Linux, in bytes."""
_LAST_PORT = 0xFFFF
_TCP = re.compile(r"(?:\[(.*)\]|([^:]+)):([^:]*)", re.DOTALL)
"""An IPv6 address in brackets or another host, and what stands in the place of the port."""
_PORT = re.compile(r"[0-9]{1,5}")


def check_listen(text: str) -> None:
    """Refuse text that is not an address to listen on.

    Raises:  BadRequestError: neither HOST:PORT, with the port 0 (any) to 65535, nor unix:PATH.
    """
    if text.startswith(_UNIX):
        path = text[len(_UNIX) :]
        size = len(os.fsencode(path))
        if not path or size > LONGEST_PATH or "\0" in path:
            raise BadRequestError(
                f"{text!r}: expected unix:PATH with a path of 1 to {LONGEST_PATH} bytes, not {size}"
            )
        return
    _host_and_port(text)


def probe(text: str) -> None:
    """Check with a temporary socket that a server can listen on an address.

    Raises:  BadRequestError: not an address. EjfatError: it cannot be used, with the reason.
    """
    check_listen(text)
    if text.startswith(_UNIX):
        _probe_path(Path(text[len(_UNIX) :]), text)
        return
    host, port = _host_and_port(text)
    reason: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        found, reason = [], error
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(address)
                return
        except OSError as error:
            reason = error
    raise EjfatError(f"cannot listen on {text}: {reason.strerror if reason else 'no address'}")


def _probe_path(path: Path, text: str) -> None:
    """Check the path of a socket. gRPC itself would replace not only a dead socket but also one in use."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(str(path))
        number = errno.EADDRINUSE
    except ConnectionRefusedError:
        number = 0 if path.is_socket() else errno.EEXIST
    except FileNotFoundError:
        number = 0 if path.parent.is_dir() else errno.ENOENT
    except OSError as error:
        number = error.errno or errno.EINVAL
    if not number and not os.access(path.parent, os.W_OK):
        number = errno.EACCES
    if number:
        raise EjfatError(f"cannot listen on {text}: {os.strerror(number)}")


def _host_and_port(text: str) -> tuple[str, int]:
    found = _TCP.fullmatch(text)
    host = "" if found is None else found[1] or found[2] or ""
    if found is None or not host.isascii() or (found[2] is None and not _is_ipv6(host)):
        raise BadRequestError(
            f"{text!r}: expected HOST:PORT, such as 127.0.0.1:18008 or [::1]:18008, or unix:PATH"
        )
    port = found[3]
    if not _PORT.fullmatch(port) or int(port) > _LAST_PORT:
        raise BadRequestError(f"{text!r}: port {port!r}, expected 0 to {_LAST_PORT}")
    return host, int(port)


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
