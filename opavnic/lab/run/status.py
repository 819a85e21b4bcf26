"""The state of a lab, made from what runs: for `opavnic status` and all else that shows a lab."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from hfi_sim.base.counters import Drop, PacketCounters
from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import mac_text
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.waits import find_deadlock
from hfi_sim.netdev.base import Merging
from hfi_sim.nodes.cable import Link
from opavnic.lab.file.parts import RunningParts
from opavnic.lab.hosts.kernels import Kernels
from opavnic.lab.hosts.reconcile import HostReconciler
from opavnic.lab.hosts.vnics import HostVnic, vnics_of
from opavnic.state.em import AddressMoves
from opavnic.state.lab import (
    UP,
    AppStatus,
    Drops,
    EngineStatus,
    HostStatus,
    LabState,
    LinkStatus,
    VnicStatus,
    WorkerLoad,
)
from opavnic.vnic.counters import traffic_of
from opavnic.world.host_backends.backend import HostBackend
from opavnic.world.host_driver import HostDriver, ShownVnic
from opavnic.world.long_work import Steps
from opavnic.world.world import World
from vema.agent.agent import AgentCounters
from vema.base.types import ConfigState

Why = Callable[[HostVnic], str]
"""Returns why a VNIC is not up, as the EM knows it; empty if it is up, or the reason is not the EM's."""
NOT_CREATED: Final = "not created by the EM"
HELD_DOWN: Final = "held down by the EM"
NOT_CONFIGURED: Final = "not configured by the EM"
ENDED: Final = "ended"
KERNEL_DROPS: Final = ("tx_dropped", "rx_dropped")


ELEMENTS_AT_ONCE: Final = 256
"""Elements whose counters are read in one step."""


def lab_state(
    head: Mapping[str, Any],
    world: World,
    hosts: Mapping[str, HostBackend],
    running: RunningParts,
    *,
    vesw_names: Mapping[int, str],
    workers: int | str,
    counters: bool,
    why: Why,
    learns: bool,
    moves: Sequence[AddressMoves],
) -> Steps[LabState]:
    """Make the state of a lab; with `counters`, also the counters of every element. Each host is a step.

    Args:  head: the fields of the lab itself, including `datapath` and `failure`. vesw_names: names of known virtual
           switches by id. workers: how many the lab file asks for. why: the reason of a VNIC's state.
           learns: whether the EM learns the addresses of all virtual switches. moves: of those that it learns.
    """
    carrier = world.carrier
    if carrier is not None:
        carrier.sync()
    rows = []
    kernel: dict[str, dict[str, int]] = {}
    adapters: dict[str, ShownVnic] = {}
    for name, host in hosts.items():
        ports = world.drivers_of(name)
        vnics = [vnic for port in ports for vnic in vnics_of(host, port)]
        rows.append(host_status(host, ports, vnics, vesw_names, why, has_ended=bool(head["failure"])))
        kernel |= {f"{vnic} netdev": values for vnic, values in kernel_counters(vnics).items()}
        adapters |= {str(vnic): vnic.adapter for vnic in vnics if vnic.adapter is not None}
        yield
    drops = drop_status(world.fabric, kernel)
    more: dict[str, object] = {}
    if parts := running.status():
        more["parts"] = parts
    if counters:
        agents = {world.label_of(port.port): port.agent.counters for port in world.vnic_ports.values()}
        more["counters"] = (yield from counter_status(world.fabric, agents, adapters)) | kernel
    stuck = find_deadlock(world.fabric)
    said = [] if learns else hints(drops, adapters.values())
    if stuck is not None:
        said = [f"deadlock: {stuck.text}; {DEADLOCK_HINT}", *said]
    state = LabState(
        **head,
        engine=engine_status(world, head["datapath"], workers, rows),
        mads=world.mads,
        hosts=rows,
        vesws=list(moves),
        apps=[AppStatus(**app) for app in running.app_status()],
        links=link_status(world.fabric, head["datapath"]),
        drops=drops,
        balance=world.fabric.balance(),
        hints=said,
        deadlock=[] if stuck is None else stuck.waits,
    )
    return state.model_copy(update=more)  # counters are many, and need no validation


async def with_drift(state: LabState, reconciler: HostReconciler) -> LabState:
    """Return a status with where hosts are not what the lab file says, and what of it waits."""
    hosts = []
    for host in state.hosts:
        found = {"drift": await reconciler.drift_of(host.name), "waiting": [*reconciler.waiting(host.name)]}
        hosts.append(host.model_copy(update=found))
    return state.model_copy(update={"hosts": hosts})


async def with_devices(state: LabState, kernels: Kernels | None) -> LabState:
    """Return a status with counters to which those of the virtual HFIs of kernels are added."""
    if kernels is None or "counters" not in state.model_fields_set:
        return state
    return state.model_copy(update={"counters": state.counters | await kernels.counters()})


DEADLOCK_HINT: Final = (
    "nothing of this moves again until one of these links goes down: `opavnic topo` draws it"
)
"""What can be done about a deadlock."""


def engine_status(
    world: World, name: str, workers_wanted: int | str, hosts: Iterable[HostStatus]
) -> EngineStatus:
    """Return the engine, how many workers the lab file asks for, and what each carries.

    Args:  name: native or python. A native worker carries no VNICs of the lab's own process.
    """
    if world.carrier is None:
        vnics = sum(len(driver.adapters) for driver in world.drivers.values())
        loads: Sequence[tuple[int, int]] = [(vnics, len(world.fabric.links))]
        steered = missed = 0
    else:
        loads, steered, missed = world.carrier.loads, world.carrier.steered, world.carrier.missed
    return EngineStatus(
        name=name,
        workers_wanted=workers_wanted,
        workers=[WorkerLoad(engine=name, vnics=vnics, links=links) for vnics, links in loads],
        steered=steered,
        missed=missed,
        merging=Counter(protocol for host in hosts for vnic in host.vnics for protocol in vnic.merges),
    )


def kernel_counters(vnics: Iterable[HostVnic]) -> dict[str, dict[str, int]]:
    """Return the kernel's counters of each TAP, by host and virtual switch; TAPs that are gone are left out.

    The key of a TAP that the lab file does not mention is its host and interface.
    """
    found = {}
    for vnic in vnics:
        with contextlib.suppress(NetdevError):
            found_here = None if vnic.netdev is None else vnic.netdev.kernel_counters()
            if found_here is not None:
                found[str(vnic)] = found_here
    return found


def host_status(
    host: HostBackend,
    ports: Sequence[HostDriver],
    vnics: Iterable[HostVnic],
    vesw_names: Mapping[int, str],
    why: Why,
    *,
    has_ended: bool = False,
) -> HostStatus:
    """Return one host with its VNICs.

    Args:  ports: its management agents. vnics: of these ports. has_ended: the lab carries nothing any more.
    """
    by_name = {port.port.name: port for port in ports}
    return HostStatus(
        name=host.name,
        namespace=host.namespace_name,
        lid=ports[0].port.lid,
        speed=host.speed,
        vnics=[
            vnic_status(
                vnic, by_name[vnic.port.name].frames(vnic.vport_num), vesw_names, why, has_ended=has_ended
            )
            for vnic in vnics
        ],
    )


def vnic_status(
    vnic: HostVnic,
    frames: tuple[PacketCounters, PacketCounters],
    vesw_names: Mapping[int, str],
    why: Why,
    *,
    has_ended: bool = False,
) -> VnicStatus:
    """Return one VNIC.

    Args:  frames: its counters, tx and rx. Sent and delivered frames are shown, without FCS as in `ip -s link`.
           vesw_names: names of known virtual switches by id. why: the reason of a state that is up to the EM.
           has_ended: the lab carries nothing any more.
    """
    adapter, netdev, vesw_id = vnic.adapter, vnic.netdev, vnic.due_vesw_id
    addresses = list(map(str, vnic.addresses))
    return VnicStatus(
        vesw=vesw_names.get(vesw_id),
        vesw_id=vesw_id,
        port=vnic.port.name,
        lid=vnic.port.lid,
        vport_num=vnic.vport_num,
        interface=vnic.interface,
        ip=next(iter(addresses), None),
        other_ips=addresses[1:],
        mac=None if netdev is None else mac_text(netdev.host_address),
        mtu=None if netdev is None else netdev.mtu,
        state=ENDED if has_ended else vnic_state(vnic),
        reason=why(vnic),
        moved_to="" if netdev is None else netdev.moved_to,
        carrier=netdev is not None and netdev.carrier,
        oper_state=None if adapter is None else int(adapter.oper_state),
        merges=_merges(adapter),
        **traffic_of(*frames, None if adapter is None else adapter.counters),
    )


def is_up_to_the_em(state: str) -> bool:
    """Return whether a state of `vnic_state` is one whose reason an EM may know."""
    return state in (NOT_CREATED, HELD_DOWN, NOT_CONFIGURED)


def _merges(adapter: ShownVnic | None) -> list[str]:
    """Return the protocols of which received packets come to the host merged."""
    merging = Merging(tcp=False) if adapter is None else adapter.merging
    return [name for name, merged in merging._asdict().items() if merged]


def vnic_state(vnic: HostVnic) -> str:
    """Return the state of a VNIC in a few words: the first thing that is missing, or "up"."""
    adapter, netdev = vnic.adapter, vnic.netdev
    if vnic.lost:
        return f"lost: {vnic.lost}"
    if netdev is None or adapter is None:
        return NOT_CREATED
    if lost := getattr(netdev, "dead", None):
        return f"lost: {lost}"
    if adapter.config_state != ConfigState.FORWARDING:
        return HELD_DOWN if adapter.vesw_id else NOT_CONFIGURED
    if not netdev.is_up:
        return "down"
    if not netdev.carrier:
        return "no carrier"
    return UP if adapter.oper_state == ConfigState.FORWARDING else "not operational"


def link_status(fabric: Fabric, datapath: str = "python") -> list[LinkStatus]:
    """Return every link with its traffic in both directions and the datapath that carries it."""
    rows = []
    for link in fabric.links:
        forth, back = link.directions
        rows.append(
            LinkStatus(
                name=forth.name,
                state=_link_state(link),
                rate_bps_forth=forth.rate_bps,
                rate_bps_back=back.rate_bps,
                packets_forth=forth.counters.out_packets,
                packets_back=back.counters.out_packets,
                bytes_forth=forth.counters.out_bytes,
                bytes_back=back.counters.out_bytes,
                drops=forth.counters.dropped + back.counters.dropped,
                datapath=datapath,
            )
        )
    return rows


def _link_state(link: Link) -> str:
    if not link.up:
        return "down"
    cut = [name for name, way in zip(("forth", "back"), link.directions, strict=True) if not way.up]
    return f"down {' and '.join(cut)}" if cut else UP


def drop_status(fabric: Fabric, kernel: Mapping[str, Mapping[str, int]]) -> Drops:
    """Return the drops so far by element and reason, without elements that dropped nothing.

    Args:  kernel: the kernel's counters of each TAP, by the name of the TAP.
    """
    drops: Drops = fabric.drops()
    for name, counters in kernel.items():
        if here := {reason: counters[reason] for reason in KERNEL_DROPS if counters[reason]}:
            drops[name] = here
    return drops


def hints(drops: Mapping[str, Mapping[str, int]], adapters: Iterable[ShownVnic]) -> list[str]:
    """Return what may help against the drops so far, where the EM does not learn addresses.

    A switch without a route is also what a cut cable looks like: it counts if hosts have chosen addresses.
    """
    reasons = {reason for here in drops.values() for reason, count in here.items() if count}
    if Drop.VNIC_TX_DLID not in reasons and not (
        Drop.SW_NO_ROUTE in reasons and any(map(_has_chosen, adapters))
    ):
        return []
    return [
        "frames to MAC addresses that the EM has not given find no LID; `em: {mac: learn}` in the lab file lets it "
        "learn those that hosts choose"
    ]


def _has_chosen(adapter: ShownVnic) -> bool:
    """Return whether the host of a VNIC has given it an address beside that of the EM."""
    netdev = adapter.netdev
    return bool(netdev.uc_list) or (
        adapter.vesw_id != 0 and netdev.host_address != adapter.port_info.base_mac
    )


def counter_status(
    fabric: Fabric, agents: dict[str, AgentCounters], adapters: dict[str, ShownVnic]
) -> Steps[dict[str, dict[str, int]]]:
    """Make the counters of every element of the fabric, every management agent and every VNIC, by name."""
    counters: dict[str, dict[str, int]] = {}
    for number, (name, values) in enumerate(list(fabric.counters())):
        counters[name] = packet_counters(values)
        if not number % ELEMENTS_AT_ONCE:
            yield
    counters |= {f"{port.name} congestion": asdict(port.congestion) for port in fabric.hfi_ports()}
    counters |= {f"{host} agent": asdict(values) for host, values in agents.items()}
    for number, (name, adapter) in enumerate(adapters.items()):
        if adapter.counters is not None:
            counters[f"{name} ethtool"] = adapter.counters.ethtool_stats()
        if not number % ELEMENTS_AT_ONCE:
            yield
    return counters


def packet_counters(counters: PacketCounters) -> dict[str, int]:
    """Return packet counters with a separate counter for each drop reason."""
    data = asdict(counters)
    drops = data.pop("drops")
    return {**data, **{f"drop_{reason}": count for reason, count in drops.items()}}
