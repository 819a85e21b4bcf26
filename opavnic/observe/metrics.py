"""The state of running labs as Prometheus metrics. Sans-IO: status in, metric families out.

Names, units and types follow the conventions of Prometheus: base units (bytes, seconds), `_total` for what only grows,
`_info` for text. Every metric has the label `lab`. `docs/reference/metrics.md`
lists them; a test compares it with FAMILIES.

Source: https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hfi_sim.base.clock import NS_PER_S
from opavnic.base.state import StateModel, counters_of
from opavnic.state.em import AddressMoves
from opavnic.state.fabric import FaultsSet, FaultStatus, LanesState
from opavnic.state.lab import EngineStatus, LabState, LinkStatus, VnicStatus


@dataclass(frozen=True, slots=True)
class Family:
    """The declaration of a metric. Name, without the `_total` of a counter; help; labels beside `lab`."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    counter: bool = False

    @property
    def full_name(self) -> str:
        """The name as a scrape shows it."""
        return f"{self.name}_total" if self.counter else self.name


_VNIC = ("host", "vesw", "interface")
_WORDS: Final = {"tx": "transmit", "rx": "receive", "drops": "dropped"}
_DIRECTIONS: Final = ("forth", "back")


Counted = tuple[Family, str]
"""Which family shows a counter of the state, and in which direction of a link; empty: it has none."""


def _counted(element: str, model: type[StateModel], labels: tuple[str, ...] = ()) -> dict[str, Counted]:
    """Return the families of the counters of a model, by the name of the counter.

    Args:  element: the first words of their names, after `opavnic`.
    """
    found = {}
    families: dict[str, Family] = {}
    for name, counter in counters_of(model).items():
        words = name.split("_")
        direction = words.pop() if words[-1] in _DIRECTIONS else ""
        words = [_WORDS.get(word, word) for word in words]
        words += [] if words[-1] == counter.unit else [counter.unit]
        full = "_".join(filter(None, ("opavnic", element, counter.metric or "_".join(words))))
        all_labels = (*labels, "direction") if direction else labels
        family = families.setdefault(full, Family(full, counter.meaning, all_labels, counter=True))
        found[name] = family, direction
    return found


def _families(counted: Mapping[str, Counted]) -> list[Family]:
    return [family for family, _ in counted.values()]


_OF_LAB: Final = _counted("", LabState)
_OF_ENGINE: Final = _counted("engine", EngineStatus)
_OF_VNICS: Final = _counted("vnic", VnicStatus, _VNIC)
_OF_LINKS: Final = _counted("link", LinkStatus, ("link",))
_OF_VESWS: Final = _counted("vesw", AddressMoves, ("vesw",))
_OF_FAULTS: Final = _counted("fault", FaultStatus, ("number", "fault"))

ANSWERS: Final = Family("opavnic_lab_answers", "Whether a running lab answered this scrape in time.")
INFO: Final = Family(
    "opavnic_lab_info", "What runs a lab; the value is 1.", ("engine", "netdev", "em", "subnet_manager")
)
UPTIME: Final = Family("opavnic_lab_uptime_seconds", "Time since the lab was started.")
UNACCOUNTED: Final = Family(
    "opavnic_unaccounted_packets",
    "Packets that an element neither passed on nor counted as dropped; anything but 0 is a bug of opavnic.",
    ("element",),
)
HOSTS: Final = Family("opavnic_hosts", "Hosts of the lab.")
VNIC_UP: Final = Family("opavnic_vnic_up", "Whether a VNIC is configured and operational.", _VNIC)
HELD: Final = Family(
    "opavnic_vesw_held_macs",
    "MAC addresses that have moved too often between members, and stay where they are for now.",
    ("vesw",),
)
LINK_UP: Final = Family("opavnic_link_up", "Whether a link is up.", ("link",))
_LANE: Final = ("link", "direction", "vl")
WAIT: Final = Family(
    "opavnic_link_wait_seconds",
    "How long a virtual lane had packets to send and sent none, for lack of credits or because other lanes sent;"
    " 0 without credits.",
    _LANE,
    True,
)
FECN: Final = Family(
    "opavnic_link_fecn_packets", "Packets with FECN that left a virtual lane at its far end.", _LANE, True
)
BECN: Final = Family(
    "opavnic_link_becn_packets", "Packets with BECN that left a virtual lane at its far end.", _LANE, True
)
DROPS: Final = Family(
    "opavnic_dropped_packets",
    "Packets that ended at an element, by reason; each drop is counted in one place.",
    ("element", "reason"),
    True,
)
APP_DROPS: Final = Family(
    "opavnic_app_dropped_packets",
    "Packets that an app, such as a load balancer, dropped, by reason.",
    ("host", "app", "reason"),
    True,
)
APP_REFUSALS: Final = Family(
    "opavnic_app_refused_tick_packets",
    "Packets that a load balancer forwarded without believing their tick, by reason.",
    ("host", "app", "reason"),
    True,
)
FAULTS: Final = Family("opavnic_faults", "Faults that are set in the fabric.")
FAMILIES: Final = tuple(
    dict.fromkeys(
        [
            ANSWERS, INFO, UPTIME, *_families(_OF_LAB), *_families(_OF_ENGINE), UNACCOUNTED, HOSTS,
            VNIC_UP, *_families(_OF_VNICS), *_families(_OF_VESWS), HELD,
            LINK_UP, *_families(_OF_LINKS), WAIT, FECN, BECN, DROPS, APP_DROPS, APP_REFUSALS,
            FAULTS, *_families(_OF_FAULTS),
        ]
    )
)  # fmt: skip
"""All metrics, in the order of a scrape."""


@dataclass(frozen=True, slots=True)
class Scraped:
    """What a lab answered to one scrape; `state` is None if it did not answer."""

    lab: str
    state: LabState | None
    faults: FaultsSet | None = None
    lanes: Sequence[LanesState] = ()
    """A direction may be in several."""


def lane_places(links: Sequence[LinkStatus], at_once: int) -> list[str]:
    """Return the places whose virtual lanes are those of all links.

    Args:  at_once: directions of links that one reply may hold.
    """
    if 2 * len(links) <= at_once:
        return ["*"] if links else []
    ends = [[end.rpartition(":")[0] for end in link.name.split("->")] for link in links]
    cables = Counter(node for pair in ends for node in pair)
    places = (max(pair, key=lambda node: cables[node] if 2 * cables[node] <= at_once else 0) for pair in ends)
    return list(dict.fromkeys(places))


def metrics(labs: Iterable[Scraped]) -> list[Metric]:
    """Return the metrics of labs, families without a sample included."""
    made = {family: _empty(family) for family in FAMILIES}
    for scraped in labs:
        made[ANSWERS].add_metric([scraped.lab], int(scraped.state is not None))
        for family, labels, value in _samples(scraped):
            made[family].add_metric([scraped.lab, *labels], value)
    return list(made.values())


def _empty(family: Family) -> Any:
    kind = CounterMetricFamily if family.counter else GaugeMetricFamily
    return kind(family.name, family.help, labels=["lab", *family.labels])


Sample = tuple[Family, tuple[str, ...], float]


def _samples(scraped: Scraped) -> Iterator[Sample]:
    """Yield the samples of one lab: family, its labels beside `lab`, value."""
    state, faults = scraped.state, scraped.faults
    if state is None:
        return
    yield INFO, (state.engine.name, state.netdev, state.em, state.subnet_manager), 1
    yield UPTIME, (), state.uptime_s
    yield from _counts(_OF_LAB, state)
    yield from _counts(_OF_ENGINE, state.engine)
    yield HOSTS, (), len(state.hosts)
    for element, count in state.balance.items():
        yield UNACCOUNTED, (element,), count
    for host, vnic in state.vnics():
        labels = (host.name, vnic.vesw_text, vnic.interface)
        yield VNIC_UP, labels, int(vnic.is_up)
        yield from _counts(_OF_VNICS, vnic, *labels)
    for vesw in state.vesws:
        yield from _counts(_OF_VESWS, vesw, vesw.name)
        yield HELD, (vesw.name,), len(vesw.held)
    for link in state.links:
        yield LINK_UP, (link.name,), int(link.is_up)
        yield from _counts(_OF_LINKS, link, link.name)
    ways = {way.name: way for lanes in scraped.lanes for way in lanes.directions}
    for link in state.links:
        back = "->".join(reversed(link.name.split("->")))
        for direction, name in zip(_DIRECTIONS, (link.name, back), strict=True):
            for lane in ways[name].vls if name in ways else ():
                labels = link.name, direction, str(lane.vl)
                yield WAIT, labels, lane.wait_ns / NS_PER_S
                yield FECN, labels, lane.fecn
                yield BECN, labels, lane.becn
    for element, reasons in state.drops.items():
        for reason, count in reasons.items():
            yield DROPS, (element, reason), count
    for app in state.apps:
        for family, key in ((APP_DROPS, "drops"), (APP_REFUSALS, "refused_ticks")):
            for reason, count in app.said.get(key, {}).items():
                yield family, (app.host, app.kind, reason), count
    if faults is not None:
        yield FAULTS, (), len(faults.faults)
        for fault in faults.faults:
            yield from _counts(_OF_FAULTS, fault, str(fault.number), fault.fault)


def _counts(counted: Mapping[str, Counted], element: StateModel, *labels: str) -> Iterator[Sample]:
    for name, (family, direction) in counted.items():
        yield family, (*labels, direction) if direction else labels, getattr(element, name)
