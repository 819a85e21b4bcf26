"""One round of one case: a lab or a veth, TCP and pings between its hosts, and what was counted meanwhile."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeVar

from hfi_sim.base.errors import WireError
from hfi_sim.wire.captures import CaptureReader
from opavnic_bench.base.running_lab import RunningLab, environment, running_lab
from opavnic_bench.base.sites import HostPair, bench_namespaces, give_address, run, until
from opavnic_bench.base.traffic import iperf, iperf_server, round_trips, settle
from opavnic_bench.base.turns import PeerError
from opavnic_bench.links.cases import CLIENT, MTU, VESW, LinkCase, Veth
from opavnic_bench.links.proof import Evidence, LinkSample

_FIRST_PORT: Final = 40000
"""Of the client's flows; fixed, so that they take the same paths in each round."""
_LOOKS: Final = 50
_WRITTEN_S: Final = 0.3
"""A capture that has written nothing for so long has written everything."""
_CAPTURE_ENDS_S: Final = 60.0

T = TypeVar("T")


def measure(subject: LinkCase | Veth, seconds: int, first: Callable[[], None]) -> LinkSample:
    """Measure one round; TCP takes `seconds`. `first` is called right before, when all is up.

    Raises:  PeerError: the hosts do not reach each other, or a program fails.
    """
    return _veth(subject, seconds, first) if isinstance(subject, Veth) else _lab(subject, seconds, first)


@contextlib.contextmanager
def staying(case: LinkCase) -> Iterator[Callable[[int], LinkSample]]:
    """Have the lab of a case up; yield what measures a round in it, and takes the seconds of TCP.

    Raises:  PeerError: as `measure`.
    """
    with running_lab(case.lab()) as lab:
        site = lab.site(CLIENT, case.server)
        settle(site)
        engine = engine_of(lab.ask("status", "--counters"))
        yield lambda seconds: replace(_sample(site, seconds, case.flows), engine=engine)


def _veth(veth: Veth, seconds: int, first: Callable[[], None]) -> LinkSample:
    with bench_namespaces("tbf-a", "tbf-b") as (a, b):
        run("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
        limit = ("rate", f"{veth.rate_bps:.0f}bit", "burst", "256k", "latency", "50ms")
        for namespace in (a, b):
            run("tc", "-n", namespace, "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
        give_address(a, "eth0", 1, MTU)
        site = HostPair(a, b, give_address(b, "eth0", 2, MTU))
        settle(site)
        first()
        return _sample(site, seconds)


def _lab(case: LinkCase, seconds: int, first: Callable[[], None]) -> LinkSample:
    with running_lab(case.lab()) as lab:
        site = lab.site(CLIENT, case.server)
        settle(site)
        before = _at_rest(lambda: _look(lab, case))
        with _capture(lab) if case.captured else contextlib.nullcontext(lambda: (0, 0)) as end_capture:
            first()
            sample = _sample(site, seconds, case.flows)
            after = _at_rest(lambda: _look(lab, case))
            kept, missed = end_capture()
        evidence = replace(_difference(before, after), kept=kept, missed=missed)
        return replace(sample, engine=after.engine, evidence=evidence)


def _sample(site: HostPair, seconds: int, flows: int = 1) -> LinkSample:
    several = ("-P", str(flows), "--cport", str(_FIRST_PORT)) if flows > 1 else ()
    with iperf_server(site):
        gbps = iperf(site, seconds, *several)["sum_received"]["bits_per_second"] / 1e9
    rtts = round_trips(site)
    return LinkSample(gbps, rtts[len(rtts) // 2], fmean(rtts), rtts[0])


# --- what a lab has counted --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Look:
    """Counters so far. Two are equal if no packet of the hosts has passed in between."""

    tx: int
    rx: int
    seen: int
    hits: int
    stops: int = field(compare=False)
    link_drops: int = field(compare=False)
    via: dict[str, int] = field(compare=False)
    engine: str = field(compare=False)


def _look(lab: RunningLab, case: LinkCase) -> _Look:
    status = lab.ask("status", "--counters")
    faults = lab.ask("fault", "show")["faults"] if case.fault else []
    (vnic,) = next(host["vnics"] for host in status["hosts"] if host["name"] == CLIENT)
    counters = status["counters"]
    return _Look(
        tx=vnic["tx_packets"],
        rx=vnic["rx_packets"],
        seen=sum(fault["seen"] for fault in faults),
        hits=sum(fault["hits"] for fault in faults),
        stops=sum(one["tx_stops"] for name, one in counters.items() if name.endswith(" congestion")),
        link_drops=sum(link["drops"] for link in status["links"]),
        via={name: counters[name]["in_packets"] for name in case.via},
        engine=engine_of(status),
    )


def engine_of(status: dict[str, Any]) -> str:
    """Return the engines that carry the links of a lab, such as native, or native+python."""
    return "+".join(worker["engine"] for worker in status["engine"]["workers"] if worker["links"])


def _at_rest(look: Callable[[], T]) -> T:
    """Look until nothing has happened between two looks."""
    before = look()
    for _ in range(_LOOKS):
        now = look()
        if now == before:
            return now
        before = now
    raise PeerError("packets pass although nothing is sent")


def _difference(before: _Look, after: _Look) -> Evidence:
    return Evidence(
        packets_tx=after.tx - before.tx,
        packets_rx=after.rx - before.rx,
        stops=after.stops - before.stops,
        link_drops=after.link_drops - before.link_drops,
        via={name: after.via[name] - before.via[name] for name in after.via},
        seen=after.seen - before.seen,
        hits=after.hits - before.hits,
    )


# --- the capture -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _capture(lab: RunningLab) -> Iterator[Callable[[], tuple[int, int]]]:
    """Capture what passes the link of the client; yield what ends that and returns the packets kept and missed."""
    with tempfile.TemporaryDirectory(prefix="opavnic-bench-") as directory:
        file = Path(directory) / "link.pcapng"
        command = [*lab.program, "capture", "on", CLIENT, f"vesw={VESW}", "-w", str(file), *_snap(lab)]
        process = subprocess.Popen(
            [*command, "--lab", lab.name],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

        written = 0

        def is_written() -> bool:
            nonlocal written
            before, written = written, file.stat().st_size
            return before == written

        def end() -> tuple[int, int]:
            until(is_written, "the capture does not end", pause_s=_WRITTEN_S, limit_s=_CAPTURE_ENDS_S)
            process.terminate()
            process.communicate(timeout=_CAPTURE_ENDS_S)
            return count_packets(file)

        try:
            until(lambda: _begun(process, file), "the capture does not begin")
            yield end
        finally:
            process.kill()
            process.communicate()


def _begun(process: subprocess.Popen[str], file: Path) -> bool:
    if process.poll() is not None:
        raise PeerError(f"opavnic capture: {(process.stderr.read() if process.stderr else '').strip()[:300]}")
    return file.exists() and file.stat().st_size > 0


def _snap(lab: RunningLab) -> list[str]:
    """Return the option that keeps only headers, where the program has it."""
    return ["--snap", "128"] if "--snap" in run(*lab.program, "capture", "--help") else []


def count_packets(file: Path) -> tuple[int, int]:
    """Return how many packets a capture has kept, and how many it says it has missed."""
    with file.open("rb") as stream:
        reader = CaptureReader(stream)
        try:
            kept = sum(1 for _ in reader.packets())
        except WireError as error:
            raise PeerError(f"the capture cannot be read: {error}") from error
    return kept, reader.missed
