"""Running management-agent vectors: sessions of MADs, host operations and port events against one HFI port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev
from opavnic.base.errors import VectorFileError
from opavnic.conformance.result import CaseDifference, Json, Result, compare, read_cases
from opavnic.conformance.vector_setup import HfiStub, group_counters
from opavnic.vnic.adapter import Adapter
from opavnic.vnic.counters import SIZE_NAMES, TrafficCounters, VnicCounters
from opavnic.vnic.demux import VnicDemux
from vema.agent.agent import Agent
from vema.agent.vnic import VnicReport
from vema.attributes.traps import Trap
from vema.base.types import VportNum

if TYPE_CHECKING:
    from pathlib import Path

START_S: Final = 100.0
"""Where the clock of a session starts."""
OWN_PORT: Final = 1
_REMOTE_QPN: Final = 1

_ERROR_STATS: Final = (
    "tx_fifo_errors", "tx_carrier_errors", "tx_dlid_zero", "tx_drop_state",
    "rx_fifo_errors", "rx_nohandler", "rx_drop_state", "rx_runt", "rx_oversize",
)  # fmt: skip
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "mad": ("in", "out"),
    "open": ("vport", "rc", "rx_mode", "traps"),
    "close": ("vport", "rc", "traps"),
    "set_mac": ("vport", "mac", "rc", "traps"),
    "set_uc_list": ("vport", "macs", "rx_mode", "traps"),
    "set_mc_list": ("vport", "macs", "rx_mode", "traps"),
    "port_event": ("event", "port"),
    "advance_time": ("ms",),
}
"""Steps, and the fields that each needs."""
_HOST_OPS: Final = frozenset({"open", "close", "set_mac", "set_uc_list", "set_mc_list"})


@dataclass(frozen=True, slots=True)
class VemaSession:
    """One session of a file."""

    case: int
    steps: tuple[Json, ...]

    @classmethod
    def parse(cls, document: Json) -> VemaSession:
        """Read a session from its JSON object."""
        if document.get("num_ports", 1) != 1:
            raise ValueError("the session needs an HFI with more than one port")
        steps = tuple(_parse_step(step) for step in document["steps"])
        return cls(int(document["id"]), steps)


def _parse_step(step: Json) -> Json:
    if step["op"] not in _FIELDS:
        raise ValueError(f"unknown op {step['op']!r}")
    parsed = dict(step)
    for key in _FIELDS[step["op"]]:
        parsed[key]
    if "stats" in step:
        counters_from(step["stats"])
    if "ms" in step and not step["ms"] >= 0:
        raise ValueError(f"time cannot go back by {step['ms']} ms")
    for key in ("in", "out"):
        if key in step:
            parsed[key] = bytes.fromhex(step[key]).ljust(int(step[f"{key}_len"]), b"\0")
    if "macs" in step:
        parsed["macs"] = [MacAddr(bytes.fromhex(mac)) for mac in step["macs"]]
    if "mac" in step:
        parsed["mac"] = MacAddr(bytes.fromhex(step["mac"]))
    if "traps" in step:
        parsed["traps"] = [bytes.fromhex(trap) for trap in step["traps"]]
    return parsed


class _SessionRun:
    """A session in progress, with an HFI port's agent, as the driver would have it."""

    def __init__(self, session: VemaSession) -> None:
        self._session = session
        self._clock = ManualClock()
        self._clock.advance(START_S)
        self._demux = VnicDemux(driver_quirks=True)
        self._traps: list[Trap] = []
        self._adapters: dict[int, Adapter] = {}
        self._netdevs: dict[int, MemoryNetdev] = {}
        """By vport, as are the adapters."""
        self._agent = Agent(
            self.create_vnic,
            opa_port_num=OWN_PORT,
            now=self._clock.time,
            send_trap=self._traps.append,
            driver_quirks=True,
        )
        self._states: dict[str, dict[str, Any]] = {}

    def create_vnic(self, vport_num: VportNum, report: VnicReport) -> Adapter:
        """Make an adapter with a netdev in memory."""
        netdev = self._netdevs[vport_num] = memory_netdev(vport_num)
        self._adapters[vport_num] = Adapter(
            vport_num, netdev, HfiStub(OWN_PORT), demux=self._demux, report=report, driver_quirks=True
        )
        return self._adapters[vport_num]

    def run(self) -> list[CaseDifference]:
        """Run all steps; stop at the first that differs, as later differences may only be its consequences."""
        for number, step in enumerate(self._session.steps):
            where = f"step {number} ({step.get('note', step['op'])})"
            differences = self._step(step, where)
            if differences:
                return differences
        return []

    def _step(self, step: Json, where: str) -> list[CaseDifference]:
        case = self._session.case
        self._traps.clear()
        observed = self._do(step)
        expected = {key: step[key] for key in observed if key in step}
        if "traps" in step or self._traps:
            expected["traps"] = [trap.rstrip(b"\0") for trap in step.get("traps", [])]
            observed["traps"] = [trap.mad.rstrip(b"\0") for trap in self._traps]
            expected["trap_ah"] = step.get("trap_ah", [])
            observed["trap_ah"] = [
                {"dlid": trap.dlid, "sl": trap.sl, "len": len(trap.mad), "rqpn": _REMOTE_QPN}
                for trap in self._traps
            ]
        expected["netdev"] = step.get("netdev", {})
        observed["netdev"] = self._changed_states()
        return compare(case, where, expected, observed)

    def _do(self, step: Json) -> dict[str, Any]:
        """Run one step and return its visible effects, in the fields of the vectors."""
        op = step["op"]
        if op == "mad":
            if "stats" in step:
                self._adapter(step["stats"]).counters = counters_from(step["stats"])
            return {"out": self._agent.receive(step["in"])}
        if op in _HOST_OPS:
            return self._host_op(op, self._adapter(step), step)
        if op == "advance_time":
            self._clock.advance(step["ms"] / 1000)
        elif step["port"] == OWN_PORT and step["event"] in ("PORT_ACTIVE", "PORT_ERR"):
            for adapter in self._adapters.values():
                adapter.port_changed(step["event"] == "PORT_ACTIVE")
        return {}

    def _adapter(self, step: Json) -> Adapter:
        adapter = self._adapters.get(step["vport"])
        if adapter is None:
            raise VectorFileError(
                f"session {self._session.case}: there is no vport {step['vport']} to work on"
            )
        return adapter

    def _host_op(self, op: str, adapter: Adapter, step: Json) -> dict[str, Any]:
        netdev = self._netdevs[adapter.vport_num]
        if op == "open":
            error = netdev.open()
            return {"rc": error, "rx_mode": error == 0}
        if op == "close":
            netdev.stop()
            return {"rc": 0}
        if op == "set_mac":
            return {"rc": netdev.set_mac(step["mac"])}
        change: Callable[[list[MacAddr]], None] = (
            netdev.set_uc_list if op == "set_uc_list" else netdev.set_mc_list
        )
        change(step["macs"])
        return {"rx_mode": netdev.is_up}

    def _changed_states(self) -> dict[str, dict[str, Any]]:
        changed = {}
        for vport_num, adapter in self._adapters.items():
            state = netdev_state(adapter)
            if self._states.get(str(vport_num)) != state:
                changed[str(vport_num)] = self._states[str(vport_num)] = state
        return changed


def netdev_state(adapter: Adapter) -> dict[str, Any]:
    """Return the state of a VNIC and its netdev in the fields of the vectors."""
    netdev = adapter.netdev
    info = adapter.port_info
    return {
        "carrier": int(netdev.carrier),
        "dormant": int(netdev.dormant),
        "oper_up": int(netdev.carrier and not netdev.dormant),
        "if_up": int(netdev.is_up),
        "hfi_up": int(adapter.hfi_up),
        "mtu": netdev.mtu,
        "max_mtu": netdev.max_mtu,
        "dev_addr": netdev.address.hex(),
        "oper_state": info.oper_state,
        "eth_link_status": info.eth_link_status,
    }


def counters_from(stats: Json) -> VnicCounters:
    """Return counters with the recorded values; sums are computed, not copied."""
    counters = VnicCounters()
    for name in _ERROR_STATS:
        setattr(counters, name, int(stats[name]))
    for prefix, traffic in (("tx", counters.tx), ("rx", counters.rx)):
        _fill(traffic, stats[f"{prefix}_packets"], stats[f"{prefix}_bytes"], stats[f"{prefix}_grp"])
    return counters


def _fill(traffic: TrafficCounters, packets: int, size: int, group: Json) -> None:
    traffic.packets, traffic.bytes = packets, size
    for name in group_counters(traffic):
        if not name.startswith("s_"):
            setattr(traffic, name, int(group[name]))
    traffic.sizes = [int(group[f"s_{name}"]) for name in SIZE_NAMES]


def run_vema(path: Path) -> Result:
    """Run every session of a file against an agent of its own.

    Raises:  VectorFileError: the file cannot be read, or does not hold agent sessions.
    """
    result = Result("vema", str(path))
    for session in read_cases(path, VemaSession.parse):
        result.add(_SessionRun(session).run())
    return result
