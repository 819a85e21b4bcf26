"""scapy layers of the 16B packet, for people and tests: OPA16B, OPAEthernet and OPAFM.

    from scapy.layers.l2 import Ether
    from hfi_sim.wire.layers import OPA16B, OPAEthernet
    bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / Ether() / b"hello")

Building fills in Length, pad, ICRC and tail where they are None; dissecting keeps what is there, so a dissected
packet, if it is as long as it says, builds the same bytes again. After changing one, `del pkt.length_qw, pkt.pad,
pkt.icrc, pkt.tail` lets them be computed anew. The datapath never goes through this module. Importing it tells
scapy that captures of link type 147 (USER0) hold these packets.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from scapy.config import conf
from scapy.fields import BitField, LEShortField, StrField, XBitField, XLEIntField, XLEShortField
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

from hfi_sim.wire.captures import DLT_USER0
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TAIL_SIZE, TRAILER_SIZE, Icrc
from hfi_sim.wire.l4 import L4
from hfi_sim.wire.lrh16b import L2_16B, LT_HEAD, Lrh16B
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.packet import MIN_PACKET, QUAD_WORD, TAIL_LT, pad_count

_HEADER_FIELDS: Final = tuple(Lrh16B.__dataclass_fields__)


class OPA16B(Packet):
    """The 16B header in front of its payload, and pad, ICRC and tail behind it.

    The header's bits are read and written by `Lrh16B`, so a LID is one 24-bit value here. Bytes that are no whole
    16B packet (Length disagrees) still give the header; pad, ICRC and tail stay None then. What a port refuses for
    other reasons, such as its last byte, is dissected all the same.
    """

    name = "OPA 16B"
    fields_desc: ClassVar[list[Any]] = [
        BitField("slid", 0, 24),
        BitField("dlid", 0, 24),
        BitField("length_qw", None, 11),
        BitField("becn", 0, 1),
        BitField("sc", 0, 5),
        BitField("rc", 0, 3),
        BitField("fecn", 0, 1),
        BitField("l2", L2_16B, 2),
        BitField("lt", LT_HEAD, 1),
        XBitField("l4", 0, 8),
        XBitField("pkey", 0xFFFF, 16),
        XBitField("entropy", 0, 16),
        BitField("age", 0, 8),
        BitField("reserved", 0, 8),
        StrField("pad", None),
        XLEIntField("icrc", None),
        XBitField("tail", None, 8),
    ]
    icrc_algorithm: ClassVar[Icrc] = Icrc()
    """The algorithm behind an ICRC that is left to be computed; a subclass may choose another polynomial."""

    def do_dissect(self, s: bytes) -> bytes:
        """Read header and trailer; return the payload.

        Raises:  WireError: fewer than 16 bytes.
        """
        header = Lrh16B.parse(s)
        self.fields.update({name: int(getattr(header, name)) for name in _HEADER_FIELDS})
        self.explicit = 1
        if len(s) < MIN_PACKET or header.length_qw * QUAD_WORD != len(s):
            return s[HEADER_SIZE:]
        end = len(s) - TRAILER_SIZE
        payload_end = max(end - (s[-1] & PAD_COUNT_MASK), HEADER_SIZE)
        icrc = int.from_bytes(s[end:-TAIL_SIZE], "little")
        self.fields.update(pad=s[payload_end:end], icrc=icrc, tail=s[-1])
        return s[HEADER_SIZE:payload_end]

    def self_build(self) -> bytes:
        """Return the header; Length is 0 until `post_build` knows it."""
        values = {name: self.getfieldval(name) for name in _HEADER_FIELDS}
        return Lrh16B(**{**values, "length_qw": values["length_qw"] or 0}).build()

    def do_build_payload(self) -> bytes:
        """Return the payload with the bytes that scapy holds back as padding of an inner layer."""
        return bytes(self.payload.do_build() + self.payload.build_padding())

    def build_padding(self) -> bytes:
        """Return nothing: inner padding stands in front of the ICRC, as part of the payload."""
        return b""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Put pad, ICRC and tail behind header and payload, and fill in the Length."""
        pad = bytes(pad_count(len(pkt) + len(pay))) if self.pad is None else self.pad
        tail = TAIL_LT | len(pad) & PAD_COUNT_MASK if self.tail is None else self.tail
        if self.length_qw is None:
            length_qw = (len(pkt) + len(pay) + len(pad) + TRAILER_SIZE) // QUAD_WORD
            values = {name: self.getfieldval(name) for name in _HEADER_FIELDS}
            pkt = Lrh16B(**{**values, "length_qw": length_qw}).build()
        head = pkt + pay + pad
        icrc = self.icrc_algorithm.compute(head, tail & PAD_COUNT_MASK) if self.icrc is None else self.icrc
        return bytes(head + icrc.to_bytes(4, "little") + bytes([tail]))


class OPAEthernet(Packet):
    """The Ethernet L4 header: 4 bytes between the 16B header and the Ethernet frame."""

    name = "OPA Ethernet L4"
    fields_desc: ClassVar[list[Any]] = [XLEShortField("reserved", 0), LEShortField("vesw_id", 0)]


class OPAFM(Packet):
    """The FM header: 8 bytes between the 16B header and a MAD."""

    name = "OPA FM"
    fields_desc: ClassVar[list[Any]] = [
        XBitField("dest_reserved", 0, 8),
        BitField("dest_qp", 1, 24),
        XBitField("src_reserved", 0, 8),
        BitField("src_qp", 1, 24),
    ]


bind_layers(OPA16B, OPAEthernet, l4=int(L4.ETHERNET))
bind_layers(OPA16B, OPAFM, l4=int(L4.FM))
bind_layers(OPAEthernet, Ether)
conf.l2types.register(DLT_USER0, OPA16B)
