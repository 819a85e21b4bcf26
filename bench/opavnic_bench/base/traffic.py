"""Traffic between two hosts: iperf3 and ping, and what they say."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Final

from opavnic_bench.base.sites import HostPair, run
from opavnic_bench.base.turns import PeerError

PINGS: Final = 400
_RTT: Final = re.compile(r"time=([\d.]+) ms")
_ATTEMPTS: Final = 4
_PAUSE_S: Final = 0.25
_BUSY: Final = re.compile(r"refused|reset by peer|server is busy", re.IGNORECASE)


class BusyServerError(PeerError):
    """The iperf3 server was not ready for a client."""


def inside(namespace: str, *command: str) -> list[str]:
    """Return the command that runs a command in a namespace."""
    return ["ip", "netns", "exec", namespace, *command]


def settle(site: HostPair) -> None:
    """Wait until the hosts have found each other: ping until the first answer."""
    answer = run(*inside(site.client, "ping", "-c", "1", "-w", "10", "-i", "0.1", site.address), check=False)
    if " 0% packet loss" not in answer and "1 received" not in answer:
        raise PeerError(f"{site.client} does not reach {site.address}")


@contextlib.contextmanager
def iperf_server(site: HostPair) -> Iterator[None]:
    """Have the server of iperf3 ready on the server's host."""
    command = inside(site.server, "iperf3", "-s", "--forceflush")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        if not any("Server listening" in line for line in process.stdout or ()):
            raise PeerError("iperf3 -s ended before it was ready")
        yield
    finally:
        process.kill()
        process.communicate()


def iperf(site: HostPair, seconds: int, *options: str) -> dict[str, Any]:
    """Return the summary of iperf3's report. Retry while the server is still busy with the previous client."""
    command = inside(site.client, "iperf3", "-c", site.address, "-J", "-t", str(seconds), *options)
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


def round_trips(site: HostPair) -> list[float]:
    """Return round trip times in us, ascending."""
    pings = ("ping", "-n", "-c", str(PINGS), "-i", "0.001", "-w", "10", site.address)
    return ping_times(run(*inside(site.client, *pings), check=False), site.address)


def ping_times(output: str, address: str) -> list[float]:
    """Return the round trip times that ping has printed, in us, ascending. Raises PeerError: there was no answer."""
    times = sorted(float(time) * 1e3 for time in _RTT.findall(output))
    if not times:
        raise PeerError(f"no answer from {address}")
    return times
