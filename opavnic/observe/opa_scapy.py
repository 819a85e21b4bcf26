# SPDX-License-Identifier: BSD-3-Clause
# `opavnic scapy-layers FILE` writes this file with its rows in it: then it needs nothing of opavnic.

# scapy.contrib.description = Intel Omni-Path (OPA): 16B packets, MADs, Ethernet management
# scapy.contrib.status = loads

"""scapy layers of Omni-Path: 16B packets, their MADs, and the attributes of VNIC and subnet management.

    OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / Ether() / b"hello"
    OPA16B(slid=1, dlid=2) / OPAFM() / OPAMad(method=2, attr_mod=1) / OPAVendorMad() / OPAVeswPortInfo(vesw_id=2)
    OPA16B() / OPAFM(dest_qp=0, src_qp=0) / OPAMad(method=1) / OPADirectedSmp() / OPANodeInfo()

Building fills in what is None: Length, pad, ICRC and tail of a packet, the attribute id of a MAD. A MAD is filled with
zeros up to the size of its base version, 2048 or 256 bytes. Dissecting keeps what is there, so a dissected packet
builds the same bytes again; after a change, `del pkt.length_qw, pkt.pad, pkt.icrc, pkt.tail` has them computed anew.

Importing this module tells scapy that captures of link type 147 (USER0) hold 16B packets.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from scapy import fields
from scapy.config import conf
from scapy.fields import (
    FieldLenField,
    FieldListField,
    MACField,
    PacketField,
    PacketListField,
    StrField,
    XBitField,
    XLEIntField,
    XStrLenField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers, bind_top_down

from opavnic.observe.layer_rows import layer_rows

ROWS: dict[str, Any] = layer_rows()

CODES: dict[str, Any] = ROWS["codes"]
L4_TYPES, CLASSES, METHODS, ATTRIBUTES = (
    CODES["L4_TYPES"],
    CODES["CLASSES"],
    CODES["METHODS"],
    CODES["ATTRIBUTES"],
)

GET, SET, RESPONSE = 0x01, 0x02, 0x80
EMA, SUBN_LID, SUBN_ADM, PERFORMANCE, SUBN_DIRECTED = 0x34, 0x01, 0x03, 0x04, 0x81
IB = 1
"""The base and class versions of InfiniBand."""


def field(row: tuple[Any, ...], layers: Mapping[str, Any]) -> Any:
    """Make a field of its row (opavnic/observe/layer_rows.py says what rows there are). Args: layers: by name."""
    kind, name, *rest = row
    if kind == "record":
        return PacketField(name, layers[rest[0]](), layers[rest[0]])
    if kind == "records":
        layer, count = layers[rest[0]], rest[1]
        return PacketListField(
            name, [layer() for _ in range(count)], layer, count_from=lambda _: count, max_count=count
        )
    if kind == "array":
        count = len(rest[0])
        return FieldListField(
            name, rest[0], field(rest[1], layers), count_from=lambda _: count, max_count=count
        )
    if kind == "list":
        said, layer, most = rest
        how: dict[str, Any] = {
            "count_from": lambda pkt: list_length(pkt, getattr(pkt, said)),
            "max_count": most,
        }
        if layer is None:
            return FieldListField(name, [], MACField("", None), **how)
        return PacketListField(name, [], layers[layer], **how)
    if kind == "count":
        return FieldLenField(name, None, count_of=rest[0], fmt="!H")
    return getattr(fields, kind)(name, *rest)


def header_fields(name: str) -> list[Any]:
    """Return the fields of a header."""
    return [field(row, {}) for row in ROWS["headers"][name]]


TRAILER = [StrField("pad", None), XLEIntField("icrc", None), XBitField("tail", None, 8)]


class OPA16B(Packet):
    """The 16B header in front of its payload, and pad, ICRC and tail behind it.

    The header is two little-endian quad words. Bytes that are not a whole packet (Length disagrees) still give the
    header; pad, ICRC and tail stay None then.
    """

    name = "OPA 16B"
    places: dict[str, list[tuple[int, int, int]]] = ROWS["places"]
    variable_mask: int = ROWS["variable_mask"]
    fields_desc = header_fields("lrh16b") + TRAILER
    size = 16

    def do_dissect(self, s: bytes) -> bytes:
        """Read header and trailer; return the payload. Raises ValueError: fewer than 16 bytes."""
        if len(s) < self.size:
            raise ValueError(f"{len(s)} bytes, the 16B header needs {self.size}")
        number = int.from_bytes(s[: self.size], "little")
        for name, places in self.places.items():
            self.fields[name] = sum((number >> at & (1 << bits) - 1) << up for at, bits, up in places)
        self.explicit = 1
        if len(s) < 24 or self.length_qw * 8 != len(s):
            return s[self.size :]
        end = max(len(s) - 5 - (s[-1] & 7), self.size)
        self.fields.update(pad=s[end:-5], icrc=int.from_bytes(s[-5:-1], "little"), tail=s[-1])
        return s[self.size : end]

    def self_build(self) -> bytes:
        """Return the 16 bytes of the header. Raises ValueError: a value does not fit its field."""
        number = 0
        for name, places in self.places.items():
            value = int(self.getfieldval(name) or 0)
            width = sum(bits for _, bits, _ in places)
            if value >> width:
                raise ValueError(f"{name} {value:#x} does not fit {width} bits")
            for at, bits, up in places:
                number |= (value >> up & (1 << bits) - 1) << at
        return number.to_bytes(self.size, "little")

    def do_build_payload(self) -> bytes:
        """Return the payload with the bytes that scapy holds back as padding of an inner layer."""
        return bytes(self.payload.do_build() + self.payload.build_padding())

    def build_padding(self) -> bytes:
        """Return nothing: inner padding stands in front of the ICRC, as part of the payload."""
        return b""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Put pad, ICRC and tail behind header and payload, and fill in the Length."""
        pad = bytes(-(len(pkt) + len(pay) + 5) % 8) if self.pad is None else self.pad
        tail = 0x40 | len(pad) & 7 if self.tail is None else self.tail
        if self.length_qw is None:
            length = (len(pkt) + len(pay) + len(pad) + 5) // 8
            ((at, bits, _),) = self.places["length_qw"]
            pkt = (int.from_bytes(pkt, "little") | (length & (1 << bits) - 1) << at).to_bytes(
                self.size, "little"
            )
        head = pkt + pay + pad
        icrc = self.compute_icrc(head, tail & 7) if self.icrc is None else self.icrc
        return bytes(head + icrc.to_bytes(4, "little") + bytes([tail]))

    def compute_icrc(self, head: bytes, pad_count: int) -> int:
        """Return the ICRC: a CRC-32 with ones where switches may change the header. Args: head: up to the ICRC."""
        masked = int.from_bytes(head[: self.size], "little") | self.variable_mask
        return zlib.crc32(masked.to_bytes(self.size, "little") + head[self.size :] + bytes([pad_count]))

    def mysummary(self) -> str:
        """Return source and destination LID and the service channel."""
        return f"{self.slid:#x} > {self.dlid:#x} sc {self.sc}"

    def summary(self, intern: int = 0) -> str:
        """Return the LIDs, then what the payload says."""
        return f"{self.mysummary()} / {self.payload.summary()}" if self.payload else self.mysummary()


class OPAEthernet(Packet):
    """The Ethernet L4 header: 4 bytes between the 16B header and the Ethernet frame. Little-endian."""

    name = "OPA Ethernet L4"
    fields_desc = header_fields("ethernet-l4")

    def mysummary(self) -> str:
        """Return the virtual Ethernet switch."""
        return f"vesw {self.vesw_id}"

    def summary(self, intern: int = 0) -> str:
        """Return the virtual Ethernet switch, then what the frame says."""
        return f"{self.mysummary()} / {self.payload.summary()}"


class OPAFM(Packet):
    """The FM header: 8 bytes between the 16B header and a MAD."""

    name = "OPA FM"
    fields_desc = header_fields("fm")

    def summary(self, intern: int = 0) -> str:
        """Return what the MAD says."""
        return str(self.payload.summary()) if self.payload else self.name


class OPAPart(Packet):
    """A part of a MAD. What follows it depends on the MAD header and on all parts before it."""

    def guess_payload_class(self, payload: bytes) -> Any:
        """Return the layer of the next part, if it is there whole."""
        found: list[Packet] = [self]
        while not isinstance(found[0], OPAMad):
            if found[0].underlayer is None:
                return self.default_payload_class(payload)
            found.insert(0, found[0].underlayer)
        following = next(itertools.islice(_parts(found), len(found) - 1, None), None)
        if following is None or len(payload) < following.size:
            return self.default_payload_class(payload)
        return following


class OPAMad(OPAPart):
    """The first 24 bytes of every MAD."""

    name = "OPA MAD"
    fields_desc = header_fields("mad")

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the attribute id, and zeros up to the size of the base version."""
        if self.attr_id is None:
            pkt = pkt[:16] + self._built_attribute().to_bytes(2, "big") + pkt[18:]
        return (pkt + pay).ljust(256 if self.base_version == IB else 2048, b"\0")

    def _built_attribute(self) -> int:
        """Return the number of the first attribute behind this header; 0: none."""
        layer, numbers = self.payload, _numbers(self)
        while layer:
            for number, row in numbers.items():
                if type(layer) in (row if isinstance(row, tuple) else (row,)):
                    return number
            layer = layer.payload
        return 0

    def mysummary(self) -> str:
        """Return method, attribute, vport or class, and the transaction id."""
        attribute = (
            ATTRIBUTES.get(self.mgmt_class, {}).get(self.attr_id) or f"attribute {self.attr_id or 0:#x}"
        )
        words = [METHODS.get(self.method, f"method {self.method:#x}"), attribute]
        if self.mgmt_class != EMA:
            words.append(f"of {CLASSES.get(self.mgmt_class, f'class {self.mgmt_class:#x}')}")
        elif self.attr_id not in (1, 2):
            words.append(f"vport {self.attr_mod & 0xFF}")
        words.append(f"tid {self.tid:#x}" + (f" status {self.status:#x}" if self.status else ""))
        return " ".join(words)

    def summary(self, intern: int = 0) -> str:
        """Return what the MAD does and, of an attribute of Ethernet management, the virtual Ethernet switch."""
        vesw = [layer.vesw_id for layer in self.iterpayloads() if "vesw_id" in layer.fields]
        return self.mysummary() + "".join(f" vesw {number}" for number in vesw)


def _made_part(name: str, title: str, size: int, header: str, meaning: str) -> type[OPAPart]:
    """Return the layer of what stands before the attributes of a MAD."""
    members = {
        "__doc__": meaning,
        "__module__": __name__,
        "name": title,
        "size": size,
        "fields_desc": header_fields(header),
    }
    return type(name, (OPAPart,), members)


OPAVendorMad = _made_part(
    "OPAVendorMad", "OPA vendor MAD", 16, "vendor",
    "RMPP header and vendor header: bytes 24 to 39 of a MAD of a vendor class with OUI.",
)  # fmt: skip
OPASmp = _made_part("OPASmp", "OPA SMP", 8, "smp", "What an SMP that is routed by LID has before its data.")
OPADirectedSmp = _made_part(
    "OPADirectedSmp", "OPA directed SMP", 152, "directed-smp", "What an SMP on a directed route has before its data."
)  # fmt: skip
OPAIbDirectedSmp = _made_part(
    "OPAIbDirectedSmp", "OPA directed SMP, base version 1", 232, "ib-directed-smp",
    "An SMP of base version 1 on a directed route, with its data.",
)  # fmt: skip
OPASaMad = _made_part(
    "OPASaMad", "OPA SA MAD", 32, "sa", "RMPP header and SA header: bytes 24 to 55 of a MAD of subnet administration."
)  # fmt: skip


class OPAAttribute(OPAPart):
    """An attribute; also one within another, and an item of a list."""

    size = 0

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes | None]:
        """Return what follows: the next part of the MAD, or what the attribute around this one goes on with."""
        return (s, None) if self.parent is None else (b"", s)


class OPAGap(OPAPart):
    """Bytes between two attributes."""

    name = "OPA gap"
    size = 0
    fields_desc = (XStrLenField("gap", b"", length_from=lambda pkt: pkt.size),)


@functools.cache
def gap(size: int) -> type[OPAGap]:
    """Return the layer of a gap of `size` bytes."""
    return type("OPAGap", (OPAGap,), {"size": size})


def list_length(attribute: Packet, said: int) -> int:
    """Return how many items follow: none in a Get, which only says how many are wanted."""
    layer = attribute.underlayer
    while layer is not None and not isinstance(layer, OPAMad):
        layer = layer.underlayer
    return 0 if layer is not None and layer.method == GET else said


def _made_attributes() -> dict[str, type[OPAAttribute]]:
    """Return the layer of each attribute; those within another one come before it."""
    made: dict[str, type[OPAAttribute]] = {}
    for name, (title, size, rows) in ROWS["attributes"].items():
        members = {
            "__doc__": f"{title}, {size} bytes.",
            "__module__": __name__,
            "name": title,
            "size": size,
            "fields_desc": [field(row, made) for row in rows],
        }
        made[name] = type(name, (OPAAttribute,), members)
    return made


def _made_table(name: str) -> dict[int, Any]:
    """Return a table of layers; a row holds one, or several beside numbers and gaps."""

    def made(part: Any) -> Any:
        return tuple(map(made, part)) if isinstance(part, tuple) else LAYERS.get(part, part)

    return {number: made(part) for number, part in ROWS["tables"][name].items()}


LAYERS = _made_attributes()
"""The layers of attributes by name, which are names of this module too."""
globals().update(LAYERS)
ETHERNET, SUBNET, SUBNET_IB = _made_table("ETHERNET"), _made_table("SUBNET"), _made_table("SUBNET_IB")
ADMINISTRATION, ADMINISTRATION_IB = _made_table("ADMINISTRATION"), _made_table("ADMINISTRATION_IB")
COUNTERS = _made_table("COUNTERS")


def _numbers(mad: OPAMad) -> dict[int, Any]:
    """Return the layers of the attributes of a MAD's class, by number."""
    if mad.mgmt_class in (SUBN_LID, SUBN_DIRECTED):
        return SUBNET_IB if mad.base_version == IB else SUBNET
    if mad.mgmt_class == SUBN_ADM:
        return ADMINISTRATION if mad.class_version >= 0x80 else ADMINISTRATION_IB
    return ETHERNET if mad.mgmt_class == EMA else COUNTERS if mad.mgmt_class == PERFORMANCE else {}


def _parts(found: list[Packet]) -> Iterator[type[OPAPart]]:
    """Yield the layers of the parts behind a MAD header in order. Args: found: the parts so far, the header first."""
    mad = found[0]
    row = _numbers(mad).get(mad.attr_id)
    failed = mad.method & RESPONSE and mad.status
    if 0x30 <= mad.mgmt_class <= 0x4F:
        yield OPAVendorMad
        if row is not None:
            yield row
    elif mad.mgmt_class in (SUBN_LID, SUBN_DIRECTED):
        directed = OPAIbDirectedSmp if mad.base_version == IB else OPADirectedSmp
        yield OPASmp if mad.mgmt_class == SUBN_LID else directed
        if mad.mgmt_class == SUBN_DIRECTED:
            failed = mad.method & RESPONSE and mad.status & 0x7FFF
        if row is not None and mad.base_version != IB and mad.method != GET and not failed:
            yield from _repeated(row[0], row[1], max(mad.attr_mod >> 24, 1))
    elif mad.mgmt_class == SUBN_ADM:
        yield OPASaMad
        if row is not None and not failed:
            yield from _records(mad.method, found[1], *row)
    elif mad.mgmt_class == PERFORMANCE and mad.base_version != IB and row is not None and not failed:
        yield from _counters(found, *row)


def _repeated(kind: type[OPAPart], stride: int, count: int) -> Iterator[type[OPAPart]]:
    for index in range(count):
        if index and stride > kind.size:
            yield gap(stride - kind.size)
        yield kind


def _records(method: int, sa: Packet, kind: Any, _: int) -> Iterator[type[OPAPart]]:
    """Yield the records of a MAD, of a table those of its first segment."""
    if not sa.rmpp_rtime_flags & 1 or not method & RESPONSE:
        if method & RESPONSE or method == SET or sa.sa_component_mask:
            yield kind
    elif sa.rmpp_type == 1 and sa.rmpp_segment <= 1:
        stride = sa.sa_attribute_offset * 8
        data = sa.rmpp_length - 20 if sa.rmpp_rtime_flags & 4 else 1992
        if stride >= kind.size:
            yield from _repeated(kind, stride, (data - kind.size) // stride + 1)


def _counters(found: list[Packet], question: Any, head: Any, port: Any, vl: Any) -> Iterator[type[OPAPart]]:
    """Yield the head, then a block for each port and each of its VLs."""
    if not found[0].method & RESPONSE:
        yield question
        return
    yield head
    masks = found[1].fields
    ports = int.from_bytes(masks.get("port_mask", b""), "big").bit_count() if port else 1
    for _ in range(ports):
        if port:
            yield port
        for _ in range(masks["vl_mask"].bit_count() if vl else 0):
            yield vl


bind_layers(OPA16B, OPAEthernet, l4=0x78)
bind_layers(OPA16B, OPAFM, l4=0x08)
bind_layers(OPAEthernet, Ether)
bind_layers(OPAFM, OPAMad)
bind_top_down(OPAMad, OPASmp, mgmt_class=SUBN_LID)
bind_top_down(OPAMad, OPADirectedSmp, mgmt_class=SUBN_DIRECTED)
bind_top_down(OPAMad, OPAIbDirectedSmp, mgmt_class=SUBN_DIRECTED, base_version=IB, class_version=IB)
bind_top_down(OPAMad, OPASaMad, mgmt_class=SUBN_ADM)
for counters in COUNTERS.values():
    bind_top_down(OPAMad, counters[0], mgmt_class=PERFORMANCE)
conf.l2types.register(147, OPA16B)
