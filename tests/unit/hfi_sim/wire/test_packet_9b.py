"""9B packets: those that hfi1 has sent, as they are and as links carry them."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.counters import Drop
from hfi_sim.base.errors import WireError
from hfi_sim.base.types import LID_PERMISSIVE
from hfi_sim.wire.captures import DLT_ERF, PcapngWriter, erf_9b, packet_of, read_capture
from hfi_sim.wire.icrc import Icrc
from hfi_sim.wire.lrh16b import L4, FmHeader, Lrh16B, is_9b, with_becn, with_fecn, with_sc
from hfi_sim.wire.mad.fm_packet import build_answer_packet, parse_fm_payload
from hfi_sim.wire.packet import check_packet
from hfi_sim.wire.packet_9b import (
    UD_SEND_ONLY,
    bare_9b,
    bth_at,
    build_mad_9b,
    carry_9b,
    mad_at,
    parse_mad_9b,
    short_lid,
    wide_lid,
)

VECTORS: Final = Path(__file__).parents[3] / "vectors" / "hfi1-9b-1.jsonl.gz"
ICRC: Final = Icrc()


def recorded() -> list[tuple[str, bytes]]:
    """Return the packets of hfi1, and what they are."""
    lines = gzip.decompress(VECTORS.read_bytes()).splitlines()
    return [(row["what"], bytes.fromhex(row["packet"]) + bytes(4)) for row in map(json.loads, lines)]


CARRIED: Final = [carry_9b(packet, ICRC) for _, packet in recorded()]


def test_what_hfi1_sent_is_carried_and_comes_out_as_it_was() -> None:
    assert len(CARRIED) == 57
    for (what, packet), carried in zip(recorded(), CARRIED, strict=True):
        head = Lrh16B.parse(carried)
        assert check_packet(carried, ICRC) is None
        assert bare_9b(carried)[:-4] == packet[:-4]
        assert head.sc == packet[0] >> 4
        assert (head.l4 == L4.FM) == (what in ("SMP", "GMP"))
        assert (head.dlid >= 0xF00000) == (what == "multicast" or head.dlid == LID_PERMISSIVE)
        at = bth_at(packet)
        assert at is not None
        assert head.pkey == int.from_bytes(packet[at + 2 : at + 4])


def test_a_mad_of_hfi1_is_built_byte_for_byte() -> None:
    mads = [carried for carried in CARRIED if Lrh16B.parse(carried).l4 == L4.FM]
    assert len(mads) == 28
    for carried in mads:
        head, bare = Lrh16B.parse(carried), bare_9b(carried)
        fm, mad = parse_fm_payload(parse_mad_9b(carried))
        psn = bare[17:20]
        built = bytearray(
            bare_9b(
                build_mad_9b(
                    (int.from_bytes(bare[6:8]), int.from_bytes(bare[2:4])),
                    head.sc,
                    bare[1] >> 4,
                    head.pkey,
                    (fm.src_qp, fm.dest_qp),
                    mad,
                    ICRC,
                )
            )
        )
        built[17:20] = psn
        assert built[:-4] == bare[:-4]
        assert carried[mad_at(carried) :].startswith(mad)


def test_all_that_is_damaged_is_noticed_and_what_may_change_is_not() -> None:
    may_change = Lrh16B.HEADER.variable_mask()
    for carried in (carried for carried in CARRIED if len(carried) < 120):
        for bit in range(len(carried) * 8):
            damaged = bytearray(carried)
            damaged[bit // 8] ^= 1 << bit % 8
            is_free = bit < 128 and bool(may_change[bit // 8] >> bit % 8 & 1)
            assert (check_packet(damaged, ICRC) is None) == is_free, bit
        for size in range(len(carried)):
            assert check_packet(carried[:size], ICRC) is not None


def test_a_receiver_has_the_marks_and_the_channel_of_the_way() -> None:
    carried = with_becn(with_fecn(with_sc(CARRIED[-1], 5)))
    assert check_packet(carried, ICRC) is None
    bare = bare_9b(carried)
    assert (bare[0] >> 4, bare[12]) == (5, 0xC0)
    again = carry_9b(bare, ICRC)
    assert again == carried


def test_lids_of_16_bits_are_those_of_ports_and_groups() -> None:
    for short, wide in (
        (0, 0),
        (1, 1),
        (0xBFFF, 0xBFFF),
        (0xC000, 0xF00000),
        (0xFFFE, 0xF03FFE),
        (0xFFFF, 0xFFFFFF),
    ):
        assert (wide_lid(short), short_lid(wide)) == (wide, short)
    assert [short_lid(lid) for lid in (0xC000, 0x12345, 0xF03FFF, 0xFFFFFE)] == [None] * 4
    mad = bytes([0x80]).ljust(24, b"\0")
    forms = [
        is_9b(build_answer_packet(*lids, 0, 0, 0xFFFF, 1, mad, ICRC, is_9b=True))
        for lids in ((1, 2), (0xC000, 1), (1, 0xC000))
    ]
    assert forms == [True, False, False], "what 16 bits do not hold is answered as 16B"


@given(st.binary(max_size=120), st.booleans())
def test_any_bytes_are_a_packet_or_an_error(data: bytes, is_headed: bool) -> None:
    if is_headed:
        data = CARRIED[0][:16] + data
    assert check_packet(data, ICRC) is None or isinstance(check_packet(data, ICRC), Drop)
    bare_9b(data)
    try:
        carried = carry_9b(data, ICRC)
        assert bare_9b(carried)[:-4] == data[:-4]
        parse_mad_9b(carried)
    except WireError:
        pass


def test_a_mad_without_whole_headers_is_refused() -> None:
    bth = bytes([UD_SEND_ONLY]).ljust(12, b"\0")
    carried = carry_9b(bytes([0, 2, 0, 1, 0, 7, 0, 2]) + bth + bytes(8), ICRC)
    assert check_packet(carried, ICRC) is None
    with pytest.raises(WireError, match="without a whole DETH"):
        parse_mad_9b(carried)
    assert FmHeader.SIZE == 8


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_wiresharks_own_dissector_reads_a_capture(tmp_path: Path) -> None:
    writer = PcapngWriter(DLT_ERF)
    records = [erf_9b(bare_9b(carried)) for carried in CARRIED]
    blocks = (writer.packet(record, number, "h1->sw0") for number, record in enumerate(records))
    data = writer.head() + b"".join(blocks)
    assert [packet_of(found.link_type, found.data) for found in read_capture(data)] == CARRIED
    (tmp_path / "c.pcapng").write_bytes(data)
    fields = ("-T", "fields", "-e", "_ws.col.Info", "-e", "_ws.malformed")
    command = ["tshark", "-n", "-r", str(tmp_path / "c.pcapng"), *fields]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(CARRIED)
    assert not any(line.split("\t")[1] for line in lines)
    text = "\n".join(lines)
    for found in (
        "SubnGet(NodeInfo)",
        "SubnAdmGetResp(MCMemberRecord)",
        "Echo (ping) reply",
        "RC Acknowledge",
    ):
        assert found in text
