"""A network device of Linux: a TAP, in the host's network namespace or in a named one.

It is never persistent: when the process ends, however it ends, the kernel takes the interface away. The
descriptor is bound to a namespace when /dev/net/tun is opened, so that happens inside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable
from typing import Final, TypeVar

from hfi_sim.base.errors import NetdevError
from hfi_sim.base.types import ETH_MTU_MAX, MacAddr, mac_text
from hfi_sim.netdev.base import IpInterface, Merging
from hfi_sim.netdev.link_client import LinkClient
from hfi_sim.netdev.namespace import run_in_namespace
from hfi_sim.netdev.netlink import KernelAddressLists, LinkState, single_changes
from hfi_sim.netdev.sysctls import InterfaceSysctls, ReceiveSteering
from hfi_sim.netdev.tap_frames import TapFrames, nothing
from hfi_sim.netdev.tun import check_tap, open_tap, set_tap_carrier, tap_name
from hfi_sim.netdev.watch import MovedWatcher, NamespaceWatcher

Result = TypeVar("Result")

log = logging.getLogger("hfi_sim.netdev.tap")

KERNEL_COUNTERS: Final = ("tx_packets", "tx_bytes", "tx_dropped", "rx_packets", "rx_bytes", "rx_dropped")
_DELETED: Final = errno.EBADFD
"""What every call on the descriptor of a TAP ends with once its interface has been deleted."""


class TapNetdev(TapFrames):
    """One TAP interface. Changes that the host makes reach `ops`; changes made through this class do not."""

    def __init__(
        self,
        name: str,
        *,
        watcher: NamespaceWatcher,
        loop: asyncio.AbstractEventLoop,
        alias: str = "",
        vnet_hdr: bool = False,
    ) -> None:
        """Make the interface, without carrier and down.

        Args:    name: 1 to 15 characters; no interface of that name may exist. alias: what `ip link` shows
                 beside it. vnet_hdr: frames carry the virtio-net header, for a datapath that uses offloads.
        Raises:  NetdevError: no right to make it, the name is taken, no TUN driver.
        """
        self.name = name
        self.max_mtu = ETH_MTU_MAX
        self.is_up = False
        self.carrier = False
        self.dormant = False
        self.ops = None
        super().__init__(loop, vnet_hdr=vnet_hdr)
        self._home = watcher
        self._watcher: NamespaceWatcher | MovedWatcher = watcher

        def make() -> tuple[int, InterfaceSysctls]:
            return open_tap(name, vnet_hdr=vnet_hdr, carrier=False), InterfaceSysctls(watcher.namespace, name)

        self._fd, self._sysctls = run_in_namespace(watcher.namespace, make)
        self._sysctls.leave_out_detection()
        self._usable_addresses = False
        try:
            state = watcher.links.find(name)
            if state is None:
                raise NetdevError(f"interface {name} vanished while it was made", errno.ENODEV)
            self.ifindex = state.ifindex
            if alias:
                watcher.links.set_alias(self.ifindex, alias)
            lists = watcher.links.address_lists().get(self.ifindex, KernelAddressLists())
            self.merges = watcher.links.merging(name)
        except BaseException:
            os.close(self._fd)
            self._sysctls.close()
            raise
        self.address = state.address
        self.uc_list: tuple[MacAddr, ...] = lists.uc
        self.mc_list: tuple[MacAddr, ...] = lists.mc
        self.mtu = state.mtu
        self.kernel = state
        """What the kernel has last said of the interface."""
        self._ip: tuple[IpInterface, ...] = ()
        self._ip_handler: Callable[[], None] = nothing
        self._running_handler: Callable[[], None] = nothing
        self._own_address: MacAddr | None = None
        self._overwritten = 0
        """How often the adapter has set the address; changes that the host made before are ignored."""
        self._transitions = 0
        """Ups and downs of the host that are still to be passed on."""
        self._steering: ReceiveSteering | None = None
        self._asked_for_steering = False
        watcher.add(self)
        self.resume()

    @property
    def host_name(self) -> str:
        """The name of the interface as the kernel has it."""
        return self.kernel.name

    def rename(self, name: str) -> None:
        """Rename the interface; one that is up goes down for a moment where the kernel (before 6.2) requires it.

        Raises:  NetdevError: the name is taken, or is none.
        """
        self.ask(lambda links: links.rename(self.ifindex, name))
        self.name = name
        self._watcher.drain()  # the notification of our own change is already there

    @property
    def host_address(self) -> MacAddr:
        """The device address as the kernel has it: never zero, even if the EM has set zero."""
        return self.kernel.address

    @property
    def ip_addresses(self) -> tuple[IpInterface, ...]:
        """The IP addresses of the interface, without those of a single link (fe80::/10)."""
        return self._ip

    @property
    def has_usable_addresses(self) -> bool:
        """Whether the interface runs without tentative IPv6 addresses; also true in another network namespace."""
        return self._usable_addresses or bool(self.moved_to)

    def heard_tentative(self, tentative: bool) -> None:
        """Note it; once no address is tentative, further ones are checked for duplicates."""
        self._usable_addresses = self.kernel.running and not tentative
        if self._usable_addresses:
            self._sysctls.detect_again(self.kernel.name)

    def on_ip_addresses(self, handler: Callable[[], None]) -> None:
        """Call `handler` whenever `ip_addresses` or `host_address` has changed."""
        self._ip_handler = handler

    def on_running(self, handler: Callable[[], None]) -> None:
        """Call `handler` whenever the kernel begins to send: see `host_sees_running`."""
        self._running_handler = handler

    def set_speed(self, speed: int) -> None:
        """Set the link speed in Mb/s that `ethtool` shows. The driver that it shows is the kernel's, tun."""
        if self._usable:
            self._request(lambda links: links.set_speed(self.kernel.name, speed))

    def merge_datagrams(self) -> None:
        """Switch on `rx-udp-gro-forwarding`, which `ethtool` shows and the host may switch off."""
        if self._usable:
            self._request(lambda links: links.merge_datagrams(self.kernel.name))
            self._follow_merging()

    @property
    def host_sees_running(self) -> bool:
        """Whether the kernel has noticed: Linux looks at carrier and dormancy once in a second."""
        return self.kernel.running

    def ask(self, function: Callable[[LinkClient], Result]) -> Result:
        """Return what `function` learns in the namespace that the interface is in. Raises NetdevError."""
        return self._watcher.ask(function)

    # the descriptor and its reader

    @property
    def can_hand_over(self) -> bool:
        """Whether the TAP is alive and its frames carry the header that another reader expects."""
        return self.vnet_hdr and self._usable

    def steer(self, on: bool) -> bool:
        processors = os.sched_getaffinity(0)
        here = self._usable and not self.moved_to
        if on and not self._asked_for_steering and here and len(processors) > 1:
            self._asked_for_steering = True
            try:
                self._steering = ReceiveSteering(self._home.namespace, self.kernel.name, processors)
            except (NetdevError, RuntimeError) as error:  # not permitted, or no thread to be had
                log.debug("[%s] not steered: %s", self.name, error)
        return self._steering is not None and self._steering.set(on)

    def kernel_counters(self) -> dict[str, int]:
        """Return what the kernel has counted, under its names: tx is what the host sends. Raises NetdevError.

        `tx_dropped`: frames that the kernel dropped at the queue, because it was full or there was no carrier yet; only
        the kernel sees these drops. `rx_dropped`: frames that the kernel took and then threw away.
        """
        counted = self.ask(lambda links: links.statistics(self.ifindex)) if self._usable else None
        if counted is None:
            raise NetdevError(f"interface {self.name} is gone", errno.ENODEV)
        return {name: counted[name] for name in KERNEL_COUNTERS}

    # what the adapter does to the device

    def set_carrier(self, on: bool) -> None:
        """Turn the carrier on or off: without it the host sends nothing."""
        self.carrier = on
        if self._fd < 0 or self.dead is not None:
            return
        try:
            set_tap_carrier(self._fd, on)
        except OSError as error:
            self.on_lost(error)

    def set_dormant(self, on: bool) -> None:
        """Move the operational state to DORMANT, or let it follow the carrier."""
        if on == self.dormant:
            return
        self.dormant = on
        if self._usable:
            self._request(lambda links: links.set_dormant(self.ifindex, on))

    def set_address(self, mac: MacAddr) -> None:
        """Overwrite the device address.

        Linux refuses a zero or multicast address on a TAP: then the host keeps the old one, while `address`
        says what was asked for, as the driver's does. Zero is what an EM leaves behind, and not worth a warning.
        """
        self.address = mac
        if not self._usable or self.kernel.address == mac or not any(mac):
            return
        self._own_address = mac
        self._request(lambda links: links.set_address(self.ifindex, mac))
        if self._usable:
            self._watcher.drain()  # the notification of our own change is already there
        self._own_address = None

    def set_mtu(self, mtu: int) -> None:
        self.mtu = mtu
        if self._usable and self.kernel.mtu != mtu:
            self._request(lambda links: links.set_mtu(self.ifindex, mtu))
            if self._usable:
                self._watcher.drain()  # as for the address: else the next change is compared with what was before

    def announce_addresses(self) -> None:
        """Let the host announce changes of its addresses to its neighbours from now on."""
        if self._usable and not self.moved_to:
            self._sysctls.announce_addresses(self.kernel.name)

    def catch_up(self) -> None:
        """Take in now what the kernel has said of the interface already, such as a change that was just asked for."""
        if not self._usable:
            return
        if isinstance(self._watcher, NamespaceWatcher):
            self._watcher.catch_up()
        else:
            self._watcher.drain()

    def close(self) -> None:
        fd = self.release()
        if fd >= 0:
            os.close(fd)

    def release(self) -> int:
        """Let go of the interface and return its descriptor: the interface goes when that is closed.

        Returns: -1 where it was closed or released already.
        """
        if self._fd < 0:
            return -1
        fd = self.hand_over()
        self._watcher.remove(self)
        self._sysctls.close()
        if self._steering is not None:
            self._steering.close()
            self._steering = None
        self._fd = -1
        self.is_up = False
        self.carrier = False
        return fd

    # what the host does to the device: the watcher calls these

    def on_link(self, state: LinkState) -> None:
        """Compare with what was known before, and pass on what the host changed."""
        before, self.kernel = self.kernel, state
        if state.running != before.running:
            self._usable_addresses = False
            self._home.want_tentative()
            if state.running:
                self._loop.call_soon(self._running_handler)
        if state.address != before.address:
            self._ip_handler()
            if state.address == self._own_address:
                self._own_address = None
                self._overwritten += 1
            else:
                self._loop.call_soon(self._host_set_address, state.address, self._overwritten)
        if state.mtu != before.mtu and state.mtu != self.mtu:
            self._host_set_mtu(state.mtu)
        if state.up != before.up:
            self._transitions += 1
            self._loop.call_soon(self._host_up_or_down, state.up)
        self._follow_merging()

    def _follow_merging(self) -> None:
        try:
            merges = self.ask(lambda links: links.merging(self.kernel.name))
        except NetdevError:
            return  # renamed or gone: the notification of that is on its way
        if self.kernel.xdp:
            merges = Merging(tcp=False)  # at a NIC, XDP comes before GRO
        if merges != self.merges:
            self.merges = merges
            self._reader_follows()

    def on_link_gone(self) -> None:
        """The interface left the namespace: it was deleted, or it is followed to where it was moved."""
        try:
            check_tap(self._fd)
        except OSError as error:
            self.on_lost(error)
            return
        self._watcher.remove(self)
        self._watcher = watcher = MovedWatcher(self, self._home.namespace, self._loop)
        watcher.look()
        if self.moved_to and self._usable:
            log.info("[%s] moved to network namespace %s", self.name, self.moved_to)

    def on_return(self) -> None:
        """The interface is back in the namespace of its host."""
        self.moved_to = ""
        self._watcher = self._home
        state = self.ask(lambda links: links.find(tap_name(self._fd)))
        if state is None:
            self.on_link_gone()  # it has left again
            return
        self.ifindex = state.ifindex
        self._home.add(self)
        self.on_link(state)
        self._home.read_ip()
        self._home.want_lists()
        self._home.want_tentative()

    def on_address_lists(self, lists: KernelAddressLists) -> None:
        """Take over the lists; the adapter hears of every change made while the device is up.

        While an up or down is on its way the lists are left alone, to be read after it: the driver is first told
        that the device is up, with the lists as they were before, and then of what that has led the host to add.
        """
        if self._transitions:
            return
        for now in single_changes(KernelAddressLists(self.uc_list, self.mc_list), lists):
            self.uc_list, self.mc_list = now.uc, now.mc
            if self.is_up and self.ops is not None:
                self.ops.ndo_set_rx_mode()

    def heard_ip_addresses(self, addresses: tuple[IpInterface, ...]) -> None:
        """Take over the IP addresses of the interface."""
        if addresses != self._ip:
            self._ip = addresses
            self._ip_handler()

    def _host_set_address(self, mac: MacAddr, overwritten: int) -> None:
        if not self._usable or overwritten != self._overwritten or mac == self.address:
            return
        refused = self.ops.ndo_set_mac_address(mac) if self.ops is not None else 0
        if refused == 0:
            self.address = mac
            return
        if mac != self.kernel.address:
            return  # the host has chosen another one since
        log.warning(
            "[%s] address %s refused (%s), put back to %s",
            self.name,
            mac_text(mac),
            os.strerror(-refused),
            mac_text(self.address),
        )
        self.set_address(self.address)

    def _host_set_mtu(self, mtu: int) -> None:
        if mtu <= self.max_mtu:
            self.mtu = mtu
            self._reader_follows()
            return
        log.warning(
            "[%s] MTU %d is more than %d, put back to %d",
            self.name,
            mtu,
            self.max_mtu,
            min(self.mtu, self.max_mtu),
        )
        self.set_mtu(min(self.mtu, self.max_mtu))

    def _host_up_or_down(self, up: bool) -> None:
        self._transitions -= 1
        if up:
            self._host_up()
        else:
            self._host_down()
        if not self._transitions:
            self._watcher.want_lists()

    def _host_up(self) -> None:
        if self.is_up or not self._usable:
            return
        refused = self.ops.ndo_open() if self.ops is not None else 0
        if refused:
            log.warning("[%s] cannot be set up: %s; set down again", self.name, os.strerror(-refused))
            self._request(lambda links: links.set_up(self.ifindex, False))
            return
        self.is_up = True
        if self.ops is not None:
            self.ops.ndo_set_rx_mode()

    def _host_down(self) -> None:
        if not self.is_up:
            return
        if self.ops is not None:
            self.ops.ndo_stop()
        self.is_up = False

    # trouble

    def _request(self, request: Callable[[LinkClient], None]) -> None:
        try:
            self.ask(request)
        except NetdevError as error:
            log.warning("[%s] %s", self.name, error)

    def on_lost(self, error: OSError) -> None:
        """The interface is gone, or out of reach: say so once, take its carrier away, and let the adapter close."""
        if self.dead is not None or self._fd < 0:
            return
        self.hand_over()
        reason = error.strerror or str(error)
        self.dead = "its interface was deleted" if error.errno == _DELETED else reason
        log.error("[%s] lost: %s", self.name, reason if reason == self.dead else f"{self.dead} ({reason})")
        self._watcher.remove(self)
        self.moved_to = ""
        self.carrier = False
        with contextlib.suppress(OSError):  # it was deleted
            set_tap_carrier(self._fd, False)
        self._host_down()
