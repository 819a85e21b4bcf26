"""The Lua dissectors, run by tshark."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from ejfat.events.event import Segmenter
from ejfat.files.simulator import write_pcap
from ejfat.wire.headers import LB_PORT, ReHeader, SyncHeader
from hfi_sim.wire.captures import DLT_ETHERNET, CapturedPacket
from opavnic_bench.ejfat.frames import event_frames, udp_packet
from unit.opavnic.observe.tshark import Tshark, needs_tshark

SRC, DST = ip_address("10.0.0.2"), ip_address("10.0.0.1")
MACS = bytes.fromhex("020000000001020000000002")


def dissect(tmp_path: Path, frames: list[bytes], *fields: str) -> list[list[str]]:
    path = tmp_path / "x.pcap"
    write_pcap(path, [CapturedPacket(DLT_ETHERNET, frame, len(frame)) for frame in frames])
    return Tshark(tmp_path / "home").columns(path, *fields)


def frames_of(version: int, **values: int) -> list[bytes]:
    return event_frames(
        Segmenter(version=version, mtu=200),
        bytes(150),
        tick=0x1234567890,
        data_id=0xABC,
        event=77,
        src=SRC,
        dst=DST,
        dst_mac=1,
        **values,
    )


@needs_tshark
def test_version_1_shows_tick_and_segment(tmp_path: Path) -> None:
    fields = (
        "ejfat_lb.version",
        "ejfat_lb.tick",
        "ejfat_seg.data_id",
        "ejfat_seg.offset",
        "ejfat_seg.first",
        "ejfat_seg.last",
    )
    rows = dissect(tmp_path, frames_of(1), *fields)
    assert [row[:4] for row in rows] == [
        ["1", str(0x1234567890), "0x0abc", "0"],
        ["1", str(0x1234567890), "0x0abc", "152"],
    ][: len(rows)]
    assert rows[0][4].lower() in ("1", "true")


@needs_tshark
def test_versions_2_and_3_show_their_own_fields_and_the_event(tmp_path: Path) -> None:
    fields = (
        "ejfat_lb.entropy",
        "ejfat_lb.slot_select",
        "ejfat_lb.port_select",
        "ejfat_lb.slot",
        "ejfat_re.event",
        "ejfat_re.length",
    )
    rows = dissect(tmp_path, frames_of(2, entropy=5)[:1] + frames_of(3, entropy=6)[:1], *fields)
    assert rows == [
        ["0x0005", "", "", str(0x90), "77", "150"],
        ["", "0x7890", "0x0006", str(0x90), "77", "150"],
    ]


@needs_tshark
def test_packet_to_a_worker_is_recognised_without_the_load_balancer_header(tmp_path: Path) -> None:
    payload = next(iter(Segmenter().payloads(b"abc", tick=1, data_id=2, event=3)))[16:]
    frame = MACS + udp_packet(payload, src=SRC, dst=DST, src_port=1, dst_port=10007)
    assert dissect(tmp_path, [frame], "ejfat_re.event", "ejfat_re.data_id", "data.data") == [
        ["3", "0x0002", "616263"]
    ]


@needs_tshark
def test_sync_message_is_shown_on_any_port(tmp_path: Path) -> None:
    sync = SyncHeader(source_id=4, event=5, rate_hz=6, unix_ns=7).build()
    frames = [MACS + udp_packet(sync, src=SRC, dst=DST, src_port=1, dst_port=port) for port in (19531, 19010)]
    fields = ("ejfat_sync.source_id", "ejfat_sync.event", "ejfat_sync.rate")
    assert dissect(tmp_path, frames, *fields) == [["4", "5", "6"]] * 2


@needs_tshark
def test_other_bytes_on_the_load_balancers_port_are_marked(tmp_path: Path) -> None:
    bad = [b"LB", b"XX" + bytes(20), b"LB\x09" + bytes(20), b"LB\x02" + bytes(5)]
    frames = [MACS + udp_packet(payload, src=SRC, dst=DST, src_port=1, dst_port=19522) for payload in bad]
    rows = dissect(tmp_path, frames, "_ws.expert.message")
    assert rows == [["No load balancer header"]] * 4


@needs_tshark
def test_examples_of_the_document_are_dissected(tmp_path: Path) -> None:
    tshark = Tshark(tmp_path / "home")

    def columns(capture: str, *fields: str) -> list[list[str]]:
        rows = tshark.columns(Path(__file__).parents[2] / "vectors" / "ejfat" / capture, *fields)
        return [[value for value in column if value] for column in zip(*rows, strict=True)]

    ticks, data_ids = ["10", "20"] * 11, ["0x0abc", "0x0123"] * 11
    assert columns("seed_in.pcap", "ejfat_lb.tick", "ejfat_seg.data_id") == [ticks, data_ids]
    assert columns("seed_out.pcap", "ejfat_seg.data_id") == [data_ids]


@needs_tshark
def test_reassembly_is_recognised_on_any_port_of_a_worker(tmp_path: Path) -> None:
    payload = ReHeader(data_id=7, offset=0, length=9, event=5).build() + b"nine char"
    frames = [
        MACS + udp_packet(payload, src=SRC, dst=DST, src_port=1, dst_port=port) for port in (LB_PORT, 23456)
    ]
    assert dissect(tmp_path, frames, "ejfat_re.event", "ejfat_lb.bad") == [["5", ""]] * 2


@needs_tshark
def test_display_filters_of_the_document_find_its_fields(tmp_path: Path) -> None:
    fields = ("udplb.version", "udplb.proto", "udplb.tick", "evio6seg.rocid", "evio6seg.offset")
    rows = dissect(tmp_path, frames_of(1), *fields)
    assert rows[0] == ["1", "0x01", f"0x{0x1234567890:016x}", "0x0abc", "0x00000000"]
