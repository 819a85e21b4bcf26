"""A world: a fabric that is wired, with its subnet manager, its faults and the VNIC ports of its hosts.

world = World(topology, clock=clock)
world.set_pkeys(world.hosts["h1"].port, [0x8002])
world.subnet_manager.sweep()
world.add_vnic_port("h1", netdevs=lambda vport_num: MemoryNetdev(f"veth{vport_num}"))
...
await world.close()

Labs, scenarios, demonstrations and benchmarks all use one. A world does not know lab files or directories, and needs no
event loop if it is given another clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from hfi_sim.base.clock import Clock
from hfi_sim.base.text import unknown_name
from hfi_sim.engine.api import EngineFactory
from hfi_sim.engine.driver import DriverFactory, EngineDriver
from hfi_sim.engine.link.config import PLAIN_LINK
from hfi_sim.engine.link.two_way import LinkOptions
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.fabric.faults.manager import Faults
from hfi_sim.fabric.topology import Topology
from hfi_sim.management.mad.agents import MadRequest
from hfi_sim.nodes.hfi import Hfi, HfiPort, NetdevFactory
from hfi_sim.subnet_manager import Routing, SubnetManager
from hfi_sim.subnet_manager.administration.service import AdministrationService
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.mad.header import MadClass, Method
from opavnic.base.errors import OpavnicError
from opavnic.vnic.adapter import Configured, no_host
from opavnic.vnic.vnic_port import VnicPort
from opavnic.world.cleanups import Cleanups, complain
from opavnic.world.em_node import EM_NODE
from opavnic.world.host_driver import CrashHandler, HeldBy, HostDriver, WorldHost, no_netdevs
from opavnic.world.power_on import DESCRIPTIONS, allow_management, describe
from vema.base.types import EMA_OUI

if TYPE_CHECKING:
    from opavnic.datapath.native_thread import NativeDatapath

TrapHandler = Callable[[MadRequest], None]
ManagedBy = Literal["builtin", "external", "remote"]
"""Manager that brings a fabric up: the built-in subnet manager, a fabric manager started in a host, or the
built-in subnet manager on another machine of the cluster."""


class World:
    """A wired fabric and what runs on its ports. `cleanups` undoes everything in reverse order."""

    def __init__(
        self,
        topology: Topology,
        *,
        clock: Clock | None = None,
        seed: int = 1,
        icrc: Icrc | None = None,
        timer_resolution_s: float | None = None,
        subnet_manager: ManagedBy = "builtin",
        routing: Routing | str | None = None,
        link: LinkOptions = PLAIN_LINK,
        em_node: str | None = EM_NODE,
        engine: EngineFactory = PythonEngine,
        driver: DriverFactory = EngineDriver,
        cleanups: Cleanups | None = None,
        remote_nodes: Collection[str] = (),
        descriptions: str = DESCRIPTIONS,
    ) -> None:
        """Build the fabric. No packet passes until a subnet manager sweeps, which is left to the caller.

        Args:    clock: an event loop or another clock; None: packets arrive at once. seed: of all randomness.
                 timer_resolution_s: shorter link delays are skipped; see Fabric. subnet_manager: external: no sweep is
                 made here; ports stay in INIT until a fabric manager on some port activates them. routing: a Routing,
                 or the name of an engine, for the built-in subnet manager. link: options that links do not set
                 themselves. em_node: the node of the managers, attached to a switch if the topology lacks it; None: no
                 EM, and a subnet manager that sees the whole fabric. engine: makes what carries the packets, see
                 `opavnic.engine.engine_factory`. driver: makes what drives the engine. cleanups: where to register
                 cleanups, if not in a list of its own. remote_nodes: nodes that other machines carry.
                 descriptions: what HFIs say of themselves; `%h`: host, `%d`: device, `%n`: the HFI's name here.
        Raises:  TopologyError: the topology cannot be built. FabricError: an unknown routing
                 engine, a link's option out of range.
        """
        self.fabric = Fabric(
            clock,
            seed=seed,
            icrc=icrc,
            timer_resolution_s=timer_resolution_s,
            engine=engine,
            driver=driver,
            remote_nodes=remote_nodes,
        )
        self.clock: Clock = self.fabric.clock
        self.topology = topology
        if em_node is not None and em_node not in topology.nodes:
            topology.attach(em_node)
        topology.build(self.fabric, link=link)
        self.hosts: dict[str, WorldHost] = {}
        """All hosts by name, without the EM's node."""
        self._host_of: dict[int, str] = {}
        self._descriptions = descriptions
        for name, nodes in topology.hosts().items():
            hfis = [self.fabric.hfis[node.name] for node in nodes]
            if name == em_node:
                describe(name, hfis, descriptions)
            else:
                self._enter_host(name, hfis)
        self._em_port = None if em_node is None else self.fabric.hfis[em_node].ports[1]
        self.managed_by = subnet_manager
        self._subnet_manager: SubnetManager | None = None
        self._added_pkeys: dict[str, list[int]] = {}
        """The partitions of `add_pkey`, by HFI:PORT."""
        self.administration: AdministrationService | None = None
        """Answers queries about the subnet; None without a port to answer on."""
        if subnet_manager == "builtin":
            paths = Routing(engine=routing) if isinstance(routing, str) else routing
            self._subnet_manager = SubnetManager(self.fabric, self._em_port, routing=paths)
            self._subnet_manager.keep_lids(topology.lids(self.fabric))
            if self._em_port is not None:
                self.administration = AdministrationService(self._subnet_manager, self._em_port, self.clock)
        elif subnet_manager == "external":
            for port in self.fabric.hfi_ports():
                port.take_any_group()
                allow_management(port, True)
        self.faults = Faults(self.fabric)
        self.vnic_ports: dict[str, VnicPort] = {}
        """The management agent and the VNICs of each port whose driver is ours, by HFI:PORT."""
        self.drivers: dict[str, HostDriver] = {}
        """The driver of each port that has one, by HFI:PORT."""
        self._held_down: dict[str, set[HeldBy]] = {}
        """What keeps the agent of a port from running."""
        self._unloaded: dict[str, Callable[[], None]] = {}
        self.carrier: NativeDatapath | None = None
        """What carries frames of VNICs instead of Python; None: Python carries all."""
        self._crash_handlers: list[CrashHandler] = []
        self._restart_handlers: list[CrashHandler] = []
        self._trap_handlers: list[TrapHandler] = []
        self.cleanups = Cleanups() if cleanups is None else cleanups
        """The cleanups of this world; code that starts something registers its cleanup here."""
        self.cleanups.add("MAD stacks", self._end_mads)
        if self._subnet_manager is not None:
            self.cleanups.add("subnet manager", self._subnet_manager.stop)
        if self.administration is not None:
            self.cleanups.add("subnet administration", self.administration.stop)
        self.cleanups.add("faults", self.faults.clear)
        self._ends = self.cleanups.group("VNICs")
        self._vnic_ends: dict[str, Callable[[], None]] = {}
        """Take the ends of VNICs back that are gone before."""

    async def __aenter__(self) -> Self:
        """Return the world; `close` it when the context is left."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything.

        Raises:  OpavnicError: something failed to stop; the rest has ended. If the context is left by an error,
                 that one gets a note instead.
        """
        complain("; ".join(await self.close()), error)

    def _end_mads(self) -> None:
        for port in self.fabric.hfi_ports():
            self.fabric.end_management(port)
        for switch in self.fabric.switches.values():
            self.fabric.end_management(switch.port0)

    async def close(self) -> list[str]:
        """End everything in reverse order; return what failed to stop, and why."""
        return await self.cleanups.close()

    # --- hosts ---------------------------------------------------------------------------------------------

    @property
    def em_port(self) -> HfiPort:
        """The port that the Ethernet Manager and the subnet manager run on.

        Raises:  OpavnicError: this world was made without one.
        """
        if self._em_port is None:
            raise OpavnicError(f"the fabric {self.topology.name} has no node for an Ethernet Manager")
        return self._em_port

    @property
    def subnet_manager(self) -> SubnetManager:
        """The built-in subnet manager.

        Raises:  OpavnicError: the fabric is left to a fabric manager of the user's.
        """
        if self._subnet_manager is None:
            raise OpavnicError(
                f"the fabric {self.topology.name} has no subnet manager of its own (subnet_manager: external): its "
                "fabric manager gives LIDs, P_Keys and routes"
            )
        return self._subnet_manager

    def host(self, name: str) -> WorldHost:
        """Return a host.

        Raises:  OpavnicError: no host has that name.
        """
        if name not in self.hosts:
            raise OpavnicError(unknown_name("host", name, self.hosts))
        return self.hosts[name]

    def host_of(self, port: HfiPort) -> str:
        """Return the name of the host that a port belongs to; that of its HFI if it is not a host's."""
        return self._host_of.get(port.hfi.node_guid, port.hfi.name)

    def add_host(
        self,
        name: str,
        hfis: Iterable[str] = (),
        *,
        ports: int = 1,
        guids: Mapping[str, int | None] | None = None,
    ) -> WorldHost:
        """Add a host to a world that is already built. The caller cables its HFIs.

        Args:    hfis: the names of its HFIs; default: one named as the host. ports: number of ports of each HFI.
                 guids: node GUIDs that HFIs ask for, by name.
        Raises:  FabricError: a name or a GUID is taken.
        """
        named, wanted = tuple(hfis) or (name,), guids or {}
        added = [self.fabric.add_hfi(hfi, ports=ports, guid=wanted.get(hfi)) for hfi in named]
        return self._enter_host(name, added)

    def _enter_host(self, name: str, hfis: Iterable[Hfi]) -> WorldHost:
        host = self.hosts[name] = WorldHost(name, tuple(hfis))
        self._host_of |= {hfi.node_guid: name for hfi in host.hfis}
        describe(name, host.hfis, self._descriptions)
        return host

    # --- partitions and traffic ---------------------------------------------------------------------------

    def set_pkeys(self, port: HfiPort, pkeys: Iterable[int]) -> None:
        """Set the partitions of a port, besides the management partition and those of `add_pkey`.

        Raises:  OpavnicError: the fabric has no built-in subnet manager.
        """
        self.subnet_manager.set_pkeys(port, [*pkeys, *self._added_pkeys.get(port.name, ())])

    def add_pkey(self, port: HfiPort, pkey: int) -> None:
        """Let a port be in one more partition; `set_pkeys` does not take it out again.

        Raises:  OpavnicError: the fabric has no built-in subnet manager.
        """
        self.subnet_manager.set_pkeys(port, [*self.subnet_manager.pkeys_of(port), pkey])
        self._added_pkeys.setdefault(port.name, []).append(pkey)

    def refresh(self) -> None:
        """Make the carrier react to changed devices now."""
        if self.carrier is not None:
            self.carrier.refresh()

    @property
    def mads(self) -> int:
        """Number of MADs sent by all ports, including responses and retries."""
        return sum(port.mad.sent for port in self.fabric.hfi_ports())

    def on_trap(self, handler: TrapHandler) -> Callable[[], None]:
        """Call `handler` for each trap that reaches the EM's node; the returned function unsubscribes it."""
        if not self._trap_handlers:
            self._trap_agent = self.em_port.mad.register_agent(
                MadClass.EMA, EMA_OUI, (Method.TRAP,), self._trap
            )
        self._trap_handlers.append(handler)
        return partial(self._leave_traps, handler)

    def _leave_traps(self, handler: TrapHandler) -> None:
        self._trap_handlers.remove(handler)
        if not self._trap_handlers:
            self.em_port.mad.unregister_agent(self._trap_agent)

    def _trap(self, request: MadRequest) -> None:
        for handler in tuple(self._trap_handlers):
            handler(request)

    # --- VNIC ports ----------------------------------------------------------------------------------------

    def add_vnic_port(
        self,
        host: str,
        *,
        netdevs: NetdevFactory,
        port: HfiPort | None = None,
        can_crash: bool = True,
        driver_quirks: bool = False,
        sets_need_full_member: bool = True,
        smac_filter: bool = True,
        configured: Configured = no_host,
        unloaded: Callable[[], None] = no_netdevs,
    ) -> VnicPort:
        """Start the management agent on a port of a host; from here on an EM can configure VNICs there.

        Args:    netdevs: makes the netdev of a vport. port: of that host; default: its first. can_crash: let the fault
                 `crash on HOST` unload the driver of the host. unloaded: called when the netdevs of the port are gone,
                 with its driver or its HFI. The others are those of VnicPort.
        Raises:  OpavnicError: no such host. FabricError: the port has an agent already.
        """
        port = self.host(host).port if port is None else port
        port.netdevs = netdevs
        vnic_port = VnicPort(
            port,
            self.clock,
            driver_quirks=driver_quirks,
            sets_need_full_member=sets_need_full_member,
            smac_filter=smac_filter,
            attached=self.fabric.attached,
            configured=configured,
        )
        self.vnic_ports[port.name] = vnic_port
        self.add_driver(host, vnic_port, can_crash=can_crash, unloaded=unloaded)
        return vnic_port

    def add_driver(
        self,
        host: str,
        driver: HostDriver,
        *,
        can_crash: bool = True,
        unloaded: Callable[[], None] = no_netdevs,
    ) -> None:
        """Let a driver have a port of a host. Args:  can_crash, unloaded: as for `add_vnic_port`."""
        port = driver.port
        self.drivers[port.name] = driver
        self._unloaded[port.name] = unloaded
        end = partial(self._close_driver, host, port.name)
        self._vnic_ends[port.name] = self._ends.add(f"VNICs of {self.label_of(port)}", end)
        if port is self.host(host).port:
            self.faults.hook(
                host, partial(self.crash, host), partial(self.restart, host), can_crash=can_crash
            )
        taken, put_back = partial(self._take_device, host, port), partial(self._put_device, host, port)
        self.faults.hook(port.name, taken, put_back, can_crash=False, hfi=port.hfi.name)

    def _close_driver(self, host: str, port: str) -> None:
        for hooked in (host, port):
            self.faults.unhook(hooked)  # a fault that ends later must not start the driver again
        self.drivers[port].close()

    def drivers_of(self, host: str) -> list[HostDriver]:
        """Return the drivers of a host's ports, in order."""
        return [self.drivers[port.name] for port in self.host(host).ports if port.name in self.drivers]

    def label_of(self, port: HfiPort) -> str:
        """Return the name of a port among the counters of agents: that of its host for the first, else HFI:PORT."""
        host = self.host_of(port)
        return host if host in self.hosts and self.hosts[host].port is port else port.name

    def crash(self, host: str) -> None:
        """Unload the driver of a host: its VNICs disappear until it is loaded again and an EM configures it."""
        for driver in self.drivers_of(host):
            self._hold_down(driver, "driver")
        for handler in tuple(self._crash_handlers):
            handler(host)

    def restart(self, host: str) -> None:
        """Load the driver of a host again after `crash`."""
        for driver in self.drivers_of(host):
            self._let_up(driver, "driver")
        for handler in tuple(self._restart_handlers):
            handler(host)

    def _take_device(self, host: str, port: HfiPort) -> None:
        """Take a port with its HFI away from the driver. Parts of a host are on its first port."""
        self._hold_down(self.drivers[port.name], "removal")
        for handler in tuple(self._crash_handlers) if port is self.host(host).port else ():
            handler(host)

    def _put_device(self, host: str, port: HfiPort) -> None:
        self._let_up(self.drivers[port.name], "removal")
        for handler in tuple(self._restart_handlers) if port is self.host(host).port else ():
            handler(host)

    def _hold_down(self, driver: HostDriver, by: HeldBy) -> None:
        name = driver.port.name
        self._held_down.setdefault(name, set()).add(by)
        driver.crash()
        self._unloaded[name]()

    def _let_up(self, driver: HostDriver, by: HeldBy) -> None:
        held = self._held_down.get(driver.port.name, set())
        held.discard(by)
        if not held:
            driver.restart()

    def on_restart(self, handler: CrashHandler) -> Callable[[], None]:
        """Call `handler` when the driver of a host has been loaded again; the returned function unsubscribes it."""
        self._restart_handlers.append(handler)
        return partial(self._restart_handlers.remove, handler)

    def lose(self, host: str) -> None:
        """Take a host that is gone off the fabric for good: its driver is unloaded, its links go down."""
        self.faults.unhook(host)
        self.crash(host)
        links = [port.link for port in self.host(host).ports if port.link is not None]
        self.fabric.set_links(links, False, by=f"{host} is gone")

    def forget_switch(self, name: str) -> None:
        """Let the subnet manager know that a switch is about to go for good."""
        if self._subnet_manager is not None:
            self._subnet_manager.forget_switch(self.fabric.switches[name])

    def keep_lids(self, topology: Topology) -> None:
        """Let new nodes have the LIDs that a topology says. Raises FabricError: one is another port's."""
        if self._subnet_manager is not None:
            self._subnet_manager.keep_lids(topology.lids(self.fabric))

    def remove_host(self, name: str) -> list[str]:
        """Take a host off the fabric for good, with its agents, VNICs, HFIs and cables; return the faults that ended.

        Raises:  OpavnicError: no host has that name.
        """
        host = self.host(name)
        nodes = {hfi.name for hfi in host.hfis}
        links = [port.link for port in host.ports if port.link is not None]
        ended = self.faults.leave(nodes, links, {name})
        for vnics in self.drivers_of(name):
            port = vnics.port.name
            self._vnic_ends.pop(port)()
            self._close_driver(name, port)
            self.vnic_ports.pop(port, None)
            del self.drivers[port], self._unloaded[port]
            self._held_down.pop(port, None)
            for key in vnics.counted:
                self.fabric.attached.pop(key, None)
        if self._subnet_manager is not None:
            for of_host in host.ports:
                self._added_pkeys.pop(of_host.name, None)
                self._subnet_manager.forget(of_host)
        self.fabric.remove_nodes(nodes)
        del self.hosts[name]
        self._host_of = {guid: of for guid, of in self._host_of.items() if of != name}
        return ended

    def on_crash(self, handler: CrashHandler) -> Callable[[], None]:
        """Call `handler` when the driver of a host has been unloaded; the returned function unsubscribes it."""
        self._crash_handlers.append(handler)
        return partial(self._crash_handlers.remove, handler)
