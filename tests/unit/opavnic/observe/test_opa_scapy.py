"""The scapy layers: what people build and dissect is what the datapath builds and our decoder reads."""

from __future__ import annotations

import gzip
import inspect
import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from hfi_sim.base.types import MacAddr
from hfi_sim.fabric.topology.generators import single_switch
from hfi_sim.wire import lrh16b
from hfi_sim.wire.captures import read_capture
from hfi_sim.wire.header import Header
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, EthernetL4, FmHeader, Lrh16B
from hfi_sim.wire.mad.attributes import PmAttrId, SaAttrId, SubnetAttrId
from hfi_sim.wire.mad.fm_packet import build_fm_packet
from hfi_sim.wire.mad.header import (
    DATA_OFFSET_VENDOR,
    EMA_OUI,
    MAD_SIZE,
    MadClass,
    MadHeader,
    Method,
    RmppHeader,
)
from hfi_sim.wire.packet import Packet16B, build_packet, check_packet
from hfi_sim.wire.sa.message import DATA_AT, SaHeader
from opavnic.cli.main import main
from opavnic.decode.describe import MadPart
from opavnic.management import management_layout
from opavnic.observe import opa_scapy
from opavnic.observe.layer_rows import attribute_layers, layout
from opavnic.observe.opa_scapy import (
    OPA16B,
    OPAFM,
    OPAAttribute,
    OPADirectedSmp,
    OPAEthernet,
    OPAGap,
    OPAIbDirectedSmp,
    OPAIfaceMacs,
    OPAMad,
    OPAPart,
    OPASaMad,
    OPASmp,
    OPAVendorMad,
    OPAVeswPortInfo,
    OPAVeswPortMacEntries,
)
from opavnic.scenario import Scenario, run_virtual
from unit.hfi_sim.wire.wire_strategies import L4_TYPES, PAYLOADS, headers
from vema.attributes.attr_id import VALUE_KINDS, AttrId
from vema.attributes.iface_macs import IfaceMacs
from vema.attributes.mac_entries import MacEntries, MacEntry

VECTORS = Path(__file__).parents[3] / "vectors" / "vema-1.jsonl.gz"
ICRC = Icrc()
FRAME = (
    Ether(dst="06:2c:00:05:00:00", src="06:2c:00:07:00:00")
    / IP(src="10.9.2.1", dst="10.9.2.2")
    / UDP()
    / b"hi"
)


def test_build_vnic_packet_equals_the_datapaths() -> None:
    built = bytes(OPA16B(slid=5, dlid=0xF00001, pkey=0x8002, sc=3) / OPAEthernet(vesw_id=2) / FRAME)

    lrh = Lrh16B(5, 0xF00001, sc=3, l4=L4.ETHERNET, pkey=0x8002)
    assert built == build_packet(lrh, EthernetL4(2).build() + bytes(FRAME), ICRC)


def test_build_mad_packet_equals_the_datapaths() -> None:
    header = MadHeader(mgmt_class=0x34, method=1, tid=9, attr_id=0x11, attr_mod=2)
    layers = OPAMad(tid=9, attr_id=0x11, attr_mod=2) / OPAVendorMad()

    built = bytes(OPA16B(slid=5, dlid=7) / OPAFM() / layers)

    mad = (header.build() + bytes(13) + bytes.fromhex("00066a")).ljust(MAD_SIZE, b"\0")
    assert built == build_fm_packet(5, 7, 0, 0xFFFF, 1, 1, mad, ICRC)


def test_dissect_vnic_packet_shows_every_layer() -> None:
    packet = OPA16B(bytes(OPA16B(slid=0x123456, dlid=7) / OPAEthernet(vesw_id=2) / FRAME))

    assert (packet.slid, packet.dlid, packet.l4) == (0x123456, 7, L4.ETHERNET)
    assert packet[OPAEthernet].vesw_id == 2
    assert packet[IP].dst == "10.9.2.2"
    assert packet[UDP].payload.load == b"hi"


def test_dissect_mad_packet_shows_every_layer() -> None:
    packet = OPA16B(bytes(OPA16B() / OPAFM(dest_qp=1, src_qp=5) / OPAMad(attr_id=0x20) / OPAVendorMad()))

    assert (packet[OPAFM].src_qp, packet[OPAMad].attr_id, packet[OPAVendorMad].oui) == (5, 0x20, EMA_OUI)


def test_dissect_frame_with_ethernet_padding_keeps_it_before_the_icrc() -> None:
    padded = bytes(FRAME).ljust(60, b"\0")
    packet = build_packet(Lrh16B(5, 7, l4=L4.ETHERNET), EthernetL4(2).build() + padded, ICRC)

    rebuilt = OPA16B(packet)
    del rebuilt.icrc, rebuilt.pad, rebuilt.tail, rebuilt.length_qw

    assert bytes(OPA16B(packet)) == packet
    assert bytes(rebuilt) == packet


@given(headers(l4=L4_TYPES), PAYLOADS)
def test_dissect_and_rebuild_any_packet_gives_the_same_bytes(lrh: Lrh16B, payload: bytes) -> None:
    packet = build_packet(lrh, payload, ICRC)

    dissected = OPA16B(packet)

    assert bytes(dissected) == packet
    assert {name: dissected.getfieldval(name) for name in ("slid", "dlid", "sc", "rc", "entropy", "age")} == {
        name: getattr(lrh, name) for name in ("slid", "dlid", "sc", "rc", "entropy", "age")
    }


@given(headers(l4=L4_TYPES), PAYLOADS, st.integers(0, 0xFF), st.integers(0, 0xFFFFFFFF))
def test_dissect_and_rebuild_a_packet_with_any_trailer_gives_the_same_bytes(
    lrh: Lrh16B, payload: bytes, tail: int, icrc: int
) -> None:
    packet = build_packet(lrh, payload, ICRC)[:-5] + icrc.to_bytes(4, "little") + bytes([tail])

    dissected = OPA16B(packet)

    assert bytes(dissected) == packet
    assert (dissected.icrc, dissected.tail) == (icrc, tail)


@given(st.binary(max_size=100))
def test_build_any_payload_passes_the_port_check(payload: bytes) -> None:
    packet = bytes(OPA16B(slid=5, dlid=7, l4=0x55) / payload)

    assert check_packet(packet, ICRC) is None
    assert Packet16B.parse(packet).payload == payload


def test_change_after_dissecting_is_in_the_bytes() -> None:
    packet = OPA16B(bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / FRAME))

    packet[OPAEthernet].vesw_id = 3
    del packet.icrc

    assert check_packet(bytes(packet), ICRC) is None
    assert Packet16B.parse(bytes(packet)).payload[:4] == EthernetL4(3).build()


def test_dissect_damaged_length_still_shows_the_header() -> None:
    packet = OPA16B(bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / FRAME)[:40])

    assert (packet.slid, packet.icrc, packet[OPAEthernet].vesw_id) == (5, None, 2)


def test_dissect_less_than_a_header_is_refused() -> None:
    with pytest.raises(ValueError, match="15 bytes, the 16B header needs 16"):
        OPA16B(b"\0" * 15)


def test_build_value_too_wide_names_the_field() -> None:
    with pytest.raises(ValueError, match="slid 0x1000000 does not fit 24 bits"):
        bytes(OPA16B(slid=1 << 24))


def test_icrc_of_a_subclass_is_used() -> None:
    other = Icrc(0x1EDC6F41)

    class Other16B(OPA16B):
        def compute_icrc(self, head: bytes, pad_count: int) -> int:
            return other.compute(head, pad_count)

    packet = bytes(Other16B(slid=5, dlid=7, l4=0x55) / b"payload")

    assert other.check(packet)
    assert not ICRC.check(packet)


# --- MADs and their attributes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mad", "layer", "values"),
    [
        ({"mgmt_class": 0x81}, OPADirectedSmp, {"initial_path": bytes((0, 3)).ljust(64, b"\0"), "mkey": 5}),
        ({"mgmt_class": 0x81, "base_version": 1}, OPAIbDirectedSmp, {"dr_slid": 7}),
        ({"mgmt_class": 0x01}, OPASmp, {"mkey": 5}),
        ({"mgmt_class": 0x03}, OPASaMad, {"rmpp_segment": 2, "sa_component_mask": 1 << 63}),
    ],
)
def test_headers_of_management_classes_are_read_as_they_were_built(
    mad: dict[str, int], layer: type[Packet], values: dict[str, Any]
) -> None:
    data = bytes(OPAMad(tid=9, attr_id=0x11, **mad) / layer(**values))
    read = OPAMad(data)
    assert type(read.payload) is layer
    assert {name: getattr(read.payload, name) for name in values} == values
    assert bytes(read) == data
    assert bytes(OPAMad(data[:30])) == data[:30], "a truncated one is shown as far as it is there"


def plain(value: Any, like: Any) -> Any:
    """What a scapy field holds, in the form of our values."""
    if isinstance(value, list):
        return tuple(plain(item, one) for item, one in zip(value, like, strict=True))
    if isinstance(value, Packet):
        if isinstance(like, bytes):
            return bytes(value)
        return {name: plain(value.getfieldval(name), one) for name, one in like.items()}
    if isinstance(like, bytes) and isinstance(value, str):
        return bytes.fromhex(value.replace(":", ""))
    return value


def check_fields(layer: Packet, header: Header, data: bytes) -> None:
    """Every field of a layer has the value that our decoder reads."""
    for name, value in zip(header.names, header.unpack(data), strict=True):
        assert plain(layer.getfieldval(name), value) == value, (header.name, name)


def test_every_attribute_is_dissected_as_declared_and_built_again() -> None:
    rng = random.Random(7)
    kinds = attribute_layers()
    assert len(kinds) > 75
    for name, kind in kinds.items():
        layer = getattr(opa_scapy, name)
        if kind.header in (MacEntries.LAYOUT, IfaceMacs.LAYOUT):
            continue  # below, with a list as long as it says
        assert len(bytes(layer())) == layer.size == kind.header.size, name
        data = rng.randbytes(kind.header.size)
        rebuilt = layer(data)
        rebuilt.clear_cache()
        assert bytes(rebuilt) == data, name
        check_fields(rebuilt, kind.header, data)


def test_lists_are_as_long_as_their_count_says() -> None:
    section = MacEntries(3, 9, (MacEntry(b"\2\0\0\0\0\1", b"\xff" * 6, 5), None))
    macs = IfaceMacs(0, 2, 2, 1, (MacAddr(b"\2\0\0\0\0\1"), MacAddr(b"\2\0\0\0\0\2")))
    read = OPAMad(bytes(OPAMad(method=Method.SET) / OPAVendorMad() / OPAVeswPortMacEntries(section.build())))
    assert [entry.dlid_sd for entry in read[OPAVeswPortMacEntries].entries] == [5, 0]
    assert read.attr_id == AttrId.MAC_ENTRIES
    assert OPAIfaceMacs(macs.build()).macs == ["02:00:00:00:00:01", "02:00:00:00:00:02"]
    assert bytes(OPAIfaceMacs(total=2, gen_count=1, macs=OPAIfaceMacs(macs.build()).macs)) == macs.build()
    asked = bytes(OPAMad(attr_id=AttrId.IFACE_UCAST_MACS) / OPAVendorMad() / OPAIfaceMacs(num_macs=333))
    assert OPAMad(asked)[OPAIfaceMacs].macs == [], "a Get says how many it wants, and holds none"


def dissected(packet: bytes) -> list[tuple[int, Packet]]:
    """The layers behind the MAD header of a packet and where each begins in the packet."""
    layer, at, found = OPA16B(packet), 0, []
    assert bytes(layer) == packet
    while layer:
        if isinstance(layer, OPAPart) and not isinstance(layer, OPAMad | OPAGap | OPAVendorMad):
            found.append((at, layer))
        at += len(layer.self_build())
        layer = layer.payload
    return found


def test_management_mads_have_the_parts_that_our_decoder_finds() -> None:
    rng, kinds = random.Random(8), {kind.header: name for name, kind in attribute_layers().items()}
    seen: set[str] = set()
    for mgmt_class, ids in ((0x01, SubnetAttrId), (0x81, SubnetAttrId), (0x03, SaAttrId), (0x04, PmAttrId)):
        for attr_id, method in itertools.product(ids, (0x01, 0x02, 0x81, 0x92)):
            count = rng.randrange(3)
            head = MadHeader(
                mgmt_class=mgmt_class,
                method=method,
                attr_id=attr_id,
                tid=9,
                attr_mod=count << 24,
                class_version=0x80,
            )
            rest = bytearray(rng.randbytes(MAD_SIZE - MadHeader.SIZE))
            if mgmt_class == MadClass.SUBN_ADM:
                table = RmppHeader(1, 1, 0x07 if method == 0x92 else 0, 0, 1, 20 + 3 * 240)
                sa = SaHeader(attribute_offset=60, component_mask=count)
                rest[: DATA_AT - MadHeader.SIZE] = table.build() + sa.build()
            packet = build_fm_packet(1, 2, 15, 0xFFFF, 0, 0, head.build() + rest, ICRC)
            start = lrh16b.SIZE + FmHeader.SIZE
            parts = list(dict.fromkeys(management_layout.layers(head, packet[start:-5])))
            outer = [part for part in parts if part.header in kinds and not is_inside(part, parts)]
            found = [item for item in dissected(packet) if isinstance(item[1], OPAAttribute)]
            assert [(at - start, type(layer).__name__) for at, layer in found] == [
                (part.start, kinds[part.header]) for part in outer
            ], (mgmt_class, attr_id, method)
            for (at, layer), part in zip(found, outer, strict=True):
                check_fields(layer, part.header, packet[at:])
            seen |= {type(layer).__name__ for _, layer in found}
    assert len(seen) > 55


def is_inside(part: MadPart, parts: list[MadPart]) -> bool:
    """Whether a part of a MAD stands in another one."""
    return any(
        other is not part and other.start <= part.start < other.start + other.header.size for other in parts
    )


def vector_mads() -> Iterator[bytes]:
    """The MADs of the recorded sessions with the driver, both ways."""
    with gzip.open(VECTORS, "rt") as lines:
        for step in itertools.chain.from_iterable(json.loads(line)["steps"] for line in lines):
            for key in ("in", "out"):
                if step.get(key):
                    yield bytes.fromhex(step[key])


def test_recorded_mads_are_dissected_as_our_decoder_does() -> None:
    seen: Counter[int] = Counter()
    for mad in itertools.islice(vector_mads(), 3000):
        if len(mad) < MadHeader.SIZE or seen[MadHeader.parse(mad).attr_id] > 40:
            continue
        whole = mad.ljust(MAD_SIZE, b"\0")
        header, data = MadHeader.parse(whole), whole[DATA_OFFSET_VENDOR:]
        read = OPAMad(whole)
        assert bytes(read) == whole
        check_fields(read, MadHeader.HEADER, whole)
        if header.mgmt_class != MadClass.EMA or header.attr_id not in VALUE_KINDS:
            continue
        seen[header.attr_id] += 1
        attribute = read[OPAVendorMad].payload
        declared = layout(VALUE_KINDS[header.attr_id])
        if declared in (MacEntries.LAYOUT, IfaceMacs.LAYOUT):
            continue
        check_fields(attribute, declared, data)
    assert len(seen) >= 6


def test_summary_shows_lids_and_virtual_switch() -> None:
    frame = OPA16B(bytes(OPA16B(slid=5, dlid=7) / OPAEthernet(vesw_id=2) / FRAME))
    set_info = OPAMad(method=2, attr_mod=4, tid=9) / OPAVendorMad() / OPAVeswPortInfo(vesw_id=3)
    mad = OPA16B(bytes(OPA16B(slid=1, dlid=2) / OPAFM() / set_info))
    smp = OPA16B(bytes(OPA16B(slid=1, dlid=2) / OPAFM() / OPAMad(tid=9, attr_id=0x15) / OPASmp()))
    assert (
        frame.summary()
        == "0x5 > 0x7 sc 0 / vesw 2 / Ether / IP / UDP 10.9.2.1:domain > 10.9.2.2:domain / Raw"
    )
    assert mad.summary() == "0x1 > 0x2 sc 0 / Set VeswPortInfo vport 4 tid 0x9 vesw 3"
    assert smp.summary() == "0x1 > 0x2 sc 0 / Get PortInfo of subnet management, LID routed tid 0x9"


ALONE = """
import sys
sys.path[:0] = [{directory!r}, {scapy!r}]
import opa
import scapy.layers.inet
from scapy.utils import rdpcap
packets = rdpcap({capture!r})
assert not [name for name in sys.modules if name.split(".")[0] in ("hfi_sim", "vema", "opavnic")]
for packet in packets:
    print(bytes(packet).hex(), packet.summary(), sep="|")
"""


def test_written_file_works_with_scapy_alone(tmp_path: Path) -> None:
    assert main(["scapy-layers", str(tmp_path / "opa.py")]) == 0
    capture, found = tmp_path / "x.pcapng", Path(inspect.getfile(Packet)).parents[1]
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "scapy").symlink_to(found / "scapy")
    packets = captured(capture)
    code = ALONE.format(directory=str(tmp_path), scapy=str(packages), capture=str(capture))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert [data for data, _ in lines] == [packet.hex() for packet in packets]
    said = " ".join(summary for _, summary in lines)
    assert "Set VeswPortInfo vport 1" in said
    assert "ICMP 10." in said


def test_file_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scapy-layers", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"opavnic: {tmp_path} cannot be written: Is a directory\n"


def captured(file: Path) -> list[bytes]:
    """Write what a scenario with one virtual switch sends; return the packets."""

    async def record() -> None:
        async with Scenario(single_switch(2), seed=7) as scenario:
            await scenario.em.vesw("blue", members=["h1", "h2"])
            assert await scenario.hosts["h1"].ping(scenario.hosts["h2"]) == 1
            scenario.write_pcapng(file)

    run_virtual(record())
    return [packet.data for packet in read_capture(file.read_bytes())]
