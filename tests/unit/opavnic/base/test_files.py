"""Files of people: what is longer than its kind ever is, is refused after that many bytes, packed or not."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ejfat.files.conformance import load_vectors
from ejfat.files.simulator import read_pcap
from hfi_sim.base.errors import InputError
from hfi_sim.base.text import with_article
from lnet.base.errors import LnetConfigError
from lnet.settings.section import LnetModel, read_targets
from opavnic.base import files
from opavnic.base.errors import VectorFileError
from opavnic.base.files import FileError, read_bytes, read_lines, read_text
from opavnic.conformance.result import read_cases
from opavnic.lab.file.errors import ConfigError
from opavnic.lab.file.loader import load_lab
from opavnic.management.mad_record import read_record

UNPACKED = 3 << 30
"""Bytes that the bomb unpacks to."""


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 3 MB that unpacks to 3 GB of zeros: members of a gzip file may stand one behind the other."""
    member = gzip.compress(bytes(1 << 26))
    file = tmp_path_factory.mktemp("bomb") / "bomb.gz"
    file.write_bytes(member * (UNPACKED >> 26))
    return file


def run_limited(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program with a gigabyte and a half of address space."""
    limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29)); "
    program = limit + "from opavnic.cli.start import start; sys.argv[0] = 'opavnic'; sys.exit(start())"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("encap", "{file}:1: cannot be read: a line of more than 16777216 bytes: this is not a vector file"),
        ("ejfat", "{file}: more than 67108864 bytes: this is not a file of test vectors"),
    ],
)
def test_vectors_that_unpack_to_gigabytes_are_refused_in_one_line(bomb: Path, kind: str, said: str) -> None:
    done = run_limited("conformance", kind, bomb)
    assert (done.returncode, done.stderr) == (2, f"opavnic: {said.format(file=bomb)}\n")


def test_capture_that_unpacks_to_gigabytes_is_refused(bomb: Path) -> None:
    with pytest.raises(FileError, match="more than 268435456 bytes: this is not a capture"):
        list(read_pcap(bomb))


READERS: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (load_lab, ConfigError, "lab file"),
    (read_record, InputError, "record of MADs"),
    (load_vectors, FileError, "file of test vectors"),
    (lambda path: list(read_pcap(path)), FileError, "capture"),
    (lambda path: list(read_cases(path, lambda case: case)), VectorFileError, "vector file"),
    (lambda path: read_targets(_with_targets(path), Path("/")), LnetConfigError, "targets file"),
]


def _with_targets(path: Path) -> LnetModel:
    return LnetModel(addresses=["10.0.0.1"], targets=str(path))


@pytest.mark.parametrize(("read", "error", "what"), READERS)
def test_device_without_an_end_is_told_as_what_it_is_not(
    read: Callable[[Path], object], error: type[Exception], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "opavnic.management.mad_record",
        "ejfat.files.simulator",
        "ejfat.files.conformance",
        "opavnic.base.files",
    ):
        for limit in ("MAX_CAPTURE", "MAX_DOCUMENT", "MAX_LINE"):
            monkeypatch.setattr(f"{name}.{limit}", 1 << 20, raising=False)
    with pytest.raises(error, match=rf"^/dev/zero.*more than \d+ bytes: this is not {with_article(what)}$"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize(("read", "error", "_"), READERS)
@pytest.mark.parametrize("name", ["none", ".", "a\0b"])
def test_file_that_cannot_be_opened_is_one_line(
    read: Callable[[Path], object], error: type[Exception], _: str, name: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_file_of_many_short_lines_ends_at_the_limit_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LINES", 100)
    file = tmp_path / "lines.gz"
    file.write_bytes(gzip.compress(b"123456789\n" * 11))
    lines = read_lines(file, "vector file")
    assert [next(lines) for _ in range(10)] == [(number, "123456789\n") for number in range(1, 11)]
    with pytest.raises(FileError, match="more than 100 bytes: this is not a vector file"):
        next(lines)


def test_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 64)
    assert read_bytes(file, 64, "file") == b"x" * 64
    with pytest.raises(FileError, match="more than 63 bytes: this is not a file"):
        read_bytes(file, 63, "file")


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08garbage", gzip.compress(b"x" * 1000, mtime=0)[:20]])
def test_damaged_gzip_is_said_so(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file.gz"
    file.write_bytes(content)
    with pytest.raises(FileError, match="damaged gzip"):
        read_bytes(file, 1 << 20, "file", gzipped=True)


def test_text_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"ab\n\xff\n")
    with pytest.raises(FileError, match=r"not UTF-8 text \(byte 3\)"):
        read_text(file, 100, "file")
    with pytest.raises(FileError, match=r"not UTF-8 text \(byte 3\)"):
        list(read_lines(file, "file"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pipe_is_read_like_a_file(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = pack(b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(3)))
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert list(read_cases(pipe, lambda case: case["n"])) == [0, 1, 2]
    writer.join()
