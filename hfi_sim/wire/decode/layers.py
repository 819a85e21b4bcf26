"""scapy layers of the 16B packet, for people and tests: OPA16B, OPAEthernet and OPAFM.

    from scapy.layers.l2 import Ether
    from hfi_sim.wire.decode.layers import OPA16B, OPAEthernet
    bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / Ether() / b"hello")

Building fills in Length, pad, ICRC and tail where they are None; dissecting keeps what is there, so a dissected
packet, if it is as long as it says, builds the same bytes again. After changing one, `del pkt.length_qw, pkt.pad,
pkt.icrc, pkt.tail` lets them be computed anew. The datapath never goes through this module. Importing it tells
scapy that captures of link type 147 (USER0) hold these packets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from scapy.config import conf
from scapy.fields import StrField, XBitField, XLEIntField
from scapy.layers.l2 import Ether
from scapy.packet import bind_layers

from hfi_sim.wire.captures import DLT_USER0
from hfi_sim.wire.decode.scapy_header import HeaderLayer, fields_of
from hfi_sim.wire.icrc import PAD_COUNT_MASK, TAIL_SIZE, TRAILER_SIZE, Icrc
from hfi_sim.wire.l4 import L4, EthernetL4, FmHeader
from hfi_sim.wire.lrh16b import SIZE as HEADER_SIZE
from hfi_sim.wire.lrh16b import Lrh16B
from hfi_sim.wire.packet import MIN_PACKET, QUAD_WORD, TAIL_LT, pad_count


class OPA16B(HeaderLayer):
    """The 16B header in front of its payload, and pad, ICRC and tail behind it.

    Bytes that are not a whole 16B packet (Length disagrees) still give the header; pad, ICRC and tail stay None then.
    What a port refuses for other reasons, such as its last byte, is dissected all the same.
    """

    name = "OPA 16B"
    headers = (("", Lrh16B),)
    fields_desc: ClassVar[list[Any]] = [
        *fields_of(headers, length_qw=None),
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
        rest = super().do_dissect(s)
        self.clear_cache()  # pad, ICRC and tail come from post_build
        if len(s) < MIN_PACKET or self.length_qw * QUAD_WORD != len(s):
            return rest
        end = len(s) - TRAILER_SIZE
        payload_end = max(end - (s[-1] & PAD_COUNT_MASK), HEADER_SIZE)
        icrc = int.from_bytes(s[end:-TAIL_SIZE], "little")
        self.fields.update(pad=s[payload_end:end], icrc=icrc, tail=s[-1])
        return s[HEADER_SIZE:payload_end]

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
            pkt = replace(Lrh16B.parse(pkt), length_qw=length_qw).build()
        head = pkt + pay + pad
        icrc = self.icrc_algorithm.compute(head, tail & PAD_COUNT_MASK) if self.icrc is None else self.icrc
        return bytes(head + icrc.to_bytes(4, "little") + bytes([tail]))


class OPAEthernet(HeaderLayer):
    """The Ethernet L4 header: 4 bytes between the 16B header and the Ethernet frame."""

    name = "OPA Ethernet L4"
    headers = (("", EthernetL4),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers)


class OPAFM(HeaderLayer):
    """The FM header: 8 bytes between the 16B header and a MAD."""

    name = "OPA FM"
    headers = (("", FmHeader),)
    fields_desc: ClassVar[list[Any]] = fields_of(headers, dest_qp=1, src_qp=1)


bind_layers(OPA16B, OPAEthernet, l4=int(L4.ETHERNET))
bind_layers(OPA16B, OPAFM, l4=int(L4.FM))
bind_layers(OPAEthernet, Ether)
conf.l2types.register(DLT_USER0, OPA16B)
