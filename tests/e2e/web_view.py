"""The web view in a real browser, for tests: `opavnic web` beside a lab, and Debian's Chromium without a window."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from permission import require
from program import Forked

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, ViewportSize

CHROMIUM = "chromium"
PATIENCE_MS = 60_000
WINDOW: ViewportSize = {"width": 1400, "height": 900}
"""Pixels of a window."""
COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""Of axe-core: those on which the colours of a page have a bearing."""


@contextlib.contextmanager
def web_view(runtime: Path) -> Iterator[str]:
    """Have `opavnic web` serve the only lab in a runtime directory; gives its URL, with the token."""
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(runtime)}
    server = Forked(["web", "--port", "0"], env=environment, stdout=-1, stderr=-1)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
    assert (server.returncode, said) == (0, "end with Ctrl-C\n"), f"exit status {server.returncode}: {said}"


@contextlib.contextmanager
def chromium() -> Iterator[BrowserContext]:
    """Have a browser; skips the test where there is none, or none can be driven."""
    require([CHROMIUM])
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_context(viewport=WINDOW)
        browser.close()


@contextlib.contextmanager
def opened(browser: BrowserContext, url: str, lab: str) -> Iterator[Page]:
    """Open the page of the fabric in a tab; whatever goes wrong in the browser fails the test.

    The first page of a tab costs five times as much as the next, which finds all scripts compiled.
    """
    wrong: list[str] = []
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: _elsewhere(request.url, url, wrong))
    page.goto(url)
    page.get_by_test_id("lab").get_by_text(lab).wait_for()
    yield page
    page.close()
    assert wrong == []


def _elsewhere(asked: str, url: str, wrong: list[str]) -> None:
    ours = url.split("/?")[0].removeprefix("http://")
    if not asked.startswith((f"http://{ours}/", f"ws://{ours}/", "data:", "blob:")):
        wrong.append(f"{asked} is not of this server")


def go(page: Page, url: str, path: str, lab: str) -> None:
    """Open another page of the view, and wait until it shows the lab."""
    page.goto(url.split("/?")[0] + path)
    page.get_by_test_id("lab").get_by_text(lab).wait_for()


def barriers(page: Page, *rules: str) -> list[str]:
    """Return what axe-core finds that keeps somebody out: names, roles, contrast, order of headings, landmarks.

    Args:  rules: look for these only; none: all.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    return [
        f"{violation['impact']} {violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for violation in axe.run(page, options=options).response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def wait_for_cell(page: Page, table: str, row: str, heading: str, text: str | re.Pattern[str]) -> None:
    """Wait until a cell of a table says something. Args: row: text of its row. heading: of its column."""
    from playwright.sync_api import expect

    whole = page.get_by_label(table, exact=True)
    found = whole.get_by_role("row").filter(has_text=row).first
    found.wait_for()
    headings = [
        text.replace("arrow_upward", "").strip()
        for text in whole.get_by_role("columnheader").all_inner_texts()
    ]
    cell = found.get_by_role("cell").nth(headings.index(heading))
    expect(cell).to_have_text(text, timeout=PATIENCE_MS)
