"""The measurements between two hosts: TCP, small UDP packets, round trips, and their cost."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opavnic_bench.datapath.peers import Site, run
from opavnic_bench.turns import PeerError

PINGS: Final = 400
_RTT: Final = re.compile(r"time=([\d.]+) ms")
_HIGH_WATER: Final = re.compile(r"VmHWM:\s+(\d+) kB")
_UDP_BYTES: Final = "64"
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.25
_BUSY: Final = re.compile(r"refused|reset by peer|server is busy", re.IGNORECASE)


class BusyServerError(PeerError):
    """The iperf3 server was not ready for a client."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one variant."""

    tcp_gbps: float
    """One flow, as received."""
    tcp4_gbps: float
    """Four flows."""
    udp64_kpps: float
    """Packets of 64 bytes of payload that arrived, thousands per second."""
    rtt_us_p50: float
    rtt_us_p99: float
    cpu_s_per_gb: float
    """Busy seconds of all processors per 1e9 bytes of the one flow: sender, receiver and everything in between."""
    peak_mib: float | None
    """Largest resident size of the processes that carry the frames; None if the kernel does."""


def measure(site: Site, seconds: int) -> Sample:
    """Measure one round; each throughput lasts `seconds`.

    Raises:  PeerError: the hosts do not reach each other, or a program fails.
    """
    _settle(site)
    with _iperf_server(site):
        before = _busy_seconds()
        one = _iperf(site, seconds)["sum_received"]
        busy = _busy_seconds() - before
        four = _iperf(site, seconds, "-P", "4")["sum_received"]
        udp = _iperf(site, seconds, "-u", "-l", _UDP_BYTES, "-b", "0")["sum"]
    rtts = _round_trips(site)
    return Sample(
        tcp_gbps=one["bits_per_second"] / 1e9,
        tcp4_gbps=four["bits_per_second"] / 1e9,
        udp64_kpps=max(udp["packets"] - udp["lost_packets"], 0) / udp["seconds"] / 1e3,
        rtt_us_p50=rtts[len(rtts) // 2],
        rtt_us_p99=rtts[len(rtts) * 99 // 100],
        cpu_s_per_gb=busy / max(one["bytes"] / 1e9, 1e-9),
        peak_mib=_peak_mib(site.pids),
    )


def _inside(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def _settle(site: Site) -> None:
    """Wait until the hosts have found each other: ping until the first answer."""
    answer = run(*_inside(site.client, "ping", "-c", "1", "-w", "10", "-i", "0.1", site.address), check=False)
    if " 0% packet loss" not in answer and "1 received" not in answer:
        raise PeerError(f"{site.client} does not reach {site.address}")


@contextlib.contextmanager
def _iperf_server(site: Site) -> Iterator[None]:
    command = _inside(site.server, "iperf3", "-s", "--forceflush")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if not any("Server listening" in line for line in process.stdout or ()):
            raise PeerError("iperf3 -s ended before it was ready")
        yield
    finally:
        process.kill()
        process.communicate()


def _iperf(site: Site, seconds: int, *options: str) -> dict[str, Any]:
    """Return the summary of iperf3's report. Retry while the server is still busy with the previous client."""
    command = _inside(site.client, "iperf3", "-c", site.address, "-J", "-t", str(seconds), *options)
    left = _ATTEMPTS
    while True:
        left -= 1
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=15 + 2 * seconds, check=False
            )
            return iperf_result(done.stdout)
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"iperf3 {' '.join(options)} did not end") from error
        except BusyServerError:
            if not left:
                raise
            time.sleep(_PAUSE_S)


def iperf_result(output: str) -> dict[str, Any]:
    """Return the summary of a report.

    Raises:  BusyServerError: the server did not take the client; another attempt may succeed.
             PeerError: there is no report, or it says what went wrong.
    """
    try:
        report: dict[str, Any] = json.loads(output)
        if "error" in report:
            kind = BusyServerError if _BUSY.search(report["error"]) else PeerError
            raise kind(f"iperf3: {report['error']}")
        end: dict[str, Any] = report["end"]
    except (ValueError, KeyError) as error:
        raise PeerError(f"iperf3 gave no result: {' '.join(output.split())[:200]}") from error
    return end


def _round_trips(site: Site) -> list[float]:
    """Return round trip times in us, ascending."""
    pings = ("ping", "-n", "-c", str(PINGS), "-i", "0.001", "-w", "10", site.address)
    times = sorted(
        float(time) * 1e3 for time in _RTT.findall(run(*_inside(site.client, *pings), check=False))
    )
    if not times:
        raise PeerError(f"no answer from {site.address}")
    return times


def _busy_seconds() -> float:
    """Return the time that all processors together have been busy."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def _peak_mib(pids: tuple[int, ...]) -> float | None:
    """Return the sum of the peak resident sizes of `pids`, None if there are none."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            found = _HIGH_WATER.search(Path(f"/proc/{pid}/status").read_text())
            total += int(found[1]) if found else 0
    return total / 1024 if pids else None
