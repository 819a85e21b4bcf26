"""E2SAR's own programs against the load balancer: its control plane client, its segmenter and its reassembler."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from interop.e2sar_runs import (
    FILES,
    PORT,
    SIZE,
    arrived,
    ask_for_mac,
    digest,
    lbadm,
    make_files,
    receive_files,
    send_files,
)
from interop.network import ADMIN, CONTROL_PORT, OPAVNIC, Network, address, exported, until
from interop.peers import e2sar, needs_ipv6, reads_ipv6

CONTROL = f"{address(1)}:{CONTROL_PORT}"
OPERATOR = f"ejfat://{ADMIN}@{CONTROL}/"
OWN_IPV4, OWN_IPV6 = ("--ipv4", "10.7.0.100"), ("--ipv6", "fd07::100")
OWN = ("--listen", CONTROL, "--period", "0.2")
WORKERS = ("w1", "w2", "w3")


@pytest.fixture(autouse=True)
def _programs() -> None:
    for program in ("lbadm", "e2sar_perf", "e2sar_ft"):
        e2sar(program)


def addresses() -> tuple[str, ...]:
    """Return the load balancer's addresses, of both IP versions if E2SAR reads them."""
    return (*OWN_IPV4, *OWN_IPV6) if reads_ipv6() else OWN_IPV4


def reserve(wire: Network, *words: str) -> str:
    """Reserve an instance with lbadm, and return the URI that it exports."""
    return exported(lbadm(wire, OPERATOR, "--reserve", "-l", "run", "-d", "01:00:00", "-e", *words))


def status(wire: Network, uri: str) -> dict[str, object]:
    """Return what our own client says of a reservation."""
    told: dict[str, object] = json.loads(
        wire.run("src", *OPAVNIC, "ejfat", "admin", "status", "--json", "--uri", uri).stdout
    )
    return told


def wait_for_workers(wire: Network, uri: str, count: int) -> None:
    """Wait until so many workers share all slots."""

    def shared() -> bool:
        told = status(wire, uri)
        slots = [worker["slotsAssigned"] for worker in told["workers"]]  # type: ignore[index,attr-defined]
        return len(slots) == count and all(slots) and sum(slots) == told["slotResolution"]

    until(shared, f"{count} workers share the slots")


def test_lbadm_every_command(wire: Network, tmp_path: Path) -> None:
    six = reads_ipv6()
    wire.balancer("lb", *addresses(), *OWN, "--ipv4", "10.7.0.101", *(("--ipv6", "fd07::101") if six else ()))
    assert "version" in lbadm(wire, OPERATOR, "--version").lower()
    assert "FPGA" not in lbadm(wire, OPERATOR, "--overview"), "nothing is reserved yet"

    uri = reserve(wire, "-a", address(2), address(2, 6))
    assert "data=10.7.0.100" in uri
    assert ("data=[fd07::100]" in uri) is six
    shown = lbadm(wire, OPERATOR, "--overview")
    assert "LB run" in shown
    there = "fd07::100" if six else "::"
    assert re.search(rf"Sync on: 10\.7\.0\.100:\d+ {there}:\d+", shown), shown

    lbadm(wire, uri, "--addsenders", "-a", "10.7.0.9")
    assert {address(2), address(2, 6), "10.7.0.9"} <= set(lbadm(wire, uri, "--status").split())
    lbadm(wire, uri, "--removesenders", "-a", "10.7.0.9")
    assert "10.7.0.9" not in lbadm(wire, uri, "--status").split()
    lbadm(wire, uri, "--removesenders", "-a", "10.7.0.9")

    worker = ["-n", "w1", "-a", address(3), "-p", str(PORT), "-w", "1.0", "-c", "4"]
    said = lbadm(wire, uri, "--register", *worker, "--minfactor", "0.5", "--maxfactor", "2.0")
    session = re.search(r"with session token: (\S+)", said)
    assert session is not None, said
    counters = ["--total_events_recv", "77", "--total_packets_recv", "7777"]
    lbadm(wire, session[1], "--state", "-q", "0.25", "-t", "0.5", "-r", "1", *counters)
    shown = until(lambda: _has(lbadm(wire, uri, "--status"), "slotsassigned=512"), "it has all slots")
    for words in ("name=w1", "UDP Port=10000", "fillpercent=0.25", "controlsignal=0.5", "minFactor=0.5"):
        assert words in shown
    assert "totalEventsRecv=77," in shown
    assert "totalPacketsRecv=7777]" in shown

    csv = tmp_path / "series.csv"
    lbadm(wire, OPERATOR, "--timeseries", "--lbpath", "/lb/1/*", "--csv", str(csv))
    assert csv.read_text().count("\n") > 1

    lbadm(wire, session[1], "--deregister")
    assert "name=w1" not in lbadm(wire, uri, "--status")
    lbadm(wire, session[1], "--state", "-q", "0", "-t", "0", "-r", "1", check=False)
    lbadm(wire, uri, "--free")
    lbadm(wire, uri, "--status", check=False)
    assert "LB run" not in lbadm(wire, OPERATOR, "--overview")
    lbadm(wire, f"ejfat://wrong@{CONTROL}/", "--overview", check=False)


def test_lbadm_delegates_tokens(wire: Network) -> None:
    wire.balancer("lb", *addresses(), *OWN)
    said = lbadm(wire, OPERATOR, "--createtoken", "--tokenname", "viewer", "--permission", "ALL::READ")
    token = re.search(r"Token: (\S+)", said)
    assert token is not None, said
    viewer = f"ejfat://{token[1]}@{CONTROL}/"
    assert "Getting Overview" in lbadm(wire, viewer, "--overview")
    lbadm(wire, viewer, "--reserve", "-l", "other", "-d", "01:00:00", check=False)
    assert "name=viewer" in lbadm(wire, OPERATOR, "--listchildtokens", "--tokenid", ADMIN)
    assert "ALL::READ" in lbadm(wire, OPERATOR, "--listtokenpermissions", "--tokenid", token[1])
    lbadm(wire, OPERATOR, "--revoketoken", "--tokenid", token[1])
    lbadm(wire, viewer, "--overview", check=False)
    assert "name=viewer" not in lbadm(wire, OPERATOR, "--listchildtokens", "--tokenid", ADMIN)


@pytest.mark.parametrize("family", [1, 2])
def test_overview_of_a_reservation_with_one_address(wire: Network, family: int) -> None:
    if family == 2:
        needs_ipv6()
    wire.balancer("lb", *(OWN_IPV4 if family == 1 else OWN_IPV6), *OWN)
    uri = reserve(wire, "--ipfam", str(family))
    assert uri.count("data=") == 1
    assert "LB run" in lbadm(wire, OPERATOR, "--overview")
    assert "LB details" in lbadm(wire, uri, "--status")


@pytest.mark.parametrize("pipeline", ["native", "python"])
def test_files_sent_by_e2sar_arrive_whole_and_equal_at_its_workers(
    wire: Network, tmp_path: Path, pipeline: str
) -> None:
    wire.balancer("lb", *addresses(), *OWN, "--pipeline", pipeline)
    uri = reserve(wire)
    sent = make_files(tmp_path / "sent")
    receivers = {name: receive_files(wire, uri, name, tmp_path / name) for name in WORKERS}
    wait_for_workers(wire, uri, len(WORKERS))
    send_files(wire, uri, tmp_path / "sent")
    received = until(lambda: arrived(*(tmp_path / name for name in WORKERS)), "every file has arrived")
    said = {name: receiver.end() for name, receiver in receivers.items()}
    assert Counter(received) == Counter(sent)
    assert all("Events Lost in reassembly: 0" in text for text in said.values()), said
    events = [_count(text, "Events Received") for text in said.values()]
    assert sum(events) == FILES
    assert min(events) > 0, "every worker has received some"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("family", [4, 6])
def test_events_of_its_performance_test_arrive(wire: Network, family: int, version: int) -> None:
    """Both header versions over both IP versions: sent, balanced and reassembled without a loss."""
    if family == 6:
        needs_ipv6()
    wire.balancer("lb", *addresses(), *OWN)
    uri = reserve(wire)
    receive = [e2sar("e2sar_perf"), "-r", "-u", uri, "--withcp", "--port", str(PORT), "--threads", "2"]
    receivers = {
        name: wire.start(name, *receive, "--ip", address(wire.numbers[name], family)) for name in WORKERS
    }
    wait_for_workers(wire, uri, len(WORKERS))
    ask_for_mac(wire, "10.7.0.100" if family == 4 else "fd07::100")
    events = 300
    six = ["--dpv6"] if family == 6 else []
    sent = wire.run(
        "src", e2sar("e2sar_perf"), "-s", "-u", uri, "--withcp", "--ip", address(2, family), *six,
        "--rate", "0.3", "-l", "50000", "-n", str(events), "--lbhdrversion", str(version),
    ).stdout  # fmt: skip
    assert " 0 errors" in sent

    def received() -> list[int] | None:
        counts = [_count(receiver.said(), "Events Received") for receiver in receivers.values()]
        return counts if sum(counts) >= events else None

    counts = until(received, f"{events} events have arrived")
    assert sum(counts) == events
    assert min(counts) > 0, "every worker has received some"
    for receiver in receivers.values():
        said = receiver.end()
        assert "Events Mangled: 0" in said, said
        assert "Events Lost in reassembly: 0" in said, said


def test_sender_that_starts_again_gives_its_receiver_and_ours_equal_counts(wire: Network) -> None:
    """Without a balancer: its performance test numbers the events of each run from 0."""
    events = 100
    uris = {
        name: f"ejfat://token@127.0.0.1:18020/lb/1?data={address(wire.numbers[name])}:{PORT}"
        for name in ("w1", "w2")
    }
    listen = f"{address(wire.numbers['w2'])}:{PORT}"
    its = wire.start(
        "w1", e2sar("e2sar_perf"), "-r", "-u", uris["w1"], "--ip", address(wire.numbers["w1"]), "--port", str(PORT),
        "-p", "300",
    )  # fmt: skip
    ours = wire.start("w2", *OPAVNIC, "ejfat", "recv", "--listen", listen, "--timeout", "9s")
    its.expect("Stats:")
    ours.expect("receiving")
    for name, uri in uris.items():
        ask_for_mac(wire, address(wire.numbers[name]))
        for _ in range(2):
            sent = wire.run(
                "src", e2sar("e2sar_perf"), "-s", "-u", uri, "--ip", address(2), "--rate", "0.05", "-l", "20000",
                "-n", str(events),
            ).stdout  # fmt: skip
            assert " 0 errors" in sent
    until(lambda: _count(its.said(), "Events Received") >= 2 * events, "its receiver has both runs")
    assert "Events Lost in reassembly: 0" in its.end()
    assert f"{2 * events} events, 0 lost" in ours.end()


@pytest.mark.parametrize("family", [4, 6])
def test_files_sent_by_our_program_arrive_at_its_workers(wire: Network, tmp_path: Path, family: int) -> None:
    if family == 6:
        needs_ipv6()
    wire.balancer("lb", *(OWN_IPV4 if family == 4 else OWN_IPV6), *OWN)
    uri = reserve(wire, "-a", address(2, family))
    receivers = [receive_files(wire, uri, name, tmp_path / name, family=family) for name in WORKERS]
    wait_for_workers(wire, uri, len(WORKERS))
    ask_for_mac(wire, "10.7.0.100" if family == 4 else "fd07::100")
    data = hashlib.shake_128(b"interop").digest(FILES * SIZE)
    (tmp_path / "data.bin").write_bytes(data)
    wire.run(
        "src", *OPAVNIC, "ejfat", "send", "--uri", uri, "--event-size", str(SIZE), "--rate", "100",
        str(tmp_path / "data.bin"),
    )  # fmt: skip
    received = until(lambda: arrived(*(tmp_path / name for name in WORKERS)), "every file has arrived")
    for receiver in receivers:
        receiver.end()
    assert Counter(received) == Counter(
        digest(data[start : start + SIZE]) for start in range(0, len(data), SIZE)
    )


def _count(said: str, what: str) -> int:
    """Return the last figure that a program of E2SAR has shown under a name."""
    shown = re.findall(rf"{what}: ([\d,]+)", said)
    return int(shown[-1].replace(",", "")) if shown else 0


def _has(said: str, words: str) -> str | None:
    return said if words in said else None
