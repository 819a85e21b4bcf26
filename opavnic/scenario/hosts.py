"""The hosts of a scenario: send frames through a VNIC, expect frames from it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final

from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from hfi_sim.base.clock import Clock
from hfi_sim.base.text import unknown_name
from hfi_sim.base.types import MacAddr, mac_text, parse_mac
from hfi_sim.nodes.hfi import HfiPort
from opavnic.scenario.base import LoopClock, ScenarioError
from opavnic.scenario.frames import DEFAULT_WITHIN_S, FrameInbox
from opavnic.scenario.kernels import ScenarioKernel
from opavnic.scenario.link_layer import LinkLayer
from opavnic.scenario.match import Pattern
from opavnic.world.host_backends.given import VnicKey, interface_name
from opavnic.world.host_backends.memory_host import MemoryHost
from opavnic.world.world import World
from vema.base.types import VportNum

if TYPE_CHECKING:
    from opavnic.vnic.adapter import Adapter
    from opavnic.vnic.vnic_port import VnicPort

BROADCAST: Final = "ff:ff:ff:ff:ff:ff"


def _address(vnic: str, mac: str) -> MacAddr:
    try:
        return MacAddr(parse_mac(mac))
    except (ValueError, AttributeError) as error:
        raise ScenarioError(f"{vnic}: {mac!r} is not a MAC address, such as 02:00:00:00:00:01") from error


class ScenarioVnic(FrameInbox):
    """One VNIC of a host: sends frames and collects those that arrive."""

    def __init__(
        self, host: ScenarioHost, port: HfiPort, vesw: str, number: int, subnet: int, nth: int = 0
    ) -> None:
        super().__init__()
        self.host = host
        self.port = port
        """The HFI port that carries it."""
        self.vesw = vesw
        self.nth = nth
        """Which of the VNICs that its host has there, from 0."""
        self.vport_num = 0
        """Assigned by the Ethernet Manager."""
        self.title = interface_name(vesw, nth)
        """What its host calls it: `blue`; the second one in blue is `blue-2`."""
        self.name = f"{host.name}/{self.title}"
        self.address = IPv4Address((10 << 24) + (subnet << 12) + number)
        """10.x.y.z: 4094 addresses for each virtual switch."""
        self.link: LinkLayer | None = None

    # --- addresses -----------------------------------------------------------------------------------------

    @property
    def mac(self) -> str:
        """The device address, as text."""
        return mac_text(self._wire.address)

    @property
    def ip(self) -> str:
        """The IPv4 address, as text."""
        return str(self.address)

    @property
    def ip6(self) -> str:
        """The IPv6 link-local address derived from the device address, as text."""
        mac = parse_mac(self.mac)
        return str(IPv6Address(bytes([0xFE, 0x80, *bytes(6), mac[0] ^ 2, *mac[1:3], 0xFF, 0xFE, *mac[3:]])))

    @property
    def adapter(self) -> Adapter:
        """The VNIC itself: configuration, counters, state."""
        return self.vnic_port.adapters[VportNum(self.vport_num)]

    @property
    def vnic_port(self) -> VnicPort:
        """Agent, demultiplexer and adapters of its port.

        Raises:  ScenarioError: they are the kernel's.
        """
        return self.host.vnic_port_of(self.port)

    @property
    def _wire(self) -> LinkLayer:
        if self.link is None:
            why = self.host.scenario.find_link(self)
            if self.link is None:
                raise ScenarioError(
                    f"{self.name}: no Ethernet Manager has made this VNIC yet{why and f': {why}'}"
                )
        return self.link

    # --- sending -------------------------------------------------------------------------------------------

    def send(self, packet: Packet | bytes) -> bytes:
        """Send a frame, and return it as it was sent.

        Args:    packet: bytes, sent unchanged; or a scapy packet, completed where it sets nothing: a broadcast
                 Ethernet header, our source address, our addresses in ARP.
        Raises:  ScenarioError: neither a packet nor bytes; or there is no VNIC yet.
        """
        if not isinstance(packet, bytes | Packet):
            raise ScenarioError(
                f"{self.name}: {packet!r} cannot be sent; give a packet such as ARP(pdst=...), or the bytes of a frame"
            )
        frame = packet if isinstance(packet, bytes) else bytes(self._filled(packet))
        self._wire.transmit(frame)
        return frame

    def _filled(self, packet: Packet) -> Packet:
        packet = packet.copy()
        if not isinstance(packet, Ether):
            packet = Ether(dst=BROADCAST) / packet
        if "src" not in packet.fields:
            packet.src = self.mac
        if ARP in packet:
            packet[ARP].fields.setdefault("hwsrc", self.mac)
            packet[ARP].fields.setdefault("psrc", self.ip)
        return packet

    async def ping(self, target: ScenarioVnic, *, count: int = 1, within: float = 1.0) -> int:
        """Send echo requests, after ARP, and return how many were answered."""
        self.check_loop()
        if target.link is not None:
            target.link.answer_pings(target.address)
        if self.host.name in self.host.scenario.kernels:
            return await self.host.scenario.kernels[self.host.name].ping(target.ip, count)
        return await self._wire.ping(self.address, target.address, count, within)

    def check_loop(self) -> None:
        """Check that the caller runs on the event loop of the scenario. Raises ScenarioError."""
        self.host.scenario.check_loop()

    # --- the device, as `ip link` changes it --------------------------------------------------------------

    @property
    def mtu(self) -> int:
        """The MTU of the device, in bytes."""
        return self._wire.mtu

    @property
    def is_up(self) -> bool:
        """Whether the host has set the device up; whether it passes frames is `adapter.is_passing`."""
        return self._wire.is_up

    def up(self) -> None:
        """Set the device up, as `ip link set blue up`.

        Raises:  ScenarioError: it was refused: the virtual switch has another VNIC of the host, or has none.
        """
        self._changed(self._wire.set_up(True), "up")

    def down(self) -> None:
        """Set the device down: it sends and receives nothing until `up`, and the EM hears of it."""
        self._changed(self._wire.set_up(False), "down")

    def set_mac(self, mac: str) -> None:
        """Change the device address.

        Raises:  ScenarioError: not an address, or the VNIC refused it.
        """
        self._changed(self._wire.set_mac(_address(self.name, mac)), f"address {mac}")

    def set_mtu(self, mtu: int) -> None:
        """Change the MTU of the device, up to that of its virtual switch.

        Raises:  ScenarioError: it is too large.
        """
        self._changed(self._wire.set_mtu(mtu), f"MTU {mtu}")

    def move(self, namespace: str) -> None:
        """Move the device to another network namespace of the host, as `ip link set blue netns inner`.

        It goes down, and comes up again with its IP addresses, as a container engine has it. On TAPs the namespace is
        made if need be, and ends with the scenario; in memory there are none, and the fabric sees the same.

        Args:    namespace: any name; "" is where the VNIC was made.
        Raises:  ScenarioError: the kernel or the VNIC refused it.
        """
        self._changed(self._wire.move(namespace), f"namespace {namespace!r}")

    def add_address(self, mac: str) -> None:
        """Let the device receive another address too: a unicast one, as a macvlan does, or a multicast group.

        It goes into the address lists that the agent reports to the EM.

        Raises:  ScenarioError: not an address, or the VNIC has it already.
        """
        self._changed(self._wire.add_address(_address(self.name, mac)), f"address {mac}")

    def remove_address(self, mac: str) -> None:
        """Take back what `add_address` did.

        Raises:  ScenarioError: not an address, or it was not added.
        """
        self._changed(self._wire.remove_address(_address(self.name, mac)), f"to remove address {mac}")

    def _changed(self, error: int, what: str) -> None:
        if error:
            raise ScenarioError(f"{self.name}: {what} was refused: {os.strerror(-error)}")

    # --- a busy host ---------------------------------------------------------------------------------------

    def stall(self) -> None:
        """Stop reading frames from this VNIC until `resume`, like a busy program.

        Its device holds 1024 frames. Further frames wait in the buffer of the port on links with credits, which stops
        their senders; on other links they are dropped (vnic_rx_host).
        """
        self._wire.stall()

    def resume(self) -> None:
        """Read the waiting frames in order, and go on."""
        self._wire.resume()

    def memory_host(self) -> MemoryHost:
        """Return a small IPv4 stack on this VNIC, created on the first call; the inbox goes on receiving frames."""
        return self._wire.memory_host(self.address)


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
        """Return agent, demultiplexer and adapters of a port. Raises ScenarioError: they are the kernel's."""
        if self.name in self.scenario.kernels:
            raise ScenarioError(f"host {self.name} is a kernel: look at its VNICs with run('ip', ...)")
        return self.scenario.world.vnic_ports[port.name]

    def vnic(self, on: str | None = None) -> ScenarioVnic:
        """Return the VNIC on a virtual switch, `blue-2` the second one in blue; without a name, the only one.

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
        """Send a frame: see `ScenarioVnic.send`."""
        return self.vnic(on).send(packet)

    async def expect(
        self, pattern: Pattern, *, within: float = DEFAULT_WITHIN_S, on: str | None = None
    ) -> Packet:
        """Wait for a frame: see `ScenarioVnic.expect`."""
        return await self.vnic(on).expect(pattern, within=within)

    async def expect_none(
        self, pattern: Pattern, *, within: float = DEFAULT_WITHIN_S, on: str | None = None
    ) -> None:
        """Check that no such frame comes: see `ScenarioVnic.expect_none`."""
        await self.vnic(on).expect_none(pattern, within=within)

    async def sniff(self, *, for_s: float, on: str | None = None) -> list[Packet]:
        """Return the frames that arrive: see `ScenarioVnic.sniff`."""
        return await self.vnic(on).sniff(for_s=for_s)

    def answer_arp(self, *, on: str | None = None) -> None:
        """Answer ARP and neighbour solicitations: see `ScenarioVnic.answer_arp`."""
        self.vnic(on).answer_arp()

    async def ping(self, target: ScenarioHost, *, count: int = 1, on: str | None = None) -> int:
        """Ping another host and return how many requests it answered."""
        return await self.vnic(on).ping(target.vnic(on), count=count)

    async def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine in the kernel that this host is, and return its output and exit status.

        Time passes for it as for the scenario, so `sleep 10` takes no time.

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
        self._last = len(hosts)
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
        """Return a host given by name, or `host` itself if it is one.

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

    @property
    def most(self) -> int:
        """The largest number that a host has had."""
        return self._last

    def add(self, host: ScenarioHost) -> None:
        """Put a host behind the others, with a number that none has had."""
        self._last += 1
        host.place = self._last
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
        """Return whether a VNIC is operational and its host has seen that."""
        if vnic.host.name in self.kernels:
            return self.kernels[vnic.host.name].is_up(self._vesw_id(vnic))
        adapter = vnic.vnic_port.adapters.get(VportNum(vnic.vport_num))
        if adapter is None or not adapter.hfi_up or not adapter.netdev.is_up:
            return False
        return adapter.netdev.host_sees_running or not adapter.is_passing
