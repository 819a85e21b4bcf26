"""TCP and round trips between two machines of a cluster, beside TLS, the same lab on one machine, and VXLAN.

All machines are network namespaces of this one and share its processors: what a cluster carries here, its machines
carry together with the hosts, the network and one another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

from opavnic_bench.base.processes import processor_s
from opavnic_bench.base.running_lab import running_lab
from opavnic_bench.base.sites import SUBNET, HostPair, bench_namespaces, give_address, run, until
from opavnic_bench.base.traffic import inside, iperf, iperf_server, round_trips, settle
from opavnic_bench.base.turns import PeerError, Progress, silent
from opavnic_bench.cluster.machines import BenchCluster, Machines, cluster, machines

NAME: Final = "bench-cluster"
CLUSTER: Final = "cluster"
TLS: Final = "cluster, TLS"
TWO: Final = "cluster of two"
ONE_MACHINE: Final = "one machine"
VXLAN: Final = "VXLAN"
_PINGS: Final = 100
_VNI: Final = 77
_REST_S: Final = 15.0


class _ClusterTurn(NamedTuple):
    """One turn of a subject."""

    gbps: float
    rtt_us: float
    costs: list[float]
    """Seconds of a processor for a GB, of each process."""


@dataclass(slots=True)
class ClusterResult:
    """What was measured; None: it could not be."""

    nodes: int
    """Machines of the cluster, each with processes of its own."""
    rounds: int
    ping_loss: float | None = None
    """Share of pings between machines that were not answered, over TCP or TLS: the larger."""
    tcp_gbps: float | None = None
    """One TCP connection between hosts on two machines."""
    rtt_us_p50: float | None = None
    unaccounted_frames: int | None = None
    """Frames that were neither delivered nor counted, on all machines and between them, once all was at rest."""
    tls_tcp_gbps: float | None = None
    """The same lab on as many machines that talk by TLS."""
    tls_rtt_us_p50: float | None = None
    two_tcp_gbps: float | None = None
    """A cluster of two machines, where that was asked for beside a larger one."""
    two_rtt_us_p50: float | None = None
    vxlan_tcp_gbps: float | None = None
    vxlan_rtt_us_p50: float | None = None
    one_machine_tcp_gbps: float | None = None
    """The same lab, carried by one process."""
    one_machine_rtt_us_p50: float | None = None
    tcp_to_one_machine: float | None = None
    """The median of the ratios of each round."""
    tls_tcp_to_one_machine: float | None = None
    tls_tcp_to_plain: float | None = None
    tcp_to_vxlan: float | None = None
    processor_s_per_gb: dict[str, list[float]] = field(default_factory=dict)
    """Subject -> of each of its processes, in the order of the machines, medians."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Subject -> why it was not measured."""

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return asdict(self)

    def subjects(self) -> list[dict[str, Any]]:
        """Return what was measured of each subject, a row each, and how the cluster compares with it."""
        return [
            {"what": what, "tcp_gbps": tcp, "rtt_us_p50": rtt, "cluster_to_this": ratio}
            for what, tcp, rtt, ratio in (
                (CLUSTER, self.tcp_gbps, self.rtt_us_p50, None),
                (TLS, self.tls_tcp_gbps, self.tls_rtt_us_p50, None),
                (TWO, self.two_tcp_gbps, self.two_rtt_us_p50, None),
                (
                    ONE_MACHINE,
                    self.one_machine_tcp_gbps,
                    self.one_machine_rtt_us_p50,
                    self.tcp_to_one_machine,
                ),
                (VXLAN, self.vxlan_tcp_gbps, self.vxlan_rtt_us_p50, self.tcp_to_vxlan),
            )
        ]


def lab_of(nodes: int, name: str = NAME) -> dict[str, Any]:
    """Return a lab with one host and one leaf for each machine."""
    shape = {"kind": "clos", "leaves": nodes, "spines": 1, "hosts_per_leaf": 1, "uplinks": 1}
    return {
        "name": name,
        "fabric": {"topology": shape},
        "hosts": nodes,
        "vesws": [{"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": "all"}],
    }


def bench_cluster(
    nodes: int, rounds: int, seconds: int, *, two: bool = False, progress: Progress = silent
) -> ClusterResult:
    """Measure all subjects in turns, each once a round; figures are medians over the rounds.

    The labs stay up all the time; while one is measured, the others rest.

    Args:    two: measure a cluster of two machines besides.
    Raises:  PeerError: the cluster itself cannot be measured.
    """
    result = ClusterResult(nodes, rounds)
    samples: dict[str, list[_ClusterTurn]] = {}
    with contextlib.ExitStack() as up:
        found = up.enter_context(machines(nodes))
        clusters = {CLUSTER: up.enter_context(cluster(found, lab_of(nodes), tls=False))}
        others = up.enter_context(machines(nodes, "tls-"))
        clusters[TLS] = up.enter_context(cluster(others, lab_of(nodes, f"{NAME}-tls")))
        sites = {name: _site(running, nodes) for name, running in clusters.items()}
        if two:
            pair = up.enter_context(machines(2, "two-"))
            clusters[TWO] = up.enter_context(cluster(pair, lab_of(2, f"{NAME}-two"), tls=False))
            sites[TWO] = _site(clusters[TWO], 2)
        for site in sites.values():
            settle(site)
        result.ping_loss = max(map(_loss, sites.values()))
        sites[VXLAN] = up.enter_context(_vxlan(found))
        try:
            one = up.enter_context(running_lab(lab_of(nodes, f"{NAME}-one")))
            site = one.site("h1", f"h{nodes}")
            settle(site)
            sites[ONE_MACHINE] = site
        except PeerError as error:
            result.skipped[ONE_MACHINE] = str(error)
        turns = [(name, site) for _ in range(rounds) for name, site in sites.items()]
        for done, (name, site) in enumerate(turns):
            progress(done, len(turns), name)
            samples.setdefault(name, []).append(_measure(site, seconds))
        result.unaccounted_frames = sum(map(_unaccounted, clusters.values()))
    _summarize(result, samples)
    return result


def _summarize(result: ClusterResult, samples: dict[str, list[_ClusterTurn]]) -> None:
    def middle(name: str) -> tuple[float | None, float | None]:
        if name not in samples:
            return None, None
        rates, round_trips, costs = zip(*samples[name], strict=True)
        result.processor_s_per_gb[name] = [round(median(cost), 2) for cost in zip(*costs, strict=True)]
        return round(median(rates), 3), round(median(round_trips), 3)

    def beside(name: str, other: str) -> float | None:
        pairs = zip(samples[name], samples.get(other, []), strict=False)
        ratios = [there.gbps / here.gbps for there, here in pairs if here.gbps]
        return round(median(ratios), 2) if ratios else None

    result.tcp_gbps, result.rtt_us_p50 = middle(CLUSTER)
    result.tls_tcp_gbps, result.tls_rtt_us_p50 = middle(TLS)
    result.two_tcp_gbps, result.two_rtt_us_p50 = middle(TWO)
    result.vxlan_tcp_gbps, result.vxlan_rtt_us_p50 = middle(VXLAN)
    result.one_machine_tcp_gbps, result.one_machine_rtt_us_p50 = middle(ONE_MACHINE)
    result.tcp_to_one_machine, result.tcp_to_vxlan = beside(CLUSTER, ONE_MACHINE), beside(CLUSTER, VXLAN)
    result.tls_tcp_to_one_machine = beside(TLS, ONE_MACHINE)
    result.tls_tcp_to_plain = beside(TLS, CLUSTER)


def _site(running: BenchCluster, nodes: int) -> HostPair:
    pids = tuple(process.pid for process in running.processes.values())
    return HostPair(running.namespace("h1"), running.namespace(f"h{nodes}"), f"10.9.2.{nodes}", pids)


def _measure(site: HostPair, seconds: int) -> _ClusterTurn:
    """Measure one TCP connection, and then round trips."""
    before = [processor_s(pid) for pid in site.pids]
    with iperf_server(site):
        end = iperf(site, seconds)["sum_received"]
    used = [processor_s(pid) - then for pid, then in zip(site.pids, before, strict=True)]
    costs = [seconds_ * 1e9 / max(end["bytes"], 1) for seconds_ in used]
    return _ClusterTurn(end["bits_per_second"] / 1e9, median(round_trips(site)), costs)


def _loss(site: HostPair) -> float:
    done = run(
        *inside(site.client, "ping", "-q", "-c", str(_PINGS), "-i", "0.01", "-W", "5", site.address),
        check=False,
    )
    received = next((part for part in done.split(",") if "received" in part), "0 received")
    return round(1 - int(received.split()[0]) / _PINGS, 4)


def _unaccounted(running: BenchCluster) -> int:
    """Return how many frames are missing at rest; what is still on its way gets some time."""
    with contextlib.suppress(PeerError):
        until(lambda: not running.unaccounted(), "", pause_s=0.5, limit_s=_REST_S)
    return sum(map(abs, running.unaccounted().values()))


@contextlib.contextmanager
def _vxlan(found: Machines) -> Iterator[HostPair]:
    """Two hosts, of the first machine and the last one, joined by VXLAN over the same bridge."""
    first, last = found.names[0], found.names[-1]
    with bench_namespaces("vxlan-a", "vxlan-b") as (a, b):
        for machine, other, host in ((first, last, a), (last, first, b)):
            namespace = found.namespaces[machine]
            words = ("type", "vxlan", "id", str(_VNI), "remote", found.address(other), "dstport", "4789")
            run("ip", "-n", namespace, "link", "add", "vx0", *words, "dev", "eth0")
            run("ip", "-n", namespace, "link", "set", "vx0", "netns", host)
        give_address(a, "vx0", 1, 1450)
        give_address(b, "vx0", 2, 1450)
        yield HostPair(a, b, f"{SUBNET}.2")
