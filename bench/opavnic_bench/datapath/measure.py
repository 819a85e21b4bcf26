"""The measurements between two hosts: TCP, small UDP packets, round trips, and their cost."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from opavnic_bench.base.sites import HostPair
from opavnic_bench.base.traffic import iperf, iperf_server, round_trips, settle

_HIGH_WATER: Final = re.compile(r"VmHWM:\s+(\d+) kB")
_UDP_BYTES: Final = "64"


@dataclass(frozen=True, slots=True)
class DatapathSample:
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


def measure(site: HostPair, seconds: int) -> DatapathSample:
    """Measure one round; each throughput lasts `seconds`.

    Raises:  PeerError: the hosts do not reach each other, or a program fails.
    """
    settle(site)
    with iperf_server(site):
        before = _busy_seconds()
        one = iperf(site, seconds)["sum_received"]
        busy = _busy_seconds() - before
        four = iperf(site, seconds, "-P", "4")["sum_received"]
        udp = iperf(site, seconds, "-u", "-l", _UDP_BYTES, "-b", "0")["sum"]
    rtts = round_trips(site)
    return DatapathSample(
        tcp_gbps=one["bits_per_second"] / 1e9,
        tcp4_gbps=four["bits_per_second"] / 1e9,
        udp64_kpps=max(udp["packets"] - udp["lost_packets"], 0) / udp["seconds"] / 1e3,
        rtt_us_p50=rtts[len(rtts) // 2],
        rtt_us_p99=rtts[len(rtts) * 99 // 100],
        cpu_s_per_gb=busy / max(one["bytes"] / 1e9, 1e-9),
        peak_mib=_peak_mib(site.pids),
    )


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
