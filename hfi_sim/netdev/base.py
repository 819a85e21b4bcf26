"""What a network device is to a VNIC, in the words of the kernel's net_device and net_device_ops.

The host side (a kernel with its programs, or a test) opens and closes the device, changes its address and its
address lists, and sends frames: these calls arrive at the `NetdevOps` that the adapter installs. The adapter hands
received frames up and switches the carrier through methods of the `Netdev`.

What differs between kinds of devices is asked of the `Netdev` itself (`kernel_counters`, `can_hand_over`,
`native_app`, ...), so that no caller needs to know which kind it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Interface, IPv6Interface
from typing import Any, NamedTuple, Protocol

from hfi_sim.base.types import MacAddr

IpInterface = IPv4Interface | IPv6Interface


class NetdevOps(Protocol):
    """The adapter's side. Each method that can refuse returns 0 or a negative Linux errno, as the kernel's do."""

    def ndo_open(self) -> int:
        """The device is set up (IFF_UP)."""
        ...

    def ndo_stop(self) -> None:
        """The device is set down."""

    def ndo_set_mac_address(self, mac: MacAddr) -> int:
        """The host wants another device address."""
        ...

    def ndo_set_rx_mode(self) -> None:
        """The unicast or multicast address list changed (called only while the device is up)."""

    def ndo_start_xmit(self, frame: bytes) -> None:
        """The host sends `frame`: Ethernet without FCS, 14 bytes and more."""

    def ndo_xmit_burst(self) -> AbstractContextManager[object]:
        """The host sends several frames at once: those of the body, which need not be on their way before it ends.

        The kernel says so with each frame (netdev_xmit_more()).
        """
        ...

    def ndo_rx_wake(self) -> None:
        """The host takes frames again after `Netdev.rx_stopped`."""


class NativeApp(Protocol):
    """The native half of a program that stands on a netdev."""

    def attach(self, engine: Any, vport: int) -> None:
        """Take the frames of a vport of the native datapath's engine, and send from there."""


class Merging(NamedTuple):
    """Of which protocols the host accepts several packets merged into one; as built, what a NIC's default is."""

    tcp: bool = True
    udp: bool = False


class Netdev(ABC):
    """One network device. Attributes are what the host sees; `ops` is the adapter, once there is one."""

    name: str
    address: MacAddr
    """The device address (dev_addr)."""
    uc_list: Sequence[MacAddr]
    """Secondary unicast addresses, in the order the host keeps them (macvlan, bridge fdb self)."""
    mc_list: Sequence[MacAddr]
    """Multicast addresses that the host listens to, in list order."""
    mtu: int
    max_mtu: int
    is_up: bool
    """IFF_UP: the host has set the device up and `ndo_open` has agreed."""
    carrier: bool
    dormant: bool
    ops: NetdevOps | None
    queue_stopped: bool = False
    """Frames of the host have to wait."""
    merges: Merging = Merging()
    """Which received packets the host accepts merged; a reader that merges packets must obey it."""
    native_app: NativeApp | None = None
    """The native half of the program that stands on the device: while it is set, the native datapath may carry the
    frames without Python. What the program sends through Python still goes the way of Python."""

    moved_to: str = ""
    """The network namespace that it was moved to; empty while it is in that of its host."""

    @property
    def rx_stopped(self) -> bool:
        """Whether the host accepts no frame now and will call `ndo_rx_wake` once it does: a frame may wait."""
        return False

    @property
    def host_name(self) -> str:
        """The name that the host has for it now; hosts may rename their devices."""
        return self.name

    def rename(self, name: str) -> None:
        """Give it another name on the host. Raises NetdevError: the host refuses, for instance because it is taken."""
        self.name = name

    @property
    def host_address(self) -> MacAddr:
        """The device address that the host has; it differs where the host refused `address`."""
        return self.address

    @property
    def ip_addresses(self) -> Sequence[IpInterface]:
        """The IP addresses that the host has given it, in the order in which they came; none where no kernel tells."""
        return ()

    @property
    def has_usable_addresses(self) -> bool:
        """Whether programs of the host can bind to all addresses that it has, as far as a kernel tells."""
        return True

    def catch_up(self) -> None:  # noqa: B027 - without a kernel there is nothing to catch up with
        """Take in now what the host has changed already."""

    def on_ip_addresses(self, handler: Callable[[], None]) -> None:  # noqa: B027 - without a kernel they never change
        """Call `handler` whenever `ip_addresses` has changed."""

    def set_speed(self, speed: int) -> None:  # noqa: B027 - only kernel devices show a speed
        """Set the link speed in Mb/s that programs such as ethtool show."""

    def merge_datagrams(self) -> None:  # noqa: B027 - a device without a kernel has nothing to switch
        """Let datagrams that the host receives be merged, until the host itself switches that off."""

    @property
    def host_sees_running(self) -> bool:
        """Whether the host has noticed that the device has its carrier and is not dormant: from then on it sends.

        A device without a kernel notices at once.
        """
        return self.is_up and self.carrier and not self.dormant

    def kernel_counters(self) -> dict[str, int] | None:
        """Return what a kernel has counted at the device, under its names; None where there is no kernel.

        Raises:  NetdevError: the interface is gone.
        """
        return None

    # --- another reader of the frames, such as the native datapath ------------------------------------------

    @property
    def can_hand_over(self) -> bool:
        """Whether `hand_over` has a descriptor to give, whose frames carry the virtio-net header."""
        return False

    def hand_over(self, follow: Callable[[], None] | None = None) -> int:
        """Stop reading frames here; return the descriptor for another reader, or -1 where the device has none.

        The device still owns the descriptor: `close` closes it, and everything but frames stays with the device.

        Args:  follow: called when `queue_stopped`, `merges` or, by the host, `mtu` has changed; the reader must obey.
        """
        return -1

    def resume(self) -> None:  # noqa: B027 - a device without a descriptor never stops reading
        """Read frames here again, after `hand_over`."""

    def steer(self, on: bool) -> bool:
        """Let all processors of this process take in what the host receives, or only the one that hands it over.

        Return whether they do now; a device without a kernel has no say in that, nor one whose host sees to it itself.
        """
        return False

    # --- what the adapter does to the device ----------------------------------------------------------------

    @abstractmethod
    def receive(self, frame: bytes) -> bool:
        """Hand an Ethernet frame up to the host; False where its queue was full or it is down."""

    def stop_queue(self) -> None:
        """Take no frames from the host until `wake_queue`: what it sends waits in its own queue, or is refused there.

        Source: the kernel's netif_stop_queue() and netif_wake_queue().
        """
        self.queue_stopped = True

    def wake_queue(self) -> None:
        """Take frames from the host again."""
        self.queue_stopped = False

    def set_carrier(self, on: bool) -> None:
        """Turn the carrier on or off (netif_carrier_on/off)."""
        self.carrier = on

    def set_dormant(self, on: bool) -> None:
        """Make the device dormant, or not."""
        self.dormant = on

    def set_address(self, mac: MacAddr) -> None:
        """Overwrite the device address from the driver's side, with no check: the EM said so."""
        self.address = mac

    def set_mtu(self, mtu: int) -> None:
        """Set the MTU from the driver's side, in bytes of Ethernet payload."""
        self.mtu = mtu

    def set_max_mtu(self, max_mtu: int) -> None:
        """Set the largest MTU that the host may choose; where a kernel knows none, a larger one is put back."""
        self.max_mtu = max_mtu

    @abstractmethod
    def close(self) -> None:
        """Give the device back: it is gone from the host. Harmless when done twice."""
