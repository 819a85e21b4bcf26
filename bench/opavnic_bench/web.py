"""What it costs to look: the datapath with the web view open in a browser and closed; a large page; a scrape.

The view is opened as a person does it: `opavnic web` beside the lab, and Chromium without a window on the page that it
prints, on this machine; so what the browser itself takes of the processors is in the figures.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from opavnic_bench.datapath.measure import Sample, measure
from opavnic_bench.machine import machine
from opavnic_bench.memory_lab import memory_lab
from opavnic_bench.running_lab import OWN, RunningLab, environment, running_lab
from opavnic_bench.sites import run
from opavnic_bench.turns import BenchError, Progress, medians, ratio, silent, take_turns

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPEN, CLOSED = "open", "closed"
PAGE_HOSTS: Final = 200
SCRAPE_VNICS: Final = 500
LOOKS: Final = 5
CHROMIUM: Final = "chromium"
_PATIENCE_MS: Final = 60_000
_RATIOS: Final = ("tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50")
_DRAWN: Final = "document.querySelector('[data-testid=fabric]')?.ariaLabel?.includes('{hosts} HFIs of hosts')"
_VESW: Final = {"id": 2, "name": "blue", "pkey": 0x8002, "subnet": "10.9.0.0/16"}


def bench_web(rounds: int, seconds: int, progress: Progress = silent) -> dict[str, Any]:
    """Measure the datapath in turns with the view open and closed, then a page of many hosts, then scrapes.

    Args:    seconds: how long each throughput is measured.
    Raises:  BenchError: no browser, or a page does not come up.
    """
    hosts = ["h1", "h2"]
    lab = {"name": "bench-web", "datapath": "native", "hosts": {name: {} for name in hosts}}
    with _browser() as browser, running_lab(lab | {"vesws": [_VESW | {"members": hosts}]}) as running:
        site = running.site("h1", "h2")

        def one(view: str) -> Sample:
            if view == CLOSED:
                return measure(site, seconds)
            with _view(running) as url, _page(browser) as page:
                page.goto(url)
                page.wait_for_function(_DRAWN.format(hosts=2))
                return measure(site, seconds)

        turns = take_turns([CLOSED, OPEN], one, rounds, progress=progress)
        pairs = list(zip(turns.samples[OPEN], turns.samples[CLOSED], strict=True))
        return {
            "runs": [{"view": view, **medians(samples)} for view, samples in turns.samples.items()],
            "samples": [
                {"view": view, **asdict(one)} for view, samples in turns.samples.items() for one in samples
            ],
            "open_to_closed": {
                name: median([ratio(getattr(a, name), getattr(b, name)) or 0.0 for a, b in pairs])
                for name in _RATIOS
            },
            "page": _large_page(browser),
            "scrape": _scrapes(),
            "skipped": turns.skipped,
            "rounds": turns.rounds,
            "machine": machine(),
        }


def _large_page(browser: Browser) -> dict[str, Any]:
    """Return how long a page of many hosts takes to be there, and to answer a choice, in the browser; medians."""
    first, answers = [], []
    with memory_lab(_many("bench-web-page", PAGE_HOSTS)) as running, _view(running) as url:
        for number in range(LOOKS):
            with _page(browser) as page:
                start = perf_counter()
                page.goto(url)
                page.wait_for_function(_DRAWN.format(hosts=PAGE_HOSTS))
                first.append(perf_counter() - start)
                field = page.get_by_label("Choose a host, switch or link")
                name = f"h{PAGE_HOSTS - number}"
                field.fill(name)
                option = page.get_by_role("option", name=name, exact=True)
                start = perf_counter()
                option.click()
                page.get_by_role("region").get_by_text(name, exact=True).first.wait_for()
                answers.append(perf_counter() - start)
    return {"hosts": PAGE_HOSTS, "first_s": round(median(first), 3), "answer_s": round(median(answers), 3)}


def _scrapes() -> dict[str, Any]:
    """Return what a scrape of a lab with many VNICs takes: of the lab's processor, and as a program from end to end."""
    took, spent = [], []
    with memory_lab(_many("bench-web-scrape", SCRAPE_VNICS)) as running:
        pid = running.ask("status")["pid"]
        for _ in range(LOOKS):
            start, before = perf_counter(), _processor_s(pid)
            text = run(*OWN, "metrics", "--lab", running.name, env=environment())
            took.append(perf_counter() - start)
            spent.append(_processor_s(pid) - before)
    return {
        "vnics": SCRAPE_VNICS,
        "lines": text.count("\n"),
        "program_s": round(median(took), 3),
        "processor_of_lab_s": round(median(spent), 3),
    }


def _processor_s(pid: int) -> float:
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9


def _many(name: str, hosts: int) -> dict[str, Any]:
    """Return a lab of many hosts on two layers of switches, each with one VNIC."""
    leaves = 10
    topology = {"kind": "clos", "leaves": leaves, "spines": 2, "hosts_per_leaf": hosts // leaves}
    return {
        "name": name,
        "fabric": {"topology": topology},
        "hosts": {f"h{number}": {} for number in range(1, hosts + 1)},
        "vesws": [_VESW | {"members": "all"}],
    }


@contextlib.contextmanager
def _browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise BenchError("no browser is driven here: pip install playwright") from error
    path = shutil.which(CHROMIUM)
    if path is None:
        raise BenchError("no Chromium is installed (make browser)")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def _page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(_PATIENCE_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


@contextlib.contextmanager
def _view(lab: RunningLab) -> Iterator[str]:
    """Have `opavnic web` running; gives its URL. Raises BenchError: it does not start."""
    command = [*OWN, "web", "--lab", lab.name, "--port", "0"]
    process = subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        url = process.stdout.readline().strip() if process.stdout else ""
        if not url:
            raise BenchError("`opavnic web` ended before it served anything")
        yield url
    finally:
        process.terminate()
        process.communicate()


def web_rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return what is said of a result in a table: what, figure."""
    shown = [
        (f"{name}, view open to closed", f"{value:.3f}") for name, value in result["open_to_closed"].items()
    ]
    page, scrape = result["page"], result["scrape"]
    return [
        *shown,
        (f"page of {page['hosts']} hosts, from the address to the drawing", f"{page['first_s']} s"),
        (f"page of {page['hosts']} hosts, from a click to its answer", f"{page['answer_s']} s"),
        (f"scrape of {scrape['vnics']} VNICs, the whole program", f"{scrape['program_s']} s"),
        (f"scrape of {scrape['vnics']} VNICs, processor of the lab", f"{scrape['processor_of_lab_s']} s"),
    ]
