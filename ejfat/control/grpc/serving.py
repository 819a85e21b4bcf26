"""Common parts of both services: bearer tokens, errors as gRPC statuses, a server with or without TLS."""

from __future__ import annotations

import functools
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from ejfat.base.errors import (
    BadRequestError,
    ControlError,
    EjfatError,
    ExhaustedError,
    ForbiddenError,
    UnknownError,
    UpstreamError,
)
from ejfat.control.grpc.listening import probe
from hfi_sim.base.errors import NetdevError
from hfi_sim.netdev.namespace import run_in_namespace
from opavnic.base.files import MAX_TEXT, read_bytes

log = logging.getLogger("ejfat.control.grpc")
Context = grpc.aio.ServicerContext[Any, Any]

_STATUS = (
    (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED),
    (UnknownError, grpc.StatusCode.NOT_FOUND),
    (BadRequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (ExhaustedError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (ControlError, grpc.StatusCode.FAILED_PRECONDITION),
    (UpstreamError, grpc.StatusCode.UNAVAILABLE),
)
_PREFIX = "bearer "
_LONGEST_REASON = 1000
"""Maximum number of characters. A status is sent in a header; a longer one would close the connection."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files with the certificate and key of a server."""

    certificate: Path
    key: Path

    def credentials(self) -> grpc.ServerCredentials:
        """Read both files.

        Raises:  FileError: a file cannot be read.
        """
        key = read_bytes(self.key, MAX_TEXT, "key")
        return grpc.ssl_server_credentials([(key, read_bytes(self.certificate, MAX_TEXT, "certificate"))])


def status_of(error: EjfatError) -> grpc.StatusCode:
    """Return the gRPC status for an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def bearer(context: Context) -> str | None:
    """Return the token in the metadata of a call (`authorization: Bearer TOKEN`), or None."""
    for key, value in context.invocation_metadata() or ():
        text = value.decode() if isinstance(value, bytes) else value
        if key.lower() == "authorization" and text.lower().startswith(_PREFIX):
            return text[len(_PREFIX) :].strip()
    return None


async def require_token(context: Context, token: str) -> None:
    """Abort a call that does not carry the token; an empty one requires none."""
    if token and not secrets.compare_digest((bearer(context) or "").encode(), token.encode()):
        await context.abort(
            grpc.StatusCode.UNAUTHENTICATED, "expected metadata `authorization: Bearer TOKEN`"
        )


class Caller(NamedTuple):
    """Who calls."""

    secret: str
    """Its token."""
    peer: str
    """As gRPC names it: `ipv4:10.0.0.1:4321`."""


def answered(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Make an RPC of a method that takes the request and the caller; an error of it ends the call with its status."""

    @functools.wraps(method)
    async def rpc(service: object, request: Any, context: Context) -> Any:
        token = bearer(context)
        if token is None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED, "expected metadata `authorization: Bearer TOKEN`"
            )
        try:
            return await method(service, request, Caller(token or "", context.peer()))
        except EjfatError as error:
            log.info("refused %s: %s", context.peer(), error)
            await context.abort(status_of(error), str(error)[:_LONGEST_REASON])

    return rpc


@dataclass(frozen=True, slots=True)
class Inside:
    """An address in another network namespace. A socket stays in the namespace in which it was made."""

    name: str
    """Of the host, for messages."""
    namespace: Path
    address: str
    """HOST:PORT."""


def _bind_there(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    probe(address)
    return _bind(server, address, credentials)


def _bind(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError:  # gRPC's own message only mentions an environment variable
        reason = "" if credentials is None else ", or the TLS files are invalid"
        raise EjfatError(f"cannot listen on {address}: gRPC cannot bind it{reason}") from None


async def start_server(
    address: str,
    add_services: Callable[[grpc.aio.Server], None],
    tls: Tls | None = None,
    *,
    private: bool = False,
    inside: Sequence[Inside] = (),
) -> tuple[grpc.aio.Server, int]:
    """Start a server on HOST:PORT (port 0: any) or unix:PATH; return it with its port.

    Args:    private: let only the owner of a Unix socket connect to it. inside: where else it listens; with `inside`,
        TLS holds there alone if `address` is a Unix socket.
    Raises:  BadRequestError: not an address. FileError: a TLS file cannot be read. EjfatError: gRPC cannot listen.
    """
    probe(address)
    credentials = tls.credentials() if tls else None
    server = grpc.aio.server(
        options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 64 << 20)]
    )
    add_services(server)
    umask = os.umask(0o177) if private else None  # so that the socket never has another mode
    try:
        is_plain = bool(inside) and address.startswith("unix:")
        port = _bind(server, address, None if is_plain else credentials)
    finally:
        if umask is not None:
            os.umask(umask)
    for place in inside:
        try:
            run_in_namespace(place.namespace, partial(_bind_there, server, place.address, credentials))
        except (EjfatError, NetdevError) as error:
            raise EjfatError(f"{place.name}: {error}") from None
    await server.start()
    return server, port
