"""The pages of the web view about LNet and load balancers, of a real lab in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.web_view import CHROMIUM, barriers, go, opened, wait_for_cell, web_view
from permission import require
from processes import child
from program import ok, run_program

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

LAB = """
name: parts
hosts:
  a: {hfis: 2, lnet: {networks: "o2ib0(ib0,ib1)", addresses: [10.1.1.1, 10.1.1.2]}}
  b: {hfis: 2, lnet: {networks: "o2ib0(ib0,ib1)", addresses: [10.1.1.3, 10.1.1.4]}}
  lb: {}
  w: {}
vesws: [{id: 7, name: daq, mtu: 1500, subnet: 10.7.0.0/24, members: [lb, a, w]}]
apps: [{kind: ejfat-lb, host: lb, options: {senders: [a], period: 200ms}}]
"""
PROGRAM = [sys.executable, "-m", "opavnic.cli.main"]

Run = Callable[..., str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of programs, with a runtime directory of their own."""
    return {**os.environ, "OPAVNIC_RUNTIME_DIR": str(tmp_path_factory.mktemp("parts") / "run")}


@pytest.fixture(scope="module")
def run(environment: dict[str, str]) -> Iterator[Run]:
    """The program, with a lab that runs for all tests of this module."""
    require([CHROMIUM])
    file = Path(environment["OPAVNIC_RUNTIME_DIR"]).with_name("lab.yaml")
    file.write_text(LAB)

    def run(*arguments: str | Path) -> str:
        return ok(run_program(arguments, environment, timeout=120))

    try:
        run("up", file, "-d")
        yield run
    finally:
        run("down")
        run("prune")


@pytest.fixture(scope="module")
def url(run: Run, environment: dict[str, str]) -> Iterator[str]:
    """Where the web view is served."""
    with web_view(Path(environment["OPAVNIC_RUNTIME_DIR"])) as url:
        yield url


@pytest.fixture(scope="module")
def page(url: str, browser: BrowserContext) -> Iterator[Page]:
    """A tab in which the view is open."""
    with opened(browser, url, "parts") as page:
        yield page


def test_lnet_page_follows_messages_and_a_cut_cable(page: Page, url: str, run: Run) -> None:
    go(page, url, "/", "parts")
    page.get_by_role("link", name="LNet").click()
    page.get_by_role("heading", name="Network interfaces").wait_for()
    wait_for_cell(page, "Network interfaces", "a/ib1", "NID", "10.1.1.1@o2ib")
    run("lnetctl", "send", "--host", "a", "--to", "b", "--count", "8")
    wait_for_cell(page, "Routes", "a: 10.1.1.1 -> 10.1.1.3", "messages", "4")
    wait_for_cell(page, "Routes", "a: 10.1.1.2 -> 10.1.1.3", "messages", "4")
    page.get_by_label("Connections", exact=True).get_by_text("of 8").first.wait_for()
    run("fault", "add", "link-down on a.2")
    page.get_by_text("PORT_DOWN").wait_for()
    run("fault", "clear")
    page.get_by_text("PORT_DOWN").wait_for(state="detached")
    assert barriers(page) == []


def test_load_balancer_page_shows_a_worker_as_it_comes_and_its_events(
    page: Page, url: str, run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    go(page, url, "/part/ejfat", "parts")
    page.get_by_text("no worker is registered").wait_for()
    uri = json.loads(run("status", "--json"))["apps"][0]["uri"]
    worker = [*PROGRAM, "exec", "w", "--", *PROGRAM, "ejfat", "recv", "--uri", uri, "--name", "<b>one</b>"]
    quiet = subprocess.DEVNULL
    with child(
        [*worker, "--address", "10.7.0.4", "--out", str(tmp_path / "events")],
        env=environment,
        stdout=quiet,
        stderr=quiet,
    ):
        workers = "Reservation 1 on lb: workers"
        wait_for_cell(page, workers, "<b>one</b> #1", "slots", "512")
        (tmp_path / "data").write_bytes(os.urandom(300_000))
        send = ("ejfat", "send", "--uri", uri, "--event-size", "100k", tmp_path / "data")
        run("exec", "a", "--", *PROGRAM, *send)
        wait_for_cell(page, workers, "<b>one</b> #1", "events", "3")
        assert barriers(page) == []
    page.get_by_text("has not reported for").wait_for()


def test_lab_without_a_fabric_manager_has_no_page_of_it(page: Page, url: str) -> None:
    go(page, url, "/", "parts")
    page.get_by_role("link", name="Load balancer").wait_for()
    assert page.get_by_role("link", name="Fabric manager").count() == 0
    go(page, url, "/part/fm", "parts")
    page.get_by_text("This lab has nothing to show here.").wait_for()
