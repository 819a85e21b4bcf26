"""LNet hosts on a world in memory, for examples, the benchmark and tests. Needs neither root nor namespaces."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from hfi_sim.base.clock import Clock
from hfi_sim.engine.link.config import LinkConfig
from hfi_sim.fabric.topology import Topology
from hfi_sim.management.reliable.service import DEFAULT_PKEY
from hfi_sim.nodes.hfi import HfiPort
from lnet.base.nid import Nid
from lnet.node.deliveries import GetHandler, nothing_to_get
from lnet.node.node import LnetInterface, LnetNode
from lnet.objects.stats import Received, Report, SendDone, SendFailed
from lnet.settings.config import LndConfig
from lnet.settings.networks import Bonding, parse_networks
from lnet.settings.targets import parse_targets
from opavnic.world.world import World


@dataclass(slots=True)
class RigHost:
    """One host: its node, its ports by interface, and all its reports."""

    node: LnetNode
    ports: dict[str, HfiPort]
    reports: list[Report] = field(default_factory=list)

    @property
    def nid(self) -> Nid:
        """The NID of the first network."""
        return next(iter(self.node.lnd.nis.values())).nid

    @property
    def received(self) -> list[Received]:
        """PUTs delivered to this host."""
        return [report for report in self.reports if isinstance(report, Received)]

    @property
    def done(self) -> list[SendDone]:
        """Messages of this host that are done."""
        return [report for report in self.reports if isinstance(report, SendDone)]

    @property
    def failed(self) -> list[SendFailed]:
        """Messages of this host that failed."""
        return [report for report in self.reports if isinstance(report, SendFailed)]


class LnetRig:
    """One switch, and hosts with an HFI for each interface `ib0`, `ib1`, ..."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int = 1,
        rate_bps: float = 100e9,
        config: LndConfig | None = None,
        bonding: Bonding = Bonding.O2IBS,
    ) -> None:
        """Make the switch. `bonding`: that of every network of every host."""
        topology = Topology("one switch")
        topology.switch("sw0")
        self.world = World(topology, clock=clock, seed=seed, em_node=None)
        self.rng = random.Random(seed)
        self.hosts: dict[str, RigHost] = {}
        self._rate_bps = rate_bps
        self._config = config
        self._bonding = bonding
        self._addresses: dict[IPv4Address, HfiPort] = {}
        self._switch_ports = 0

    def resolve(self, addr: IPv4Address) -> int | None:
        """Return the LID of the port with address `addr`, or None."""
        port = self._addresses.get(addr)
        return port.lid if port is not None else None

    def add_host(
        self,
        name: str,
        addresses: Sequence[str],
        *,
        networks: str = "",
        targets: str = "",
        config: LndConfig | None = None,
        rates_bps: Mapping[str, float] | None = None,
        get_handler: GetHandler = nothing_to_get,
        stamp: int = 1,
    ) -> RigHost:
        """Add a host with an HFI for each address, and start LNet on it.

        Args:    networks: in the syntax of the module parameter; default: one network o2ib0 over all interfaces.
                 targets: text of a targets file. rates_bps: link rates, by interface, that differ from the rig's.
        """
        names = [f"ib{index}" for index in range(len(addresses))]
        host = self.world.add_host(name, [f"{name}-{ifname}" for ifname in names])
        interfaces = [
            LnetInterface(ifname, IPv4Address(addr), port)
            for ifname, addr, port in zip(names, addresses, host.ports, strict=True)
        ]
        for interface in interfaces:
            self._cable(interface.port, (rates_bps or {}).get(interface.name, self._rate_bps))
            self._addresses[interface.addr] = interface.port
        self.world.subnet_manager.sweep()
        return self._start(name, interfaces, networks, targets, config, get_handler, stamp)

    def _start(
        self,
        name: str,
        interfaces: Iterable[LnetInterface],
        networks: str,
        targets: str,
        config: LndConfig | None,
        get_handler: GetHandler,
        stamp: int,
    ) -> RigHost:
        interfaces = list(interfaces)
        reports: list[Report] = []
        node = LnetNode(
            name,
            interfaces,
            self.resolve,
            self.world.clock,
            self.rng,
            on_report=reports.append,
            stamp=stamp,
            config=config or self._config,
            get_handler=get_handler,
        )
        host = RigHost(node, {interface.name: interface.port for interface in interfaces}, reports)
        for target in parse_targets(targets):
            node.lnd.targets[target.tg_nid] = target
        everything = f"o2ib0({','.join(host.ports)})"
        for group in parse_networks(networks or everything):
            node.add_net(replace(group, bonding=self._bonding))
        self.hosts[name] = host
        return host

    def restart(self, name: str, *, stamp: int, targets: str = "") -> RigHost:
        """Restart LNet on a host, as a later incarnation without any memory of the earlier one."""
        old = self.hosts[name].node
        old.shutdown()
        return self._start(name, old.interfaces.values(), "", targets, old.lnd.config, nothing_to_get, stamp)

    def _cable(self, port: HfiPort, rate_bps: float) -> None:
        self._switch_ports += 1
        fabric = self.world.fabric
        fabric.connect(port, fabric.switches["sw0"].ports[self._switch_ports], LinkConfig(rate_bps=rate_bps))
        self.world.set_pkeys(port, [DEFAULT_PKEY])
