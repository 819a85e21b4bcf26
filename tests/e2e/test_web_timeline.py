"""The timeline by itself, as the report of a test has it: in a real browser, without a lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.web_view import barriers
from hfi_sim.fabric.topology.draw import drawing as topology_drawing
from hfi_sim.fabric.topology.generators import generate
from opavnic.observe.pages import drawing
from opavnic.observe.pages import page as html_page
from opavnic.observe.timeline import KEPT, Mark, Rate, timeline_data, timeline_html

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

ELEMENT = "document.querySelector('opavnic-timeline')"
HARM = "</script><img src=x onerror=window.harmed=1>"


def marks(count: int, links: int) -> list[Mark]:
    """Links that go down and up in turn, a change each second."""
    return [
        Mark(
            float(at),
            "link",
            f"{HARM}{at % links}",
            *(("up", False) if at // links % 2 else ("down", True)),
            "",
        )
        for at in range(count)
    ]


@pytest.fixture
def page(browser: BrowserContext) -> Page:
    """A page with many changes."""
    found = browser.new_page()
    data = timeline_data(marks(KEPT, 400), {"MADs": Rate("MADs/s", [(0.0, 1.0), (9000.0, 3.0)])}, float(KEPT))
    found.set_content(html_page("x", timeline_html(data)))
    found.get_by_text("UTC, now").wait_for()
    return found


def drawn(page: Page) -> int:
    """Elements of the drawing."""
    return int(page.evaluate(f"{ELEMENT}.shadowRoot.querySelectorAll('svg *').length"))


def test_many_changes_are_few_elements_and_their_names_are_text(page: Page) -> None:
    assert drawn(page) < 200
    page.locator("text", has_text="and 388 more").wait_for()
    page.get_by_role("slider").press("Home")
    page.get_by_text(f"link {HARM}0: down").wait_for()
    page.get_by_text("MADs: 1 MADs/s").wait_for()
    page.get_by_role("slider").press("PageDown")
    page.get_by_text("00:00:01.000 UTC").wait_for()
    assert page.evaluate("window.harmed") is None
    assert barriers(page) == []


def test_page_that_is_open_for_hours_keeps_as_much_as_at_first(page: Page) -> None:
    before = drawn(page)
    kept = page.evaluate(
        f"""() => {{
        const element = {ELEMENT}, now = element.known;
        for (let at = 1; at <= 20000; at++) {{
          const marks = at % 100 ? [] : [[now + at, "link", "h1", at % 200 ? "up" : "down", at % 200 ? 0 : 1, ""]];
          element.extend({{marks, rates: {{MADs: {{unit: "MADs/s", points: [[now + at, at]]}}}}, now: now + at}});
        }}
        return [element.marks.length, element.rates.MADs.points.length];
        }}"""
    )
    assert kept == [KEPT, KEPT]
    page.get_by_text("MADs: 20.0 kMADs/s").wait_for()
    assert drawn(page) < 2 * before


def test_line_stops_where_nobody_looked_and_the_cursor_says_so(browser: BrowserContext) -> None:
    page = browser.new_page()
    points = [(float(at), 5.0) for at in (*range(60), *range(200, 260))]
    data = timeline_data([], {"MADs": Rate("MADs/s", points, gap=10.0)}, 260.0)
    page.set_content(html_page("x", timeline_html(data)))
    page.get_by_text("UTC, now").wait_for()
    drawing = page.get_by_role("slider")
    assert drawing.locator("path.rate").count() == 2
    assert drawing.locator("circle.end").count() == 4
    box = drawing.bounding_box()
    left, right = (drawing.locator("circle.end").nth(index).bounding_box() for index in (1, 2))
    page.mouse.click((left["x"] + right["x"]) / 2, box["y"] + 10)
    page.get_by_text("MADs: not known").wait_for()
    page.mouse.click(right["x"] + 8, box["y"] + 10)
    page.get_by_text("MADs: 5 MADs/s").wait_for()


def test_fabric_shows_what_was_so_at_the_cursor_which_plays_by_itself(browser: BrowserContext) -> None:
    page = browser.new_page()
    page.clock.install()
    topology = generate("single-switch", hosts=2)
    link = topology.cables[0].name
    turned = "--".join(reversed(link.split("--")))  # a running fabric may name the other end first
    happened = [
        Mark(10.0, "link", turned, "down", True, ""),
        Mark(20.0, "link", turned, "up", False, ""),
        Mark(30.0, "fault", "1", "active", False, "loss on h2 10%"),
    ]
    fabric = drawing(topology_drawing(topology), "fabric", replayed=True)
    data = timeline_data(happened, {"MADs": Rate("MADs/s", [(0.0, 1.0)])}, 40.0)
    page.set_content(html_page("x", [fabric, *timeline_html(data)]))
    page.clock.run_for(1000)

    def shown(sign: str) -> list[str | None]:
        found = page.locator(f".replayed line.{sign}, .replayed rect.{sign}").all()
        return [each.get_attribute("data-link") or each.get_attribute("data-node") for each in found]

    slider = page.get_by_role("slider")
    assert (shown("is-down"), shown("is-faulty")) == ([], ["h2"])
    slider.press("Home")
    assert (shown("is-down"), shown("is-faulty")) == ([], [])
    slider.press("PageDown")
    assert (shown("is-down"), shown("is-faulty")) == ([link], [])
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(8000)
    assert (shown("is-down"), shown("is-faulty")) == ([], [])
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(20_000)
    page.get_by_text("UTC, now").wait_for()
    assert shown("is-faulty") == ["h2"]
    page.get_by_role("button", name="Play").wait_for()
    assert barriers(page) == []
