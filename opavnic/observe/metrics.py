"""The state of running labs as Prometheus metrics. Sans-IO: status in, metric families out.

Names, units and types follow the conventions of Prometheus: base units (bytes, seconds), `_total` for what only grows,
`_info` for text. Every metric has the label `lab`. `docs/metrics.md` lists them; a test compares it with FAMILIES.

Source: https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from opavnic.observe.rates import vesw_text


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
_LINK = ("link", "direction")

ANSWERS: Final = Family("opavnic_lab_answers", "Whether a running lab answered this scrape in time.")
INFO: Final = Family(
    "opavnic_lab_info",
    "What runs a lab; the value is 1.",
    ("engine", "netdev", "em", "subnet_manager"),
)
UPTIME: Final = Family("opavnic_lab_uptime_seconds", "Time since the lab was started.")
MADS: Final = Family(
    "opavnic_mads", "Management datagrams sent by all ports, with responses and retries.", counter=True
)
SIGHTINGS_MISSED: Final = Family(
    "opavnic_engine_sightings_missed",
    "Packets that observers written in Python were not told of because they were behind.",
    counter=True,
)
UNACCOUNTED: Final = Family(
    "opavnic_unaccounted_packets",
    "Packets that an element neither passed on nor counted as dropped; anything but 0 is a bug of opavnic.",
    ("element",),
)
HOSTS: Final = Family("opavnic_hosts", "Hosts of the lab.")
VNIC_UP: Final = Family("opavnic_vnic_up", "Whether a VNIC is configured and operational.", _VNIC)
VNIC_TX_PACKETS: Final = Family("opavnic_vnic_transmit_packets", "Frames that a VNIC sent.", _VNIC, True)
VNIC_TX_BYTES: Final = Family(
    "opavnic_vnic_transmit_bytes", "Bytes of the frames that a VNIC sent, without FCS.", _VNIC, True
)
VNIC_RX_PACKETS: Final = Family(
    "opavnic_vnic_receive_packets", "Frames that a VNIC delivered to its host.", _VNIC, True
)
VNIC_RX_BYTES: Final = Family(
    "opavnic_vnic_receive_bytes",
    "Bytes of the frames that a VNIC delivered to its host, without FCS.",
    _VNIC,
    True,
)
VNIC_DROPS: Final = Family(
    "opavnic_vnic_dropped_packets", "Frames that a VNIC dropped, in both directions.", _VNIC, True
)
LINK_UP: Final = Family("opavnic_link_up", "Whether a link is up.", ("link",))
LINK_PACKETS: Final = Family(
    "opavnic_link_packets", "Packets that left a link at its far end.", _LINK, counter=True
)
LINK_BYTES: Final = Family(
    "opavnic_link_bytes", "Bytes of the 16B packets that left a link at its far end.", _LINK, counter=True
)
LINK_DROPS: Final = Family(
    "opavnic_link_dropped_packets", "Packets that a link dropped, in both directions.", ("link",), True
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
FAULT_SEEN: Final = Family(
    "opavnic_fault_seen_packets", "Packets that matched a fault.", ("number", "fault"), True
)
FAULT_HITS: Final = Family(
    "opavnic_fault_hit_packets",
    "Packets, of those that matched, that a fault acted upon.",
    ("number", "fault"),
    True,
)
FAMILIES: Final = (
    ANSWERS, INFO, UPTIME, MADS, SIGHTINGS_MISSED, UNACCOUNTED, HOSTS,
    VNIC_UP, VNIC_TX_PACKETS, VNIC_TX_BYTES, VNIC_RX_PACKETS, VNIC_RX_BYTES, VNIC_DROPS,
    LINK_UP, LINK_PACKETS, LINK_BYTES, LINK_DROPS, DROPS, APP_DROPS, APP_REFUSALS,
    FAULTS, FAULT_SEEN, FAULT_HITS,
)  # fmt: skip
"""All metrics, in the order of a scrape."""


@dataclass(frozen=True, slots=True)
class Scraped:
    """What a lab answered to one scrape; `status` is None if it did not answer."""

    lab: str
    status: Mapping[str, Any] | None
    faults: Mapping[str, Any] | None = None


def metrics(labs: Iterable[Scraped]) -> list[Metric]:
    """Return the metrics of labs, families without a sample included.

    A lab whose status lacks a key, because it was started by another version, counts as one that does not answer.
    """
    made = {family: _empty(family) for family in FAMILIES}
    for scraped in labs:
        try:
            samples = None if scraped.status is None else list(_samples(scraped.status, scraped.faults))
        except KeyError:
            samples = None
        made[ANSWERS].add_metric([scraped.lab], int(samples is not None))
        for family, labels, value in samples or ():
            made[family].add_metric([scraped.lab, *labels], value)
    return list(made.values())


def _empty(family: Family) -> Any:
    kind = CounterMetricFamily if family.counter else GaugeMetricFamily
    return kind(family.name, family.help, labels=["lab", *family.labels])


Sample = tuple[Family, tuple[str, ...], float]


def _samples(status: Mapping[str, Any], faults: Mapping[str, Any] | None) -> Iterator[Sample]:
    """Yield the samples of one lab: family, its labels beside `lab`, value."""
    engine = status["engine"]
    yield INFO, (engine["name"], status["netdev"], status["em"], status["subnet_manager"]), 1
    yield UPTIME, (), status["uptime_s"]
    yield MADS, (), status["mads"]
    yield SIGHTINGS_MISSED, (), engine["missed"]
    yield HOSTS, (), len(status["hosts"])
    for element, count in status["balance"].items():
        yield UNACCOUNTED, (element,), count
    for host in status["hosts"]:
        for vnic in host["vnics"]:
            yield from _vnic(host["name"], vnic)
    for link in status["links"]:
        yield from _link(link)
    for element, reasons in status["drops"].items():
        for reason, count in reasons.items():
            yield DROPS, (element, reason), count
    for app in status["apps"]:
        for family, key in ((APP_DROPS, "drops"), (APP_REFUSALS, "refused_ticks")):
            for reason, count in app.get(key, {}).items():
                yield family, (app["host"], app["kind"], reason), count
    if faults is not None:
        yield FAULTS, (), len(faults["faults"])
        for fault in faults["faults"]:
            labels = (str(fault["number"]), fault["fault"])
            yield FAULT_SEEN, labels, fault["seen"]
            yield FAULT_HITS, labels, fault["hits"]


def _vnic(host: str, vnic: Mapping[str, Any]) -> Iterator[Sample]:
    labels = (host, vesw_text(vnic), vnic["interface"])
    yield VNIC_UP, labels, int(vnic["state"] == "up")
    yield VNIC_TX_PACKETS, labels, vnic["tx_packets"]
    yield VNIC_TX_BYTES, labels, vnic["tx_bytes"]
    yield VNIC_RX_PACKETS, labels, vnic["rx_packets"]
    yield VNIC_RX_BYTES, labels, vnic["rx_bytes"]
    yield VNIC_DROPS, labels, vnic["drops"]


def _link(link: Mapping[str, Any]) -> Iterator[Sample]:
    name = link["name"]
    yield LINK_UP, (name,), int(link["state"] == "up")
    for direction in ("forth", "back"):
        yield LINK_PACKETS, (name, direction), link[f"packets_{direction}"]
        yield LINK_BYTES, (name, direction), link[f"bytes_{direction}"]
    yield LINK_DROPS, (name,), link["drops"]
