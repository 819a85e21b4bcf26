from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ejfat.errors import EjfatError, OutputError, PcapError, ScriptError
from ejfat.pcap import Captured, read_pcap, write_pcap
from ejfat.simulator import simulate

VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"


def test_pcap_written_and_read_keeps_frames_and_times(tmp_path: Path) -> None:
    frames = [Captured(b"a" * 60, 5, 7), Captured(b"b" * 61, 6, 999_999)]
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
    assert list(read_pcap(path)) == [Captured(b"a" * 60, 3, 500_000)]


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
    with pytest.raises(PcapError, match=r"x\.pcap: "):
        list(read_pcap(path))


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
    for error, arguments in (
        (ScriptError, (tmp_path / "none.txt", seed)),
        (ScriptError, (binary, seed)),
        (PcapError, (tables, tmp_path / "none.pcap")),
    ):
        with pytest.raises(error):
            simulate(*arguments, out)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(EjfatError, match="no row"):
        simulate(tables, seed, out, meta=tmp_path / "empty")
    assert not out.exists()
    with pytest.raises(OutputError, match="No such file"):
        simulate(tables, seed, tmp_path / "no" / "o.pcap")
