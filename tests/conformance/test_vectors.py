"""The recorded vectors pass, and a damaged one is found: which case, which field, where."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hfi_sim.wire.mad.header import Method
from native_module import needs_native
from opavnic.cli.main import main
from opavnic.cli.program.conformance import app
from opavnic.conformance.datapaths import find_datapath
from opavnic.conformance.encap import run_encap
from opavnic.conformance.result import Result
from opavnic.conformance.rx import run_rx
from opavnic.conformance.vema import run_vema
from vema.attributes.attr_id import AttrId
from vema.attributes.vesw_port_info import VeswPortInfo
from vema.em.core.messages import build_request

VECTORS = Path(__file__).parents[1] / "vectors"
KINDS = ("encap", "rx", "vema")


def vector_file(kind: str) -> Path:
    return VECTORS / f"{kind}-1.jsonl.gz"


def run(kind: str, path: Path, datapath: str = "python") -> Result:
    if kind == "vema":
        return run_vema(path)
    return {"encap": run_encap, "rx": run_rx}[kind](path, find_datapath(datapath))


@pytest.mark.parametrize(("kind", "total"), [("encap", 2000), ("rx", 1000), ("vema", 300)])
def test_all_recorded_cases_pass(kind: str, total: int) -> None:
    result = run(kind, vector_file(kind))
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert (result.ok, result.total) == (True, total)


@pytest.fixture
def damaged(tmp_path: Path) -> Callable[[str, Callable[[list[Any]], None]], Path]:
    """Return a function that writes the first cases of a kind, changed."""

    def write(kind: str, change: Callable[[list[Any]], None], count: int = 5) -> Path:
        with gzip.open(vector_file(kind), "rt") as file:
            cases = [json.loads(next(file)) for _ in range(count)]
        change(cases)
        path = tmp_path / f"{kind}.jsonl"
        path.write_text("".join(json.dumps(case) + "\n" for case in cases))
        return path

    return write


def flip(text: str, digit: int) -> str:
    return text[:digit] + f"{int(text[digit], 16) ^ 1:x}" + text[digit + 1 :]


def wrong_header(cases: list[Any]) -> None:
    cases[2]["expect"]["hdr"] = flip(cases[2]["expect"]["hdr"], 11)


def wrong_frame(cases: list[Any]) -> None:
    cases[0]["expect"]["frame"] = flip(cases[0]["expect"]["frame"], 100)


def wrong_response(cases: list[Any]) -> None:
    cases[0]["steps"][1]["out"] = flip(cases[0]["steps"][1]["out"], 81)


DAMAGE = [
    ("encap", wrong_header, ["case 2: hdr", "byte 5 (0x5)"]),
    ("encap", lambda cases: cases[0]["expect"].update(vl=9), ["case 0: vl", "expected 9"]),
    ("rx", wrong_frame, ["case 0: frame", "byte 50 (0x32)"]),
    ("rx", lambda cases: cases[1]["expect"]["counters"].update({"66": {}}), ["case 1: counters"]),
    ("vema", wrong_response, ["case 0: step 1 (VeswPortInfo SET), out", "byte 40 (0x28)"]),
    ("vema", lambda cases: cases[0]["steps"][2]["traps"].pop(), ["case 0: step 2 (open), traps"]),
    ("vema", lambda cases: cases[0]["steps"][2].pop("netdev"), ["case 0: step 2 (open), netdev"]),
    ("vema", lambda cases: cases[0]["steps"][2].update(rc=-22), ["case 0: step 2 (open), rc"]),
]


@needs_native
@pytest.mark.parametrize(("kind", "total"), [("encap", 2000), ("rx", 1000)])
def test_all_recorded_cases_pass_natively(kind: str, total: int) -> None:
    result = run(kind, vector_file(kind), "native")
    assert [line for difference in result.differences for line in difference.lines()] == []
    assert (result.ok, result.total) == (True, total)


@pytest.mark.parametrize(("kind", "change", "lines"), DAMAGE)
def test_difference_is_shown_with_its_place(damaged: Any, kind: str, change: Any, lines: list[str]) -> None:
    path = damaged(kind, change)

    outcome = CliRunner().invoke(app, [kind, str(path)])

    assert outcome.exit_code == 1
    for line in lines:
        assert line in outcome.stdout
    assert f"FAIL 4/5 {path}" in outcome.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_good_file_says_pass_and_exits_0(damaged: Any, kind: str) -> None:
    path = damaged(kind, lambda cases: None)
    outcome = CliRunner().invoke(app, [kind, str(path), str(path)])
    assert outcome.stdout == f"PASS 5/5 {path}\n" * 2
    assert outcome.exit_code == 0


@pytest.mark.parametrize("packed", [False, True])
def test_file_that_can_be_read_only_once_passes(damaged: Any, packed: bool) -> None:
    content = damaged("rx", lambda cases: None, count=1).read_bytes()
    read_end, write_end = os.pipe()
    os.write(write_end, gzip.compress(content) if packed else content)  # less than a pipe holds
    os.close(write_end)
    try:
        outcome = CliRunner().invoke(app, ["rx", f"/dev/fd/{read_end}"])
    finally:
        os.close(read_end)
    assert outcome.stdout == f"PASS 1/1 /dev/fd/{read_end}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_json_has_one_object_for_each_file(damaged: Any, kind: str) -> None:
    path = damaged(kind, DAMAGE[[entry[0] for entry in DAMAGE].index(kind)][1])
    outcome = CliRunner().invoke(app, [kind, "--json", str(path)])
    (document,) = json.loads(outcome.stdout)
    assert (document["ok"], document["total"], document["passed"]) == (False, 5, 4)
    assert document["differences"][0]["case"] in range(5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("content", "message"), [
    (None, "cannot be read"),
    (b"", "the file has no cases"),
    (b"\xff\xfe\x00", "not UTF-8 text"),
    (b"{", ":1: no JSON"),
    (b"[" * 100_000, ":1: no JSON"),
    (b"[]\n", ":1: a case is a JSON object"),
    (b'{"id": 1}\n', ":1: the case has no field"),
    (b"\x1f\x8b\x08garbage", "cannot be read"),
])  # fmt: skip
def test_file_that_is_none_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / "vectors"
    if content is not None:
        path.write_bytes(content)
    assert main(["conformance", kind, str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert str(path) in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_case_with_a_value_of_the_wrong_kind_is_exit_2(
    damaged: Any, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    def spoil(cases: list[Any]) -> None:
        for key in ("cfg", "vports", "steps"):
            if key in cases[3]:
                cases[3][key] = 5

    path = damaged(kind, spoil)
    assert main(["conformance", kind, str(path)]) == 2
    assert f"{path}:4: the case cannot be read" in capsys.readouterr().err


def test_session_that_works_on_a_vport_nobody_made_is_exit_2(
    damaged: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damaged("vema", lambda cases: cases[0]["steps"][2].update(vport=99))
    assert main(["conformance", "vema", str(path)]) == 2
    assert "vport 99" in capsys.readouterr().err


def vesw_set(vport: int, vesw_id: int) -> dict[str, Any]:
    info = replace(VeswPortInfo.power_on(), vesw_id=vesw_id)
    request = build_request(Method.SET, AttrId.VESW_PORT_INFO, info.build(), attr_mod=vport).build()
    return {"op": "mad", "in": request.hex(), "in_len": 2048, "out": "", "out_len": 2048}


def record(session: Any, path: Path) -> None:
    """Write a file of one session, with what comes out as what is expected."""
    differences = [None]
    while differences:
        path.write_text(json.dumps(session) + "\n")
        differences = run_vema(path).differences
        for difference in differences:
            number, key = re.fullmatch(r"step (\d+) .*, (\w+)", difference.where).groups()
            got = difference.got
            session["steps"][int(number)][key] = got.hex() if isinstance(got, bytes) else got


def test_passing_session_prints_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "vema.jsonl"
    opened = {"op": "open", "rc": 0, "rx_mode": True, "traps": []}
    steps = [vesw_set(1, 2), opened | {"vport": 1}, vesw_set(3, 7), opened | {"vport": 3}, vesw_set(3, 2)]
    record({"id": 0, "num_ports": 1, "steps": steps}, path)  # ends with two on one virtual switch
    program = "import sys; from opavnic.cli.main import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", program, "conformance", "vema", str(path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (run.stdout, run.stderr) == (f"PASS 1/1 {path}\n", "")


def test_datapath_that_is_not_there_is_exit_2() -> None:
    outcome = CliRunner().invoke(app, ["rx", "--datapath", "abacus", str(vector_file("rx"))])
    assert outcome.exit_code == 2
    assert "abacus" in outcome.stderr


def test_lane_of_a_tag_that_only_the_padding_completes_is_not_compared(damaged: Any) -> None:
    def cut_behind_the_tag(cases: list[Any]) -> None:
        cfg = cases[0]["cfg"] | {"non_vlan_vl_uc": 1, "pcp_to_vl_uc": [2] * 8}
        expect = {
            "encap_err": True,
            "hdr": None,
            "vl": 1,
            "entropy": 0,
            "eth_len": 60,
            "counters": {"tx_packets": 1, "tx_bytes": 84, "tx_errors": 1, "tx_dlid_zero": 1, "s_65_127": 1},
        }
        cases[0] |= {"cfg": cfg, "mac_batches": [], "hash15": 0, "vlan_tag_present": False, "expect": expect}
        cases[0] |= {"frame": "0200000000000200000000018100", "frame_len": 14}

    result = run("encap", damaged("encap", cut_behind_the_tag))
    assert [line for difference in result.differences for line in difference.lines()] == []
