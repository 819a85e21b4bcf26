"""What a network device is to a VNIC, in the words of the kernel's net_device and net_device_ops.

The host side (a kernel with its programs, or a test) opens and closes the device, changes its address and its
address lists, and sends frames: that arrives at the `NetdevOps` which the adapter installs. The adapter hands
received frames up and moves the carrier: those are methods of the `Netdev`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from hfi_sim.types import MacAddr

ETH_MTU_MIN = 68
ETH_MTU_MAX = 10240


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

    def ndo_rx_wake(self) -> None:
        """The host takes frames again after `Netdev.rx_stopped`."""


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

    @property
    def rx_stopped(self) -> bool:
        """Whether the host takes no frame now and will say when it does again (`ndo_rx_wake`): a frame may wait."""
        return False

    @property
    def host_address(self) -> MacAddr:
        """The device address that the host has, where it would not take `address`."""
        return self.address

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

    @abstractmethod
    def set_carrier(self, on: bool) -> None:
        """Turn the carrier on or off (netif_carrier_on/off)."""

    @abstractmethod
    def set_dormant(self, on: bool) -> None:
        """Make the device dormant, or not."""

    @abstractmethod
    def set_address(self, mac: MacAddr) -> None:
        """Overwrite the device address from the driver's side, with no check: the EM said so."""

    @abstractmethod
    def set_mtu(self, mtu: int) -> None:
        """Set the MTU from the driver's side, in bytes of Ethernet payload."""

    @abstractmethod
    def set_max_mtu(self, max_mtu: int) -> None:
        """Set the largest MTU that the host may choose."""

    @abstractmethod
    def close(self) -> None:
        """Give the device back: it is gone from the host. Harmless when done twice."""
