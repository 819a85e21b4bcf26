"""What it costs to look: the datapath with the web view open and closed; a large page; a scrape.

The view is opened as a person does it: `opavnic web` beside the lab, and Chromium without a window on the page that it
prints. On this machine (`open`) what the browser takes of the processors is taken from the flow; so that is told apart,
and a view whose page is open on another machine (`open elsewhere`) is measured, too: its updates are sent, and nobody
draws them here. Flows are measured when a page is up and has settled: how long it takes to come up is another figure.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from opavnic_bench.base.machine import machine
from opavnic_bench.base.running_lab import OWN, RunningLab, environment, running_lab
from opavnic_bench.base.sites import HostPair, run
from opavnic_bench.base.traffic import iperf, iperf_server
from opavnic_bench.base.turns import BenchError, Progress, medians, silent, take_turns
from opavnic_bench.datapath.measure import DatapathSample, measure
from opavnic_bench.web.cost import SETTLE_S, descendants, main_thread_s, serving, spent_so_far, spent_while
from opavnic_bench.web.held_page import held_page
from opavnic_bench.web.memory_lab import memory_lab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPEN, ELSEWHERE, CLOSED = "open", "open elsewhere", "closed"
COST_HOSTS: Final = 200
PAGE_HOSTS: Final = (200, 1000)
COST_S: Final = 10.0
"""How long processors are watched for each cost."""
FLOW: Final = "200M"
"""A flow that leaves processors idle: its cost is its own, and that of the view beside it."""
SCRAPE_VNICS: Final = 500
LOOKS: Final = 5
CHROMIUM: Final = "chromium"
_PATIENCE_MS: Final = 60_000
_RATIOS: Final = ("tcp_gbps", "tcp4_gbps", "udp64_kpps", "rtt_us_p50")
_DRAWN: Final = "document.querySelector('[data-testid=fabric]')?.ariaLabel?.includes('{hosts} HFIs of hosts')"
_SENT: Final = "performance.getEntries().reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0)"
"""Bytes of a page and all it consists of, as they are sent: without what comes over its WebSocket later."""
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

        def one(view: str) -> Looked:
            with _looked_at(view, browser, running) as processes:
                time.sleep(SETTLE_S)  # what the turn before has ended is over by then, too
                before, start = spent_so_far(processes), perf_counter()
                sample = measure(site, seconds)
                took = perf_counter() - start
                after = spent_so_far(processes)
            return Looked(sample, {who: round((after[who] - before[who]) / took, 4) for who in processes})

        turns = take_turns([CLOSED, OPEN, ELSEWHERE], one, rounds, progress=progress)
        flows = {view: [one.flow for one in looked] for view, looked in turns.samples.items()}
        cost = _costs(browser, running, site)
        return {
            "runs": [{"view": view, **medians(samples)} for view, samples in flows.items()],
            "samples": [{"view": view, **asdict(one)} for view, samples in flows.items() for one in samples],
            "open_to_closed": _ratios(flows[OPEN], flows[CLOSED]),
            "open_elsewhere_to_closed": _ratios(flows[ELSEWHERE], flows[CLOSED]),
            "spent_meanwhile": {
                view: _medians_of([one.spent for one in looked]) for view, looked in turns.samples.items()
            },
            "cost": cost | _large_costs(browser),
            "pages": [_large_page(browser, hosts) for hosts in PAGE_HOSTS],
            "scrape": _scrapes(),
            "skipped": turns.skipped,
            "rounds": turns.rounds,
            "machine": machine(),
        }


@dataclass(frozen=True, slots=True)
class Looked:
    """One turn."""

    flow: DatapathSample
    spent: Mapping[str, float]
    """What each took of a processor meanwhile, in seconds per second: lab, web, browser."""


@contextlib.contextmanager
def _looked_at(view: str, browser: Browser, running: RunningLab) -> Iterator[dict[str, list[int]]]:
    """Have the lab looked at; gives the processes of the lab, of `opavnic web` and of the browser."""
    lab = {"lab": [running.ask("status")["pid"]]}
    if view == CLOSED:
        yield lab
        return
    with _view(running) as url:
        if view == ELSEWHERE:
            with held_page(url):
                yield lab | {"web": serving(os.getpid())}
            return
        with _page(browser) as page:
            page.goto(url)
            page.wait_for_function(_DRAWN.format(hosts=2))
            yield lab | _lookers()


def _ratios(some: Sequence[DatapathSample], others: Sequence[DatapathSample]) -> dict[str, float]:
    """Return the medians of the ratios of neighbouring turns."""
    return {
        name: median([getattr(a, name) / getattr(b, name) for a, b in zip(some, others, strict=True)])
        for name in _RATIOS
    }


def _medians_of(every: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {who: round(median([spent[who] for spent in every]), 4) for who in every[0]}


def _costs(browser: Browser, running: RunningLab, site: HostPair) -> dict[str, dict[str, float]]:
    """Return what looking takes of processors, in seconds per second: at a lab of two hosts, idle and under a flow."""
    with contextlib.ExitStack() as closed:
        seen = {"closed": spent_while(COST_S, {"lab": [running.ask("status")["pid"]]})}
        url = closed.enter_context(_view(running))
        seen["idle"] = _cost(browser, running, url, 2)
        with iperf_server(site), ThreadPoolExecutor(1) as pool:
            flow = pool.submit(iperf, site, int(COST_S + 2 * SETTLE_S), "-b", FLOW)
            seen[f"flow of {FLOW}"] = _cost(browser, running, url, 2)
            flow.result()
    return seen


def _large_costs(browser: Browser) -> dict[str, dict[str, float]]:
    """Return the same of an idle lab of many hosts, with the view closed and open."""
    with memory_lab(_many("bench-web-cost", COST_HOSTS)) as running:
        seen = {f"{COST_HOSTS} hosts, closed": spent_while(COST_S, {"lab": [running.ask("status")["pid"]]})}
        with _view(running) as url:
            seen[f"{COST_HOSTS} hosts"] = _cost(browser, running, url, COST_HOSTS)
    return seen


def _cost(browser: Browser, running: RunningLab, url: str, hosts: int) -> dict[str, float]:
    with _page(browser) as page:
        page.goto(url)
        page.wait_for_function(_DRAWN.format(hosts=hosts))
        time.sleep(SETTLE_S)
        return spent_while(COST_S, {"lab": [running.ask("status")["pid"]], **_lookers()})


def _large_page(browser: Browser, hosts: int) -> dict[str, Any]:
    """Return how long a page of many hosts takes to be there and to answer a choice, in a browser that is new to it.

    Medians, with what web view and browser take of processors until it is there, and the bytes that are sent for it.
    """
    first, answers, sent = [], [], []
    spent: list[dict[str, float]] = []
    with memory_lab(_many("bench-web-page", hosts)) as running, _view(running) as url:
        for number in range(LOOKS):
            with _page(browser) as page:
                before, start = spent_so_far(_lookers()), perf_counter()
                page.goto(url)
                page.wait_for_function(_DRAWN.format(hosts=hosts))
                first.append(perf_counter() - start)
                after = spent_so_far(_lookers())
                spent.append({who: after[who] - before[who] for who in after})
                sent.append(page.evaluate(_SENT))
                field = page.get_by_label("Choose a host, switch or link")
                name = f"h{hosts - number}"
                field.fill(name)
                option = page.get_by_role("option", name=name, exact=True)
                start = perf_counter()
                option.click()
                page.get_by_role("region").get_by_text(name, exact=True).first.wait_for()
                answers.append(perf_counter() - start)
    return {
        "hosts": hosts,
        "first_s": round(median(first), 3),
        "answer_s": round(median(answers), 3),
        "bytes": median(sent),
        "spent_s": _medians_of(spent),
    }


def _lookers() -> dict[str, list[int]]:
    """Return the processes of the web view and of the browser."""
    return {"web": serving(os.getpid()), "browser": descendants(os.getpid(), CHROMIUM)}


def _scrapes() -> dict[str, Any]:
    """Return what a scrape of a lab with many VNICs takes: of the lab's processor, and as a program from end to end."""
    took, spent = [], []
    with memory_lab(_many("bench-web-scrape", SCRAPE_VNICS)) as running:
        pid = running.ask("status")["pid"]
        for _ in range(LOOKS):
            start, before = perf_counter(), main_thread_s(pid)
            text = run(*OWN, "metrics", "--lab", running.name, env=environment())
            took.append(perf_counter() - start)
            spent.append(main_thread_s(pid) - before)
    return {
        "vnics": SCRAPE_VNICS,
        "lines": text.count("\n"),
        "program_s": round(median(took), 3),
        "processor_of_lab_s": round(median(spent), 3),
    }


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
        (f"{name}, view {how} to closed", f"{value:.3f}")
        for how, key in ((OPEN, "open_to_closed"), (ELSEWHERE, "open_elsewhere_to_closed"))
        for name, value in result[key].items()
    ]
    scrape = result["scrape"]
    shown += [
        (
            f"processor seconds a second, {what}",
            ", ".join(f"{who} {spent:.3f}" for who, spent in costs.items()),
        )
        for what, costs in (
            *((f"flows measured, {view}", spent) for view, spent in result["spent_meanwhile"].items()),
            *result["cost"].items(),
        )
    ]
    return [
        *shown,
        *(row for page in result["pages"] for row in _page_rows(page)),
        (f"scrape of {scrape['vnics']} VNICs, the whole program", f"{scrape['program_s']} s"),
        (f"scrape of {scrape['vnics']} VNICs, processor of the lab", f"{scrape['processor_of_lab_s']} s"),
    ]


def _page_rows(page: Mapping[str, Any]) -> list[tuple[str, str]]:
    what = f"page of {page['hosts']} hosts"
    return [
        (f"{what}, from the address to the drawing", f"{page['first_s']} s"),
        (f"{what}, from a click to its answer", f"{page['answer_s']} s"),
        (f"{what}, sent", f"{page['bytes']:,.0f} bytes"),
        (
            f"{what}, processor seconds until it is there",
            ", ".join(f"{who} {spent:.3f}" for who, spent in page["spent_s"].items()),
        ),
    ]
