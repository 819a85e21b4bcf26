"""A fabric of many hosts with those of a switch drawn as one node: hundreds are seen at a glance. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hfi_sim.base.text import counted
from opavnic.web.scene.scene import LinkView, NodeView, Scene

GROUP: Final = "hosts"
"""Kind of a node that stands for the hosts of a switch."""


def folded(seen: Scene, unfolded: Collection[str] = ()) -> Scene:
    """Return the same lab with the hosts of each switch as one node.

    Hosts with cables to several switches, and the only host of a switch, stay.

    Args:  unfolded: switches whose hosts stay.
    """
    hosts = {node.name: node for node in seen.nodes if node.kind == "host"}
    cables: dict[str, list[LinkView]] = {name: [] for name in hosts}
    for link in seen.links:
        for end in (link.a, link.b):
            if end in cables:
                cables[end].append(link)
    groups: dict[str, list[str]] = {}
    for name, links in cables.items():
        homes = {link.b if link.a == name else link.a for link in links}
        if len(homes) == 1 and (home := homes.pop()) not in hosts and home not in unfolded:
            groups.setdefault(home, []).append(name)
    groups = {home: names for home, names in groups.items() if len(names) > 1}
    into = {name: home for home, names in groups.items() for name in names}
    nodes = [node for node in seen.nodes if node.name not in into]
    links = [link for link in seen.links if link.a not in into and link.b not in into]
    for home, names in groups.items():
        nodes.append(_group(home, [hosts[name] for name in names]))
        links.append(_together(home, nodes[-1].name, [link for name in names for link in cables[name]]))
    return replace(seen, nodes=tuple(nodes), links=tuple(links))


def home_of(seen: Scene, host: str) -> str:
    """Return the switch that an HFI is cabled to first; empty: none."""
    return next((link.b if link.a == host else link.a for link in seen.links if host in (link.a, link.b)), "")


def _group(home: str, hosts: Sequence[NodeView]) -> NodeView:
    wrong = [f"{host.name}: {host.wrong}" for host in hosts if host.wrong]
    return NodeView(
        name=f"{counted(len(hosts), 'host')} of {home}",
        kind=GROUP,
        host=home,
        lid=None,
        vesws=frozenset[str]().union(*(host.vesws for host in hosts)),
        vnics=(),
        wrong="; ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""),
        faults=_all(host.faults for host in hosts),
        hosts=len(hosts),
    )


def _together(home: str, group: str, links: Sequence[LinkView]) -> LinkView:
    """Return the cables between a switch and its hosts as one, forth being from the hosts."""
    wrong = sum(link.is_wrong for link in links)
    return LinkView(
        name=f"{counted(len(links), 'link')} of {home}" + (f", {wrong} down" if wrong else ""),
        a=group,
        b=home,
        up=any(link.up for link in links),
        rate_bps_forth=sum(link.rate_bps_back if link.a == home else link.rate_bps_forth for link in links),
        rate_bps_back=sum(link.rate_bps_forth if link.a == home else link.rate_bps_back for link in links),
        bits_forth=sum(link.bits_back if link.a == home else link.bits_forth for link in links),
        bits_back=sum(link.bits_forth if link.a == home else link.bits_back for link in links),
        packets=sum(link.packets for link in links),
        drops=sum(link.drops for link in links),
        faults=_all(link.faults for link in links),
        cables=len(links),
        down=wrong,
    )


def _all(numbers: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({number for some in numbers for number in some}))


@dataclass(frozen=True, slots=True)
class Level:
    """Rates that are drawn alike."""

    below: float
    """The rates, or their shares of a link's, are below this, and not below that of the level before."""
    text: str
    colour: str
    width: float
    """Pixels."""
    faint: bool = False
    """Whether its flows are drawn faintly and without a tip: what hosts and managers always tell each other does not
    make a fabric look busy.
    """

    @property
    def opacity(self) -> float:
        """How its flows are drawn."""
        return 0.5 if self.faint else 1.0


IDLE_BPS: Final = 1e4
"""What managers say to each other all the time is below it."""
CHATTER_BPS: Final = 1e6
"""What a flow that hardly uses its link has to exceed for its rate to be written beside it."""
IDLE: Final = Level(IDLE_BPS, "idle", "#8a97a5", 1.5)
_LOOKS: Final = (
    ("#5f93bb", 2.0),
    ("#3f8fca", 2.5),
    ("#1f6fb2", 3.5),
    ("#b8860b", 4.5),
    ("#d9650f", 6.0),
    ("#c03a00", 8.0),
)
"""Colours from blue to orange, which those who see no red or no green tell apart; each is wider than the one before."""


def _levels(*limits: tuple[float, str]) -> tuple[Level, ...]:
    first, *others = (Level(*limit, *look) for limit, look in zip(limits, _LOOKS, strict=True))
    return IDLE, replace(first, faint=True), *others


USES: Final = _levels(
    (0.01, "below 1%"),
    (0.1, "1% to 10%"),
    (0.25, "10% to 25%"),
    (0.5, "25% to 50%"),
    (0.75, "50% to 75%"),
    (math.inf, "75% and more"),
)
"""By the share of a link's rate."""
RATES: Final = _levels(
    (CHATTER_BPS, "below 1M"),
    (1e7, "1M to 10M"),
    (1e8, "10M to 100M"),
    (1e9, "100M to 1G"),
    (1e10, "1G to 10G"),
    (math.inf, "10G and more"),
)
"""By bits a second."""


def level_of(bps: float, rate_bps: float | None = None) -> Level:
    """Return the level of a flow. Args: rate_bps: of the link of whose use it is the level; None: by bits a second."""
    if bps < IDLE_BPS:
        return IDLE
    value, levels = (bps, RATES) if rate_bps is None else (bps / max(rate_bps, 1.0), USES)
    return next(level for level in levels[1:] if value < level.below)


_STEPS: Final = (1, 1.5, 2, 3, 4, 5, 7, 10)
"""What is written of a flow's rate, times a power of ten."""


def about(bps: float) -> str:
    """Return about how fast a flow is, with its unit: `2M` for 2.2 Mbit/s; empty where nothing flows.

    A drawing is sent and drawn anew, whole, when it changes, and no flow is quite as fast as it was a second before: a
    rate is rounded to the nearest of `_STEPS`, by about a fifth at most.
    """
    if bps < IDLE_BPS:
        return ""
    power = math.floor(math.log10(bps))
    step = min(_STEPS, key=lambda step: abs(math.log(bps / 10**power / step)))
    value = step * 10**power
    factor, unit = next(
        (factor, unit)
        for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
        if value >= factor
    )
    return f"{value / factor:g}{unit}"
