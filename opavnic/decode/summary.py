"""One-line summaries of packets: source, destination and content."""

from __future__ import annotations

from hfi_sim.base.errors import WireError
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TRAILER_SIZE
from hfi_sim.wire.lrh16b import L4, EthernetL4, FmHeader, Lrh16B, is_9b
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.mad.fm_packet import mad_start
from hfi_sim.wire.mad.header import MadClass, MadHeader
from hfi_sim.wire.packet_9b import Bth, bth_at
from opavnic.decode import meanings

_ARP = 0x0806
_ARP_OPERATIONS = {1: "who has {1}, asks {0}", 2: "{0} is at {2}"}


def summarize(packet: bytes) -> str:
    """Return one line: LIDs, service channel, and content. Any bytes give a line."""
    try:
        lrh = Lrh16B.parse(packet)
    except WireError as fault:
        return f"no 16B packet: {fault}"
    ends = f"{lrh.slid:#x} > {lrh.dlid:#x} sc {lrh.sc}"
    marks = "".join(f" {name}" for name in ("fecn", "becn") if getattr(lrh, name))
    if is_9b(packet):
        return f"{ends}{marks} {_payload_9b(lrh.l4, packet)}"
    end = max(len(packet) - TRAILER_SIZE - (packet[-1] & PAD_COUNT_MASK), HEADER_SIZE)
    return f"{ends}{marks} {_payload(lrh.l4, packet[:end])}"


def _payload(l4: int, packet: bytes) -> str:
    if l4 == L4.ETHERNET and len(packet) >= HEADER_SIZE + EthernetL4.SIZE:
        vesw_id = EthernetL4.parse(packet[HEADER_SIZE:]).vesw_id
        return f"vesw {vesw_id} {_frame(packet[HEADER_SIZE + EthernetL4.SIZE :])}"
    if l4 == L4.FM and len(packet) >= HEADER_SIZE + FmHeader.SIZE + MadHeader.SIZE:
        return _mad(MadHeader.parse(packet[HEADER_SIZE + FmHeader.SIZE :]))
    return f"L4 {l4:#x}, {meanings.byte_count(len(packet))}"


def _payload_9b(l4: int, packet: bytes) -> str:
    at = bth_at(packet, HEADER_SIZE)
    if l4 == L4.FM and len(packet) >= mad_start(packet) + MadHeader.SIZE:
        return f"9B {_mad(MadHeader.parse(packet[mad_start(packet) :]))}"
    if at is None:
        return f"9B, {meanings.byte_count(len(packet))}"
    bth = Bth.parse(packet[at:])
    return f"9B opcode {bth.opcode:#x} to QP {bth.dest_qp:#x}, {meanings.byte_count(len(packet))}"


def _mad(header: MadHeader) -> str:
    words = [
        "MAD",
        meanings.mad_field("method", header.method, header) or f"method {header.method:#x}",
        meanings.attribute(header.mgmt_class, header.attr_id),
    ]
    if header.mgmt_class == MadClass.EMA:
        words.append(meanings.mad_field("attr_mod", header.attr_mod, header))
    else:
        words.append(f"of class {header.mgmt_class:#x}")
    words.append(f"tid {header.tid:#x}")
    if header.status:
        words.append(f"status {header.status:#x}")
    return " ".join(word for word in words if word)


def _frame(frame: bytes) -> str:
    if len(frame) < 14:
        return f"{meanings.byte_count(len(frame))} of Ethernet"
    words = [f"{frame[6:12].hex(':')} > {frame[:6].hex(':')}"]
    at = 12
    ethertype = int.from_bytes(frame[at : at + 2])
    while ethertype in meanings.VLAN_TYPES and len(frame) >= at + 6:
        words.append(meanings.vlan_tci(int.from_bytes(frame[at + 2 : at + 4])))
        at += 4
        ethertype = int.from_bytes(frame[at : at + 2])
    data = frame[at + 2 :]
    if ethertype == _ARP and len(data) >= 28:
        words.append(_arp(data))
    else:
        kind = meanings.ethertype(ethertype) or f"type {ethertype:#06x}"
        words.append(meanings.network_payload(ethertype, data) or kind)
    return " ".join(words) + f", {len(frame)} bytes"


def _arp(data: bytes) -> str:
    sender, target = (".".join(map(str, data[at : at + 4])) for at in (14, 24))
    form = _ARP_OPERATIONS.get(int.from_bytes(data[6:8]), "{0} to {1}")
    return "ARP " + form.format(sender, target, data[8:14].hex(":"))
