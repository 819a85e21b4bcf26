"""What the real Omni-Path fabric manager says, beside what is, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.conftest import Program
from e2e.managed_lab import PATIENCE_S, ManagedLab, require_fabric_manager
from e2e.web_view import CHROMIUM, barriers, chromium, go, opened, web_view
from permission import require

if TYPE_CHECKING:
    from playwright.sync_api import Page


SWEEP_S = 20


def is_seen_to_lag(page: Page, lab: ManagedLab) -> bool:
    """Cut the cable of h2, and return whether the page says in time that the fabric manager has not learned of it.

    The page looks every three seconds: if a sweep comes before that, the cable is mended again.
    """
    from playwright.sync_api import TimeoutError as NotSeenError

    lab.run("fault", "add", "link-down on h2")
    late = page.get_by_label("Differences", exact=True).get_by_text("the fabric manager still has it").first
    try:
        late.wait_for(timeout=1000 * (SWEEP_S + 10))
    except NotSeenError:
        lab.run("fault", "clear")
        lab.wait("h2 back", lambda: lab.pings("10.9.2.2"))
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(900)  # of a dozen waits for a fabric manager
def test_view_of_the_fabric_manager_lags_behind_a_cut_and_then_agrees(
    opavnic: Program, tmp_path: Path
) -> None:
    require_fabric_manager()
    require([CHROMIUM])
    lab = ManagedLab(opavnic)
    settings = lab.settings.read_text()
    assert "<SweepInterval>300</SweepInterval>" in settings
    # it learns of a cut at its next sweep
    slow = f"<SweepInterval>{SWEEP_S}</SweepInterval><IgnoreTraps>1</IgnoreTraps>"
    lab.settings.write_text(settings.replace("<SweepInterval>300</SweepInterval>", slow))
    with (
        web_view(opavnic.root) as url,
        chromium() as browser,
        opened(browser, url, lab.name) as page,
    ):
        page.set_default_timeout(1000 * PATIENCE_S)  # a sweep, and what a busy fabric manager takes for it
        go(page, url, "/part/fm", lab.name)
        page.get_by_text("Fabric manager: awaited").wait_for()
        page.get_by_text("NodeRecord: em:1 is INIT: no fabric manager has activated it").wait_for()
        with lab.fabric_manager("h1"), lab.fabric_manager("h2"):
            lab.wait("VNICs up", lab.is_up)
            managers = page.get_by_label("Subnet managers", exact=True)
            managers.get_by_role("row").filter(has_text="standby").wait_for()
            managers.get_by_role("row").filter(has_text="master").wait_for()
            page.get_by_text("Comparison: its view is ours").wait_for()
            fabrics = page.get_by_label("Virtual fabrics", exact=True)
            fabrics.get_by_role("row").filter(has_text="VNIC_8002").get_by_text("blue").wait_for()
            assert barriers(page) == []

            assert any(is_seen_to_lag(page, lab) for _ in range(6))
            page.get_by_text("Comparison: its view is ours").wait_for()
            page.get_by_label("Links", exact=True).get_by_text("down").first.wait_for()
            lab.run("fault", "clear")
            lab.wait("h2 back", lambda: lab.pings("10.9.2.2"))
            page.get_by_text("Comparison: its view is ours").wait_for()
