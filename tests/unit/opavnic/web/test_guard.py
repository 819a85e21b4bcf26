"""Who the web view answers, and who not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opavnic.web.guard import Guard

HOST = "127.0.0.1:8311"
TOKEN = "the-right-one"  # noqa: S105


async def inside(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the guard."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"inside"})
    else:
        await receive()
        await send({"type": "websocket.accept"})


def ask(
    path: str = "/", kind: str = "http", method: str = "GET", **headers: str
) -> tuple[int | str, dict[str, str], bytes]:
    """Return the status of the answer, or the type of a WebSocket's first message, its headers and body."""
    sent: list[dict[str, Any]] = []
    path, _, query = path.partition("?")
    scope = {
        "type": kind, "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in {"host": HOST, **headers}.items()],
    }  # fmt: skip

    async def run() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await Guard(inside, TOKEN, {HOST, "localhost:8311"})(scope, receive, send)

    asyncio.run(run())
    if kind == "websocket":
        return sent[0]["type"], {}, b""
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], head, sent[-1]["body"]


def cookie() -> str:
    """The cookie that the right token is given."""
    status, head, _ = ask(f"/?token={TOKEN}")
    assert status == 303
    return head["set-cookie"].split(";")[0]


def test_token_becomes_a_cookie_that_only_this_site_sends_and_leaves_the_address() -> None:
    status, head, _ = ask(f"/vnics?a=1&token={TOKEN}")
    assert (status, head["location"]) == (303, "/vnics?a=1")
    assert "SameSite=Strict" in head["set-cookie"]
    assert "HttpOnly" in head["set-cookie"]
    assert ask("/", cookie=cookie())[::2] == (200, b"inside")


@pytest.mark.parametrize("path", [f"//evil.example/?token={TOKEN}", f"/\\evil.example?token={TOKEN}"])
def test_token_sends_nobody_to_another_site(path: str) -> None:
    _, head, _ = ask(path)
    assert not head["location"].startswith(("//", "/\\"))


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/capture.pcapng?on=h1", "/?token=%ff"])
def test_without_the_token_nothing_is_told(path: str) -> None:
    status, head, body = ask(path)
    assert (status, b"inside" in body) == (401, False)
    assert "set-cookie" not in head


@pytest.mark.parametrize("value", ["opavnic-8311=wrong", "opavnic-8312=" + TOKEN, "a=\x01;;=", "=" * 5000])
def test_other_cookie_is_none(value: str) -> None:
    assert ask("/", cookie=value)[0] == 401


@pytest.mark.parametrize(
    "host", ["evil.example:8311", "127.0.0.1", "127.0.0.1:80", "", "127.0.0.1:8311.evil.example"]
)
def test_name_that_somebody_resolves_to_this_machine_gets_nothing(host: str) -> None:
    assert ask(f"/?token={TOKEN}", host=host)[0] == 403
    assert ask("/", host=host, cookie=cookie())[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8311", "http://127.0.0.1:8312", ""]
)
def test_other_origin_gets_nothing_even_with_the_cookie(origin: str) -> None:
    known = cookie()
    assert ask("/", method="POST", origin=origin, cookie=known)[0] == 403
    assert ask("/", kind="websocket", origin=origin, cookie=known)[0] == "websocket.close"


def test_websocket_needs_cookie_and_origin() -> None:
    known = cookie()
    assert ask("/", kind="websocket", origin=f"http://{HOST}", cookie=known)[0] == "websocket.accept"
    assert ask("/", kind="websocket", cookie=known)[0] == "websocket.close"
    assert ask(f"/?token={TOKEN}", kind="websocket", origin=f"http://{HOST}")[0] == "websocket.close"


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_what_a_page_of_another_port_has_the_browser_ask_for_is_refused(site: str) -> None:
    """Cookies know no ports: an image of a page at 127.0.0.1:9999 would start a capture."""
    fetch = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    assert ask("/capture.pcapng?on=h1", cookie=cookie(), **fetch)[0] == 403
    assert ask("/", cookie=cookie(), **{"sec-fetch-site": "same-origin"})[0] == 200


def test_link_of_another_site_leads_in_though_strict_cookies_do_not_follow_its_redirects() -> None:
    status, head, body = ask(f'/vnics?a="<&token={TOKEN}', **{"sec-fetch-site": "cross-site"})
    assert (status, "location" in head) == (200, False)
    assert "SameSite=Strict" in head["set-cookie"]
    assert b'content="0;url=/vnics?a=%22%3C"' in body
    assert TOKEN.encode() not in body


def test_pages_may_load_nothing_from_elsewhere_and_stand_in_no_frame() -> None:
    _, head, _ = ask("/", cookie=cookie())
    policy = head["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
