"""The web view where somebody means it harm, and where its lab goes: in a real browser."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import yaml

from e2e.conftest import Program
from e2e.web_view import go, opened

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

LAB = """
name: hard
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""
NAMES = {
    20: "<script>window.harmed=1</script>",
    21: "<img src=x onerror=window.harmed=1>",
    22: "\"'`${window.harmed=1}\\",
    23: "{{window.harmed=1}} {a|b}",
    24: "\u202eetihw\u202c",
    25: "a\n10.6.6.6\th2",
    26: "\N{GRINNING FACE}" * 64,
}
"""Names of virtual switches that an Ethernet Manager adds while the lab runs, by id."""
SHOWN = {**NAMES, 24: r"\u202eetihw\u202c", 25: r"a\n10.6.6.6\th2"}
PAGES = ("/", "/vnics", "/vnic/h1/blue", "/packets", "/mads", "/timeline", "/parts")


def test_names_are_text_whatever_they_say(tab: Page, url: str, viewed: Program) -> None:
    own = {"id": 2, "name": "blue", "pkey": 0x8001, "members": ["h1", "h2"]}
    vesws = [own, *({**own, "id": number, "name": name} for number, name in NAMES.items())]
    (viewed.directory / "em.yaml").write_text(yaml.safe_dump({"vesws": vesws}))
    viewed.ok("em", "apply", viewed.directory / "em.yaml")
    assert "10.6.6.6" not in viewed.on("h2", "cat", "/etc/hosts")
    for path in PAGES:
        go(tab, url, path, "hard")
        if path == "/vnics":
            for name in SHOWN.values():
                tab.get_by_role("cell", name=name, exact=True).first.wait_for()
        if path == "/":
            tab.get_by_role("combobox", name="Virtual switch").click()
            tab.get_by_role("option", name=SHOWN[20], exact=True).click()
            tab.get_by_label("Set a fault").fill("loss on <b>nobody</b> 10%")
            tab.get_by_label("Set a fault").press("Enter")
            tab.get_by_text("<b>nobody</b>").last.wait_for()
        assert tab.evaluate("window.harmed") is None, path
        assert "\u202e" not in tab.inner_text("body")


@contextlib.contextmanager
def other_site(body: str) -> Iterator[str]:
    """Serve a page of somebody else on this machine; gives its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the page."""
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_page_of_somebody_else_gets_nothing_and_its_link_with_the_token_leads_in(
    tab: Page, url: str, name: str
) -> None:
    ours = url.split("/?")[0]
    attacks = f"""<!doctype html><a href="{url}">the lab</a><script>
    window.got = Promise.all([
      fetch("{ours}/vnics", {{credentials: "include"}}).then(r => r.text(), () => "refused"),
      fetch("{ours}/capture.pcapng?on=h1&seconds=2", {{credentials: "include", mode: "no-cors"}})
        .then(r => r.type, () => "refused"),
      new Promise(done => {{ const i = new Image(); i.onload = () => done("image"); i.onerror = () => done("refused");
        i.src = "{ours}/_nicegui/none.png" }}),
      new Promise(done => {{ const s = new WebSocket("{ours.replace("http", "ws")}/_nicegui_ws/socket.io/?EIO=4&transport=websocket");
        s.onopen = () => done("open"); s.onerror = () => done("refused") }}),
    ])</script>"""  # noqa: E501 - a script
    statuses: dict[str, int] = {}
    with other_site(attacks) as place, contextlib.closing(tab.context.new_page()) as other:
        other.on("response", lambda answer: statuses.setdefault(answer.url.split("?")[0], answer.status))
        other.goto(place.replace("127.0.0.1", name))
        read, _, image, socket = other.evaluate("window.got")
        assert (read, image, socket) == ("refused", "refused", "refused")
        assert statuses[f"{ours}/capture.pcapng"] == 403
        other.get_by_role("link", name="the lab").click()
        other.get_by_test_id("lab").get_by_text("hard").wait_for()
        assert "token" not in other.url


def test_two_tabs_say_that_the_lab_has_ended_and_show_the_one_that_follows(
    tab: Page, browser: BrowserContext, url: str, viewed: Program
) -> None:
    go(tab, url, "/", "hard")
    with opened(browser, url, "hard") as other:
        go(other, url, "/timeline", "hard")
        other.get_by_role("cell", name="vport-configured h2:1 vport 1").first.wait_for()
        viewed.ok("down")
        for one in (tab, other):
            one.get_by_test_id("alert").get_by_text("does not answer").wait_for()
        viewed.ok("up", viewed.directory / "lab.yaml", "-d")
        for one in (tab, other):
            one.get_by_test_id("alert").wait_for(state="hidden")
        other.get_by_text(re.compile("^4 events of the Ethernet Manager")).wait_for()
        assert tab.get_by_test_id("fabric").get_attribute("aria-label")
