"""What no user should type, and somebody does: one line that says what is wrong, exit code 2, and no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import visible
from opavnic.cli.main import main
from opavnic.management.mad_record import read_record

LAB = "name: {name}\nhosts: {{h1: {{}}}}\nvesws: [{{id: {id}, name: blue, members: [h1]}}]\n"
pytestmark = pytest.mark.usefixtures("own_runtime")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory of files that are not what they are taken for."""
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    (tmp_path / "deep").write_text('{"a":' * 100_000)
    (tmp_path / "nested").write_text("[" * 20_000)
    (tmp_path / "hex").write_text(LAB.format(name="x", id="0x" + "f" * 5000))
    (tmp_path / "newline").write_text(LAB.format(name=r'"a\n\e[31mb"', id=2))
    (tmp_path / "huge").write_text(
        LAB.format(name="x", id=2) + "fabric: {topology: {kind: fat-tree, k: 100000}}\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("validate hex", "hex:3: vesws[0].id: a number of 5002 digits"),
        ("validate nested", "nested:1: not YAML: nested too deeply"),
        ("validate newline", r"newline:1: name: name \"a\n\x1b[31mb\""),
        ("validate huge", "huge:4: fabric.topology: fat tree k=100000: "),
        ("em apply binary", "binary: not UTF-8 text (byte 0)"),
        ("em apply /dev/zero", "this is not an EM file"),
        ("topo binary", "binary: not UTF-8 text (byte 0)"),
        ("topo .", " is a directory; give an ibnetdiscover file"),
        ("conformance encap deep", "deep:1: no JSON: "),
        ("conformance vema hex", "hex:1: no JSON: a vector file has one JSON object a line"),
        (
            "conformance ejfat deep",
            "deep: not JSON; a file of test vectors is a JSON object with `tables` and",
        ),
        ("conformance ejfat hex", "hex: not JSON; a file of test vectors is a JSON object with `tables` and"),
        ("ejfat tables /dev/zero", "this is not a table script"),
        ("lnetctl import binary --host h1", "import: not UTF-8 text (byte 0)"),
        ("mad get vesw-port-info --lid 16777216", "--lid"),
        ("ps -o xml", "'--output': 'xml' is not one of 'table', 'json', 'csv' (see: opavnic ps --help)"),
        ("man hex", "hex is not a directory"),
        ("em show events --limit 99999999999999999999", "--limit"),
        (f"topo fat-tree k={'9' * 5000}", "is not NAME=NUMBER such as k=4"),
        (f"decode {'f' * 5001}", "5001 hex digits"),
        (f"ejfat send --to 127.0.0.1 --event-size {'9' * 5000}", "is not a size such as"),
    ],
)
def test_rude_input_is_one_line_and_exit_code_2(
    files: Path, capsys: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    there = {".", *os.listdir(files)}
    assert main([str(files / word) if word in there else word for word in command.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said.replace('\\"', '"') in captured.err


@pytest.mark.parametrize(
    "line",
    [
        "name: x",
        "{}",
        '{"lid": 1e400, "mad": "%s"}',
        "[1]",
        "5",
        '{"lid": [], "mad": "%s"}',
        "[" * 100_000,
        '{"mad": {}}',
    ],
)
def test_recording_that_is_none_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "mads.jsonl"
    file.write_text(line.replace("%s", "00" * 24) + "\n")
    with pytest.raises(InputError, match=r"mads\.jsonl:1: not a recorded MAD") as caught:
        list(read_record(file))
    assert 'give lines of JSON, {"lid": N, "mad": HEX, "response": HEX}, as opavnic mad record' in str(
        caught.value
    )
    assert "Expecting" not in str(caught.value)


def test_text_for_a_terminal_has_no_control_characters() -> None:
    assert visible("häuser\x1b[31m\n\u202e\x00") == r"häuser\x1b[31m\n\u202e\x00"


@pytest.mark.parametrize("redirection", ["<&- >&- 2>&-", ">&-", "| head -c1", "> /dev/null"])
def test_nobody_who_reads_is_no_bug(redirection: str, tmp_path: Path) -> None:
    program = f"{sys.executable} -m opavnic.cli.main schema {redirection}"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_terminal_that_knows_ascii_only_gets_the_rest_as_escapes() -> None:
    program = [sys.executable, "-m", "opavnic.cli.main", "status", "--lab", "caf\xe9"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert r"caf\xe9" in done.stderr


def test_interrupt_while_the_program_is_imported_ends_it_without_a_word() -> None:
    program = (
        "import os, signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'opavnic.cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from opavnic.cli.start import start\n"
        "start()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
