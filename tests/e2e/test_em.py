"""The Ethernet Manager with real TAPs: MAC tables follow what hosts do, files are applied, agents verified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.conftest import Program

EXAMPLES = Path(__file__).parents[2] / "examples"
NEW_MAC = "02:00:00:ab:cd:ef"
PATIENCE_S = 30.0
"""A guard against hanging, not a measure."""


def up(opavnic: Program, kind: str) -> str:
    """Start the em-lab example under a name of its own; return that."""
    name = f"em{kind}{os.getpid()}"
    opavnic.up((EXAMPLES / "em-lab.yaml").read_text().replace("name: em-lab", f"name: {name}"))
    return name


@pytest.fixture
def lab(opavnic: Program) -> str:
    """A lab that a test may change."""
    return up(opavnic, "")


@pytest.fixture(scope="module")
def looking(opavnic_of_module: Program) -> Program:
    """The program beside a lab that tests only look at."""
    up(opavnic_of_module, "l")
    return opavnic_of_module


def run(lab: str, host: str, *command: str) -> subprocess.CompletedProcess[str]:
    arguments = ["ip", "netns", "exec", f"opavnic-{lab}-{host}", *command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=False)


def test_kernels_of_a_fresh_lab_have_dropped_nothing(looking: Program) -> None:
    drops = looking.data("status")["drops"]
    assert [name for name in drops if name.endswith("netdev")] == []


def test_changed_address_is_reached_again_without_a_manual_step(lab: str, opavnic: Program) -> None:
    """On virtual time it takes less than a second (tests/unit/vema/em/service); here, until it works."""
    for host in ("h1", "h3"):
        assert run(lab, host, "ping", "-c1", "-W20", "10.9.2.2").returncode == 0
    assert run(lab, "h2", "ip", "link", "set", "dev", "blue", "address", NEW_MAC).returncode == 0
    end = time.monotonic() + PATIENCE_S
    for host in ("h1", "h3"):
        while run(lab, host, "ping", "-c1", "-W0.2", "10.9.2.2").returncode != 0:
            assert time.monotonic() < end, f"{host} does not reach h2 any more"
    rows = opavnic.data("em", "show", "mac-table", "--vesw", "2")["mac_table"]
    assert [row["port"] for row in rows if row["mac"] == NEW_MAC] == ["h2:1"]
    verified(opavnic)


def verified(opavnic: Program) -> None:
    """Wait until verify is clean: agents hold back traps of a burst, the manager looks again a second later."""
    end = time.monotonic() + PATIENCE_S
    while (done := opavnic("em", "verify")).returncode != 0:
        assert time.monotonic() < end, done.stdout


def test_apply_twice_sends_no_set_the_second_time(lab: str, opavnic: Program) -> None:
    file = EXAMPLES / "em-two-tenants.yaml"
    assert "leaves virtual switch 2" in opavnic("em", "apply", file, "--dry-run").stdout
    verified(opavnic)  # whose hosts have joined their groups
    first = opavnic.data("em", "apply", file)
    verified(opavnic)
    second = opavnic.data("em", "apply", file)
    assert first["sets"] > 0
    assert (second["sets"], second["changes"], second["converged"]) == (0, [], True)
    verified(opavnic)


def test_virtual_switch_that_an_apply_adds_is_there_to_use(
    lab: str, opavnic: Program, tmp_path: Path
) -> None:
    blue = "  - {id: 2, name: blue, pkey: 0x8002, members: all}\n"
    violet = "  - {id: 9, name: violet, pkey: 0x8002, mtu: 9000, subnet: 10.7.0.0/24, members: [h1, h3]}\n"
    file = tmp_path / "em.yaml"
    for text, there in ((blue + violet, True), (blue, False), (blue + violet, True)):
        file.write_text(f"vesws:\n{text}")
        opavnic.ok("em", "apply", file)
        shown = run(lab, "h3", "ip", "-o", "address", "show", "dev", "violet").stdout
        assert ("inet 10.7.0.3/24" in shown) is there
    assert run(lab, "h1", "ping", "-c1", "-W20", "-Mdo", "-s8972", "10.7.0.3").returncode == 0
    assert json.loads(opavnic("check", "--json").stdout)["failures"] == []
    assert opavnic("exec", "h1", "--", "getent", "hosts", "h3.violet").stdout.split()[0] == "10.7.0.3"


BAD_FILES = {
    "vesws:\n  - {id: 0, name: a}\n  - {id: 4, name: b, mtu: 20000}\n  - {id: 4, name: c}\n": [
        "2: vesws[0].id: ", "3: vesws[1].mtu: ", "4: vesws[2].id: ",
    ],
    "vesws:\n  - {id: 4, name: b, pkey: 0x8002, members: [h1, h9]}\n  - {id: 5, name: c, members: [h2]}\n": [
        '2: vesws[0].members[1]: unknown member "h9" (known: ',
        "3: vesws[1]: pkey is missing, and its default 0xffff is not in the table of h2:1",
    ],
    "vesws:\n  - {id: 0, name: a, members: [h1, h9], pkey: 0x8002}\n"
    "  - {id: 5, name: c, mtu: no, members: [h2]}\n": [
        "2: vesws[0].id: ", "2: vesws[0].members[1]: ", "3: vesws[1]: ", "3: vesws[1].mtu: ",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("text", "reasons"), BAD_FILES.items(), ids=range(len(BAD_FILES)))
def test_file_that_cannot_be_met_is_refused_with_every_reason(
    looking: Program, tmp_path: Path, text: str, reasons: list[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    done = looking("em", "apply", file)
    assert done.returncode == 2
    for reason, line in zip(reasons, done.stderr.splitlines(), strict=True):
        assert line.startswith(f"{file}:{reason}")


def test_show_prints_tables_and_json(looking: Program) -> None:
    verified(looking)
    for topic, key in (("vesws", "name"), ("vports", "base_mac"), ("mac-table", "slot"), ("events", "kind")):
        assert looking("em", "show", topic).returncode == 0
        rows = next(iter(looking.data("em", "show", topic).values()))
        assert key in rows[0]
    assert looking.data("em", "show", "counters")
    groups = [
        row for row in looking("em", "show", "mac-table", "--vesw", "2").stdout.splitlines() if "33:33" in row
    ]
    assert groups
    assert all("0xf00002" in row for row in groups)


def test_mads_by_hand_read_and_write_an_agent(lab: str, opavnic: Program) -> None:
    info = opavnic.data("mad", "get", "vesw-port-info", "--lid", "2")
    assert (info["vesw_id"], info["eth_link_status"]) == (2, 1)
    answer = opavnic.data("mad", "set", "class-port-info", "--lid", "2", "trap_pkey=0x1234")
    assert answer["trap_pkey"] == 0x1234
    assert opavnic("mad", "get", "class-port-info", "--lid", "77").returncode == 1
    assert opavnic("mad", "get", "nonsense", "--lid", "2").returncode == 2
    for short in ("", "80348001"):
        done = opavnic("mad", "raw", short, "--lid", "2")
        assert (done.returncode, done.stdout) == (2, "")
        assert "bytes are not a MAD, which has 24 (its header) to 2048" in done.stderr


def test_recorded_mads_are_replayed(opavnic: Program, tmp_path: Path) -> None:
    # nobody else speaks
    opavnic.up(f"name: quiet{os.getpid()}\nhosts: {{h1: {{}}, h2: {{}}}}\nem: external\n")
    for name in ("mads.jsonl", "mads.pcapng"):
        file = tmp_path / name
        with opavnic.started("mad", "record", file, "--count", "2", stderr=subprocess.PIPE) as recording:
            assert "recording to" in recording.stderr.readline()
            opavnic("mad", "get", "mac-entries", "--lid", "3", "offset=0", "num=5", "--json")
            assert recording.wait(60) == 0, "a request and its response have passed"
        assert opavnic("mad", "replay", file).stdout == "1 requests sent, 0 answered differently\n"


def test_clients_of_the_examples_see_every_agent(looking: Program, tmp_path: Path) -> None:
    socket = looking.root / f"eml{os.getpid()}" / "mad.sock"
    commands = [[sys.executable, str(EXAMPLES / "mad_client.py"), str(socket)]]
    compiler = shutil.which("cc")
    if compiler is not None:
        program = tmp_path / "mad_client"
        subprocess.run([compiler, "-Wall", "-Werror", "-o", program, EXAMPLES / "mad_client.c"], check=True)
        commands.append([str(program), str(socket)])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.splitlines() == [f"LID {lid}: virtual switch 2, link up" for lid in (2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "usage: mad_client.py SOCKET; "), (["nowhere"], "nowhere: No such file or directory; ")],
)
def test_client_of_the_examples_says_in_one_line_what_it_lacks(arguments: list[str], said: str) -> None:
    command = [sys.executable, str(EXAMPLES / "mad_client.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
