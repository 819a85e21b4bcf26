"""The web view of a real lab in a real browser: Debian's Chromium without a window."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.conftest import Program
from e2e.web_view import COLOUR_RULES, PATIENCE_MS, WINDOW, barriers, go, opened
from processes import child

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, ViewportSize

LAB = """
name: web
fabric: {link: {credits: {vls: 1, buffer: 64K}}}
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""
PING = ("exec", "h1", "--", "ping", "-c", "1", "-W", "1", "10.9.2.2")


@pytest.fixture
def at(tab: Page, url: str) -> Callable[[str], Page]:
    """Opens a page of the view as a window has it at first."""

    def at(path: str) -> Page:
        tab.set_viewport_size(WINDOW)
        tab.emulate_media(color_scheme="null")
        go(tab, url, path, "web")
        return tab

    return at


@pytest.fixture
def page(at: Callable[[str], Page]) -> Page:
    """The page of the fabric, just opened."""
    return at("/")


def choose(page: Page, name: str) -> None:
    field = page.get_by_label("Choose a host, switch or link")
    field.fill(name)
    page.get_by_role("option", name=name, exact=True).click()


def test_link_cut_on_the_page_goes_down_and_mended_comes_back(page: Page, viewed: Program) -> None:
    assert "token" not in page.url
    wait_for_ping(viewed)
    choose(page, "h2:1--sw0:3")
    page.get_by_role("button", name="Cut").click()
    page.get_by_text("link-down on h2:1--sw0:3").wait_for()
    page.wait_for_function("document.querySelector('[data-testid=fabric]').ariaLabel.includes('down: h2')")
    assert viewed(*PING).returncode == 1
    page.get_by_role("button", name="Remove fault 1").click()
    page.wait_for_function("document.querySelector('[data-testid=fabric]').ariaLabel.includes('all up')")
    wait_for_ping(viewed)


def wait_for_ping(viewed: Program) -> None:
    """Wait until the fabric has found its routes."""
    viewed.on("h1", "ping", "-c", "1", "-w", "30", "10.9.2.2")


def test_pages_show_vnic_and_events(page: Page) -> None:
    page.get_by_role("link", name="VNICs").click()
    page.get_by_role("link", name="h1/blue").click()
    page.get_by_test_id("vnic").get_by_text("h1/blue: blue, up").wait_for()
    page.get_by_role("cell", name="10.9.2.1/24").wait_for()
    nothing = page.get_by_label("MAC table").locator(".q-table__bottom--nodata")
    nothing.get_by_text("no MAC table").wait_for()
    assert nothing.locator("i, svg, img").count() == 0, "a table without rows shows no sign of warning"
    page.get_by_role("link", name="Timeline").click()
    page.get_by_text("vport-configured h2:1 vport 1").wait_for()
    page.get_by_text("2 of 2 vports are configured").wait_for()


@pytest.mark.slow
def test_capture_is_downloaded_and_holds_what_passed(page: Page, viewed: Program, tmp_path: Path) -> None:
    choose(page, "h1")
    target = page.get_by_role("link", name="Capture 10 s").get_attribute("href") or ""
    ping = ["ip", "netns", "exec", "opavnic-web-h1", "ping", "-q", "-i", "0.1", "10.9.2.2"]
    with child(ping, stdout=subprocess.DEVNULL):  # for as long as the browser takes to begin and end
        with page.expect_download(timeout=PATIENCE_MS) as found:
            page.evaluate("place => { location.href = place }", target.replace("seconds=10", "seconds=4"))
        found.value.save_as(tmp_path / "got.pcapng")
    assert "10.9.2.2" in viewed.ok("decode", tmp_path / "got.pcapng")


def test_stranger_and_wrong_fault_are_told_so(page: Page, url: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url.split("?")[0], timeout=30)  # noqa: S310 - of this test
    field = page.get_by_label("Set a fault")
    field.fill("loss on nobody 10%")
    field.press("Enter")
    page.get_by_text("nobody").last.wait_for()


def test_path_says_queue_and_credit_of_each_hop(page: Page) -> None:
    for label, host in (("Path from", "h1"), ("to", "h2")):
        page.get_by_role("combobox", name=label, exact=True).focus()
        page.keyboard.press("ArrowDown")
        page.get_by_role("option", name=host, exact=True).last.click()
        page.wait_for_function("!document.querySelector('[role=listbox]')")
    page.get_by_role("button", name="Show path").click()
    page.get_by_text("h1:1->sw0:2: VL 0:").wait_for()
    page.get_by_text("sw0:3->h2:1: VL 0: 0 bytes wait, 65,536 bytes of credit").wait_for()


PATHS = ("/", "/vnic/h1/blue")
SLOW_PATHS = ("/vnics", "/parts", "/packets", "/mads", "/timeline")
"""Other tests look for barriers on the last three, with what they show then."""


def test_packet_is_followed_hop_by_hop_with_its_header(at: Callable[[str], Page]) -> None:
    page = at("/packets")
    page.get_by_label("Match").fill("l4=nonsense")
    page.get_by_role("button", name="Show the next packets").click()
    page.get_by_text("nonsense").last.wait_for()
    page.get_by_label("Match").fill("l4=ethernet")
    ping = ["ip", "netns", "exec", "opavnic-web-h1", "ping", "-q", "-i", "0.02", "10.9.2.2"]
    with child(ping, stdout=subprocess.DEVNULL):
        page.get_by_role("button", name="Show the next packets").click()
        page.get_by_role("button", name="h1 → h2: sc 0 vesw 2 ICMP 10.9.2.1 > 10.9.2.2").first.click()
    way = page.get_by_test_id("way")
    way.get_by_role("cell", name="sw0:3->h2:1").wait_for()
    way.get_by_role("cell", name="VeswPortInfo: vesw_id").wait_for()
    assert barriers(page) == []


def test_mads_of_a_change_are_a_sequence_that_leads_to_their_fields(
    at: Callable[[str], Page], viewed: Program
) -> None:
    page = at("/mads")
    page.get_by_role("button", name="Record MADs").click()
    page.get_by_text("recording for 2 s").wait_for()
    viewed.ok("mad", "get", "vesw-port-info", "--lid", "3", "--vport", "1")
    drawn = page.get_by_role("region", name="MADs as a sequence diagram")
    drawn.locator("text:text-is('GetResp VeswPortInfo')").first.wait_for()
    page.get_by_label("Only with").fill("no such MAD")
    page.get_by_text("No MAD was seen.").wait_for()
    page.get_by_label("Only with").fill("GetResp VeswPortInfo")
    page.get_by_test_id("mads").get_by_role("link").first.click()
    page.get_by_role("cell", name="vesw_id", exact=True).first.wait_for()
    assert barriers(page) == []


SIZES: tuple[ViewportSize, ...] = ({"width": 3840, "height": 1000}, {"width": 390, "height": 844}, WINDOW)
"""Pixels of a screen as wide as any, of a phone and a window: Chromium draws each of them without a GPU."""


@pytest.mark.parametrize(
    "path", [*PATHS, *(pytest.param(path, marks=pytest.mark.slow) for path in SLOW_PATHS)]
)
def test_page_keeps_nobody_out(tab: Page, url: str, path: str) -> None:
    """axe-core finds nothing serious, light and dark, and nothing is beside the window."""
    go(tab, url, path, "web")
    tab.wait_for_function("document.querySelectorAll('canvas, svg, table, label, p, div').length > 10")
    for size in SIZES:
        tab.set_viewport_size(size)
        tab.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    for colours, rules in (("light", ()), ("dark", COLOUR_RULES)):
        tab.emulate_media(color_scheme=colours)
        tab.wait_for_function(f"document.body.classList.contains('body--{colours}')")
        assert barriers(tab, *rules) == []


def test_colours_that_a_person_chooses_are_those_of_the_next_page_too(page: Page, url: str) -> None:
    for chosen in ("system", "light"):
        page.get_by_role("button", name=f"Colours: {chosen}").click()
    page.wait_for_function("document.cookie.includes('opavnic-colours=dark')")
    go(page, url, "/vnics", "web")
    page.wait_for_function("document.body.classList.contains('body--dark')")
    page.get_by_role("button", name="Colours: dark").click()
    page.wait_for_function("document.cookie.includes('opavnic-colours=system')")


def test_flows_are_coloured_by_use_or_by_rate_as_the_legend_says(page: Page) -> None:
    legend = page.get_by_role("note", name="Legend")
    legend.get_by_text("75% and more").wait_for()
    page.get_by_label("Flows are coloured").click()
    page.get_by_role("option", name="by bit/s").click()
    legend.get_by_text("10G and more").wait_for()
    assert legend.get_by_text("75% and more").count() == 0


def test_node_that_is_clicked_is_chosen(page: Page) -> None:
    page.get_by_test_id("fabric").locator("text", has_text="h2").first.click(force=True)
    page.get_by_role("region", name="What is chosen").get_by_text("h2", exact=True).wait_for()


def test_timeline_says_at_the_keyboard_what_was_so_when_a_link_was_cut(
    at: Callable[[str], Page], viewed: Program
) -> None:
    viewed.ok("fault", "add", "link-down on h2:1--sw0:3")
    viewed.ok("fault", "clear")
    wait_for_ping(viewed)
    page = at("/timeline")
    moment = page.get_by_role("slider")
    now = page.get_by_test_id("timeline").get_by_text("UTC, now")
    now.wait_for()
    moment.focus()
    link_was_down = page.get_by_test_id("timeline").get_by_text("link h2:1--sw0:3: down, since")
    for _ in range(100):
        page.keyboard.press("PageUp")
        if link_was_down.is_visible():
            break
    link_was_down.wait_for()
    assert "1 faults active" in (moment.get_attribute("aria-valuetext") or "")
    page.keyboard.press("+")
    page.get_by_label("Only with").fill("no such thing")
    page.get_by_test_id("timeline").get_by_text("nothing has this text").wait_for()
    assert barriers(page) == []


def test_run_is_saved_as_a_page_that_opens_offline_and_begins_with_what_is_wrong(
    at: Callable[[str], Page], browser: BrowserContext, viewed: Program, tmp_path: Path
) -> None:
    viewed.ok("fault", "add", "link-down on h2:1--sw0:3")
    page = at("/timeline")
    page.locator(".replayed.live line.is-down").wait_for()
    with page.expect_download(timeout=PATIENCE_MS) as found:
        page.get_by_role("link", name="Save this run as a page").click()
    found.value.save_as(tmp_path / "run.html")
    viewed.ok("fault", "clear")
    saved = browser.new_page()
    asked: list[str] = []
    saved.on("request", lambda request: asked.append(request.url))
    saved.goto((tmp_path / "run.html").as_uri())
    saved.locator(".replayed.live line.is-down").wait_for()
    first = saved.inner_text("main").splitlines()
    assert first[0].startswith("1 fault is set: link-down on h2:1--sw0:3; 1 link is down: h2:1--sw0:3")
    saved.get_by_role("slider").press("Home")
    assert saved.locator(".replayed.live line.is-down").count() == 0
    assert asked == [(tmp_path / "run.html").as_uri()]
    assert barriers(saved) == []
    saved.close()


def test_page_behind_another_tab_asks_for_nothing_until_it_is_seen_again(
    page: Page, browser: BrowserContext, url: str, viewed: Program
) -> None:
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    with opened(browser, url, "web") as other:
        page.evaluate(hide, True)
        for number in range(3):  # looks that the other page has had since; one may have been on its way here
            viewed.ok("fault", "add", f"loss on h1 {number + 1}%")
            other.get_by_text(f"loss on h1 probability={number + 1}%").wait_for()
        assert page.get_by_text("loss on h1 probability=3%").count() == 0
        page.evaluate(hide, False)
        page.get_by_text("loss on h1 probability=3%").wait_for()
    viewed.ok("fault", "clear")


def test_keyboard_alone_cuts_a_link_and_mends_it(page: Page) -> None:
    # of a test before, in the first look
    page.get_by_role("button", name="Remove fault").first.wait_for(state="detached")
    page.get_by_label("Choose a host, switch or link").focus()
    page.keyboard.type("h2:1--sw0")
    page.get_by_role("option", name="h2:1--sw0:3").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    button = page.get_by_role("button", name="Cut")
    button.wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "CUT":
            break
    page.keyboard.press("Enter")
    remove = page.get_by_role("button", name="Remove fault")
    remove.wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if (page.evaluate("document.activeElement.ariaLabel") or "").startswith("Remove fault"):
            break
    page.keyboard.press("Enter")
    remove.wait_for(state="detached")
