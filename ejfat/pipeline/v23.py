"""The v2/v3 pipeline: header versions 2 and 3, eight instances, source filters, own replies. Big-endian.

Source: the public P4 program, with the TTL decrement of its deployed version.
"""

from __future__ import annotations

from collections.abc import Mapping

from ejfat.base.drops import GONE, LbCounters, LbDrop, PipelineCounters, Reply
from ejfat.pipeline.packet import ETH_VLAN, UDP_SIZE, Ip, Packet, Verdict
from ejfat.pipeline.parse23 import FrameKind, parse, solicitation_end
from ejfat.pipeline.rewrite import rewrite
from ejfat.tables.match_action import Entry, Table
from ejfat.tables.schema import FAMILIES
from hfi_sim.wire.internet_checksum import checksum, update

# --- the load balancer's own replies: ARP, ICMP echo and neighbor discovery, made from the request ---------
# Source: the public P4 program.

_ALL_NODES = bytes.fromhex("ff020000000000000000000000000001")
_ALL_NODES_MAC = bytes.fromhex("333300000001")
_UNSPECIFIED = bytes(16)
_SOLICITED = 0x40


def answer_arp(frame: bytes, mac: bytes, ip: bytes) -> bytes | LbDrop:
    """Return the reply to an ARP request for the own address `ip` (16 bytes, IPv4 in the last four)."""
    if frame[38:42] != ip[12:]:
        return LbDrop.ARP_TARGET
    requester = frame[6:12]
    return b"".join(
        (requester, mac, frame[12:20], b"\x00\x02", mac, ip[12:], frame[22:28], frame[28:32], frame[42:])
    )


def answer_echo4(frame: bytes, l4: int, mac: bytes, ip: bytes) -> bytes | LbDrop:
    """Return the ICMPv4 echo reply. The TTL is kept, and swapping the addresses does not change the IP checksum."""
    if frame[30:34] != ip[12:]:
        return LbDrop.ICMPV4_TARGET
    icmp_sum = update(int.from_bytes(frame[l4 + 2 : l4 + 4], "big"), b"\x08\x00", b"\x00\x00")
    return b"".join(
        (
            frame[6:12],
            mac,
            frame[12:26],
            ip[12:],
            frame[26:30],
            frame[34:l4],
            b"\x00\x00",
            icmp_sum.to_bytes(2, "big"),
            frame[l4 + 4 :],
        )
    )


def answer_echo6(frame: bytes, mac: bytes, ip: bytes) -> bytes:
    """Return the ICMPv6 echo reply, always from the own unicast address `ip`."""
    source, dest = frame[22:38], frame[38:54]
    icmp_sum = update(
        int.from_bytes(frame[56:58], "big"), source + dest + b"\x80\x00", ip + source + b"\x81\x00"
    )
    return b"".join(
        (frame[6:12], mac, frame[12:22], ip, source, b"\x81\x00", icmp_sum.to_bytes(2, "big"), frame[58:])
    )


def answer_solicitation(frame: bytes, mac: bytes, ip: bytes) -> bytes | LbDrop:
    """Return the neighbor advertisement for the own address; bytes after the parsed part of the request are kept."""
    target = frame[62:78]
    if target != ip:
        return LbDrop.ND_TARGET
    source = frame[22:38]
    end = solicitation_end(frame)
    if source == _UNSPECIFIED:
        dest, dest_mac, flags = _ALL_NODES, _ALL_NODES_MAC, 0
    else:
        dest, flags = source, _SOLICITED
        dest_mac = frame[80:86] if end == 86 else frame[6:12]
    body = b"".join((bytes((flags, 0, 0, 0)), target, b"\x02\x01", mac))
    payload_length = b"\x00\x20"
    icmp_sum = checksum(
        b"".join((ip, dest, b"\x00\x00", payload_length, b"\x00\x00\x00\x3a\x88\x00\x00\x00", body))
    )
    return b"".join(
        (
            dest_mac,
            mac,
            frame[12:18],
            payload_length,
            b"\x3a\xff",
            ip,
            dest,
            b"\x88\x00",
            icmp_sum.to_bytes(2, "big"),
            body,
            frame[end:],
        )
    )


# -----------------------------------------------------------------------------------------------------------

_LB_SIZE = 16
_LINK_LOCAL_GROUPS = bytes.fromhex("0180c20000")
_SLOT_BITS = 9
_GONE = {reason.value.partition(":")[2]: reason for reason in GONE}
"""Reasons by the action of a member that has gone."""


class PipelineV23:
    """L2 and L3 interface, responder, source filter, epoch, calendar, member, rewrite."""

    def __init__(self, tables: Mapping[str, Table], counters: PipelineCounters) -> None:
        self._iface = tables["l2_iface_table"]
        self._mac_dst = tables["mac_dst_filter_table"]
        self._ip_dst = tables["ip_dst_filter_table"]
        self.sources = {4: tables["ipv4_src_filter_table"], 6: tables["ipv6_src_filter_table"]}
        """Source filters by IP version."""
        self._epochs = tables["epoch_assign_table"]
        self._calendar = tables["load_balance_calendar_table"]
        self._members = tables["member_info_lookup_table"]
        self._counters = counters

    def process(self, packet: Packet) -> Verdict:
        """Return the verdict on a frame (Ethernet without FCS)."""
        counters, frame = self._counters, packet.frame
        counters.rx_packets += 1
        counters.rx_bytes += len(packet.raw)
        kind = parse(packet)
        if isinstance(kind, LbDrop):
            return self._drop(kind)
        if frame[0:5] == _LINK_LOCAL_GROUPS and frame[5] < 16 and packet.ether_type != ETH_VLAN:
            counters.to_host += 1
            return Verdict(frame, to_host=True)
        return self._to_interface(packet, kind)

    def _to_interface(self, packet: Packet, kind: FrameKind) -> Verdict:
        frame, ether_type = packet.frame, packet.ether_type
        ip = packet.ip if isinstance(packet.ip, Ip) else None
        iface, mac = 0, 0
        entry = self._iface.lookup(packet.vlan_id)
        if entry is not None:
            iface, mac = entry.args
        entry = self._mac_dst.lookup(iface, int.from_bytes(frame[0:6], "big"))
        if entry is None:
            return self._drop(LbDrop.MAC_DST_MISS)
        if entry.args:
            mac = entry.args[0]
        if ip is not None:
            ip_dst = packet.destination
        elif kind is FrameKind.ARP:
            ip_dst = frame[38:42]
        else:
            return self._drop(LbDrop.NOT_IP)
        entry = self._ip_dst.lookup(iface, ether_type, int.from_bytes(ip_dst, "big"))
        if entry is None:
            return self._drop(LbDrop.IP_DST_MISS)
        our_ip, lb_id = entry.args
        our_mac = mac.to_bytes(6, "big")
        if ip is None or kind < FrameKind.UDP:
            return self._respond(frame, kind, ip.l4 if ip else 0, our_mac, our_ip.to_bytes(16, "big"))
        return self._balance(packet, ip, kind, our_mac, our_ip, lb_id)

    def _respond(self, frame: bytes, kind: FrameKind, l4: int, mac: bytes, ip: bytes) -> Verdict:
        out: bytes | LbDrop
        if kind is FrameKind.ARP:
            reply, out = Reply.ARP, answer_arp(frame, mac, ip)
        elif kind is FrameKind.ICMPV4_ECHO:
            reply, out = Reply.ICMPV4_ECHO, answer_echo4(frame, l4, mac, ip)
        elif kind is FrameKind.ICMPV6_ECHO:
            reply, out = Reply.ICMPV6_ECHO, answer_echo6(frame, mac, ip)
        elif kind is FrameKind.NEIGHBOR_SOLICITATION:
            reply, out = Reply.NEIGHBOR, answer_solicitation(frame, mac, ip)
        else:
            is_ipv4 = kind is FrameKind.ICMPV4_OTHER
            return self._drop(LbDrop.ICMPV4_UNHANDLED if is_ipv4 else LbDrop.ICMPV6_UNHANDLED)
        if isinstance(out, LbDrop):
            return self._drop(out)
        self._counters.replies[reply] += 1
        return Verdict(out, is_reply=True)

    def _balance(
        self, packet: Packet, ip: Ip, kind: FrameKind, mac: bytes, our_ip: int, lb_id: int
    ) -> Verdict:
        frame = packet.frame
        lb = self._counters.lbs[lb_id]
        lb.rx_packets += 1
        lb.rx_bytes += len(frame)
        if self.sources[ip.version].lookup(lb_id, int.from_bytes(packet.source, "big")) is None:
            return self._drop(LbDrop.SRC_BLOCKED, lb)
        if kind is not FrameKind.LB:
            return self._drop(LbDrop.NOT_UDPLB_PORT, lb)
        at = ip.l4 + UDP_SIZE
        tick = int.from_bytes(frame[at + 8 : at + 16], "big")
        lb.see(tick)
        if frame[at + 2] == 2:
            lb.rx_v2 += 1
            slot_select = tick & 0xFFFF
        else:
            lb.rx_v3 += 1
            slot_select = int.from_bytes(frame[at + 4 : at + 6], "big")
        if frame[22 if ip.version == 4 else 21] <= 1:
            return self._drop(LbDrop.TTL, lb)
        found = self._member(lb_id, tick, slot_select, packet.ether_type)
        if isinstance(found, LbDrop):
            return self._drop(found, lb)
        member_id, entry = found
        if FAMILIES[entry.action] != packet.inner_type:
            return self._drop(LbDrop.MEMBER_FAMILY, lb)
        new_mac, member_ip, port_base, port_bits, keep = entry.args
        size = 4 if ip.version == 4 else 16
        addresses = our_ip.to_bytes(16, "big")[-size:] + member_ip.to_bytes(size, "big")
        port = port_base + (int.from_bytes(frame[at + 6 : at + 8], "big") & (1 << port_bits) - 1) & 0xFFFF
        macs, removed = new_mac.to_bytes(6, "big") + mac, 0 if keep else _LB_SIZE
        out = rewrite(frame, ip.l4, macs, addresses, port, removed=removed, hops=1)
        self._counters.sent(member_id, len(out))
        return Verdict(out)

    def _member(self, lb_id: int, tick: int, slot_select: int, ether_type: int) -> tuple[int, Entry] | LbDrop:
        epoch = self._epochs.lookup(lb_id, tick)
        if epoch is None:
            return LbDrop.EPOCH_MISS
        if len(epoch.args) == 1:
            bits, xor = _SLOT_BITS, 0
        else:
            _, bits, xor = epoch.args
        slot = (slot_select ^ xor) & ((1 << bits) - 1) & 0xFFFF
        assigned = self._calendar.lookup(lb_id, epoch.args[0], slot)
        if assigned is None:
            return LbDrop.CALENDAR_MISS
        member_id = assigned.args[0]
        member = self._members.lookup(lb_id, ether_type, member_id)
        if member is None:
            return LbDrop.MEMBER_MISS
        if member.args:
            return member_id, member
        gone = _GONE.get(member.action)
        if gone is not None:
            self._counters.members[member_id].drops[gone] += 1
        return gone or LbDrop.MEMBER_DROP

    def _drop(self, reason: LbDrop, lb: LbCounters | None = None) -> Verdict:
        self._counters.drop(reason, lb)
        return Verdict(None, reason)
