"""A scenario: everything a test needs, built without an event loop, run inside the test, checked at its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from hfi_sim.base.clock import Clock, ManualClock
from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import ETH_MTU_MAX, CapabilityMask3
from hfi_sim.engine.api import EngineFactory
from hfi_sim.engine.link.config import PLAIN_LINK
from hfi_sim.engine.link.two_way import LinkOptions, TwoWay
from hfi_sim.engine.python import PythonEngine
from hfi_sim.fabric.topology import Cable, Topology
from hfi_sim.fabric.topology.model import parse_end
from hfi_sim.fabric.trace import Trace
from hfi_sim.netdev.base import Netdev
from hfi_sim.netdev.memory import MemoryNetdev
from hfi_sim.subnet_manager import Routing
from opavnic.scenario.base import LoopClock, ScenarioError, Timeline, check_time
from opavnic.scenario.em import ScenarioEm
from opavnic.scenario.hosts import Hosts, ScenarioFabric, ScenarioHost
from opavnic.scenario.kernels import ScenarioKernel, check_kernels
from opavnic.scenario.link_layer import MemoryLink
from opavnic.scenario.mad import ScenarioSimulator
from opavnic.scenario.tap_backend import TapBackend
from opavnic.scenario.vnic import ScenarioVnic
from opavnic.state.em import EmEvent
from opavnic.world.change_log import ChangeLog
from opavnic.world.host_backends.given import VnicKey
from opavnic.world.wiring import lay, link_at, port_at, take_away
from opavnic.world.world import World
from vema.em.service.simulator import MadSimulator

log = logging.getLogger("opavnic.scenario")

DEFAULT_SEED: Final = 1
DEFAULT_FABRIC_ID: Final = 0x001


class Scenario(ScenarioFabric):
    """A fabric with a subnet manager and an Ethernet Manager, and a VNIC port on each host."""

    def __init__(
        self,
        topology: Topology,
        *,
        seed: int = DEFAULT_SEED,
        routing: Routing | str | None = None,
        link: LinkOptions = PLAIN_LINK,
        fabric_id: int = DEFAULT_FABRIC_ID,
        clock: Clock | None = None,
        engine: EngineFactory = PythonEngine,
        real: bool = False,
        manager: Literal["em", "simulator"] = "em",
        kernels: Sequence[str] = (),
    ) -> None:
        """Build the fabric; needs no running event loop yet.

        Args:    topology: gets one more HFI, `em`, on a switch. seed: of all randomness.
                 routing: a Routing, or the name of an engine. link: options of every link: a LinkConfig, or a
                 TwoWay where its directions differ.
                 clock: for tests without an event loop, a ManualClock. engine: makes what carries the packets.
                 real: TAPs in network namespaces instead of memory; needs privilege. manager: what configures the
                 VNICs: the Ethernet Manager, or the test itself through `mad_simulator`. kernels: hosts that are
                 Linux with its own opa_vnic, which `opavnic kernel build` builds; they need an event loop on virtual
                 time.
        Raises:  TopologyError: the topology cannot be built. FabricError: an unknown routing
                 engine, a link's option out of range. ScenarioError: kernels: an unknown host, or on real time.
        """
        self.seed = seed
        time: Clock = clock if clock is not None else LoopClock()
        self.timeline = Timeline(time)
        self.tap_backend = TapBackend() if real else None
        world = World(
            topology,
            clock=time,
            engine=engine,
            seed=seed,
            timer_resolution_s=1e-3 if real else 0.0,
            routing=routing,
            link=link,
        )
        super().__init__(world, time, fabric_id, real=real)
        self._link = link
        self.trace = Trace(self.fabric)
        self.changes = ChangeLog(self.fabric, self.faults, self.clock.time)
        """What has happened to links and faults."""
        self._at_end: tuple[list[dict[str, Any]], frozenset[str], list[EmEvent]] | None = None
        with self.timeline.recording():
            self.subnet_manager.sweep()
        self.hosts = Hosts(
            {name: ScenarioHost(self, name, host.ports) for name, host in self.world.hosts.items()}
        )
        check_kernels(kernels, self.hosts.names)
        if kernels and (real or not isinstance(self.clock, LoopClock)):
            raise ScenarioError("a host that is a kernel needs virtual time, and a test that is a coroutine")
        self._kernel_names = kernels
        self._em: ScenarioEm | None = None
        self._simulator = ScenarioSimulator(self) if manager == "simulator" else None
        self._stand_ins: dict[str, MadSimulator] = {}
        self._has_begun = False
        self.has_failed = False
        """Whether the test has failed: what it left behind then says nothing more."""
        self._tasks_before: set[asyncio.Task[Any]] = set()
        self._callback_errors: list[BaseException] = []

    # --- running -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start agents and the Ethernet Manager."""
        self._tasks_before = set(asyncio.all_tasks())
        if isinstance(self.clock, LoopClock):
            self.clock.bind()
        try:
            self._start()
            for kernel in self.kernels.values():
                await kernel.await_ready()
        except BaseException as error:
            await self._close(error)
            raise
        self._has_begun = True
        return self

    def _start(self) -> None:
        cleanups = self.world.cleanups
        recording = contextlib.ExitStack()
        cleanups.add("recording", recording.close)
        recording.enter_context(self.timeline.recording())
        recording.enter_context(self._noticing_callback_errors())
        if self.tap_backend is not None:
            cleanups.add("namespaces", self.tap_backend.close)
            self.tap_backend.open(self.hosts.names)
        for name in self._kernel_names:
            port = self.hosts[name].port
            kernel = ScenarioKernel(port, name, self.clock, self.seed, self.fabric.attached)
            self.kernels[name] = kernel
            cleanups.add(f"kernel of {name}", kernel.close)
        for host in self.hosts:
            if host.name not in self.kernels:
                self._add_agents(host)
        if self._simulator is None:
            self._em = ScenarioEm(self)
            cleanups.add("Ethernet Manager", self._em.close)
            self._em.begin()
        else:
            cleanups.add("MAD simulator", self._simulator.stop)
            self._simulator.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything; then, unless the test failed, `check`.

        Raises:  ScenarioError: something failed to stop; the rest has ended. AssertionError: see `check`. If the test
                 failed, its own error is kept.
        """
        await self._close(error)
        if error is None and not self.has_failed:
            self.check()

    async def _close(self, error: BaseException | None) -> None:
        self._at_end = self.fault_log, self.links_down, self.em_events
        failed = "; ".join(await self.world.close())
        if failed and error is None:
            raise ScenarioError(f"the scenario failed to stop: {failed}")
        if failed and error is not None:
            error.add_note(failed)

    @property
    def fault_log(self) -> list[dict[str, Any]]:
        """The state of the faults: now, or at the end of the scenario."""
        return self.faults.show() if self._at_end is None else self._at_end[0]

    @property
    def links_down(self) -> frozenset[str]:
        """Names of the links that are down, or were at the end of the scenario."""
        if self._at_end is not None:
            return self._at_end[1]
        return frozenset(link.name for link in self.fabric.links if not link.up)

    @property
    def em_events(self) -> list[EmEvent]:
        """The events of the Ethernet Manager, oldest first: now, or at the end of the scenario."""
        if self._at_end is not None:
            return self._at_end[2]
        return [] if self._em is None else self._em.events

    def check(self) -> None:
        """Check that packets are conserved, that no callback raised, and that no task or namespace is left.

        Raises:  AssertionError: a check failed; the message names what is wrong.
        """
        self.check_packets()
        if left := self._tasks_left():
            raise AssertionError(f"tasks are left running: {', '.join(map(_task_text, left))}")
        left_over = (
            self.tap_backend.leftovers() if self.tap_backend is not None and not self.is_running else ()
        )
        if left_over:
            raise AssertionError(f"namespaces are left: {', '.join(left_over)}")

    def _tasks_left(self) -> set[asyncio.Task[Any]]:
        if not isinstance(self.clock, LoopClock) or not self._has_begun:
            return set()
        loop = self.clock.bind()
        own = asyncio.current_task(loop)  # a test that has ended is no task any more
        return {task for task in asyncio.all_tasks(loop) - self._tasks_before if task is not own}

    def check_packets(self) -> None:
        """Check what can be checked while the scenario runs: packets are conserved, and no callback raised.

        Raises:  AssertionError: a check failed; the message names what is wrong.
        """
        # `raise`, not `assert`, so that the checks work under python -O
        if self._callback_errors:
            first = self._callback_errors[0]
            raise AssertionError(f"a callback of the event loop raised {first!r}") from first
        balance = self.fabric.balance()
        if balance:
            raise AssertionError(f"conservation is violated (packets too many or too few): {balance}")

    @contextlib.contextmanager
    def _noticing_callback_errors(self) -> Iterator[None]:
        """Keep what callbacks raise (a device's `on_frame`, a fault's hook): asyncio would only log it."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()

        def notice(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            # with a handle: a callback raised; without: a task found by the garbage collector, perhaps much later
            if "handle" in context and error is not None:
                self._callback_errors.append(error)
            if before is not None:
                before(loop, context)
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(notice)
        try:
            yield
        finally:
            loop.set_exception_handler(before)

    @property
    def is_running(self) -> bool:
        """Whether agents and manager have been started, and not stopped."""
        return self._has_begun and self._at_end is None

    # --- managers ------------------------------------------------------------------------------------------

    @property
    def em(self) -> ScenarioEm:
        """The Ethernet Manager.

        Raises:  ScenarioError: the scenario is not running, or uses `mad_simulator` instead.
        """
        if self._em is None:
            why = "the scenario is not running yet"
            if self._simulator is not None:
                why = "the scenario uses mad_simulator instead"
            elif isinstance(self.clock, ManualClock):
                why = "it needs an event loop, and the test is a plain function; make it a coroutine (async def)"
            raise ScenarioError(f"there is no Ethernet Manager: {why}")
        return self._em

    @property
    def mad_simulator(self) -> ScenarioSimulator:
        """The simulator that takes the place of the Ethernet Manager.

        Raises:  ScenarioError: the scenario has a real Ethernet Manager.
        """
        if self._simulator is None:
            raise ScenarioError('there is no MAD simulator: create the scenario with manager="simulator"')
        return self._simulator

    @property
    def _manager(self) -> ScenarioEm | ScenarioSimulator:
        return self.em if self._simulator is None else self._simulator

    def stand_in(self, host: str | ScenarioHost) -> MadSimulator:
        """Replace a host's management agent by a simulator, and return it.

        Its `expect_request` returns the requests of the manager, and its `reply` answers them.

        Args:    host: by name, or itself.
        Raises:  ScenarioError: an unknown host, or the scenario is not running.
        """
        host = self.hosts.find(host)
        if host.port.name not in self.world.vnic_ports:
            raise ScenarioError(f"{host.name} has no agent: agents run only in coroutine tests")
        if host.name not in self._stand_ins:
            self.world.crash(host.name)
            self.faults.unhook(host.name)
            self._stand_ins[host.name] = MadSimulator(host.port.mad, as_agent=True)
            host.port.announce(CapabilityMask3.ETH_ON_FABRIC_SUPPORTED)
        return self._stand_ins[host.name]

    # --- what comes and goes -------------------------------------------------------------------------------

    def add_host(self, name: str, at: str, link: LinkOptions | None = None) -> ScenarioHost:
        """Add a host with one HFI, cabled to a port of a switch; it is in no virtual switch yet.

        Args:    at: the port, such as sw0:7. link: options of its cable; default: those of every link.
        Raises:  FabricError: the name or the port is taken, or there is no such switch.
        """
        if self.tap_backend is not None:
            raise ScenarioError("hosts come and go in memory only: a scenario with real=True keeps its hosts")
        cable = Cable((name, 1), parse_end(at), TwoWay.of(self._link if link is None else link))
        port_at(self.world, cable.b)  # before anything is added
        with self.fabric.together():
            host = self.world.add_host(name)
            self.subnet_manager.set_management(host.port, False)
            lay(self.world, [cable])
        added = ScenarioHost(self, name, host.ports)
        self.hosts.add(added)
        self._add_agents(added)
        return added

    def _add_agents(self, host: ScenarioHost) -> None:
        for port in host.ports:
            self.world.add_vnic_port(
                host.name,
                port=port,
                netdevs=partial(self._make_netdev, host.name, port.name),
                unloaded=partial(self._forget_links, host, port.name),
            )

    async def remove_host(self, host: str | ScenarioHost) -> None:
        """Take a host off its virtual switches, then off the fabric, with its cables. Args: host: or its name."""
        host = self.hosts.find(host)
        for vesw, section in list(self.em.vesws.items()):
            members = [name for name in section["members"] if self.hosts.member(name)[0] is not host]
            if not members:
                await self.em.remove(vesw)
            elif len(members) < len(section["members"]):
                await self.em.update(vesw, members=members)
        for port in host.ports:
            self._forget_links(host, port.name)
        self.world.remove_host(host.name)
        self.hosts.remove(host)

    def add_link(self, near: str, far: str, link: LinkOptions | None = None) -> None:
        """Lay a cable between two free ports.

        Args:    near: one, such as sw0:7. far: the other. link: options of the cable; default: those of every link.
        Raises:  FabricError: a port is taken.
        """
        lay(
            self.world,
            [Cable(parse_end(near), parse_end(far), TwoWay.of(self._link if link is None else link))],
        )

    def remove_link(self, near: str, far: str) -> None:
        """Take a cable away; what is on its way there is lost (link_down).

        Args:    near: its port at one end, such as sw0:7. far: that at the other.
        Raises:  FabricError: there is none.
        """
        ends = parse_end(near), parse_end(far)
        link_at(self.world, ends)
        take_away(self.world, [Cable(*ends)])

    # --- hosts ---------------------------------------------------------------------------------------------

    def _forget_links(self, host: ScenarioHost, port: str) -> None:
        """Close the host side of netdevs of a port whose driver has been unloaded."""
        for key in [key for key in self.links if key.port == port]:
            self.links.pop(key).close()
        for vnic in host.vnics.values():
            if vnic.port.name == port:
                vnic.link = None

    def _make_netdev(self, host_name: str, port: str, vport_num: int) -> Netdev:
        """Create the netdev of a vport, and set it up after the current callback."""
        key = VnicKey(port, vport_num)
        vnic = self._manager.vnic_of_vport(host_name, key)
        if vnic is None:
            raise NetdevError(f"{port}: no virtual switch of the scenario has vport {vport_num}")
        vnic.vport_num = vport_num
        index = [other.name for other in self.hosts[host_name].ports].index(port)
        name = f"v{vport_num}.{index + 1}" if index else f"v{vport_num}"
        netdev: Netdev
        if self.tap_backend is not None:
            netdev, link = self.tap_backend.make(
                host_name, name, vnic.ip, partial(self._deliver, host_name, key)
            )
            vnic.link = self.links[key] = link
            return netdev
        memory = MemoryNetdev(name)
        memory.mtu = ETH_MTU_MAX  # the EM lowers it to that of the virtual switch
        vnic.link = self.links[key] = MemoryLink(memory, partial(self._deliver, host_name, key))
        asyncio.get_running_loop().call_soon(memory.open)
        return memory

    def _deliver(self, host: str, key: VnicKey, frame: bytes) -> None:
        """Deliver a frame to the VNIC that now uses the vport."""
        vnic = self._vnic_on(host, key)
        if vnic is None and self._em is not None:
            self._em.give_links()  # no test waited for this VNIC, and its vport belonged to another one before
            vnic = self._vnic_on(host, key)
        if vnic is not None:
            vnic.deliver(frame)

    def _vnic_on(self, host: str, key: VnicKey) -> ScenarioVnic | None:
        link = self.links.get(key)
        vnics = self.hosts[host].vnics.values()
        return next((vnic for vnic in vnics if vnic.link is link), None) if link is not None else None

    def find_link(self, vnic: ScenarioVnic) -> str:
        """Connect a VNIC that no test has waited for to its link; return why it has none, or an empty string."""
        if self._em is None:
            return ""
        self._em.give_links()
        return self._em.why_absent(vnic) if vnic.vesw in self._em.vesws else ""

    def _vesw_id(self, vnic: ScenarioVnic) -> int:
        return int(self.em.vesws[vnic.vesw]["id"])

    # --- time ----------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass in a test without an event loop.

        Args:    seconds: of virtual time.
        Raises:  TypeError: there is an event loop, whose time advances by itself: await asyncio.sleep(...).
                 ScenarioError: not a number of seconds, 0 or more.
        """
        check_time("seconds", seconds)
        if not isinstance(self.clock, ManualClock):
            raise TypeError("the event loop controls the time here: await asyncio.sleep(...)")
        self.clock.advance(seconds)

    def write_pcapng(self, path: Path) -> int:
        """Write the packets of the trace and return how many there are. Args: path: of the pcapng file."""
        from opavnic.observe.trace_file import write_trace

        return write_trace(path, self.trace.records)


def _task_text(task: asyncio.Task[Any]) -> str:
    return f"{task.get_name()} ({task.get_coro()!r})"
