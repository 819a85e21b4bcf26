"""How many exchanges a second the management agent does: alone, and over a fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Final

from hfi_sim.fabric import Fabric
from hfi_sim.mad.header import Method
from hfi_sim.mad.message import Mad
from hfi_sim.netdev.memory import memory_netdev
from hfi_sim.subnet_manager import SubnetManager
from opavnic.vnic_port import VnicPort
from vema.attributes.mac_entries import MAX_SECTION, MacEntries, MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.messages import build_request, read_response
from vema.lmac import Lmac
from vema.types import AttrId, ConfigState, VportNum

DEFAULT_SECONDS: Final = 1.0
_BATCH: Final = 200
_VPORT: Final = VportNum(1)


@dataclass(frozen=True, slots=True)
class MadFigure:
    """One measurement."""

    where: str
    """agent: the agent alone; fabric: EM, link, switch, link, agent, and back."""
    exchange: str
    """Method and attribute."""
    exchanges: int
    seconds: float
    per_second: float


def bench_mad(seconds: float = DEFAULT_SECONDS) -> dict[str, Any]:
    """Measure Get and Set exchanges, and return the figures as plain data.

    The fabric is one switch between EM and host, in this process; its links pass packets on at once, so the
    figure is what the code costs and not what a link would delay.

    Args:    seconds: how long each of the measurements lasts.
    """
    bench = _Bench()
    figures = [
        figure
        for name, request in bench.requests.items()
        for figure in (
            _measure("agent", name, seconds, lambda mad=request: bench.ask_agent(mad)),  # type: ignore[misc]
            _measure("fabric", name, seconds, lambda mad=request: bench.ask_over_fabric(mad)),  # type: ignore[misc]
        )
    ]
    return {"bench": "mad", "seconds_each": seconds, "figures": [asdict(figure) for figure in figures]}


class _Bench:
    """An EM, a switch and a host with one VNIC."""

    def __init__(self) -> None:
        fabric = Fabric()
        self._em = fabric.add_hfi("em").ports[1]
        self._host = fabric.add_hfi("h1", netdevs=memory_netdev).ports[1]
        switch = fabric.add_switch("sw")
        for number, port in enumerate((self._em, self._host), 1):
            fabric.connect(port, switch.ports[number])
        SubnetManager(fabric, self._em).sweep()
        self._agent = VnicPort(self._host, fabric.clock).agent
        self._responses: list[Mad | None] = []
        self.requests = self._make_requests()
        """The MADs that are measured, by name; the first makes the vport."""
        self._built = {request.header: request.build() for request in self.requests.values()}

    def _make_requests(self) -> dict[str, Mad]:
        lid = self._host.lid
        info = VeswPortInfo(
            fabric_id=1,
            vesw_id=2,
            pkey=0x8002,
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
        """Hand a request to the agent."""
        response = self._agent.receive(self._built[request.header])
        read_response(request, Mad.parse(response or b""))

    def ask_over_fabric(self, request: Mad) -> None:
        """Send a request to the agent; the response is there when the call returns."""
        self._em.mad.submit(self._host.lid, request, self._responses.append)
        response = self._responses.pop()
        if response is not None:
            read_response(request, response)


def _measure(where: str, exchange: str, seconds: float, ask: Callable[[], None]) -> MadFigure:
    ask()
    exchanges = 0
    begin = perf_counter()
    elapsed = 0.0
    while elapsed < seconds:
        for _ in range(_BATCH):
            ask()
        exchanges += _BATCH
        elapsed = perf_counter() - begin
    return MadFigure(where, exchange, exchanges, round(elapsed, 6), round(exchanges / elapsed, 1))
