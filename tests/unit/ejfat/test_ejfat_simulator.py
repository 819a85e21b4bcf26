from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from ejfat.base.errors import BadRequestError, CutCaptureError, EjfatError
from ejfat.files.simulator import read_pcap, simulate, write_pcap
from hfi_sim.wire.captures import DLT_ETHERNET, CapturedPacket
from opavnic.base.files import FileError
from opavnic.cli.main import main


def taken(frame: bytes, seconds: int, microseconds: int) -> CapturedPacket:
    return CapturedPacket(DLT_ETHERNET, frame, len(frame), seconds * 10**9 + microseconds * 1000)


VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"


def test_pcap_written_and_read_keeps_frames_and_times(tmp_path: Path) -> None:
    frames = [taken(b"a" * 60, 5, 7), taken(b"b" * 61, 6, 999_999)]
    path = tmp_path / "x.pcap"
    assert write_pcap(path, frames) == 2
    assert list(read_pcap(path)) == frames


def test_pcapng_is_read_too(tmp_path: Path) -> None:
    from scapy.layers.l2 import Ether
    from scapy.utils import PcapNgWriter

    path = tmp_path / "x.pcapng"
    packet = Ether(b"a" * 60)
    packet.time = 3.5
    with PcapNgWriter(str(path)) as writer:
        writer.write(packet)
    assert list(read_pcap(path)) == [taken(b"a" * 60, 3, 500_000)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no capture at all, but long enough to look at",
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 99, 101) + bytes(20),
    ],
)
def test_pcap_of_other_bytes_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(content)
    with pytest.raises(BadRequestError, match=r"x\.pcap: "):
        list(read_pcap(path))


def test_frames_before_the_place_where_a_file_was_cut_are_read(tmp_path: Path) -> None:
    frames = [taken(b"a" * 60, 5, 7), taken(b"b" * 61, 6, 8)]
    path = tmp_path / "x.pcap"
    write_pcap(path, frames)
    whole = path.read_bytes()
    for missing in (1, 61, 62, 76):
        path.write_bytes(whole[:-missing])
        reader = read_pcap(path)
        assert next(reader) == frames[0]
        with pytest.raises(CutCaptureError, match=r"x\.pcap: .*the file ends inside a"):
            next(reader)
    path.write_bytes(gzip.compress(whole))
    assert list(read_pcap(path)) == frames


def test_simulate_writes_what_came_before_the_cut_and_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut, out = tmp_path / "cut.pcap", tmp_path / "o.pcap"
    cut.write_bytes((VECTORS / "seed_in.pcap").read_bytes()[:-5])
    arguments = ["--tables", str(VECTORS / "seed_tables.txt"), "--in", str(cut), "--out", str(out)]
    assert main(["ejfat", "sim", *arguments]) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.endswith(f"; the output of the 21 frames before it is in {out}\n")
    assert list(read_pcap(out)) == list(read_pcap(VECTORS / "seed_out.pcap"))[:21]


@pytest.mark.parametrize("row", ["rubbish", "egress_spec", "egress_spec=x", "=5", "a=1 | b=2"])
def test_simulate_with_a_wrong_row_names_its_line(tmp_path: Path, row: str) -> None:
    meta, out = tmp_path / "in.meta", tmp_path / "o.pcap"
    meta.write_text(f"egress_spec=0\n\n{row}\n")
    with pytest.raises(BadRequestError, match=r"in\.meta:3: .*expected fields with hexadecimal numbers"):
        simulate(VECTORS / "seed_tables.txt", VECTORS / "seed_in.pcap", out, meta=meta)
    assert not out.exists()
    meta.write_text("ingress_global_timestamp=00ff egress_spec=0x1;\n0 1f, 3\n")
    simulate(VECTORS / "seed_tables.txt", VECTORS / "seed_in.pcap", out, meta=meta)


def test_simulate_with_meta_keeps_the_rows_of_frames_that_leave(tmp_path: Path) -> None:
    meta = tmp_path / "in.meta"
    meta.write_text("egress_spec=1\negress_spec=2\n")
    simulate(
        VECTORS / "seed_tables.txt",
        VECTORS / "seed_in.pcap",
        tmp_path / "o.pcap",
        meta=meta,
        meta_out=tmp_path / "o.meta",
    )
    rows = (tmp_path / "o.meta").read_text().splitlines()
    assert rows == ["egress_spec=1", *["egress_spec=2"] * 21]


def test_simulate_with_bad_inputs_names_them_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "o.pcap"
    binary = tmp_path / "b"
    binary.write_bytes(b"\xff\xfe\x80")
    seed, tables = VECTORS / "seed_in.pcap", VECTORS / "seed_tables.txt"
    for script, capture in ((tmp_path / "none.txt", seed), (binary, seed), (tables, tmp_path / "none.pcap")):
        with pytest.raises(FileError):
            simulate(script, capture, out)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(EjfatError, match="no row"):
        simulate(tables, seed, out, meta=tmp_path / "empty")
    assert not out.exists()
    with pytest.raises(EjfatError, match="No such file"):
        simulate(tables, seed, tmp_path / "no" / "o.pcap")
