"""Access control: requests need the token and must come from pages of this server.

The token is in the URL that the program prints. The first request brings it; a cookie that no other site can make a
browser send takes its place, and the address bar no longer shows it. The Host of a request must be the address that is
served, so that a page under a foreign name that resolves to 127.0.0.1 gets nothing. Its Origin, which browsers
state for every WebSocket and every form, must be that address too. Cookies know no ports, and what another port of this
machine serves is of the same site: so what a page elsewhere makes a browser ask for is refused by Sec-Fetch-Site, which
browsers state for every request to this machine. A followed link with the token is let in.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
_POLICY: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; "
    "form-action 'self'"
)
"""Nothing comes from elsewhere. The library compiles its templates in the browser: hence 'unsafe-eval'."""
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)

_OURS: Final = frozenset({"same-origin", "none"})
"""What Sec-Fetch-Site says of a request from a page of ours, and of one that a person has made."""
_GO_ON: Final = (
    '<!doctype html><meta http-equiv="refresh" content="0;url={place}"><a href="{place}">opavnic</a>\n'
)


class Guard:
    """An ASGI application in front of another: it lets through what may ask."""

    def __init__(self, app: App, token: str, hosts: Iterable[str]) -> None:
        """Args:  token: what a browser must bring. hosts: values of Host that are ours: `127.0.0.1:8311`."""
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)
        port = next(iter(self._hosts)).rpartition(":")[2]
        self._cookie = f"opavnic-{port}"
        """Cookies know no ports: the name keeps two servers on one machine apart."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        elsewhere = headers.get("sec-fetch-site", "none") not in _OURS
        if refusal := self._refusal(scope["type"], headers):
            await _refuse(scope, receive, send, HTTPStatus.FORBIDDEN, refusal)
        elif self._is_known(headers) and not elsewhere:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "http" and scope["method"] == "GET" and self._brings_token(scope):
            await self._welcome(scope, send, elsewhere=elsewhere)
        elif elsewhere:
            await _refuse(scope, receive, send, HTTPStatus.FORBIDDEN, "a request from another site")
        else:
            await _refuse(
                scope, receive, send, HTTPStatus.UNAUTHORIZED, "open the URL that `opavnic web` has printed"
            )

    def _refusal(self, kind: str, headers: Mapping[str, str]) -> str:
        """Return why a request is refused even with a valid token; empty if it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return "this address is not served here"
        if origin is None and kind == "websocket":
            return "a WebSocket without an Origin"
        if origin is not None and origin != f"http://{host}":
            return "a request from another site"
        return ""

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return morsel is not None and _same(morsel.value, self._token)

    def _brings_token(self, scope: Scope) -> bool:
        return any(name == TOKEN and _same(value, self._token) for name, value in _query(scope))

    async def _welcome(self, scope: Scope, send: Send, *, elsewhere: bool) -> None:
        """Set the cookie, and send the browser to the same page without the token.

        Args:  elsewhere: it follows a link of another site, and would not send the cookie after a redirect: a page
               of ours has it go on.
        """
        rest = urlencode([(name, value) for name, value in _query(scope) if name != TOKEN])
        path = "/" + scope["raw_path"].decode("latin-1").split("?")[0].lstrip("/\\")
        place = f"{path}?{rest}" if rest else path
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        headers = ((b"location", place.encode("latin-1", "replace")), (b"set-cookie", cookie.encode()))
        if elsewhere:
            await _answer(send, HTTPStatus.OK, "html", _GO_ON.format(place=escape(place)), *headers[1:])
        else:
            await _answer(send, HTTPStatus.SEE_OTHER, "html", "", *headers)


async def _answer(
    send: Send, status: HTTPStatus, kind: str, text: str, *headers: tuple[bytes, bytes]
) -> None:
    body = text.encode()
    every = [
        (b"content-type", f"text/{kind}; charset=utf-8".encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *headers,
        *_HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _with_headers(send: Send) -> Send:
    async def send_more(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await send(message)

    return send_more


async def _refuse(scope: Scope, receive: Receive, send: Send, status: HTTPStatus, reason: str) -> None:
    if scope["type"] == "websocket":
        await receive()  # websocket.connect; a close before it is accepted is answered as 403
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    await _answer(send, status, "plain", f"{reason}\n")
