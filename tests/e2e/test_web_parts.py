"""The pages of the web view about LNet and load balancers, of a real lab in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.conftest import Program
from e2e.web_view import barriers, go, wait_for_cell
from processes import child

if TYPE_CHECKING:
    from playwright.sync_api import Page

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


def test_lnet_page_follows_messages_and_a_cut_cable(tab: Page, url: str, viewed: Program) -> None:
    go(tab, url, "/", "parts")
    tab.get_by_role("link", name="LNet").click()
    tab.get_by_role("heading", name="Network interfaces").wait_for()
    wait_for_cell(tab, "Network interfaces", "a/ib1", "NID", "10.1.1.1@o2ib")
    viewed.ok("lnetctl", "send", "--host", "a", "--to", "b", "--count", "8")
    wait_for_cell(tab, "Routes", "a: 10.1.1.1 -> 10.1.1.3", "messages", "4")
    wait_for_cell(tab, "Routes", "a: 10.1.1.2 -> 10.1.1.3", "messages", "4")
    tab.get_by_label("Connections", exact=True).get_by_text("of 8").first.wait_for()
    viewed.ok("fault", "add", "link-down on a.2")
    tab.get_by_text("PORT_DOWN").wait_for()
    viewed.ok("fault", "clear")
    tab.get_by_text("PORT_DOWN").wait_for(state="detached")
    assert barriers(tab) == []


def test_load_balancer_page_shows_a_worker_as_it_comes_and_its_events(
    tab: Page, url: str, viewed: Program, tmp_path: Path
) -> None:
    go(tab, url, "/part/ejfat", "parts")
    tab.get_by_text("no worker is registered").wait_for()
    uri = viewed.data("status")["apps"][0]["uri"]
    worker = [*PROGRAM, "exec", "w", "--", *PROGRAM, "ejfat", "recv", "--uri", uri, "--name", "<b>one</b>"]
    quiet = subprocess.DEVNULL
    with child(
        [*worker, "--address", "10.7.0.4", "--out", str(tmp_path / "events")],
        env=viewed.environment,
        stdout=quiet,
        stderr=quiet,
    ):
        workers = "Reservation 1 on lb: workers"
        wait_for_cell(tab, workers, "<b>one</b> #1", "slots", "512")
        (tmp_path / "data").write_bytes(os.urandom(300_000))
        send = ("ejfat", "send", "--uri", uri, "--event-size", "100k", tmp_path / "data")
        viewed.on("a", *PROGRAM, *send)
        wait_for_cell(tab, workers, "<b>one</b> #1", "events", "3")
        assert barriers(tab) == []
    tab.get_by_text("has not reported for").wait_for()


def test_lab_without_a_fabric_manager_has_no_page_of_it(tab: Page, url: str) -> None:
    go(tab, url, "/", "parts")
    tab.get_by_role("link", name="Load balancer").wait_for()
    assert tab.get_by_role("link", name="Fabric manager").count() == 0
    go(tab, url, "/part/fm", "parts")
    tab.get_by_text("This lab has nothing to show here.").wait_for()
