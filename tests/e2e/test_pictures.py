"""The pictures in docs/, taken of real labs in a real browser.

They are left in build/pictures; `make pictures` has them written to docs/pictures, where they are looked at. One of
each kind is slow, the rest long: what they show of the web view is held by tests of that.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.conftest import Program
from e2e.web_view import go, opened, web_view
from opavnic.lab.ownership.runtime import ROOT_VARIABLE
from opavnic.observe.drawings import sequence
from opavnic.observe.journeys import messages
from opavnic.observe.trace_file import read_journeys
from opavnic_bench.base.running_lab import environment
from opavnic_bench.web.memory_lab import memory_lab

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

ROOT = Path(__file__).parents[2]
PICTURES = Path(os.environ.get("OPAVNIC_PICTURES", ROOT / "build" / "pictures"))
MOST_BYTES = 150_000
MARGIN = 8
"""Around parts of a page, in pixels."""
PROGRAM = [sys.executable, "-m", "opavnic.cli.main"]
FABRIC = """
name: clos
fabric:
  topology: {kind: clos, leaves: 4, spines: 2, hosts_per_leaf: 3}
  link: {rate: 10G, credits: {vls: 1, buffer: 64K}}
hosts: {h1: {}, h2: {}, h3: {}, h4: {}, h5: {}, h6: {}, h7: {}, h8: {}, h9: {}, h10: {}, h11: {}}
em: {mac: learn}
vesws:
- {id: 2, name: blue, subnet: 10.9.2.0/24, members: "h[1-8]"}
- {id: 3, name: red, pkey: 0x8003, subnet: 10.9.3.0/24, members: "h[7-11]"}
"""

FAT_TREE = """
name: fat-tree
fabric: {topology: {kind: fat-tree, k: 4}, link: {rate: 30M}}
hosts: {h1: {}, h2: {}, h3: {}, h4: {}, h5: {}, h6: {}, h7: {}, h8: {}, h9: {}, h10: {}, h11: {}, h12: {}, h13: {},
  h14: {}, h15: {}, h16: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: all}]
"""
FAILING = """
import pytest


@pytest.mark.topology("clos", leaves=2, spines=2)
async def test_every_ping_is_answered(lab, hosts, em):
    await em.vesw("blue", members=hosts)
    lab.faults.add("loss on h4 l4=ethernet count=2")
    assert await hosts["h1"].ping(hosts["h4"], count=5) == 5
"""

pytestmark = pytest.mark.slow


Pictured = Callable[[str | Path], str]
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.fixture
def pictured(opavnic: Program) -> Iterator[Pictured]:
    """Starts the lab of a text or of a file; gives where its view is served."""
    with ExitStack() as stack:

        def start(lab: str | Path) -> str:
            opavnic.ok("up", lab, "-d") if isinstance(lab, Path) else opavnic.up(lab)
            return stack.enter_context(web_view(opavnic.root))

        yield start


def example(name: str) -> Path:
    return ROOT / "examples" / f"{name}.yaml"


_AS_ROOT_HAS_IT = """directory => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(directory, '/run/opavnic');
}"""


_UP_TO_MADS = """() => {
    const head = [...document.querySelectorAll('h2')].find(each => each.textContent === 'MADs');
    while (head.nextSibling) head.nextSibling.remove();
    head.remove();
}"""


def take(
    page: Page,
    name: str,
    *,
    width: int = 1400,
    height: int | None = None,
    parts: Sequence[Locator] = (),
    runtime: Path | None = None,
) -> None:
    """Take a picture of the whole page, of its upper part, or of other parts.

    Args:  name: of the file in docs/pictures. parts: what is to be on it, alone. runtime: a directory that is to be
           called as it is for root.
    """
    file = place_of(f"{name}.webp")
    page.mouse.move(0, 0)
    if runtime is not None:
        page.evaluate(_AS_ROOT_HAS_IT, str(runtime))
    if height is not None:
        page.set_viewport_size({"width": width, "height": height})
    else:
        page.set_viewport_size(
            {"width": width, "height": page.evaluate("document.documentElement.scrollHeight")}
        )
    session = page.context.new_cdp_session(page)  # Playwright itself takes no WebP, which is a third of a PNG
    wanted: dict[str, object] = {"format": "webp", "quality": 80}
    if parts:
        wanted |= {"clip": around(parts) | {"scale": 1}, "captureBeyondViewport": True}
    taken = session.send("Page.captureScreenshot", wanted)
    file.write_bytes(base64.b64decode(taken["data"]))
    assert 10_000 < file.stat().st_size < MOST_BYTES


def around(parts: Sequence[Locator]) -> dict[str, float]:
    """Return the rectangle that holds parts of a page, with a margin."""
    boxes = [box for part in parts if (box := part.bounding_box()) is not None]
    left, top = (min(box[axis] for box in boxes) for axis in ("x", "y"))
    right, bottom = (
        max(box["x"] + box["width"] for box in boxes),
        max(box["y"] + box["height"] for box in boxes),
    )
    left, top, right, bottom = max(left - MARGIN, 0), max(top - MARGIN, 0), right + MARGIN, bottom + MARGIN
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def drawing(page: Page) -> Sequence[Locator]:
    """Return the drawing of the fabric with its legend."""
    return page.get_by_test_id("fabric"), page.get_by_role("note", name="Legend")


def place_of(name: str) -> Path:
    """Return where a picture is left. Args: name: of the file in docs/pictures."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert any(f"pictures/{name})" in page.read_text(encoding="utf-8") for page in pages), (
        f"{name} is in no page"
    )
    PICTURES.mkdir(parents=True, exist_ok=True)
    return PICTURES / name


def choose(page: Page, field: str, name: str) -> None:
    """Choose an option of a field."""
    shown = page.get_by_role("combobox", name=field, exact=True)
    shown.click()
    if shown.get_attribute("readonly") is None:
        shown.fill(name)
    page.get_by_role("option", name=name, exact=True).last.click()
    page.wait_for_function("!document.querySelector('[role=listbox]')")


def drawn(page: Page, *words: str) -> None:
    """Wait until the drawing of the fabric says something to those who do not see it."""
    for word in words:
        page.wait_for_function(
            "word => document.querySelector('[data-testid=fabric]').ariaLabel.includes(word)", arg=word
        )


def test_two_hosts_with_traffic(browser: BrowserContext, opavnic: Program, pictured: Pictured) -> None:
    url = pictured(example("two-hosts"))
    ping = ("exec", "h1", "--", "ping", "-q", "-f", "-l", "50", "-s", "1400", "10.9.2.2")
    with opened(browser, url, "two-hosts") as page, opavnic.started(*ping, **QUIET):
        page.set_viewport_size({"width": 1000, "height": 700})
        choose(page, "Choose a host, switch or link", "h1")
        page.get_by_text("blue: up, sends").wait_for()
        page.get_by_text("Busiest").wait_for()
        take(page, "two-hosts", width=1000, height=700, parts=drawing(page))


@pytest.mark.long
def test_fat_tree_with_a_cut_link_and_a_hot_spot(
    browser: BrowserContext, opavnic: Program, pictured: Pictured
) -> None:
    url = pictured(FAT_TREE)
    with opened(browser, url, "fat-tree") as page, ExitStack() as floods:
        for host in ("h1", "h6", "h10"):
            ping = ("ping", "-q", "-f", "-l", "100", "-s", "1400", "10.9.2.16")
            floods.enter_context(opavnic.started("exec", host, "--", *ping, **QUIET))
        opavnic.ok("fault", "add", "link-down on edge0-0--agg0-1")
        drawn(page, "down")
        choose(page, "Choose a host, switch or link", "h16")
        page.get_by_text(re.compile(r"2[3-9][.\d]* Mbit/s +edge3-1 -> h16")).wait_for()  # above 75 % of it
        take(page, "fat-tree", height=900, parts=drawing(page))


FAILOVER = """
import pytest


@pytest.mark.topology("single-switch", hosts=3)
async def test_the_standby_takes_over(lab, hosts, em):
    h1, h2, h3 = hosts
    await em.vesw("blue", members=[h1, h2])
    standby = await em.standby()
    em.stop()
    await standby.take_over()
    await em.update("blue", mtu=1400)
"""


def scenario_files(directory: Path, text: str, *options: str) -> Path:
    """Run a scenario; return the directory with what it leaves."""
    (directory / "test_scenario.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    subprocess.run(command, cwd=directory, check=False, capture_output=True, timeout=300)
    return directory / ".fabric"


def test_failover_of_the_ethernet_manager(tmp_path: Path) -> None:
    (packets,) = scenario_files(tmp_path, FAILOVER, "--fabric-pcap=always").glob("*.pcapng")
    seen = messages(read_journeys(packets))
    last = [message for message in seen if (message.source, message.attribute) == ("em", "Heartbeat")][-1]
    shown = [
        message
        for message in seen
        if message.journey.time_s > last.journey.time_s - 0.25
        and (message.attribute in ("Heartbeat", "ClassPortInfo") or message.number > len(seen) - 4)
    ]
    assert shown[-1].source == "h3" or shown[-1].target == "h3", "the standby has the agents"
    drawn = sequence(shown).document("Failover of the Ethernet Manager")
    place_of("em-failover.svg").write_text(drawn, encoding="utf-8")


def test_report_of_a_scenario_that_fails(browser: BrowserContext, tmp_path: Path) -> None:
    (report,) = scenario_files(tmp_path, FAILING).glob("*.html")
    page = browser.new_page()
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(report.as_uri())
    page.evaluate(_UP_TO_MADS)
    take(page, "report", width=1000)


@pytest.mark.long
def test_fabric_vnic_and_timeline(browser: BrowserContext, opavnic: Program, pictured: Pictured) -> None:
    url = pictured(FABRIC)
    ping = ("exec", "h1", "--", "ping", "-q", "-f", "-s", "1400", "10.9.2.8")
    with opened(browser, url, "clos") as page, opavnic.started(*ping, **QUIET):
        opavnic.ok("fault", "add", "link-down on leaf0--spine1")
        opavnic.ok("fault", "add", "loss on h5 10%")
        choose(page, "Path from", "h1")
        choose(page, "to", "h8")
        page.get_by_role("button", name="Show path").click()
        page.get_by_text("bytes of credit").first.wait_for()
        choose(page, "Choose a host, switch or link", "h1")
        page.get_by_text("loss on h5").wait_for()
        page.get_by_text("blue: up, sends").wait_for()
        drawn(page, "down")
        take(page, "web-fabric", height=970)
        go(page, url, "/packets", "clos")
        choose(page, "From", "h1")
        choose(page, "to", "h8")
        page.get_by_role("button", name="Show the next packets").click()
        page.get_by_test_id("way").get_by_text("bytes of credit").first.wait_for()
        take(page, "web-packets", height=900)
        take(page, "packet-journey", height=1400, parts=[page.get_by_test_id("way")])
        go(page, url, "/mads", "clos")
        choose(page, "Record for", "10 s")  # commands are slow on a busy machine
        page.get_by_role("button", name="Record MADs").click()
        opavnic.ok("fault", "add", "link-down on h2 for=300ms")
        opavnic.ok("exec", "h3", "--", "ip", "link", "set", "blue", "down")  # a trap
        opavnic.ok("exec", "h3", "--", "ip", "link", "set", "blue", "up")
        page.get_by_role("region", name="MADs as a sequence diagram").wait_for()
        page.get_by_label("Only with").fill("h3")
        page.locator("svg text").filter(has_text="Trap").first.wait_for()
        take(page, "web-mads", height=900)
        with page.expect_websocket() as updates:
            go(page, url, "/vnic/h1/blue", "clos")
        page.get_by_role("cell", name="10.9.2.1/24").wait_for()
        for _ in range(12):  # of which the plots are made
            updates.value.wait_for_event("framereceived")
        take(page, "web-vnic", height=900)
        go(page, url, "/timeline", "clos")
        opavnic.ok("fault", "add", "link-down on h9 for=1s")
        page.get_by_text("port-joined h9:1").first.wait_for()
        take(page, "web-timeline", height=1130)


@pytest.mark.parametrize(
    ("name", "picture"),
    [("lnet-bonding", "web-lnet"), pytest.param("lnet-multi-rail", "web-multi-rail", marks=pytest.mark.long)],
)
def test_lnet(browser: BrowserContext, opavnic: Program, pictured: Pictured, name: str, picture: str) -> None:
    url = pictured(example(name))
    with opened(browser, url, name) as page:
        with page.expect_websocket() as updates:
            page.get_by_role("link", name="LNet").click()
        page.get_by_role("heading", name="Network interfaces").wait_for()
        for host, peer in (("a", "b"), ("b", "a"), ("a", "b")):
            opavnic.ok("lnetctl", "send", "--host", host, "--to", peer, "--count", "90", "--size", "64K")
        page.get_by_text("0.0 s").first.wait_for()
        for _ in range(4):  # until nothing flows any more
            updates.value.wait_for_event("framereceived")
        take(page, picture)


@pytest.mark.long
def test_load_balancer(browser: BrowserContext, opavnic: Program, pictured: Pictured, tmp_path: Path) -> None:
    url = pictured(example("ejfat"))
    uri = opavnic.data("status")["apps"][0]["uri"]
    (tmp_path / "data").write_bytes(os.urandom(20_000_000))
    with ExitStack() as stack:
        page = stack.enter_context(opened(browser, url, "ejfat"))
        with page.expect_websocket() as updates:
            go(page, url, "/part/ejfat", "ejfat")
        for number in (1, 2, 3):
            recv = ("--uri", uri, "--name", f"w{number}", "--address", f"10.7.0.{4 + number}")
            words = (*PROGRAM, "ejfat", "recv", *recv, "--out", tmp_path / f"events-{number}")
            stack.enter_context(opavnic.started("exec", f"w{number}", "--", *words, **QUIET))
        table = "Reservation 1 on lb: workers"
        for number in (1, 2, 3):
            page.get_by_label(table, exact=True).get_by_text(f"w{number} #").wait_for()
        send = ("ejfat", "send", "--uri", uri, "--event-size", "100k", "--rate", "20", tmp_path / "data")
        opavnic.on("s1", *PROGRAM, *send)
        for _ in range(3):
            updates.value.wait_for_event("framereceived")
        take(page, "web-load-balancer", runtime=opavnic.root)


@pytest.mark.long
def test_two_hundred_hosts(browser: BrowserContext) -> None:
    vesw = {"id": 2, "name": "blue", "pkey": 0x8002, "subnet": "10.9.0.0/16", "members": "all"}
    many = {
        "name": "many",
        "fabric": {"topology": {"kind": "clos", "leaves": 10, "spines": 2, "hosts_per_leaf": 20}},
        "hosts": {f"h{number}": {} for number in range(1, 201)},
        "vesws": [vesw],
    }
    runtime = Path(environment()[ROOT_VARIABLE])
    with memory_lab(many), web_view(runtime) as url, opened(browser, url, "many") as page:
        drawn(page, "200 HFIs of hosts")
        choose(page, "Path from", "h1")
        choose(page, "to", "h200")
        page.get_by_role("button", name="Show path").click()
        page.get_by_text("leaf9:20->h200:1").wait_for()
        choose(page, "Choose a host, switch or link", "h200")
        page.get_by_text("blue: up, sends").wait_for()
        take(page, "web-200", height=900)
