"""Intel's tools for Omni-Path, as Debian has them, on a lab with the built-in subnet manager."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program
from hfi_sim.wire.captures import read_capture
from hfi_sim.wire.mad.fm_packet import parse_fm_payload
from hfi_sim.wire.mad.header import MadHeader, mad_size
from hfi_sim.wire.packet import strip
from opavnic.devices.kernel.entry import why_no_fuse
from opavnic.devices.kernel.mounts import SOURCE
from permission import require
from unit.opavnic.observe.tshark import Tshark, needs_tshark

TOOLS = (
    "ibstat", "perfquery", "curl", "prometheus-node-exporter", "opainfo", "opasmaquery", "opapmaquery", "opasaquery",
    "opafabricinfo", "opareport",
)  # fmt: skip
COMMANDS = {
    "ibstat": "ibstat",
    "opainfo": "opainfo",
    "switch": "opasmaquery -o swinfo 1",
    "counters": "opapmaquery",
    "counters of h2": "opapmaquery -l 3 -m 1",
    "counters of InfiniBand": "perfquery",
    "extended counters of h2": "perfquery -x 3 1",
    "counters in sysfs": "grep -r . /sys/class/infiniband/hfi1_0/ports/1/counters",
    "monitor": "sh monitor.sh",
    "ports": "opasaquery -o portinfo",
    "fabric": "opafabricinfo",
    "links": "opareport -o links",
    "errors": "opareport -M -o errors",
    "all reports": "opareport -M -o all",
    "groups": "opareport -M -o mcgroups",
    "groups as records": "saquery -g",
    "cables": "opasaquery -o cableinfo",
    "arbitration": "opasaquery -o vlarb",
    "buffers": "opasaquery -o bfrctrl",
    "channels": "opasaquery -o scsc",
    "quarantine": "opasaquery -o quarantine",
    "costs": "opasaquery -o swcost",
    "its cables": "opaextractlink",
    "ib": "smpquery nodeinfo -D 0",
    "not on Omni-Path": "smpquery portinfo -D 0",
    "nor the manager": "sminfo",
}
EXAMPLE = Path(__file__).parents[2] / "examples/opa-tools.yaml"
CAPTURE = "mads.pcapng"
NODES = 3 + 1  # with the one of the subnet manager and the EM
LINKS = NODES + 2
EXPORTER = "prometheus-node-exporter"
MONITOR = f"""
ip link set lo up
{EXPORTER} --collector.disable-defaults --collector.infiniband --web.listen-address=127.0.0.1:9100 2>&1 &
curl -s --retry 100 --retry-delay 0 --retry-connrefused 127.0.0.1:9100/metrics
kill $!
"""
SCRIPT = """
cd "$1"; shift
for tool in "$@"; do echo "## $tool"; timeout 40 $tool 2>&1 || true; done
"""


def _with_tools() -> None:
    require(TOOLS, as_root=True)
    if reason := why_no_fuse():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def directory(opavnic_of_module: Program) -> Path:
    """Where the files of the lab are."""
    return opavnic_of_module.directory


@pytest.fixture(scope="module")
def printed(opavnic_of_module: Program, directory: Path) -> dict[str, str]:
    """What each tool prints on h1: one lab and one program for all of them."""
    _with_tools()
    (directory / "monitor.sh").write_text(MONITOR)
    opavnic_of_module.up(EXAMPLE.read_text().replace("name: opa-tools\n", f"name: o{os.getpid()}\n"))
    with capturing(opavnic_of_module, directory / CAPTURE):
        words = ("sh", "-c", SCRIPT, "sh", directory, *COMMANDS.values())
        text = opavnic_of_module.ok("exec", "--umad", "h1", "--", *words, timeout=200)
    opavnic_of_module.ok("down")
    outputs = [part.partition("\n")[2] for part in text.split("## ")[1:]]
    return dict(zip(COMMANDS, outputs, strict=True))


@contextlib.contextmanager
def capturing(opavnic: Program, file: Path) -> Iterator[None]:
    """Write the MADs of a lab to a file meanwhile."""
    with opavnic.started("capture", "l4=mad", "-w", file, stdout=-1, stderr=-1) as capture:
        while not file.exists():
            assert capture.poll() is None
            opavnic.ok("status")  # takes a while
        yield
        capture.send_signal(signal.SIGINT)
        _, said = capture.communicate(timeout=60)
    assert capture.returncode == 0, said


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


def test_counters_are_the_same_in_each_form(printed: dict[str, str]) -> None:
    assert field(printed["counters of InfiniBand"], "PortRcvErrors").strip(".") == "0"
    assert "CapMask: 0x200" in printed["counters of InfiniBand"]
    received = int(field(printed["extended counters of h2"], "PortRcvPkts").strip("."))
    assert received > int(field(printed["counters of h2"], "Rcv Pkts")), "it was asked before"
    files = dict(line.rpartition("/")[2].split(":") for line in printed["counters in sysfs"].splitlines())
    assert len(files) == 21
    assert int(files["port_xmit_packets"]) > int(field(printed["counters"], "Xmit Pkts"))


def test_exporter_of_prometheus_finds_the_counters(printed: dict[str, str]) -> None:
    assert 'node_scrape_collector_success{collector="infiniband"} 1' in printed["monitor"]
    series = [
        line.split() for line in printed["monitor"].splitlines() if line.startswith("node_infiniband_port")
    ]
    of_port = {name.partition("{")[0]: float(value) for name, value in series}
    assert of_port["node_infiniband_port_packets_transmitted_total"] > 0
    assert of_port["node_infiniband_port_data_received_bytes_total"] > 0


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


def test_every_report_is_made_without_a_failure(printed: dict[str, str]) -> None:
    text = printed["all reports"]
    assert f"{LINKS} of {LINKS} Links Checked, 0 Errors found" in text
    for wrong in ("Failed", "Unable", "0x0500", "No Path Records", "Incomplete Path"):
        lines = [line for line in text.splitlines() if wrong in line]
        assert not [line for line in lines if line != "Incomplete Paths:"], lines


def test_group_of_a_virtual_switch_has_its_members(printed: dict[str, str]) -> None:
    groups = printed["groups"]
    assert "MGID: 0xff15000080020000:0x0000000000000002" in groups
    assert "Number of Group Members: 3" in groups
    assert {f"Name: h{number} hfi1_0" for number in (1, 2, 3)} <= {
        line.strip() for line in groups.splitlines()
    }
    assert printed["groups as records"].count("MGID") == 1


def test_records_of_lanes_and_cables_are_there(printed: dict[str, str]) -> None:
    assert printed["cables"].count("QSFP Interpreted CableInfo") == 2 * LINKS
    assert printed["its cables"].count("opavnic;EMULATED-") == LINKS
    assert "Low" in printed["arbitration"]
    assert printed["buffers"].count("VL31") == 2 * LINKS + 3
    assert "SC'" in printed["channels"]
    assert "No SA Records" in printed["quarantine"]
    assert "Unsupported Method/Attribute" in printed["costs"]


def test_what_real_hfis_do_not_answer_is_not_answered(printed: dict[str, str]) -> None:
    assert field(printed["ib"], "NumPorts").strip(".") == "1"
    assert "failed" in printed["not on Omni-Path"]
    assert "failed" in printed["nor the manager"]


@needs_tshark
def test_wireshark_names_what_the_tools_have_sent(
    printed: dict[str, str], directory: Path, tmp_path: Path
) -> None:
    assert printed
    tshark = Tshark(tmp_path)
    shown = tshark.columns(directory / CAPTURE, "_ws.col.Protocol", "_ws.col.Info")
    assert {"OPA SM", "OPA SA", "OPA PM"} <= {protocol for protocol, _ in shown}
    names = {info.split(",")[0] for _, info in shown}
    assert {"Get SwitchInfo", "GetTableResp PortInfoRecord", "GetResp PortStatus"} <= names
    assert "alformed" not in tshark.run("-r", str(directory / CAPTURE), "-V")


STOCK_FIELDS = ("opa.mad.mgmtclass", "opa.mad.method", "opa.mad.attributeid", "opa.mad.transactionid")
USER_1 = 148
"""The link type under which MADs alone stand in a file, for Wireshark's own dissector of them."""


@needs_tshark
def test_dissector_of_wireshark_itself_reads_every_mad_of_the_lab(
    printed: dict[str, str], directory: Path, tmp_path: Path
) -> None:
    assert printed
    mads = []
    for packet in read_capture((directory / CAPTURE).read_bytes()):
        _, mad = parse_fm_payload(strip(packet.data))
        mads.append(bytes(mad).ljust(mad_size(mad[0]), b"\0"))
    file = tmp_path / "mads.pcap"
    blocks = [struct.pack("<4I", 0, 0, len(mad), len(mad)) + mad for mad in mads]
    file.write_bytes(struct.pack("<IHH4I", 0xA1B2C3D4, 2, 4, 0, 0, 0xFFFF, USER_1) + b"".join(blocks))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}

    def stock(*options: str) -> str:
        table = f'uat:user_dlts:"User 1 (DLT={USER_1})","opa.mad","0","","0",""'
        return subprocess.run(
            ["tshark", "-r", str(file), "-o", table, *options],
            env=environment | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=True, timeout=60,
        ).stdout  # fmt: skip

    assert stock("-Y", "_ws.malformed") == ""
    fields = stock("-T", "fields", *(word for name in STOCK_FIELDS for word in ("-e", name)))
    read = [tuple(int(value, 0) for value in line.split("\t")) for line in fields.splitlines()]
    headers = [MadHeader.parse(mad) for mad in mads]
    assert read == [(one.mgmt_class, one.method, one.attr_id, one.tid) for one in headers]


def test_nothing_is_left_when_the_lab_is_down(printed: dict[str, str], directory: Path) -> None:
    assert printed
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    assert not [line for line in lines if line.split(" - ")[1].split()[1] == SOURCE]
    assert list((directory / "run").iterdir()) == []
    assert not list(Path("/run/netns").glob(f"*-o{os.getpid()}-*"))


@pytest.mark.slow
def test_only_a_fault_makes_a_planned_link_slow(opavnic: Program) -> None:
    _with_tools()

    def slow() -> str:
        said = opavnic.ok("exec", "--umad", "h1", "--", "opareport", "-o", "slowlinks", "-q", timeout=200)
        return field(said, "Links Checked").strip(", ")

    links = '[{ends: [h1, "sw0:1"], rate: 75G}, {ends: [h2, "sw0:2"], rate: 25G}]'
    shape = f"{{kind: explicit, switches: {{sw0: {{ports: 8}}}}, links: {links}}}"
    opavnic.up(f"name: s{os.getpid()}\nfabric: {{topology: {shape}}}\nhosts: {{h1: {{}}, h2: {{}}}}\n")
    assert slow() == "0 Errors found"
    opavnic.ok("fault", "add", "rate on h1 rate=50G")
    assert slow() == "1 Errors found"
    opavnic.ok("fault", "clear")
    assert slow() == "0 Errors found"
