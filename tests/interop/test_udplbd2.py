"""ESnet's control plane, udplbd2, in its stock configuration, programs the load balancer's tables."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from interop.e2sar_runs import PORT, arrived, lbadm, make_files, receive_files, send_files
from interop.network import Network, Program, address, exported, until
from interop.peers import e2sar, needs_ipv6, udplbd, udplbd2_source
from interop.test_doctor import examine

P4_PORT = 8440
P4_TOKEN = "interop-p4"  # noqa: S105
# what the stock configuration says
URI = "ejfat://udplbd2changeme@127.0.0.1:19523/"
DATA = ("192.0.2.1", "2001:db8::1")
PREFIXES = ("192.0.2.0/24", "2001:db8::/32")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def _program() -> None:
    udplbd()
    udplbd2_source("etc/example-config.yml")


def test_doctor_passes_on_udplbd2_over_our_tables(wire: Network, tmp_path: Path) -> None:
    """Both IP versions; the load balancer learns all its addresses from udplbd2."""
    start(wire, tmp_path)
    examine(wire, str(tmp_path / "config.yml"), URI, address(2), address(2, 6))


def test_e2sar_sends_files_through_tables_that_udplbd2_programs(wire: Network, tmp_path: Path) -> None:
    """Nothing of ours but the data plane: E2SAR's programs are clients of udplbd2."""
    e2sar("e2sar_ft")
    needs_ipv6()
    start(wire, tmp_path)
    uri = exported(lbadm(wire, URI, "--reserve", "-l", "run", "-d", "01:00:00", "-e"))
    assert "data=192.0.2.1" in uri
    sent = make_files(tmp_path / "sent")
    # in its stock configuration udplbd2 listens on its host's loopback only
    directories = [tmp_path / name for name in ("first", "second")]
    workers = [
        receive_files(wire, uri, "src", directory, port=PORT + number)
        for number, directory in enumerate(directories)
    ]

    def shared() -> bool:
        slots = [int(text) for text in re.findall(r"slotsassigned=(\d+)", lbadm(wire, uri, "--status"))]
        return len(slots) == len(workers) and all(slots)

    until(shared, "both workers have slots")
    send_files(wire, uri, tmp_path / "sent")
    received = until(lambda: arrived(*directories), "every file has arrived")
    assert Counter(received) == Counter(sent)
    assert all("Events Lost in reassembly: 0" in worker.end() for worker in workers)


def start(wire: Network, tmp_path: Path) -> Program:
    """Start the load balancer, and udplbd2 at the source; wait until its rules are in the tables."""
    wire.balancer(
        "lb", "--ipv4", address(99), "--listen", "127.0.0.1:18008",
        "--p4-listen", f"{address(1)}:{P4_PORT}", "--p4-token", P4_TOKEN,
    )  # fmt: skip
    for prefix in PREFIXES:
        wire.run("src", "ip", "route", "add", prefix, "dev", "eth0")
        for worker in ("w1", "w2", "w3"):
            wire.run(worker, "ip", "route", "add", prefix, "dev", "eth0")
    (tmp_path / "config.yml").write_text(configuration(tmp_path))
    daemon = wire.start("src", udplbd(), "-c", str(tmp_path / "config.yml"), "--log-level", "info", "start")
    daemon.expect("axum server starting: http://127.0.0.1:19523")
    return daemon


def configuration(tmp_path: Path) -> str:
    """Return the stock configuration with its example of a SmartNIC uncommented, which is our load balancer.

    Nothing else is changed but the directory of its files.
    """
    stock = udplbd2_source("etc/example-config.yml").read_text()
    example = re.search(r"^# smartnic:\n(?:#.*\n)+", stock, re.MULTILINE)
    smartnic = re.sub(r"^# ?", "", example[0], flags=re.MULTILINE)
    smartnic = smartnic.replace('"dataplane"', f'"{address(1)}"').replace(
        'auth_token: ""', f'auth_token: "{P4_TOKEN}"'
    )
    assert smartnic.count(P4_TOKEN) == smartnic.count(f": {P4_PORT}") == 2
    return stock.replace("\nsmartnic: []\n", f"\n{smartnic}\n").replace('"/tmp/', f'"{tmp_path}/')
