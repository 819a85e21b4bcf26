"""What is measured: two hosts and the fabric between them, case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hfi_sim.base.quantities import rate_text, time_text

CLIENT: Final = "h1"
VESW: Final = 2
PLAIN: Final = "plain"
LOSS: Final = 1e-4
"""Rare enough that TCP hardly notices, often enough that a second of traffic shows it."""
FLOWS: Final = 8
"""Flows of a case with several paths. Their ports are fixed, so they spread in the same way each time."""
MTU: Final = 1500


@dataclass(frozen=True, slots=True)
class LinkParameters:
    """One link; the defaults are those of a lab file."""

    rate_bps: float = 100e9
    latency_s: float = 300e-9
    jitter_s: float = 0.0

    def section(self) -> dict[str, Any]:
        """Return the section `link` of a lab file."""
        return {
            "rate": rate_text(self.rate_bps),
            "latency": time_text(self.latency_s),
            "jitter": time_text(self.jitter_s),
        }


@dataclass(frozen=True, slots=True, eq=False)
class LinkCase:
    """One fabric; a subject of this benchmark."""

    name: str
    way: tuple[LinkParameters, ...]
    """The links from the client to the server; the way back has the same."""
    fabric: Mapping[str, Any]
    """The section of the lab file."""
    hosts: int = 2
    """Hosts h1, h2, ... The client is the first, the server the last; only they are on the virtual switch."""
    flows: int = 1
    via: tuple[str, ...] = ()
    """The switches that offer paths of equal length."""
    fault: str = ""
    captured: bool = False
    credits: bool = False

    @property
    def server(self) -> str:
        """The host that receives."""
        return f"h{self.hosts}"

    def lab(self) -> dict[str, Any]:
        """Return the content of the lab file."""
        members = [CLIENT, self.server]
        vesw = {"id": VESW, "name": "eth0", "mtu": MTU, "pkey": 0x8002, "subnet": "10.99.7.0/24"}
        return {
            "name": f"bench-{self.name}",
            "fabric": self.fabric,
            "hosts": {f"h{number}": {} for number in range(1, self.hosts + 1)},
            "vesws": [{**vesw, "members": members}],
            "faults": [self.fault] if self.fault else [],
        }


def _star(name: str, wire: LinkParameters, **options: Any) -> LinkCase:
    """Return two hosts on one switch."""
    return LinkCase(name, (wire, wire), {"link": wire.section()}, **options)


def _credits() -> LinkCase:
    """Return links with little room, the server's slower than the client's: each burst stops the client."""
    near, far = LinkParameters(), LinkParameters(rate_bps=25e9)
    room = {"buffer": "16K", "fecn": "8K"}
    links = [
        {"ends": ["h1", "sw0:1"], **near.section(), "credits": room},
        {"ends": ["h2", "sw0:2"], **far.section(), "credits": room},
    ]
    topology = {"kind": "explicit", "switches": {"sw0": {"ports": 8}}, "links": links}
    return LinkCase("credits", (near, far), {"topology": topology}, credits=True)


def _shaped(name: str, links: int, hosts: int, via: Sequence[str], topology: Mapping[str, Any]) -> LinkCase:
    """Return several flows through a shape that offers paths of equal length."""
    return LinkCase(
        name,
        (LinkParameters(),) * links,
        {"topology": {**topology}},
        hosts=hosts,
        flows=FLOWS,
        via=tuple(via),
    )


_CASES: Final = (
    _star(PLAIN, LinkParameters()),
    _star("rate-1G", LinkParameters(rate_bps=1e9)),
    _star("rate-10G", LinkParameters(rate_bps=10e9)),
    _star("latency-200us", LinkParameters(latency_s=200e-6)),
    _star("jitter", LinkParameters(jitter_s=200e-6)),
    _credits(),
    _star("loss-match", LinkParameters(), fault=f"loss on {CLIENT}->sw0 {LOSS:.2%} vesw={VESW}"),
    _star("capture", LinkParameters(), captured=True),
    _shaped(
        "multipath",
        4,
        2,
        ("spine0", "spine1"),
        {"kind": "clos", "leaves": 2, "spines": 2, "hosts_per_leaf": 1},
    ),
    _shaped("fat-tree", 6, 5, [f"core{number}" for number in range(4)], {"kind": "fat-tree", "k": 4}),
)


@dataclass(frozen=True, slots=True)
class Veth:
    """The kernel's own rate limit beside them: tbf at both ends of a veth."""

    name: str
    rate_bps: float


_VETHS: Final = (Veth("veth-tbf-1G", 1e9), Veth("veth-tbf-10G", 10e9))

Subject = LinkCase | Veth


def plain_case() -> LinkCase:
    """Return the case that the others are compared with."""
    return next(case for case in _CASES if case.name == PLAIN)


def subjects(only: Sequence[str] = ()) -> list[Subject]:
    """Return the cases and what is beside them. The plain case is always among them: others are compared with it.

    Args:  only: names; empty means all.
    """
    everything = (*_CASES, *_VETHS)
    return [one for one in everything if not only or one.name in only or one.name == PLAIN]
