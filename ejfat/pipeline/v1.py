"""The v1 pipeline: header version 1, one instance. Big-endian throughout.

Source: seed 002, "LB Processing" (text) and "LB Data Plane P4 Code".
Differs: where the text and the listing disagree, this follows the text: the MAC source becomes the old MAC
    destination, a frame without a load balancer header is dropped, the checksum includes all 16 bytes of an IPv6
    address, and an absent UDP checksum stays absent. The conformance vectors pin each of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from ejfat.base.drops import LbCounters, LbDrop, PipelineCounters
from ejfat.pipeline.packet import ETH_IPV4, ETH_VLAN, UDP, Packet, Verdict, lb_fault
from ejfat.pipeline.rewrite import rewrite
from ejfat.tables.match_action import Table
from ejfat.tables.schema import DROP, FAMILIES
from ejfat.wire.headers import LB_PORT

_LB_SIZE = 12
_SLOT_MASK = 0x1FF

_Parsed = tuple[int, int] | LbDrop
"""Offset of the UDP header (-1: none) and the IP destination, or the drop."""


class PipelineV1:
    """Filter, epoch, calendar, member and rewrite for frames with a version 1 header."""

    def __init__(self, tables: Mapping[str, Table], counters: PipelineCounters) -> None:
        self._dst_filter = tables["dst_filter_table"]
        self._epochs = tables["epoch_assign_table"]
        self._calendar = tables["load_balance_calendar_table"]
        self._members = tables["member_info_lookup_table"]
        self._counters = counters
        self.sources: Mapping[int, Table] | None = None
        """Source filters by IP version, which admit the senders of instance 0. None: all pass, as specified."""

    def process(self, packet: Packet) -> Verdict:
        """Return the verdict on a frame (Ethernet without FCS)."""
        counters, frame = self._counters, packet.raw
        counters.rx_packets += 1
        counters.rx_bytes += len(frame)
        parsed = _parse(packet)
        if isinstance(parsed, LbDrop):
            return self._drop(parsed)
        udp, ip_dst = parsed
        passed = self._dst_filter.lookup(int.from_bytes(frame[0:6], "big"), packet.ether_type, ip_dst)
        if passed is None:
            return self._drop(LbDrop.DST_FILTER_MISS)
        if passed.action == DROP:
            return self._drop(LbDrop.DST_FILTER_DROP)
        if udp < 0:
            return self._drop(LbDrop.NOT_UDPLB_PROTOCOL)
        if packet.port != LB_PORT:
            return self._drop(LbDrop.NOT_UDPLB_PORT)
        return self._balance(packet, udp)

    def _balance(self, packet: Packet, udp: int) -> Verdict:
        frame, ether_type = packet.raw, packet.ether_type
        tick = int.from_bytes(frame[udp + 12 : udp + 20], "big")
        lb = self._counters.lbs[0]
        lb.rx_packets += 1
        lb.rx_bytes += len(frame)
        if self.sources is not None and not self._is_admitted(packet):
            return self._drop(LbDrop.SRC_BLOCKED, lb)
        lb.rx_v1 += 1
        lb.see(tick)
        epoch = self._epochs.lookup(tick)
        if epoch is None:
            return self._drop(LbDrop.EPOCH_MISS, lb)
        if epoch.action == DROP:
            return self._drop(LbDrop.EPOCH_DROP, lb)
        slot = self._calendar.lookup(epoch.args[0], tick & _SLOT_MASK)
        if slot is None:
            return self._drop(LbDrop.CALENDAR_MISS, lb)
        if slot.action == DROP:
            return self._drop(LbDrop.CALENDAR_DROP, lb)
        member_id = slot.args[0]
        member = self._members.lookup(ether_type, member_id)
        if member is None:
            return self._drop(LbDrop.MEMBER_MISS, lb)
        if member.action == DROP:
            return self._drop(LbDrop.MEMBER_DROP, lb)
        if FAMILIES[member.action] != ether_type:
            return self._drop(LbDrop.MEMBER_FAMILY, lb)
        mac, ip, port = member.args
        macs = mac.to_bytes(6, "big") + frame[0:6]
        addresses = packet.source + ip.to_bytes(len(packet.source), "big")
        out = rewrite(frame, udp, macs, addresses, port, removed=_LB_SIZE, hops=0)
        self._counters.sent(member_id, len(out))
        return Verdict(out)

    def _is_admitted(self, packet: Packet) -> bool:
        assert self.sources is not None  # noqa: S101 - checked by the caller
        version = 4 if packet.ether_type == ETH_IPV4 else 6
        return self.sources[version].lookup(0, int.from_bytes(packet.source, "big")) is not None

    def _drop(self, reason: LbDrop, lb: LbCounters | None = None) -> Verdict:
        self._counters.drop(reason, lb)
        return Verdict(None, reason)


def _parse(packet: Packet) -> _Parsed:
    ip = packet.ip
    if packet.ether_type == ETH_VLAN or ip is None:
        return -1, 0
    if isinstance(ip, LbDrop):
        return ip
    ip_dst = int.from_bytes(packet.destination, "big")
    if ip.protocol != UDP:
        return -1, ip_dst
    if ip.is_later_fragment:
        return LbDrop.PARSER_FRAGMENT
    if packet.port < 0:
        return LbDrop.PARSER_SHORT_UDP
    fault = lb_fault(packet, ip, (1,), _LB_SIZE, _LB_SIZE) if packet.port == LB_PORT else None
    return fault or (ip.l4, ip_dst)
