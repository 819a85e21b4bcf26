"""Figures of every benchmark as bars in SVG, from the rows that --json prints. A few kinds of lines need no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.drawing import Canvas
from opavnic_bench.datapath.peers import variants
from opavnic_bench.ejfat.figures import FORWARDER, RELAY

KERNEL: Final = "kernel"
"""The engine of a link that is none of ours."""
_WIDTH: Final = 760
_LABEL: Final = 210
_BAR: Final = 16
_STEP: Final = 22
_TITLE: Final = 34
_OURS: Final = "#2a7f62"
_PEER: Final = "#9aa5b1"


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure."""

    label: str
    value: float
    ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One measure of everything that was measured."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class PanelSource:
    """Which rows of a result become panels, one for each measure."""

    rows: str
    """Key of the rows in what --json prints."""
    label: tuple[str, ...]
    """Fields that say what was measured; empty ones are left out."""
    measures: tuple[tuple[str, str], ...]
    """Field and title of each panel."""
    peers: tuple[str, frozenset[str]] | None = None
    """A field, and its values in the rows of what is none of ours."""


_PACKETS: Final = (("packets_per_second", "packets per second"),)
SOURCES: Final[Mapping[str, tuple[PanelSource, ...]]] = {
    "datapath": (
        PanelSource(
            "results",
            ("variant", "mtu", "icrc"),
            (
                ("tcp_gbps", "TCP, one flow, Gbit/s"),
                ("tcp4_gbps", "TCP, four flows, Gbit/s"),
                ("udp64_kpps", "UDP of 64 bytes, received kpps"),
                ("rtt_us_p50", "round trip, median, us"),
            ),
            ("variant", frozenset({variant.name for variant in variants()} - {"native", "python"})),
        ),
    ),
    "vports": (
        PanelSource("results", ("vports",), (("ns_per_packet", "ns per packet, by number of VNICs"),)),
    ),
    "links": (
        PanelSource(
            "runs",
            ("case",),
            (
                ("tcp_gbps", "TCP, Gbit/s"),
                ("share", "TCP, share of what is possible"),
                ("rtt_us_p50", "round trip, median, us"),
            ),
            ("engine", frozenset({KERNEL})),
        ),
    ),
    "fabric": (
        PanelSource("hops", ("hops", "time", "engine", "endpoints"), _PACKETS),
        PanelSource("routing", ("hosts", "engine"), (("sweep_s", "time to bring a fat tree up, s"),)),
    ),
    "engine": (PanelSource("runs", ("case", "workers"), _PACKETS),),
    "mad": (PanelSource("figures", ("exchange", "where"), (("per_second", "exchanges per second"),)),),
    "em": (
        PanelSource(
            "runs",
            ("vports", "vesws", "policy"),
            (("converge_s", "time to configure the fabric, s"), ("mads", "MADs")),
        ),
    ),
    "kernels": (
        PanelSource(
            "runs",
            ("hosts",),
            (
                ("tcp_mbps", "TCP, one flow, Mbit/s"),
                ("rtt_us", "round trip of ping, median, us"),
                ("ud_us", "round trip of ibv_ud_pingpong, us"),
                ("rc_us", "round trip of ibv_rc_pingpong, us"),
            ),
        ),
    ),
    "lnet": (
        PanelSource("runs", ("hfis",), (("virtual_gbps", "Gbit/s of virtual time, by HFIs"),)),
        PanelSource("shapes", ("shape", "bonding"), (("gbps", "unequal links, Gbit/s of virtual time"),)),
        PanelSource(
            "faults",
            ("fault", "load", "bonding"),
            (("worst_s", "longest time of a message under a fault, s"),),
        ),
        PanelSource(
            "cpu", ("peers",), (("us_per_message", "processor time of a message by number of peers, us"),)
        ),
    ),
    "ejfat": (
        PanelSource(
            "figures",
            ("what", "by", "version", "payload"),
            _PACKETS,
            ("what", frozenset({RELAY, FORWARDER})),
        ),
    ),
    "cluster": (
        PanelSource(
            "subjects",
            ("what",),
            (("tcp_gbps", "TCP, one flow, Gbit/s"), ("rtt_us_p50", "round trip, median, us")),
            ("what", frozenset({"VXLAN"})),
        ),
    ),
    "scale": (
        PanelSource(
            "runs",
            ("ports",),
            (
                ("sweep_s", "first sweep of the SM, s"),
                ("converge_s", "time to configure the fabric, s"),
                ("peak_mib", "memory, MiB"),
            ),
        ),
    ),
    "up": (
        PanelSource(
            "runs",
            ("hosts",),
            (("ready_s", "time until a lab is ready, s"), ("peak_mib", "memory of its process, MiB")),
        ),
    ),
    "web": (PanelSource("runs", ("view",), (("tcp_gbps", "TCP, one flow, Gbit/s"),)),),
}
"""What is drawn of each benchmark; `vports` is `datapath --vports`, `kernels` is `datapath --kernels`."""


def panels(bench: str, result: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of a benchmark's result as --json prints it; what was not measured has no bar."""
    found = []
    for source in SOURCES[bench]:
        rows = result.get(source.rows, ())
        for name, title in source.measures:
            bars = [_bar_of(source, row, row[name]) for row in rows if row.get(name) is not None]
            found += [Panel(title, bars)] if bars else []
    return found


def _bar_of(source: PanelSource, row: Mapping[str, Any], value: float) -> Bar:
    label = " ".join(str(row[name]) for name in source.label if row.get(name) not in (None, ""))
    return Bar(label, float(value), source.peers is None or row[source.peers[0]] not in source.peers[1])


def draw(panels: Sequence[Panel]) -> str:
    """Return an SVG document with the panels below one another."""
    height = sum(_TITLE + _STEP * len(panel.bars) for panel in panels) + 10
    drawn = Canvas(_WIDTH, height, "sans-serif", 12)
    top = 0
    for panel in panels:
        drawn.text((8, top + 22), panel.title, font_size=14, font_weight="bold")
        top += _TITLE
        largest = max((bar.value for bar in panel.bars), default=0.0) or 1.0
        for bar in panel.bars:
            width = (_WIDTH - _LABEL - 80) * bar.value / largest
            drawn.text((_LABEL - 8, top + 12), bar.label, text_anchor="end")
            drawn.box((_LABEL, top), (width, _BAR), _OURS if bar.ours else _PEER)
            drawn.text((_LABEL + width + 6, top + 12), f"{bar.value:,.4g}")
            top += _STEP
    return drawn.document("")
