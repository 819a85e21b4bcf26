"""`opavnic init`: examples that come with the package and run as they stand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from opavnic.cli.labs.init import examples
from opavnic.cli.main import main
from opavnic.lab.file.loader import load_lab

ROOT = Path(__file__).parents[5]


def test_package_has_every_example_of_the_repository() -> None:
    there = {path.resolve() for path in (ROOT / "examples").iterdir() if path.suffix in (".yaml", ".conf")}
    here = {path for path in (ROOT / "opavnic/examples").iterdir() if path.is_file()}
    assert there == here, "the file stands in opavnic/examples, examples/ has a link to it"


@pytest.mark.parametrize("name", examples())
def test_example_is_a_valid_file_by_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", name]) == 0
    assert (tmp_path / f"{name}.yaml").is_file()
    if "opavnic up" in capsys.readouterr().err:
        assert main(["validate", f"{name}.yaml"]) == 0


def test_file_that_exists_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("mine")
    assert main(["init", "two-hosts", str(file)]) == 2
    said = f"opavnic: {file} exists and is left as it is (give another name, or --force)\n"
    assert capsys.readouterr().err == said
    assert file.read_text() == "mine"
    assert main(["init", "two-hosts", str(file), "--force"]) == 0
    assert file.read_text().startswith("# ")


def test_list_names_each_example_and_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--list", "--json"]) == 0
    listed = {one["name"]: one["what"] for one in json.loads(capsys.readouterr().out)}
    assert {"two-hosts", "two-switches"} <= listed.keys()
    assert all(listed.values())
    assert listed["guests"] == (
        "Hosts that were there before the lab: a network namespace, and the TAP of a virtual machine"
    )
    assert main(["init", "two-host"]) == 2
    assert capsys.readouterr().err.endswith("(did you mean: opavnic init two-hosts)\n")


def test_list_with_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--list", "two-hosts"]) == 2
    assert (
        capsys.readouterr().err == "opavnic: init: --list lists all examples and takes no name (two-hosts)\n"
    )


DUMP = """\
ibwarn: [7] mad_rpc: _do_madrpc failed
switchguid=0xa1
Switch\t8 "S-00a1"\t\t# "MF0;edge one:MQM8700/U1"
[1]\t"H-00b1"[1](b2)\t\t# "node.1 HCA-1" lid 2 4xHDR
[2]\t"H-00c1"[2](c2)\t\t# "node2 HCA-1" lid 3 4xEDR
[3]\t"H-00e1"[1](e2)\t\t# "em HCA-1" lid 4 4xEDR

caguid=0xb1
Ca\t1 "H-00b1"\t\t# "node.1 HCA-1"
[1](b2)\t"S-00a1"[1]\t\t# lid 2 lmc 0 "edge" lid 1 4xHDR

caguid=0xc1
Ca\t2 "H-00c1"\t\t# "node2 HCA-1"
[2](c2)\t"S-00a1"[2]\t\t# lid 3 lmc 0 "edge" lid 1 4xEDR

caguid=0xe1
Ca\t1 "H-00e1"\t\t# "em HCA-1"
[1](e2)\t"S-00a1"[3]\t\t# lid 4 lmc 0 "edge" lid 1 4xEDR
"""


def test_topology_file_becomes_a_lab_that_is_valid_and_what_is_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site.v2.ibnd").write_text(DUMP)
    assert main(["init", "--from", "site.v2.ibnd"]) == 0
    said = capsys.readouterr().err
    assert "left out: em: the node of the managers" in said
    assert "node.1 is node-1" in said
    assert "site.v2.yaml written: 2 hosts, 1 switch, 2 links; next: opavnic up site.v2.yaml -d" in said
    assert main(["validate", "site.v2.yaml"]) == 0
    lab = load_lab(Path("site.v2.yaml"))
    assert lab.name == "site-v2"
    assert [vesw.members for vesw in lab.vesws] == [["node-1", "node2:2"]]
    cables = {tuple(cable.ends): cable.rate for cable in lab.fabric.topology.links}
    assert cables == {("node-1:1", "S-00a1:1"): 200e9, ("node2:2", "S-00a1:2"): 100e9}
    assert [(host.guid, host.lid) for host in lab.hosts.values()] == [((0xB1,), (2,)), ((0xC1,), (0, 3))]
    assert (lab.fabric.topology.switches or {})["S-00a1"] == {
        "ports": 8,
        "guid": 0xA1,
        "description": "MF0;edge one:MQM8700/U1",
    }
    assert [(host.guid, host.lid) for host in lab.hosts.values()] == [((0xB1,), (2,)), ((0xC1,), (0, 3))]
    assert (lab.fabric.topology.switches or {})["S-00a1"] == {
        "ports": 8,
        "guid": 0xA1,
        "description": "MF0;edge one:MQM8700/U1",
    }
    assert main(["init", "--from", "site.v2.ibnd"]) == 2, "it is there already"


def test_packed_file_with_a_switch_and_a_host_called_as_the_managers_becomes_a_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site.ibnd.gz").write_bytes(gzip.compress(DUMP.replace("MF0;edge one:MQM8700/U1", "em").encode()))
    assert main(["init", "--from", "site.ibnd.gz"]) == 0
    lab = load_lab(Path("site.yaml"))
    assert len(lab.hosts) == 3
    assert "em" not in lab.hosts
    assert main(["validate", "site.yaml"]) == 0


def test_managers_are_attached_to_the_part_of_most_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    apart = 'Switch\t8 "S-0a"\t\t# "lone"\n[1]\t"H-0a"[1]\t\t# "n0 hfi1_0"\n\nCa\t1 "H-0a"\t\t# "n0 hfi1_0"\n'
    Path("site.ibnd").write_text(f'{apart}[1]\t"S-0a"[1]\t\t# "lone"\n\n{DUMP}')
    assert main(["init", "--from", "site.ibnd"]) == 0
    assert "1 host out of the virtual switch: n0 (it is on lone, em on S-00a1, " in capsys.readouterr().err
    assert main(["validate", "site.yaml"]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("digraph G {\n", "a graph for Graphviz"),
        ('Switch 8 "a"\n[1] "b"[1]\n\nSwitch 8 "b"\n[1] "a"[1]\n', "no HFI has a cable: a lab needs a host"),
        ('Ca 1 "a"\n[1] "b"[1]\n\nCa 1 "b"\n[1] "a"[1]\n', "no switch: the node of the managers is attached"),
    ],
)
def test_file_that_cannot_become_a_lab_is_refused(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    assert main(["init", "--from", str(file), str(tmp_path / "lab.yaml")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "lab.yaml").exists()
