"""How many exchanges per second the management agent handles: alone, and over a fabric."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from hfi_sim.wire.mad.header import Mad, Method
from opavnic_bench.base.bed import PKEY, make_world
from opavnic_bench.base.turns import Progress, repeat, silent, take_turns
from vema.attributes.attr_id import AttrId
from vema.attributes.mac_entries import MAX_SECTION, MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.lmac import Lmac
from vema.base.types import ConfigState, VportNum
from vema.em.core.messages import build_request, read_response

_BATCH: Final = 200
_VPORT: Final = VportNum(1)


@dataclass(frozen=True, slots=True)
class MadFigure:
    """One measurement of an exchange."""

    where: str
    """agent: the agent alone; fabric: EM, link, switch, link, agent, and back."""
    exchange: str
    """Method and attribute."""
    exchanges: int
    seconds: float
    per_second: float


def bench_mad(seconds: float, progress: Progress = silent) -> dict[str, Any]:
    """Measure Get and Set exchanges, and return the figures as plain data.

    The fabric is one switch between EM and host, in this process. Its links have no latency, so a figure is what the
    code costs.

    Args:    seconds: how long each of the measurements lasts.
    """
    bed = _Bed()
    subjects = [(name, where) for name in bed.requests for where in ("agent", "fabric")]
    run = take_turns(
        subjects, lambda subject: _measure(bed, *subject, seconds), label=", ".join, progress=progress
    )
    return {"bench": "mad", "seconds_each": seconds, "figures": [asdict(figure) for figure in run.single()]}


class _Bed:
    """An EM, a switch and a host with one VNIC."""

    def __init__(self) -> None:
        world = make_world(["h1"])
        self._em, self._host = world.em_port, world.hosts["h1"].port
        self._agent = world.vnic_ports["h1:1"].agent
        self._responses: list[Mad | None] = []
        self.requests = self._make_requests()
        """The MADs to measure, by name; the first creates the vport."""
        self._built = {request.header: request.build() for request in self.requests.values()}

    def _make_requests(self) -> dict[str, Mad]:
        lid = self._host.lid
        info = VeswPortInfo(
            fabric_id=1,
            vesw_id=2,
            pkey=PKEY,
            eth_mtu=1500,
            base_mac=Lmac(1, 2, lid).build(),
            config_state=ConfigState.FORWARDING,
            encap_slid=lid,
        )
        entries = tuple(
            MacEntry(Lmac(1, 2, number).build(), b"\xff" * 6, number << 8)
            for number in range(1, MAX_SECTION + 1)
        )
        return {
            "Set VeswPortInfo": self._request(Method.SET, AttrId.VESW_PORT_INFO, info.build()),
            "Get VeswPortInfo": self._request(Method.GET, AttrId.VESW_PORT_INFO, VeswPortInfo().build()),
            "Set MacEntries (125)": self._request(
                Method.SET, AttrId.MAC_ENTRIES, MacEntries(0, 1, entries).build()
            ),
            "Get SummaryCounters": self._request(Method.GET, AttrId.SUMMARY_COUNTERS, b""),
        }

    def _request(self, method: Method, attr_id: AttrId, data: bytes) -> Mad:
        return build_request(method, attr_id, data, attr_mod=_VPORT)

    def ask_agent(self, request: Mad) -> None:
        """Pass a request to the agent."""
        response = self._agent.receive(self._built[request.header])
        read_response(request, Mad.parse(response or b""))

    def ask_over_fabric(self, request: Mad) -> None:
        """Send a request to the agent; the response is there when the call returns."""
        self._em.mad.submit(self._host.lid, request, self._responses.append)
        response = self._responses.pop()
        if response is not None:
            read_response(request, response)


def _measure(bed: _Bed, exchange: str, where: str, seconds: float) -> MadFigure:
    ask = bed.ask_agent if where == "agent" else bed.ask_over_fabric
    request = bed.requests[exchange]

    def step() -> int:
        for _ in range(_BATCH):
            ask(request)
        return _BATCH

    ask(request)
    done, elapsed = repeat(step, seconds)
    return MadFigure(where, exchange, done, round(elapsed, 6), round(done / elapsed, 1))
