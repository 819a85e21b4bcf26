"""A VNIC: its state, the requests of the management agent, and the actions of the host on its netdev. Sans-IO.

Frames do not pass through this module: `transmit.Transmitter` carries them from the netdev to the HFI port,
`receive.Receiver` from the port's demultiplexer to the netdev.

Source: the public driver's opa_vnic_netdev.c (state, MTU, addresses) and hfi1's vnic_main.c (up and down). The methods
name the functions.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from hfi_sim.base.clock import Clock
from hfi_sim.base.counters import PacketCounters
from hfi_sim.base.types import ETH_MTU_MIN, MacAddr, mac_text
from hfi_sim.netdev.base import Merging, Netdev
from hfi_sim.nodes.hfi import HfiPort
from opavnic.vnic.address_lists import AddressLists
from opavnic.vnic.counters import VnicCounters, errors_of, summary_of
from opavnic.vnic.demux import VnicDemux
from opavnic.vnic.encap import Forwarding
from opavnic.vnic.flow import QUIRK_HASH_SHIFT
from opavnic.vnic.mac_table import MacTable, SourceFilter
from opavnic.vnic.receive import Receiver
from opavnic.vnic.speakers import Speakers
from opavnic.vnic.transmit import Transmitter
from vema.agent.vnic import VnicReport
from vema.attributes.attr_id import Value
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.base.types import TABLE_REWRITTEN, ConfigState, EthLinkStatus, TrapOpcode, VportNum

log = logging.getLogger("opavnic.vnic.adapter")

_NO_MAC: Final = MacAddr(bytes(6))
_POWER_ON: Final = VeswPortInfo.power_on()
_REASONS: Final = {
    -errno.EINVAL: "on no virtual switch",
    -errno.EBUSY: "another VNIC of the port is on this virtual switch",
}


Configured = Callable[[VportNum, int, int], None]


def no_host(_vport_num: VportNum, _vesw_id: int, _eth_mtu: int) -> None:
    """Handle a configuration where the host makes nothing of it."""


class Offload(Protocol):
    """A datapath that carries the frames of a VNIC instead of the adapter, from snapshots of its configuration."""

    def changed(self, adapter: Adapter) -> None:
        """Handle a change of the configuration or state of one VNIC."""

    def will_pass(self, adapter: Adapter) -> None:
        """Let the frames of one VNIC pass, as it is configured now: its device is about to let the host send."""

    def let_go(self, adapter: Adapter) -> None:
        """Let go of the device of one VNIC, which goes now: while its descriptor is held, the host has its name."""

    def merges(self, adapter: Adapter) -> Merging:
        """Return of which protocols the host of one VNIC gets received packets merged."""

    def sync_vnic(self, adapter: Adapter) -> None:
        """Bring the counters of one VNIC up to date before they are read."""


class Adapter:
    """One VNIC. It is a `vema.agent.vnic.Vnic`, and the `NetdevOps` of its netdev."""

    def __init__(
        self,
        vport_num: VportNum,
        netdev: Netdev,
        port: HfiPort,
        *,
        demux: VnicDemux,
        report: VnicReport,
        driver_quirks: bool = False,
        smac_filter: bool = True,
        name: str = "",
        tx: PacketCounters | None = None,
        rx: PacketCounters | None = None,
        configured: Configured = no_host,
        clock: Clock | None = None,
    ) -> None:
        """Attach to `netdev`, with power-on defaults.

        Args:  port: the HFI port for its frames. driver_quirks: as in the public driver, a vport whose virtual
               switch was 0 or taken stays down until it is closed and opened; entropy is made of 15 bits of a hash.
               smac_filter: refuse to send from addresses that are not source entries of the MAC table, once it has
               any. name: for the log. tx, rx: counters of the same VNIC before a crash, to be continued.
               configured: called after each configuration with the vport, its virtual switch and the MTU there.
               clock: report the sources of frames as addresses (see `speakers`), unless there are driver_quirks;
               without a clock, report the addresses of the netdev only.
        """
        self.vport_num = vport_num
        self.netdev = netdev
        self._configured = configured
        self.counters = VnicCounters()
        self.tx = PacketCounters() if tx is None else tx
        """Frames from the host: sent to the HFI port, or dropped here."""
        self.rx = PacketCounters() if rx is None else rx
        """Frames from the fabric: given to the host, or dropped here."""
        self.mac_table = MacTable()
        self.hfi_up = False
        """Whether the HFI side is up: the demultiplexer knows this VNIC."""
        self.offload: Offload | None = None
        """The datapath that carries the frames instead of this object, if any."""
        self._demux = demux
        self._report = report
        self._opa_port_num = port.opa_port_num
        self._driver_quirks = driver_quirks
        self._name = name or f"vport {vport_num}"
        self._config = _POWER_ON
        self.oper_state: int = ConfigState.DROP_ALL
        """Its current state, a `ConfigState`."""
        self._eth_link_status: int = EthLinkStatus.DOWN
        self._base_mac = _NO_MAC
        self.vesw_id = 0
        """Id of its virtual switch; 0: none."""
        self._clock = clock
        self._unheard: set[MacAddr] = set()
        learns = clock is not None and not driver_quirks
        self._addresses = AddressLists(netdev, Speakers() if learns else None)
        self._transmitter = Transmitter(
            netdev,
            port,
            self.counters,
            self.tx,
            Forwarding(self._config, self.mac_table),
            smac_filter=smac_filter and not driver_quirks,
            hash_shift=QUIRK_HASH_SHIFT if driver_quirks else 0,
            heard=self.heard,
        )
        self._receiver = Receiver(netdev, port, self.counters, self.rx)
        # frames go straight to the transmit and receive halves
        self.ndo_start_xmit = self._transmitter.start_xmit
        self.ndo_xmit_burst = port.burst
        self.ndo_rx_wake = self._receiver.go_on
        self.send_frame = self._transmitter.send_frame
        self.receive = self._receiver.receive
        self.count_no_handler = self._receiver.count_no_handler
        netdev.ops = self

    # --- requests of the EM (vema.agent.vnic.Vnic) ---------------------------------------------------------------

    @property
    def forwarding(self) -> Forwarding:
        """The configuration snapshot in use."""
        return self._transmitter.forwarding

    @property
    def is_passing(self) -> bool:
        """Whether frames pass in both directions: carrier on and not dormant."""
        return self.netdev.carrier and not self.netdev.dormant

    @property
    def sources(self) -> SourceFilter | None:
        """The source filter, if it applies."""
        sources = self.forwarding.sources
        return sources if self._transmitter.smac_filter else None

    @property
    def hash_shift(self) -> int:
        """Low bits of a flow's hash that are left out of its entropy."""
        return self._transmitter.hash_shift

    @property
    def config_state(self) -> int:
        """The state requested by the EM, a `ConfigState`; cheaper to read than `port_info`."""
        return self._config.config_state

    @property
    def merging(self) -> Merging:
        """The protocols of which received packets come to the host merged now."""
        return Merging(tcp=False) if self.offload is None else self.offload.merges(self)

    @property
    def port_info(self) -> VeswPortInfo:
        """The configuration set by the EM, with the current state."""
        if self._addresses.sweep(self._time()):
            self._listen()
        return replace(
            self._config,
            eth_link_status=self._eth_link_status,
            oper_state=self.oper_state,
            max_mac_tbl_ent=_POWER_ON.max_mac_tbl_ent,
            max_smac_ent=_POWER_ON.max_smac_ent,
            mac_tbl_digest=self.mac_table.digest,
            uc_macs_gen_count=self._addresses.uc_gen,
            mc_macs_gen_count=self._addresses.mc_gen,
        )

    def apply(self, info: VeswPortInfo) -> None:
        """Apply a configuration; any is accepted.

        Source: opa_vnic_process_vema_config().
        """
        self._config = info
        if info.base_mac != self._base_mac:
            # an address chosen by the host stays until the EM sends a base MAC that differs from its last one
            self._base_mac = info.base_mac
            self._addresses.leave(self.netdev.address, self._time())
            self.netdev.set_address(info.base_mac)
        self._addresses.base_mac = info.base_mac
        self._transmitter.forwarding = Forwarding(info, self.mac_table)  # before the host may send
        self._set_vesw_id(info.vesw_id)
        self._limit_mtu(info.eth_mtu)
        self._update_state(self.netdev.is_up)
        self._listen()
        self._configured(self.vport_num, info.vesw_id, info.eth_mtu)

    def reset(self) -> None:
        """Go back to power-on defaults, then forget the MAC table.

        Source: vema_delete_vport(): the vport keeps its generation counts and address lists.
        """
        self.apply(VeswPortInfo.power_on())
        self._swap_mac_table(MacTable())

    @property
    def mac_table_digest(self) -> int:
        """The digest of the last update of the MAC table."""
        return self.mac_table.digest

    def mac_section(self, offset: int, num_entries: int) -> tuple[MacEntry | None, ...]:
        """Return entries of the MAC table, None for holes."""
        return self.mac_table.section(offset, num_entries)

    def update_mac_table(self, offset: int, entries: Sequence[MacEntry | None], digest: int) -> None:
        """Replace a section of the MAC table."""
        self._swap_mac_table(self.mac_table.replace_section(offset, entries, digest))

    def ucast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the device address, unless it is the base MAC, then the other unicast addresses."""
        return self._addresses.unicast()

    def ucast_macs_read(self) -> None:
        """Let addresses that have spoken here return to the list; the trap follows the response."""
        if self._addresses.was_read(self._time()) and self._clock is not None:
            self._clock.call_soon(self._report, self, TrapOpcode.UCAST_MACS_CHANGED)
            self._listen()

    def mcast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the multicast addresses."""
        return self._addresses.multicast()

    def read(self, kind: type[Value]) -> Value:
        """Return the current value of an attribute that is only read."""
        self._sync()
        return _READERS[kind](self.counters, self.vport_num, self._config.vesw_id, self._opa_port_num)

    def _swap_mac_table(self, table: MacTable) -> None:
        self.mac_table = table
        self._transmitter.forwarding = Forwarding(self._config, table)
        if table.digest != TABLE_REWRITTEN and self._addresses.table_changed(
            table.dlids, self.forwarding.slid, self._time()
        ):
            self._report(self, TrapOpcode.UCAST_MACS_CHANGED)
        self._listen()

    # --- who speaks here -----------------------------------------------------------------------------------

    @property
    def quiet(self) -> frozenset[MacAddr] | None:
        """The sources of which frames need not be passed to `heard`; None: none needs to."""
        return self._transmitter.quiet

    def heard(self, source: MacAddr) -> None:
        """Handle a frame that was sent from a source that is not `quiet`."""
        if self._clock is not None and source not in self._unheard:
            # an address that is new on the host is no news as the source of a frame: take that in first
            self._unheard.add(source)
            self.netdev.catch_up()
            self._clock.call_soon(self._hear, source)

    def _hear(self, source: MacAddr) -> None:
        self._unheard.discard(source)
        if self._addresses.heard(source, self._time()):
            self._report(self, TrapOpcode.UCAST_MACS_CHANGED)
        self._listen()

    def _listen(self) -> None:
        """Have the datapath notice other sources than so far."""
        self._transmitter.quiet = self._addresses.quiet
        self._changed()

    def _time(self) -> float:
        return 0.0 if self._clock is None else self._clock.time()

    def _set_carrier(self, on: bool) -> None:
        self._will_pass(on and not self.netdev.dormant)
        self.netdev.set_carrier(on)

    def _will_pass(self, passing: bool) -> None:
        """Prepare the offload before the device lets the host send: a kernel sends at once."""
        if passing and not self.is_passing and self.offload is not None:
            self.offload.will_pass(self)

    def _changed(self) -> None:
        if self.offload is not None:
            self.offload.changed(self)

    def _sync(self) -> None:
        if self.offload is not None:
            self.offload.sync_vnic(self)

    def _set_vesw_id(self, vesw_id: int) -> None:
        """Move to another virtual switch. Source: hfi1_vnic_set_vesw_id(), which ignores that it may fail."""
        reopen = False
        if vesw_id != self.vesw_id:
            self._addresses.forget_speakers()
            reopen = self.hfi_up
            if reopen:
                self._bring_down()
            self.vesw_id = vesw_id
        if reopen or (not self._driver_quirks and self.netdev.is_up and not self.hfi_up):
            error = self._bring_up()
            if error:
                level = logging.WARNING if vesw_id else logging.INFO
                log.log(level, "[%s] down: vesw_id %#x: %s", self._name, vesw_id, _REASONS[error])

    def _limit_mtu(self, eth_mtu: int) -> None:
        netdev = self.netdev
        max_mtu = max(eth_mtu, ETH_MTU_MIN)
        netdev.set_max_mtu(max_mtu)
        if netdev.mtu > max_mtu:
            netdev.set_mtu(max_mtu)

    def _update_state(self, up: bool) -> None:
        """Source: opa_vnic_update_state()."""
        forwarding = self._config.config_state == ConfigState.FORWARDING
        before = self.oper_state
        if forwarding and up:
            self.oper_state, self._eth_link_status = ConfigState.FORWARDING, EthLinkStatus.UP
        else:
            self.oper_state, self._eth_link_status = ConfigState.DROP_ALL, EthLinkStatus.DOWN
        if forwarding:
            self._will_pass(self.netdev.carrier)
        self.netdev.set_dormant(not forwarding)
        if self.oper_state != before:
            log.info("[%s] oper_state %d", self._name, self.oper_state)

    # --- actions of the host (NetdevOps) -------------------------------------------------------------------

    def ndo_open(self) -> int:
        """Go up; -EINVAL without a virtual switch, -EBUSY if the port already has a VNIC on it.

        Source: opa_netdev_open(), hfi1_netdev_open().
        """
        error = self._bring_up()
        if error:
            return error
        self._update_state(True)
        self._report(self, TrapOpcode.ETH_LINK_STATUS_CHANGED)
        return 0

    def ndo_stop(self) -> None:
        """Go down. Source: opa_netdev_close(), hfi1_netdev_close()."""
        if self.hfi_up:
            self._bring_down()
        self._update_state(False)
        self._report(self, TrapOpcode.ETH_LINK_STATUS_CHANGED)

    def ndo_set_mac_address(self, mac: MacAddr) -> int:
        """Take another device address; -EADDRNOTAVAIL for a group address and for zero.

        Source: opa_vnic_set_mac_addr().
        """
        if mac == self.netdev.address:
            return 0
        if mac[0] & 1 or mac == _NO_MAC:
            return -errno.EADDRNOTAVAIL
        before = self.netdev.address
        self.netdev.address = mac  # before the trap: an EM that reacts to it must read the new address
        self._addresses.address_changed(before, self._time())
        log.info("[%s] address %s", self._name, mac_text(mac))
        self._report(self, TrapOpcode.UCAST_MACS_CHANGED)
        self._listen()
        return 0

    def ndo_set_rx_mode(self) -> None:
        """Read both address lists: every call advances the count, a change sends a trap.

        Source: opa_vnic_set_rx_mode(), opa_vnic_mac_send_event().
        """
        if self._addresses.unicast_changed():
            self._report(self, TrapOpcode.UCAST_MACS_CHANGED)
            self._listen()
        if self._addresses.multicast_changed():
            self._report(self, TrapOpcode.MCAST_MACS_CHANGED)

    def _bring_up(self) -> int:
        error = self._demux.attach(self.vesw_id, self)
        if not error:
            self.hfi_up = True
            self._set_carrier(True)
            self._changed()
        return error

    def _bring_down(self) -> None:
        self.hfi_up = False
        self.netdev.set_carrier(False)
        self._demux.detach(self)
        self._receiver.drop_backlog()
        self._changed()

    # --- events of the port --------------------------------------------------------------------------------

    def port_changed(self, active: bool) -> None:
        """Set the carrier to the link state of the HFI port, open or not; no state changes and no trap is sent.

        Source: opa_vnic_event().
        """
        self._set_carrier(active)
        self._changed()

    def close(self) -> None:
        """Remove the VNIC and its netdev. May be called twice."""
        if self.hfi_up:
            self._bring_down()
        if self.offload is not None:
            self.offload.let_go(self)
        self.netdev.ops = None
        self.netdev.close()


_READERS: Final[Mapping[type[Value], Callable[[VnicCounters, int, int, int], Value]]] = {
    SummaryCounters: summary_of,
    ErrorCounters: errors_of,
}
"""What returns the value of each attribute that is only read."""
