"""A VNIC: between a netdev of the host, the management agent, and the packets of an HFI port. Sans-IO.

Source: the public driver's opa_vnic_netdev.c (state, MTU, addresses) and hfi1's vnic_main.c (up and down,
counters, receive checks). Function names stand at the methods.
"""

from __future__ import annotations

import errno
import logging
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from hfi_sim.conveyor import Hold
from hfi_sim.counters import Drop, PacketCounters
from hfi_sim.netdev.base import ETH_MTU_MIN, Netdev
from hfi_sim.types import MacAddr, mac_text
from opavnic.counters import VnicCounters
from opavnic.demux import VnicDemux
from opavnic.encap import HEADER_SIZE, MAX_FRAME, MIN_FRAME, Forwarding
from opavnic.flow import flow_hash15
from opavnic.mac_table import MacTable, SourceFilter
from vema.attributes.counters import ErrorCounters, SummaryCounters
from vema.attributes.mac_entries import MacEntry
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.types import ConfigState, EthLinkStatus, TrapOpcode, VportNum
from vema.vnic import VnicReport

log = logging.getLogger("opavnic.adapter")

Transmit = Callable[[bytes], Drop | None]
"""Takes the 20-byte header and the frame behind it, makes a packet of them and sends it; says why not."""

_ETH_HEADER: Final = 14
_VLAN_ETH_HEADER: Final = 18
_METADATA: Final = 4
"""Bytes that the driver puts before the header on the way to hfi1, and counts where it drops there."""
_TRAILER: Final = 5
"""ICRC and tail."""
_UINT16: Final = 0xFFFF
_NO_MAC: Final = MacAddr(bytes(6))
_REASONS: Final = {
    -errno.EINVAL: "on no virtual switch",
    -errno.EBUSY: "another VNIC of the port is on this virtual switch",
}


class Offload(Protocol):
    """A datapath that carries the frames of a VNIC beside the adapter, from snapshots of its configuration."""

    def changed(self) -> None:
        """Hear that the configuration or the state of a VNIC changed."""

    def sync_vnic(self, adapter: Adapter) -> None:
        """Add what was counted meanwhile to the counters of one VNIC: they are about to be read."""


def _no_hold() -> Hold | None:
    """Stand in where no link has credits."""
    return None


class Adapter:
    """One VNIC. It is a `vema.vnic.Vnic`, and the `NetdevOps` of its netdev."""

    def __init__(
        self,
        vport_num: VportNum,
        netdev: Netdev,
        *,
        demux: VnicDemux,
        transmit: Transmit,
        report: VnicReport,
        opa_port_num: int = 1,
        driver_quirks: bool = False,
        smac_filter: bool = True,
        name: str = "",
        arriving: Callable[[], Hold | None] = _no_hold,
    ) -> None:
        """Take over `netdev`; begin with power-on defaults.

        Args:  opa_port_num: number of the HFI port. driver_quirks: as the public driver, a vport whose virtual
               switch was 0 or taken stays down until it is closed and opened. smac_filter: refuse to send from
               addresses that are no source entries of the MAC table, once it has any. name: for the log.
               arriving: the buffer space of the packet that is being received, on a link with credits.
        """
        self.vport_num = vport_num
        self.netdev = netdev
        self.counters = VnicCounters()
        self.tx = PacketCounters()
        """Frames from the host: sent to the HFI port, or dropped here."""
        self.rx = PacketCounters()
        """Frames from the fabric: given to the host, or dropped here."""
        self.mac_table = MacTable()
        self.hfi_up = False
        """Whether the HFI side is up: the demultiplexer knows this VNIC."""
        self.offload: Offload | None = None
        """The datapath that carries its frames in place of this object, if there is one."""
        self._demux = demux
        self._arriving = arriving
        self._backlog: deque[tuple[bytes, Hold]] = deque()
        """Packets that the host has no room for yet; each keeps its room in the buffer of the port."""
        self._transmit = transmit
        self._report = report
        self._opa_port_num = opa_port_num
        self._driver_quirks = driver_quirks
        self._smac_filter = smac_filter and not driver_quirks
        self._name = name or f"vport {vport_num}"
        self._config = VeswPortInfo.power_on()
        self._oper_state: int = ConfigState.DROP_ALL
        self._eth_link_status: int = EthLinkStatus.DOWN
        self._base_mac = _NO_MAC
        self._vesw_id = 0
        self._uc_gen = self._mc_gen = 0
        self._uc_hash = self._mc_hash = 0
        self._forwarding = Forwarding(self._config, self.mac_table)
        netdev.ops = self

    # --- what the EM asks (vema.vnic.Vnic) -----------------------------------------------------------------

    @property
    def forwarding(self) -> Forwarding:
        """The snapshot by which frames are sent now."""
        return self._forwarding

    @property
    def is_passing(self) -> bool:
        """Whether frames pass, both ways: carrier on, and not dormant."""
        return self.netdev.carrier and not self.netdev.dormant

    @property
    def sources(self) -> SourceFilter | None:
        """The source filter, where it applies."""
        return self._forwarding.sources if self._smac_filter and self._forwarding.sources else None

    @property
    def config_state(self) -> int:
        """What the EM wants of it, a `ConfigState`; cheaper than all of `port_info`."""
        return self._config.config_state

    @property
    def vesw_id(self) -> int:
        """The virtual switch that it is on; 0 for none."""
        return self._vesw_id

    @property
    def oper_state(self) -> int:
        """What it does, a `ConfigState`."""
        return self._oper_state

    @property
    def port_info(self) -> VeswPortInfo:
        """Configuration as the EM set it, with the state of now."""
        return replace(
            self._config,
            eth_link_status=self._eth_link_status,
            oper_state=self._oper_state,
            max_mac_tbl_ent=_POWER_ON.max_mac_tbl_ent,
            max_smac_ent=_POWER_ON.max_smac_ent,
            mac_tbl_digest=self.mac_table.digest,
            uc_macs_gen_count=self._uc_gen,
            mc_macs_gen_count=self._mc_gen,
        )

    def apply(self, info: VeswPortInfo) -> None:
        """Take a configuration; none is refused.

        Source: opa_vnic_process_vema_config().
        """
        self._config = info
        if info.base_mac != self._base_mac:
            # an address that the host chose stays until the EM chooses another one than it did before
            self._base_mac = info.base_mac
            self.netdev.set_address(info.base_mac)
        self._set_vesw_id(info.vesw_id)
        self._limit_mtu(info.eth_mtu)
        self._update_state(self.netdev.is_up)
        self._forwarding = Forwarding(info, self.mac_table)
        self._changed()

    def reset(self) -> None:
        """Go back to power-on defaults, then forget the MAC table.

        Source: vema_delete_vport(): the vport stays, with its generation counts and address lists.
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
        """Return the device address, unless it is the base MAC, then the other unicast addresses.

        Source: opa_vnic_query_ucast_macs().
        """
        address = self.netdev.address
        own = () if address == self._config.base_mac else (address,)
        return (*own, *self.netdev.uc_list), self._uc_gen

    def mcast_macs(self) -> tuple[Sequence[MacAddr], int]:
        """Return the multicast addresses."""
        return self.netdev.mc_list, self._mc_gen

    def summary_counters(self) -> SummaryCounters:
        """Return the counters of attribute 0x0020."""
        self._sync()
        counters = self.counters
        return SummaryCounters(
            vport_num=self.vport_num,
            vesw_id=self._config.vesw_id,
            opa_port_num=self._opa_port_num,
            tx_errors=counters.tx_errors,
            rx_errors=counters.rx_errors,
            tx_packets=counters.tx.packets,
            rx_packets=counters.rx.packets,
            tx_bytes=counters.tx.bytes,
            rx_bytes=counters.rx.bytes,
            tx_group=counters.tx.group(),
            rx_group=counters.rx.group(),
        )

    def error_counters(self) -> ErrorCounters:
        """Return the counters of attribute 0x0022."""
        self._sync()
        counters = self.counters
        return ErrorCounters(
            vport_num=self.vport_num,
            vesw_id=self._config.vesw_id,
            opa_port_num=self._opa_port_num,
            tx_errors=counters.tx_errors,
            rx_errors=counters.rx_errors,
            tx_smac_filt=counters.tx_smac_filt,
            tx_dlid_zero=counters.tx_dlid_zero,
            tx_logic=counters.tx_fifo_errors + counters.tx_carrier_errors,
            tx_drop_state=counters.tx_drop_state,
            rx_bad_veswid=counters.rx_nohandler,
            rx_runt=counters.rx_runt,
            rx_oversize=counters.rx_oversize,
            rx_drop_state=counters.rx_drop_state,
            rx_logic=counters.rx_fifo_errors,
        )

    def _swap_mac_table(self, table: MacTable) -> None:
        self.mac_table = table
        self._forwarding = Forwarding(self._config, table)
        self._changed()

    def _changed(self) -> None:
        if self.offload is not None:
            self.offload.changed()

    def _sync(self) -> None:
        if self.offload is not None:
            self.offload.sync_vnic(self)

    def _set_vesw_id(self, vesw_id: int) -> None:
        """Move to another virtual switch. Source: hfi1_vnic_set_vesw_id(), which ignores that it may fail."""
        reopen = False
        if vesw_id != self._vesw_id:
            reopen = self.hfi_up
            if reopen:
                self._bring_down()
            self._vesw_id = vesw_id
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
        before = self._oper_state
        if forwarding and up:
            self._oper_state, self._eth_link_status = ConfigState.FORWARDING, EthLinkStatus.UP
        else:
            self._oper_state, self._eth_link_status = ConfigState.DROP_ALL, EthLinkStatus.DOWN
        self.netdev.set_dormant(not forwarding)
        if self._oper_state != before:
            log.info("[%s] oper_state %d", self._name, self._oper_state)

    # --- what the host does (NetdevOps) --------------------------------------------------------------------

    def ndo_open(self) -> int:
        """Go up; -EINVAL without a virtual switch, -EBUSY where its place is taken.

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
        self.netdev.address = mac  # before the trap: who asks next is told the new address
        self._uc_gen = self._uc_gen + 1 & _UINT16
        log.info("[%s] address %s", self._name, mac_text(mac))
        self._report(self, TrapOpcode.UCAST_MACS_CHANGED)
        return 0

    def ndo_set_rx_mode(self) -> None:
        """Look at both address lists: each call counts, a change is reported.

        Source: opa_vnic_set_rx_mode(), opa_vnic_mac_send_event().
        """
        self._uc_gen = self._uc_gen + 1 & _UINT16
        uc_hash = list_hash(self.netdev.uc_list)
        if uc_hash != self._uc_hash:
            self._uc_hash = uc_hash
            self._report(self, TrapOpcode.UCAST_MACS_CHANGED)
        self._mc_gen = self._mc_gen + 1 & _UINT16
        mc_hash = list_hash(self.netdev.mc_list)
        if mc_hash != self._mc_hash:
            self._mc_hash = mc_hash
            self._report(self, TrapOpcode.MCAST_MACS_CHANGED)

    def _bring_up(self) -> int:
        error = self._demux.attach(self._vesw_id, self)
        if not error:
            self.hfi_up = True
            self.netdev.set_carrier(True)
            self._changed()
        return error

    def _bring_down(self) -> None:
        self.hfi_up = False
        self.netdev.set_carrier(False)
        self._demux.detach(self)
        self._drop_backlog()
        self._changed()

    # --- what the port says --------------------------------------------------------------------------------

    def port_changed(self, active: bool) -> None:
        """Follow the HFI port with the carrier, open or not; no state changes, no trap is sent.

        Source: opa_vnic_event().
        """
        self.netdev.set_carrier(active)
        self._changed()

    def close(self) -> None:
        """Take the VNIC away with its netdev. Harmless when done twice."""
        if self.hfi_up:
            self._bring_down()
        self.netdev.ops = None
        self.netdev.close()

    # --- frames --------------------------------------------------------------------------------------------

    def ndo_start_xmit(self, frame: bytes) -> None:
        """Send a frame of the host, or count why not.

        Source: opa_netdev_start_xmit(), hfi1_netdev_start_xmit(), hfi1_vnic_update_tx_counters().
        """
        law = self.tx
        size = len(frame)
        law.in_packets += 1
        law.in_bytes += size
        if size < MIN_FRAME:
            if size < _ETH_HEADER:
                law.drop(Drop.VNIC_TX_MALFORMED)
                return
            frame = frame.ljust(MIN_FRAME, b"\0")
        elif size > MAX_FRAME:
            law.drop(Drop.VNIC_TX_MALFORMED)
            return
        self.send_frame(frame, flow_hash15(frame))

    def send_frame(self, frame: bytes, hash15: int) -> None:
        """Send a padded frame whose flow hash is known; the caller has counted it as come in.

        Args:  frame: 60 to 16351 bytes, without FCS. hash15: 0 to 32767.
        """
        law = self.tx
        netdev = self.netdev
        if netdev.dormant or not netdev.carrier:
            self.counters.tx_drop_state += 1
            self._refuse(Drop.VNIC_TX_STATE, len(frame) + HEADER_SIZE + _METADATA)
            return
        forwarding = self._forwarding
        if self._smac_filter and forwarding.sources and not forwarding.sources.admits(frame[6:12]):
            self.counters.tx_smac_filt += 1
            self._refuse(Drop.VNIC_TX_SMAC, len(frame))
            return
        header = forwarding.encap(frame, hash15)
        if header is None:
            self.counters.tx_dlid_zero += 1
            self._refuse(Drop.VNIC_TX_DLID, len(frame) + HEADER_SIZE)
            return
        law.out_packets += 1
        law.out_bytes += len(frame)
        if self._transmit(header + frame) is None:
            self.counters.tx.count_good(frame)
        else:  # the port has counted why
            self.counters.tx_carrier_errors += 1
            self.counters.tx.count_attempt(len(frame))

    def _refuse(self, reason: Drop, counted_len: int) -> None:
        self.tx.drop(reason)
        self.counters.tx.count_attempt(counted_len)

    def receive(self, packet: bytes) -> None:
        """Give the frame in a packet to the host, or count why not; it waits where host and link can.

        Args:    packet: header, frame, pad, ICRC and tail. The header is not looked at any more.
        Source:  hfi1_vnic_bypass_rcv(), hfi1_vnic_decap_skb(), hfi1_vnic_update_rx_counters().
        """
        law = self.rx
        law.in_packets += 1
        law.in_bytes += len(packet)
        if self._backlog:
            self.ndo_rx_wake()
        if self.netdev.rx_stopped and (hold := self._arriving()) is not None:
            hold.keep()
            law.in_flight += 1
            self._backlog.append((packet, hold))
            return
        self._take(packet)

    def ndo_rx_wake(self) -> None:
        """Give the host what has waited for it, as far as it has room, in order."""
        while self._backlog and not self.netdev.rx_stopped:
            packet, hold = self._backlog.popleft()
            self.rx.in_flight -= 1
            self._take(packet)
            hold.release()

    def _drop_backlog(self) -> None:
        """Count what waits as lost: nobody will take it any more."""
        backlog, self._backlog = self._backlog, deque()
        for _, hold in backlog:
            self.rx.in_flight -= 1
            self.rx.drop(Drop.VNIC_RX_STATE)
            self.counters.rx_drop_state += 1
            hold.release()

    def _take(self, packet: bytes) -> None:
        law = self.rx
        netdev = self.netdev
        counters = self.counters
        if netdev.dormant or not netdev.carrier:
            counters.rx_drop_state += 1
            law.drop(Drop.VNIC_RX_STATE)
            return
        end = len(packet) - _TRAILER - (packet[-1] & 7)
        length = end - HEADER_SIZE
        if length > netdev.mtu + _VLAN_ETH_HEADER:
            counters.rx_oversize += 1
            counters.rx.count_attempt(length)
            law.drop(Drop.VNIC_RX_OVERSIZE)
            return
        if length < MIN_FRAME:
            counters.rx_runt += 1
            # where less than a header is left, the driver takes none off
            counters.rx.count_attempt(length if length >= 0 else max(end, 0))
            law.drop(Drop.VNIC_RX_RUNT)
            return
        frame = packet[HEADER_SIZE:end]
        if not netdev.receive(frame):
            counters.rx_fifo_errors += 1
            law.drop(Drop.VNIC_RX_HOST)
            return
        counters.rx.count_good(frame)
        law.out_packets += 1
        law.out_bytes += length

    def count_no_handler(self) -> None:
        """Count a packet for a virtual switch that no VNIC of the port is on; the port drops it."""
        self.counters.rx_nohandler += 1


_POWER_ON: Final = VeswPortInfo.power_on()


def list_hash(macs: Sequence[bytes]) -> int:
    """Return the hash of an address list by which changes are noticed, 32 bits; the order counts.

    Source: opa_vnic_mac_send_event(): the complement of the kernel's crc32_le, which inverts neither before
    nor after, over the addresses and their size in bytes.
    """
    data = b"".join(macs)
    return zlib.crc32(data + len(data).to_bytes(4, "little"), 0xFFFFFFFF)
