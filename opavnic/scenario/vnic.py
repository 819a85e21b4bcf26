"""The VNICs of the hosts of a scenario."""

from __future__ import annotations

import os
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final

from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from hfi_sim.base.types import MacAddr, mac_text, parse_mac
from hfi_sim.nodes.hfi import HfiPort
from opavnic.scenario.base import ScenarioError
from opavnic.scenario.frames import FrameInbox
from opavnic.scenario.link_layer import LinkLayer
from opavnic.world.host_backends.given import interface_name
from opavnic.world.host_backends.memory_host import MemoryHost
from vema.base.types import VportNum

if TYPE_CHECKING:
    from opavnic.scenario.hosts import ScenarioHost
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
        """Send echo requests, after ARP, and return how many were answered.

        Args:    target: the VNIC that is to answer. count: how many to send, one after the other. within: seconds that
                 each answer may take.
        """
        self.check_loop()
        if target.link is not None:
            target.link.answer_pings(target.address)
        if self.host.name in self.host.scenario.kernels:
            return await self.host.scenario.kernels[self.host.name].ping(target.ip, count)
        return await self._wire.ping(self.address, target.address, count, within)

    def check_loop(self) -> None:
        """Check that the caller runs on the event loop of the scenario. Raises ScenarioError."""
        self.host.scenario.check_loop()

    def answer_arp(self) -> None:
        """Answer ARP requests and neighbour solicitations for our addresses."""
        self.respond(
            ARP(op=1, pdst=self.ip),
            lambda ask: Ether(dst=ask.src) / ARP(op=2, hwdst=ask[ARP].hwsrc, pdst=ask[ARP].psrc),
        )
        self.respond(
            ICMPv6ND_NS(tgt=self.ip6),
            lambda ask: (
                Ether(dst=ask.src)
                / IPv6(src=self.ip6, dst=ask[IPv6].src)
                / ICMPv6ND_NA(tgt=self.ip6, R=0, S=1)
                / ICMPv6NDOptDstLLAddr(lladdr=self.mac)
            ),
        )

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

        Args:    mac: such as 02:00:00:00:00:01.
        Raises:  ScenarioError: not an address, or the VNIC refused it.
        """
        self._changed(self._wire.set_mac(_address(self.name, mac)), f"address {mac}")

    def set_mtu(self, mtu: int) -> None:
        """Change the MTU of the device.

        Args:    mtu: in bytes, up to that of its virtual switch.
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

        Args:    mac: such as 01:00:5e:00:00:05.
        Raises:  ScenarioError: not an address, or the VNIC has it already.
        """
        self._changed(self._wire.add_address(_address(self.name, mac)), f"address {mac}")

    def remove_address(self, mac: str) -> None:
        """Take back what `add_address` did.

        Args:    mac: as it was added.
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
