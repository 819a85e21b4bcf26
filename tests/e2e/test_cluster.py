"""A lab over three machines: network namespaces, each with processes of its own, with TLS between them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import subprocess
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from opavnic.lab.ownership.namespaces import NETNS_DIR
from opavnic_bench.base.sites import until
from opavnic_bench.base.turns import PeerError
from opavnic_bench.cluster.machines import BenchCluster, cluster, machines
from processes import child
from program import started

LAB = {
    "name": "threefold",
    "fabric": {
        "topology": {"kind": "clos", "leaves": 3, "spines": 2, "hosts_per_leaf": 1, "uplinks": 2},
    },
    "hosts": 3,
    "vesws": [{"id": 2, "name": "blue", "subnet": "10.9.2.0/24", "members": "all"}],
}
PATIENCE_S = 60.0
"""Seconds for what comes true by itself; ends as it does. A busy machine is slow to notice, and to answer."""
H = {"h1": "10.9.2.1", "h2": "10.9.2.2", "h3": "10.9.2.3"}


@pytest.fixture(scope="module")
def running() -> Iterator[BenchCluster]:
    with machines(3) as found, cluster(found, LAB) as up:
        yield up


def inside(
    up: BenchCluster, host: str, *command: str, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    words = ["ip", "netns", "exec", up.namespace(host), *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)


def reaches(up: BenchCluster, host: str, other: str) -> bool:
    return inside(up, host, "ping", "-c1", "-W1", H[other]).returncode == 0


def at_rest(up: BenchCluster) -> None:
    """Every frame was delivered or counted once, as soon as none passes while the machines are asked in turn.

    One look is enough: at the next one a host may have sent something of its own.
    """
    until(lambda: not up.unaccounted(), "frames are unaccounted for", pause_s=0.3, limit_s=PATIENCE_S)


def test_hosts_of_three_machines_are_one_lab(running: BenchCluster) -> None:
    """EM converged: every VNIC is up, wherever it is; every machine knows all of it."""
    for machine in running.machines.names:
        status = running.status(machine)
        assert {host["name"]: host["machine"] for host in status["hosts"]} == {
            "h1": "m1",
            "h2": "m2",
            "h3": "m3",
        }
        assert {vnic["state"] for host in status["hosts"] for vnic in host["vnics"]} == {"up"}
    for here, there in (("h1", "h2"), ("h2", "h3"), ("h3", "h1")):
        done = inside(running, here, "ping", "-c3", "-i0.1", "-w30", H[there])
        assert " 3 received" in done.stdout, done.stdout
        assert "DUP!" not in done.stdout
        assert H[there] in running.opavnic(
            f"m{here[1]}", "exec", here, "--", "getent", "hosts", f"{there}.blue"
        )
    at_rest(running)


def test_counters_of_elements_on_other_machines_are_their_true_ones(running: BenchCluster) -> None:
    """Each machine shows for the VNIC of every host what the kernel of that host has counted."""

    def frames(host: str) -> int:
        (link,) = json.loads(inside(running, host, "ip", "-s", "-j", "link", "show", "blue").stdout)
        return int(link["stats64"]["rx"]["packets"])

    assert inside(running, "h1", "ping", "-c5", "-i0.1", "-W30", H["h2"]).returncode == 0
    assert inside(running, "h1", "ping", "-c5", "-i0.1", "-W30", H["h3"]).returncode == 0
    at_rest(running)
    for machine in running.machines.names:
        before = {host: frames(host) for host in H}
        counters = running.ask(machine, "status", "--counters")["counters"]
        after = {host: frames(host) for host in H}
        for host in H:
            received = counters[f"{host}/blue ethtool"]["rx_packets"]
            assert before[host] <= received <= after[host], (machine, host)
            assert received >= 5
            assert counters[f"{host}:1 vport 1 rx"]["out_packets"] >= 5


def test_coordinator_acts_on_hosts_of_other_machines(running: BenchCluster) -> None:
    assert H["h3"] in running.opavnic("m1", "exec", "h3", "--", "ip", "-br", "address")
    with pytest.raises(PeerError, match="m3 accepts this from the coordinator only, not from m2"):
        running.opavnic("m2", "exec", "h3", "--", "id")
    with pytest.raises(PeerError, match="m2 may change faults of its own nodes and their links"):
        running.opavnic("m2", "fault", "add", "link-down on h3")
    with pytest.raises(PeerError, match="m3 accepts this from the coordinator only, not from m2"):
        running.opavnic("m2", "capture", "on", "h3->leaf2", "-c", "1")
    running.opavnic("m1", "fault", "add", "link-down on h3")
    until(lambda: not reaches(running, "h1", "h3"), "the fault does not act", limit_s=20)
    running.opavnic("m1", "fault", "clear")
    until(lambda: reaches(running, "h1", "h3"), "h3 is not back", limit_s=20)


@contextlib.contextmanager
def there(up: BenchCluster, machine: str, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command of the program on a machine; it is gone afterwards."""
    where = [NETNS_DIR / up.machines.namespaces[machine]]
    with started(words, env=up.machines.environment(machine), namespaces=where, **options) as process:
        yield process


@contextlib.contextmanager
def pinging(up: BenchCluster, host: str, other: str) -> Iterator[None]:
    """Let one host ping another one meanwhile."""
    words = ["ip", "netns", "exec", up.namespace(host), "ping", "-q", "-i0.05", H[other]]
    with child(words, stdout=subprocess.DEVNULL):
        yield


def test_program_on_another_machine_has_pipes_and_passes_its_exit_code_on(running: BenchCluster) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    data = random.Random(1).randbytes(500_000).hex()
    with there(
        running, "m1", "exec", "h3", "--", "sh", "-c", "cat; echo bad >&2; exit 7", **pipes
    ) as program:
        out, err = program.communicate(data, timeout=60)
    assert (out == data, err, program.returncode) == (True, "bad\n", 7)
    with there(running, "m1", "exec", "h3", "--", "no-such-program", **pipes) as program:
        _, err = program.communicate(timeout=60)
    assert (program.returncode, "no such program on host h3" in err) == (127, True)


def test_shell_on_another_machine_has_a_terminal_of_the_same_size(running: BenchCluster) -> None:
    master, slave = pty.openpty()
    termios.tcsetwinsize(master, (31, 97))
    said = b""

    def read_until(text: bytes) -> None:
        nonlocal said
        while text not in said:
            said += os.read(master, 4096)
        said = said.partition(text)[2]

    with there(running, "m1", "exec", "h3", "--", "sh", stdin=slave, stdout=slave, stderr=slave) as shell:
        os.close(slave)
        os.write(master, b"tty; stty size\n")
        read_until(b"/dev/pts/")
        read_until(b"31 97")
        os.write(master, b"sed -u s/e/E/\nmeow\n")
        read_until(b"mEow")  # nobody has typed that: sed runs, in the foreground
        os.write(master, b"\x03")  # Ctrl-C ends it on m3, and not the program here
        read_until(b"# ")
        os.write(master, b"hostname; exit 5\n")
        read_until(b"h3")
        assert shell.wait(30) == 5
    os.close(master)


def test_capture_has_the_packets_of_links_on_other_machines(running: BenchCluster) -> None:
    # so many that echoes and answers are among them, also where several echoes have waited for h3
    command = ("capture", "on", "h3--leaf2", "l4=ethernet", "-c", "60", "--json")
    with there(running, "m1", *command, stdout=subprocess.PIPE) as capture, pinging(running, "h1", "h3"):
        out, _ = capture.communicate(timeout=60)
    *packets, last = map(json.loads, out.splitlines())
    assert last == {"kept": 60, "missed": 0}
    assert {packet["link"] for packet in packets} == {"h3:1->leaf2:1", "leaf2:1->h3:1"}


def test_top_of_any_machine_shows_the_traffic_of_all(running: BenchCluster) -> None:
    command = ("top", "-c1", "-i2s", "--json")
    with there(running, "m2", *command, stdout=subprocess.PIPE) as top, pinging(running, "h1", "h3"):
        out, _ = top.communicate(timeout=60)
    found = json.loads(out)
    vnics = {row["host"]: row["rx_packets_per_s"] for row in found["vnics"]}
    assert vnics.keys() == {"h1", "h2", "h3"}
    assert vnics["h3"] > 1
    links = {row["name"]: row["packets_back_per_s"] for row in found["links"]}
    assert any(pace > 1 for name, pace in links.items() if "h3:1" in name)


def test_member_sets_faults_at_its_own_nodes(running: BenchCluster) -> None:
    number = json.loads(running.opavnic("m3", "fault", "add", "link-down", "on", "h3", "--json"))["number"]
    until(lambda: not reaches(running, "h1", "h3"), "the fault does not act", limit_s=20)
    assert [fault["on"] for fault in running.ask("m2", "fault", "show")["faults"]] == ["h3"]
    running.opavnic("m3", "fault", "remove", str(number))
    until(lambda: reaches(running, "h1", "h3"), "h3 is not back", limit_s=20)


def wrong_checksums(up: BenchCluster, host: str) -> int:
    """How many TCP segments a host has dropped because their checksum was wrong."""
    names, values = [
        line.split()[1:]
        for line in inside(up, host, "cat", "/proc/net/snmp").stdout.splitlines()
        if line.startswith("Tcp:")
    ]
    return int(dict(zip(names, values, strict=True))["InCsumErrors"])


def test_tcp_passes_machines_and_every_frame_is_accounted_for(running: BenchCluster) -> None:
    words = ["ip", "netns", "exec", running.namespace("h3"), "iperf3", "-s", "-1", "--forceflush"]
    with child(words, stdout=subprocess.PIPE) as server:
        assert any("Server listening" in line for line in server.stdout)
        done = inside(running, "h1", "iperf3", "-c", H["h3"], "-n", "16M", "-J", timeout_s=120)
        server.communicate(timeout=60)
    # the rest was in the buffers of the kernel at the end, which are smaller
    assert json.loads(done.stdout)["end"]["sum_received"]["bytes"] > 1e6
    assert [wrong_checksums(running, host) for host in ("h1", "h3")] == [0, 0]
    at_rest(running)


@pytest.mark.slow
def test_machine_that_is_killed_takes_its_ports_down_and_comes_back(running: BenchCluster) -> None:
    running.kill("m3")

    def is_gone() -> bool:
        status = running.status("m1")
        down = {link["name"] for link in status["links"] if link["state"] == "down"}
        return status["cluster"]["there"] == ["m1", "m2"] and bool(down)

    until(is_gone, "m1 has not noticed that m3 is gone", limit_s=PATIENCE_S)
    until(lambda: reaches(running, "h1", "h2"), "no way around m3", limit_s=PATIENCE_S)
    assert not reaches(running, "h1", "h3")
    at_rest(running)
    running.start("m3")
    until(
        lambda: reaches(running, "h1", "h3"),
        f"h3 is not back: {running.said('m3')[-500:]}",
        limit_s=PATIENCE_S,
    )
    until(lambda: reaches(running, "h2", "h3"), "h2 does not reach h3", limit_s=PATIENCE_S)
    lids = [host["lid"] for host in running.status("m1")["hosts"]]
    assert len(set(lids)) == 3


@pytest.mark.slow
def test_partition_heals_without_duplicates(running: BenchCluster) -> None:
    before = {host["name"]: host["lid"] for host in running.status("m1")["hosts"]}
    running.machines.plug("m2", plugged=False)
    try:
        until(
            lambda: running.status("m1")["cluster"]["there"] == ["m1", "m3"],
            "m1 has not noticed that m2 is cut off",
            limit_s=PATIENCE_S,
        )
        until(lambda: reaches(running, "h1", "h3"), "no way around m2", limit_s=PATIENCE_S)
    finally:
        running.machines.plug("m2", plugged=True)
    until(
        lambda: reaches(running, "h1", "h2"),
        f"h2 is not back: {running.said('m2')[-500:]}",
        limit_s=PATIENCE_S,
    )
    assert {host["name"]: host["lid"] for host in running.status("m1")["hosts"]} == before
    until(lambda: reaches(running, "h3", "h2"), "h3 does not reach h2", limit_s=PATIENCE_S)
    done = inside(running, "h3", "ping", "-c10", "-i0.1", "-w30", H["h2"])
    assert " 10 received" in done.stdout, done.stdout
    assert "DUP!" not in done.stdout
    at_rest(running)
