"""Intel's tools for Omni-Path, as Debian has them, on a lab with the built-in subnet manager."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from opavnic.devices.entry import why_no_fuse
from opavnic.devices.mounts import SOURCE
from permission import require

TOOLS = ("ibstat", "opainfo", "opasmaquery", "opapmaquery", "opasaquery", "opafabricinfo", "opareport")
COMMANDS = {
    "ibstat": "ibstat",
    "opainfo": "opainfo",
    "switch": "opasmaquery -o swinfo 1",
    "counters": "opapmaquery",
    "counters of h2": "opapmaquery -l 3 -m 1",
    "ports": "opasaquery -o portinfo",
    "fabric": "opafabricinfo",
    "links": "opareport -o links",
    "errors": "opareport -M -o errors",
    "ib": "smpquery nodeinfo -D 0",
    "not on Omni-Path": "smpquery portinfo -D 0",
}
EXAMPLE = Path(__file__).parents[2] / "examples/opa-tools.yaml"
NODES = 3 + 1  # with the one of the subnet manager and the EM
LINKS = NODES + 2
SCRIPT = """
for tool in "$@"; do echo "## $tool"; timeout 40 $tool 2>&1 || true; done
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("opa")


@pytest.fixture(scope="module")
def printed(directory: Path) -> dict[str, str]:
    """What each tool prints on h1: one lab and one program for all of them."""
    require(TOOLS, as_root=True)
    if reason := why_no_fuse():
        pytest.skip(reason)
    environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(directory / "run")}

    def opavnic(*arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "opavnic.cli.main", *map(str, arguments)],
            env=environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    name = f"o{os.getpid()}"
    file = directory / "lab.yaml"
    file.write_text(EXAMPLE.read_text().replace("name: opa-tools\n", f"name: {name}\n"))
    opavnic("up", file, "-d")
    try:
        text = opavnic("exec", "--umad", "h1", "--", "sh", "-c", SCRIPT, "sh", *COMMANDS.values())
    finally:
        opavnic("down")
    outputs = [part.partition("\n")[2] for part in text.split("## ")[1:]]
    return dict(zip(COMMANDS, outputs, strict=True))


def field(text: str, name: str) -> str:
    """Return what follows a name on its first line."""
    (line, *_) = [line for line in text.splitlines() if name in line]
    return line.partition(name)[2].strip(" :")


def test_own_port_is_active_and_its_link_excellent(printed: dict[str, str]) -> None:
    assert field(printed["opainfo"], "PortState") == "Active"
    assert field(printed["opainfo"], "LID").startswith("0x00000002-0x00000002")
    assert field(printed["opainfo"], "Link Quality") == "5 (Excellent)"
    assert "Act: 25Gb" in printed["opainfo"]
    assert "State: Active" in printed["ibstat"]
    assert field(printed["ibstat"], "SM lid") == "1"


def test_switch_behind_the_first_hop_is_asked_by_its_route(printed: dict[str, str]) -> None:
    assert field(printed["switch"], "LinearFDBTop").startswith(f"0x{NODES + 3:08x}")
    assert "Enabled: Linear" in printed["switch"]


def test_counters_are_those_of_what_the_port_has_carried(printed: dict[str, str]) -> None:
    assert int(field(printed["counters"], "Xmit Pkts")) > 0
    assert field(printed["counters"], "Link Qual Indicator") == "5 (Excellent)"
    assert field(printed["counters"], "Rcv Errors") == "0"
    assert int(field(printed["counters of h2"], "Rcv Pkts")) > 0, "of another host, which is asked by its LID"


def test_records_of_all_ports_come_in_several_segments(printed: dict[str, str]) -> None:
    states = [line for line in printed["ports"].splitlines() if "PortState:" in line]
    assert len(states) == 2 * LINKS + 3, "both ends of each cable, and port 0 of each switch"
    assert all("Active" in state for state in states)


def test_counts_are_those_of_the_lab_file(printed: dict[str, str]) -> None:
    fabric = printed["fabric"]
    assert field(fabric, "Number of HFIs") == str(NODES)
    assert field(fabric, "Number of Switches") == "3"
    assert field(fabric, "Number of Links") == str(LINKS)
    assert field(fabric, "Number of ISLs").startswith("2 ")
    assert field(fabric, "Number of Degraded Links").startswith("0 ")
    assert "State: Master" in fabric


def test_report_names_every_link_and_finds_no_error(printed: dict[str, str]) -> None:
    assert f"{LINKS} Links in Fabric" in printed["links"]
    assert {"h1", "h2", "h3", "em", "leaf0", "leaf1", "spine0"} <= set(printed["links"].split())
    assert f"{LINKS} of {LINKS} Links Checked, 0 Errors found" in printed["errors"]


def test_what_real_hfis_do_not_answer_is_not_answered(printed: dict[str, str]) -> None:
    assert field(printed["ib"], "NumPorts").strip(".") == "1"
    assert "failed" in printed["not on Omni-Path"]


def test_nothing_is_left_when_the_lab_is_down(printed: dict[str, str], directory: Path) -> None:
    assert printed
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    assert not [line for line in lines if line.split(" - ")[1].split()[1] == SOURCE]
    assert list((directory / "run").iterdir()) == []
    assert not list(Path("/run/netns").glob(f"*-o{os.getpid()}-*"))
