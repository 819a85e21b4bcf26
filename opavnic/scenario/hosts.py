"""The hosts of a scenario: send frames through a VNIC, expect frames from it."""

from __future__ import annotations

import asyncio
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scapy.packet import Packet

from hfi_sim.base.clock import Clock
from hfi_sim.base.text import unknown_name
from hfi_sim.nodes.hfi import HfiPort
from opavnic.scenario.base import LoopClock, ScenarioError
from opavnic.scenario.frames import DEFAULT_WITHIN_S, Pattern
from opavnic.scenario.kernels import ScenarioKernel
from opavnic.scenario.link_layer import LinkLayer
from opavnic.scenario.vnic import ScenarioVnic
from opavnic.world.host_backends.given import VnicKey
from opavnic.world.world import World
from vema.base.types import VportNum

if TYPE_CHECKING:
    from opavnic.vnic.vnic_port import VnicPort


class ScenarioHost:
    """One host. Its methods use its only VNIC; if it has several, select one with `on="blue"`."""

    def __init__(self, scenario: ScenarioFabric, name: str, ports: Sequence[HfiPort]) -> None:
        self.scenario = scenario
        self.name = name
        self.ports = ports
        """All its HFI ports, HFI by HFI."""
        self.port = ports[0]
        """The first one, which the name of the host means as a member."""
        self.vnics: dict[str, ScenarioVnic] = {}
        """By the name of the virtual switch; the second one that the host has in blue is `blue-2`."""
        self.place = 0
        """Its number among the hosts, from 1, by which it gets addresses."""

    @property
    def lid(self) -> int:
        """The LID of its port."""
        return int(self.port.lid)

    @property
    def vnic_port(self) -> VnicPort:
        """Agent, demultiplexer and adapters of the first port.

        Raises:  ScenarioError: they are the kernel's.
        """
        return self.vnic_port_of(self.port)

    def vnic_port_of(self, port: HfiPort) -> VnicPort:
        """Return agent, demultiplexer and adapters of a port.

        Args:    port: one of the host's.
        Raises:  ScenarioError: they are the kernel's.
        """
        if self.name in self.scenario.kernels:
            raise ScenarioError(f"host {self.name} is a kernel: look at its VNICs with run('ip', ...)")
        return self.scenario.world.vnic_ports[port.name]

    def vnic(self, on: str | None = None) -> ScenarioVnic:
        """Return a VNIC of the host.

        Args:    on: the virtual switch; `blue-2`: the second one in blue; None: the only VNIC that it has.
        Raises:  ScenarioError: there is none, or several.
        """
        if on is not None:
            if on not in self.vnics:
                raise ScenarioError(f"host {self.name}: {unknown_name('virtual switch', on, self.vnics)}")
            return self.vnics[on]
        if len(self.vnics) != 1:
            raise ScenarioError(
                f"host {self.name} has {len(self.vnics)} VNICs ({', '.join(self.vnics) or 'none'}); select one: on=..."
            )
        return next(iter(self.vnics.values()))

    @property
    def mac(self) -> str:
        """The address of the only VNIC."""
        return self.vnic().mac

    @property
    def ip(self) -> str:
        """The IPv4 address of the only VNIC."""
        return self.vnic().ip

    @property
    def ip6(self) -> str:
        """The IPv6 link-local address of the only VNIC."""
        return self.vnic().ip6

    def send(self, packet: Packet | bytes, *, on: str | None = None) -> bytes:
        """Send a frame as `ScenarioVnic.send`. Args: on: the virtual switch, where the host is in several."""
        return self.vnic(on).send(packet)

    async def expect(
        self, pattern: Pattern, *, within: float = DEFAULT_WITHIN_S, on: str | None = None
    ) -> Packet:
        """Wait for a frame as `ScenarioVnic.expect`. Args: on: the virtual switch, where the host is in several."""
        return await self.vnic(on).expect(pattern, within=within)

    async def expect_none(
        self, pattern: Pattern, *, within: float = DEFAULT_WITHIN_S, on: str | None = None
    ) -> None:
        """Do `ScenarioVnic.expect_none`. Args: on: the virtual switch, where the host is in several."""
        await self.vnic(on).expect_none(pattern, within=within)

    async def sniff(self, *, for_s: float, on: str | None = None) -> list[Packet]:
        """Do `ScenarioVnic.sniff`. Args: for_s: seconds. on: the virtual switch, where the host is in several."""
        return await self.vnic(on).sniff(for_s=for_s)

    def answer_arp(self, *, on: str | None = None) -> None:
        """Do `ScenarioVnic.answer_arp`. Args: on: the virtual switch, where the host is in several."""
        self.vnic(on).answer_arp()

    async def ping(self, target: ScenarioHost, *, count: int = 1, on: str | None = None) -> int:
        """Ping another host and return how many requests it answered.

        Args:    target: the host. count: how many to send. on: the virtual switch, where the host is in several.
        """
        return await self.vnic(on).ping(target.vnic(on), count=count)

    async def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine in the kernel that this host is, and return its output and exit status.

        Time passes for it as for the scenario, so `sleep 10` takes no time.

        Args:    command: the program and its arguments, each by itself: no shell reads them.
        Raises:  ScenarioError: the host is no kernel, or the program cannot be started.
        """
        self.scenario.check_loop()
        if self.name not in self.scenario.kernels:
            raise ScenarioError(
                f'host {self.name} runs no programs: mark the test with kernel("{self.name}")'
            )
        return await self.scenario.kernels[self.name].run(*command)

    def stall(self) -> None:
        """Receive nothing from the link until `resume`, neither frames nor MADs. See also `vnic().stall()`."""
        self.port.stall()

    def resume(self) -> None:
        """Receive the waiting packets, and go on."""
        self.port.resume()

    def __repr__(self) -> str:
        return f"ScenarioHost({self.name})"


def member_name(host: ScenarioHost, port: HfiPort) -> str:
    """Return the shortest name of a port as a member of a virtual switch: its host, its HFI, or HFI:PORT."""
    if port is host.port:
        return host.name
    return port.hfi.name if port.opa_port_num == 1 else port.name


class Hosts:
    """The hosts by name or number, iterable in order: `h1, h2 = hosts`."""

    def __init__(self, hosts: dict[str, ScenarioHost]) -> None:
        self._hosts = hosts
        self.most = len(hosts)
        """The largest number that a host has had."""
        for place, host in enumerate(hosts.values(), 1):
            host.place = place

    def __getitem__(self, key: str | int) -> ScenarioHost:
        if isinstance(key, int):
            hosts = list(self._hosts.values())
            if not -len(hosts) <= key < len(hosts):
                raise ScenarioError(
                    f"no host number {key}: {len(hosts)} hosts have the numbers 0 to {len(hosts) - 1}"
                )
            return hosts[key]
        if not isinstance(key, str):
            raise ScenarioError(f"{key!r} is not a host; hosts are known by name or number, such as h1 or 0")
        if key not in self._hosts:
            raise ScenarioError(unknown_name("host", key, self._hosts))
        return self._hosts[key]

    def find(self, host: str | ScenarioHost) -> ScenarioHost:
        """Return a host of this scenario.

        Args:    host: its name, or the host itself.
        Raises:  ScenarioError: no host of this scenario has that name.
        """
        return host if isinstance(host, ScenarioHost) else self[host]

    def member(self, name: str | ScenarioHost) -> tuple[ScenarioHost, HfiPort]:
        """Return the port that a member of a virtual switch means, with its host.

        Args:    name: a host, an HFI, HFI:PORT, or the GUID of a port (0x...).
        Raises:  ScenarioError: no port of this scenario has that name.
        """
        if isinstance(name, ScenarioHost):
            return name, name.port
        if name in self._hosts or not isinstance(name, str):
            return self[name], self[name].port
        for host in self:
            for port in host.ports:
                if name in (member_name(host, port), port.name, f"{port.guid:#x}", f"{port.guid:#018x}"):
                    return host, port
        raise ScenarioError(
            unknown_name("host", name, [member_name(host, port) for host in self for port in host.ports])
        )

    def __iter__(self) -> Iterator[ScenarioHost]:
        return iter(self._hosts.values())

    def __len__(self) -> int:
        return len(self._hosts)

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return list(self._hosts)

    def add(self, host: ScenarioHost) -> None:
        """Put a host behind the others, with a number that none has had."""
        self.most += 1
        host.place = self.most
        self._hosts[host.name] = host

    def remove(self, host: ScenarioHost) -> None:
        """Take a host out; the others keep their addresses."""
        del self._hosts[host.name]


class ScenarioFabric(ABC):
    """What hosts and managers know of their scenario: the fabric, the hosts, the time."""

    hosts: Hosts

    def __init__(self, world: World, clock: Clock, fabric_id: int, *, real: bool) -> None:
        self.world = world
        """The fabric, the subnet manager, the faults and the VNIC ports."""
        self.clock = clock
        self.fabric_id = fabric_id
        self.is_real = real
        """Whether its netdevs are TAPs."""
        self.fabric = world.fabric
        self.subnet_manager = world.subnet_manager
        self.faults = world.faults
        self.kernels: dict[str, ScenarioKernel] = {}
        """The hosts that are Linux, while the scenario runs."""
        self.links: dict[VnicKey, LinkLayer] = {}
        """The host side of each vport's netdev."""

    @abstractmethod
    def find_link(self, vnic: ScenarioVnic) -> str:
        """Connect a VNIC that no test has waited for to its link; return why it has none, or an empty string."""

    @abstractmethod
    def _vesw_id(self, vnic: ScenarioVnic) -> int:
        """Return the id of the virtual switch of a VNIC."""

    def check_loop(self) -> None:
        """Check that the caller runs on the event loop of this scenario.

        Raises:  ScenarioError: it is another one, on which nothing of the scenario would ever come.
        """
        if isinstance(self.clock, LoopClock) and not self.clock.is_here:
            raise ScenarioError(
                "the fabric runs on another event loop than this coroutine; give test and fixtures one loop_scope: "
                '@pytest.mark.asyncio(loop_scope="module") and @pytest_asyncio.fixture(loop_scope="module"), not a '
                "fixture of anyio"
            )

    async def vnic_up(self, vnic: ScenarioVnic) -> None:
        """Wait until a VNIC is operational and its host has seen that; set it up on a host that is a kernel."""
        if vnic.host.name in self.kernels:
            await self.kernels[vnic.host.name].set_up(vnic.ip, self._vesw_id(vnic))
            return
        pause_s = 1e-3 if self.is_real else 1e-6
        while not self.is_up(vnic):
            await asyncio.sleep(pause_s)
            # back off: with many virtual switches, polling every microsecond took most of the time of a scenario
            pause_s = min(2 * pause_s, 1e-3)

    def is_up(self, vnic: ScenarioVnic) -> bool:
        """Return whether a VNIC is operational and its host has seen that. Args: vnic: of any host."""
        if vnic.host.name in self.kernels:
            return self.kernels[vnic.host.name].is_up(self._vesw_id(vnic))
        adapter = vnic.vnic_port.adapters.get(VportNum(vnic.vport_num))
        if adapter is None or not adapter.hfi_up or not adapter.netdev.is_up:
            return False
        return adapter.netdev.host_sees_running or not adapter.is_passing
