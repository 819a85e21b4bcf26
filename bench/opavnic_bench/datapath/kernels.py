"""`opavnic bench datapath --kernels`: TCP and round trips between hosts that are kernels, beside hosts on TAPs."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import Any, Final

from opavnic.kernel.cache import find_kernel
from opavnic.kernel.drivers import HFI1
from opavnic_bench.base.machine import machine
from opavnic_bench.base.running_lab import RunningLab, end_labs, environment, running_lab
from opavnic_bench.base.sites import run, until
from opavnic_bench.base.traffic import iperf_result, ping_times
from opavnic_bench.base.turns import PeerError, Progress, medians, silent, take_turns

COLUMNS: Final = ("hosts", "tcp_mbps", "rtt_us", "ud_us", "rc_us")
_PINGS: Final = 200
_ITERATIONS: Final = 1000
_ACTIVE_S: Final = 60.0
_PORT: Final = "/sys/class/infiniband/hfi1_0/ports/1/state"
_ROUND: Final = re.compile(r"= ([\d.]+) usec/iter")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two hosts of the lab."""

    name: str
    client: str
    server: str
    address: str
    """IPv4 address of the server."""
    has_verbs: bool = False


@dataclass(frozen=True, slots=True)
class KernelSample:
    """One round of a pair."""

    tcp_mbps: float
    """TCP payload as received by iperf3."""
    rtt_us: float
    """Median of pings."""
    ud_us: float | None = None
    """Round trip of ibv_ud_pingpong, None where there are no verbs."""
    rc_us: float | None = None
    """Round trip of ibv_rc_pingpong."""


_SUBNET: Final = "10.9.2"
_IPOIB: Final = "10.9.3"
PAIRS: Final = (
    Pair("TAP", "h1", "h2", f"{_SUBNET}.2"),
    Pair("kernel: opa_vnic", "k1", "k2", f"{_SUBNET}.4"),
    Pair("kernel: hfi1, IPoIB", "i1", "i2", f"{_IPOIB}.2", has_verbs=True),
)
LAB: Final[dict[str, Any]] = {
    "name": "bench-kernels",
    "hosts": {
        "h1": {},
        "h2": {},
        "k1": {"kernel": "opa_vnic"},
        "k2": {"kernel": "opa_vnic"},
        "i1": {"kernel": "hfi1"},
        "i2": {"kernel": "hfi1"},
    },
    "vesws": [
        {
            "id": 2,
            "name": "blue",
            "pkey": 0x8002,
            "mtu": 2044,
            "subnet": f"{_SUBNET}.0/24",
            "members": ["h1", "h2", "k1", "k2"],
        }
    ],
}
"""MTU 2044 is that of IPoIB."""


def bench_kernels(rounds: int, seconds: int, progress: Progress = silent) -> dict[str, Any]:
    """Measure each pair of hosts `rounds` times, in turns, in one lab.

    Args:    seconds: of each TCP measurement.
    Raises:  KernelError: there is no kernel with hfi1. PeerError: the lab does not start.
    """
    kernel = find_kernel(driver=HFI1)
    end_labs()
    with running_lab(LAB) as lab:
        inside = _Inside(lab)
        _set_up_ipoib(inside)
        for pair in PAIRS:
            _settle(inside, pair)
        found = take_turns(
            PAIRS,
            lambda pair: _measure(inside, pair, seconds),
            rounds,
            label=lambda pair: pair.name,
            progress=progress,
        )
    return {
        "runs": [
            {"hosts": pair.name} | medians(samples) for pair, samples in found.samples.items() if samples
        ],
        "kernel": kernel.version,
        "skipped": found.skipped,
        "rounds": found.rounds,
        "took_s": round(found.took_s, 1),
        "machine": machine(),
    }


class _Inside:
    """Runs programs in hosts."""

    def __init__(self, lab: RunningLab) -> None:
        self._lab = lab

    def command(self, host: str, *words: str) -> list[str]:
        return [*self._lab.program, "exec", host, "--lab", self._lab.name, "--", *words]

    def __call__(self, host: str, *words: str, check: bool = True, timeout_s: float = 60.0) -> str:
        return run(*self.command(host, *words), env=environment(), check=check, timeout_s=timeout_s)


def _set_up_ipoib(inside: _Inside) -> None:
    for number, host in enumerate(("i1", "i2"), 1):
        until(
            lambda host=host: "ACTIVE" in inside(host, "cat", _PORT, check=False),  # type: ignore[misc]
            f"{host}: its port is not ACTIVE",
            pause_s=0.2,
            limit_s=_ACTIVE_S,
        )
        inside(host, "sh", "-c", f"ip addr add {_IPOIB}.{number}/24 dev ib0; ip link set ib0 up")


def _settle(inside: _Inside, pair: Pair) -> None:
    answer = inside(pair.client, "ping", "-c", "1", "-w", "30", pair.address, check=False)
    if "1 received" not in answer:
        raise PeerError(f"{pair.client} does not reach {pair.address}")


def _measure(inside: _Inside, pair: Pair, seconds: int) -> KernelSample:
    tcp = _with_server(
        inside,
        pair,
        ("iperf3", "-s", "--forceflush"),
        "Server listening",
        ("iperf3", "-c", pair.address, "-J", "-t", str(seconds)),
        seconds,
    )
    pings = inside(
        pair.client, "ping", "-n", "-c", str(_PINGS), "-i", "0.002", "-w", "30", pair.address, check=False
    )
    times = ping_times(pings, pair.address)
    return KernelSample(
        tcp_mbps=iperf_result(tcp)["sum_received"]["bits_per_second"] / 1e6,
        rtt_us=times[len(times) // 2],
        ud_us=_verbs(inside, pair, "ibv_ud_pingpong"),
        rc_us=_verbs(inside, pair, "ibv_rc_pingpong"),
    )


def _verbs(inside: _Inside, pair: Pair, program: str) -> float | None:
    """Return a round trip of messages, us."""
    if not pair.has_verbs:
        return None
    words = (program, "-e", "-d", "hfi1_0", "-s", "64", "-n", str(_ITERATIONS))
    until_it_is_ready = f"until {' '.join(words)} {pair.address}; do sleep 0.1; done"
    said = _with_server(inside, pair, words, "", ("sh", "-c", until_it_is_ready), 0)
    found = _ROUND.search(said)
    if found is None:
        raise PeerError(f"{program}: {' '.join(said.split())[:200]}")
    return float(found[1])


def _with_server(
    inside: _Inside, pair: Pair, server: tuple[str, ...], ready: str, client: tuple[str, ...], seconds: int
) -> str:
    """Return what a client prints whose server is on the other host; `ready`: what that says then."""
    with subprocess.Popen(
        inside.command(pair.server, *server),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    ) as process:
        try:
            if ready and not any(ready in line for line in process.stdout or ()):
                raise PeerError(f"{server[0]} ended before it was ready")
            # what the server says from now on fits its pipe
            return inside(pair.client, *client, timeout_s=60.0 + 2 * seconds)
        finally:
            process.kill()
