from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ejfat.base.errors import EjfatError
from ejfat.files.conformance import load_vectors, run_ejfat, run_vectors
from ejfat.files.simulator import simulate
from ejfat.pipeline import Pipeline
from ejfat.pipeline.native import Wanted
from ejfat.tables.script import load_script
from hfi_sim.base.errors import InputError
from unit.ejfat.pipelines import IMPLEMENTATIONS

VECTORS = Path(__file__).parents[1] / "vectors" / "ejfat"
FILES = ("v1-1.json.gz", "v23-1.json.gz")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_vectors_all_pass(name: str, implementation: Wanted) -> None:
    result = run_ejfat(VECTORS / name, implementation)
    assert result.differences == []
    assert result.ok


def test_vectors_of_the_document_are_dropped_for_the_reason_they_state() -> None:
    data = load_vectors(VECTORS / "v1-1.json.gz")
    pipeline = Pipeline(load_script("\n".join(data["tables"])))
    reasons = {v["i"]: str(pipeline.process(bytes.fromhex(v["in"])).drop) for v in data["vectors"]}
    stated = {v["i"]: v["why"] for v in data["vectors"] if v["why"] != "forward"}
    assert {i: reasons[i] for i in stated} == stated


def test_vectors_that_differ_say_where() -> None:
    data = json.loads(gzip.decompress((VECTORS / "v1-1.json.gz").read_bytes()))
    forwarded = next(v for v in data["vectors"] if v["out"])
    dropped = next(v for v in data["vectors"] if not v["out"])
    data["vectors"] = [
        forwarded | {"out": "ff" + forwarded["out"][2:]},
        forwarded | {"out": None},
        dropped | {"out": "00"},
    ]
    result = run_vectors(data)
    assert (result.ok, result.failed) == (False, 3)
    first, second, third = result.differences
    assert "first difference at byte 0" in first.lines()[1]
    assert (second.expected, third.got) == (None, None)
    assert "(dropped: " in third.where


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"\xff\xfe\x00",
        b"\x1f\x8b\x08garbage",
        gzip.compress(b"{}", mtime=0)[:10] + b"\x07" * 12,  # a block of no type
        b'{"vectors": []}',
        b'{"format": 2, "vectors": [], "tables": []}',
        b'{"format": 1, "vectors": [], "tables": 5}',
        b'{"format": 1, "vectors": [], "tables": [5]}',
    ],
)
def test_file_without_vectors_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"v\.json: "):
        run_ejfat(path)


def test_vector_without_fields_is_refused() -> None:
    with pytest.raises(EjfatError, match="vector 0"):
        run_vectors({"tables": [], "vectors": [{"in": "zz", "out": None}]})


def test_example_of_the_document_comes_out_byte_for_byte(tmp_path: Path) -> None:
    out = tmp_path / "packets_out.pcap"
    counters, written = simulate(VECTORS / "seed_tables.txt", VECTORS / "seed_in.pcap", out)
    assert (counters.rx_packets, written) == (22, 22)
    assert out.read_bytes() == (VECTORS / "seed_out.pcap").read_bytes()


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed (apt-get install tshark)")
def test_example_of_the_document_has_valid_checksums_in_tshark(tmp_path: Path) -> None:
    out = tmp_path / "packets_out.pcap"
    simulate(VECTORS / "seed_tables.txt", VECTORS / "seed_in.pcap", out)
    options = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    fields = ["-T", "fields", "-e", "ip.checksum.status", "-e", "udp.checksum.status"]
    run = subprocess.run(
        ["tshark", "-r", str(out), *options, *fields], capture_output=True, text=True, check=True, timeout=60
    )
    rows = run.stdout.splitlines()
    assert len(rows) == 22
    assert {value for row in rows for value in row.split("\t") if value} == {"1"}, "1 is tshark's `good`"
