from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from ejfat.base.errors import BadRequestError
from ejfat.cli.live import parse_slots
from ejfat.control.plane import InstanceAddresses, PlaneConfig
from ejfat.live.app import LbApp
from ejfat.live.app_config import AppConfig
from ejfat.pipeline.native import make_pipeline
from opavnic.cli.main import main

VECTORS = Path(__file__).parents[2] / "vectors" / "ejfat"
TABLES, SEED_IN, SEED_OUT = (
    str(VECTORS / name) for name in ("seed_tables.txt", "seed_in.pcap", "seed_out.pcap")
)
URI = "ejfat://t@h:2000/lb/1"


def test_sim_writes_what_leaves_and_says_how_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o.pcap"
    assert main(["ejfat", "sim", "--tables", TABLES, "--in", SEED_IN, "--out", str(out), "--json"]) == 0
    assert out.read_bytes() == Path(SEED_OUT).read_bytes()
    assert json.loads(capsys.readouterr().out) == {"in": 22, "out": 22, "replies": {}, "drops": {}}
    assert main(["ejfat", "sim", "--tables", TABLES, "--in", SEED_OUT, "--out", str(out)]) == 0
    assert "not_udplb" in (text := capsys.readouterr().out) or "dst_filter:miss" in text


def test_tables_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ejfat", "tables", TABLES, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert (len(rows), rows[2]["key"], rows[2]["priority"]) == (8, ["0x0000000000000000/0"], 64)
    assert main(["ejfat", "tables", TABLES]) == 0
    assert "epoch_assign_table (v1) 2/128" in capsys.readouterr().out


def test_conformance_passes_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(VECTORS / "v1-1.json.gz")
    assert main(["conformance", "ejfat", good]) == 0
    assert capsys.readouterr().out == f"PASS 363/363 {good}\n"
    bad = tmp_path / "bad.json"
    bad.write_text(
        json.dumps({"format": 1, "tables": [], "vectors": [{"in": "00", "out": "01", "i": 5, "cat": "x"}]})
    )
    assert main(["conformance", "ejfat", str(bad), "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["ok"], row["differences"][0]["case"]) == (False, 5)


@pytest.mark.parametrize("outputs", [["--out", "none/x"], ["--out", "x", "--meta-out", "none/x"]])
def test_sim_that_cannot_write_is_one_line_and_exit_1(
    outputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ejfat", "sim", "--tables", TABLES, "--in", SEED_IN, *outputs]) == 1
    assert capsys.readouterr().err == "opavnic: none/x: No such file or directory\n"


def test_conformance_of_other_files_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "ejfat", TABLES]) == 2
    assert "seed_tables.txt" in capsys.readouterr().err


def test_slots_are_read_as_ranges() -> None:
    assert parse_slots("") == []
    assert parse_slots("0-127,256, +64") == [(0, 128), (256, 1), (-1, 64)]
    for text in ("x", "1-", "-3", "+", "1,,2", "+1-2", "512", "+513", "9" * 5000):
        with pytest.raises(BadRequestError, match="is not a range of slots"):
            parse_slots(text)


def test_install_dissectors_copies_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ejfat", "install-dissectors", "--dir", str(tmp_path)]) == 0
    assert (tmp_path / "ejfat.lua").exists()
    assert str(tmp_path) in capsys.readouterr().err


def test_bench_has_all_its_rows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPAVNIC_UDPLBD2_BIN", raising=False)
    assert (
        main(
            [
                "bench",
                "ejfat",
                "--rounds",
                "1",
                "--seconds",
                "0.05",
                "--no-taps",
                "--changes",
                "100",
                "--json",
            ]
        )
        == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert {row["what"] for row in result["figures"]} == {
        "pipeline alone, in memory",
        "live in a lab, in memory",
        "UDP relay",
    }
    assert all(row["packets_per_second"] > 0 and row["lost"] == 0 for row in result["figures"])
    assert result["skipped"]["TAPs"] == "asked for"
    assert "OPAVNIC_UDPLBD2_BIN names nothing" in result["skipped"]["udplbd2's mock"]
    assert [row["what"] for row in result["control"]] == ["reserve and free", "register a worker"]
    kinds = {row["by"] for row in result["figures"] if row["what"] == "pipeline alone, in memory"}
    assert kinds == ({"python", "native"} if make_pipeline().backend == "native" else {"python"})
    assert ("native" in kinds) == ("native" not in result["skipped"]) == bool(result["ratios"])


@pytest.fixture
def control_plane(tmp_path: Path) -> Iterator[str]:
    """A control plane in a thread of its own, behind a Unix socket."""
    address = f"unix:{tmp_path}/cp.sock"
    instance = InstanceAddresses(ip_address("10.7.0.1"))
    plane = PlaneConfig(mac=1, instances=(instance,))
    started, loop = threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        app = LbApp(AppConfig(plane, address, "operator"), lambda frame: None)
        await app.start()
        started.set()
        await ended.wait()
        await app.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(60)
    yield address
    loop.call_soon_threadsafe(ended.set)
    thread.join(10)
    loop.close()


def test_admin_reserves_shows_and_frees(control_plane: str, capsys: pytest.CaptureFixture[str]) -> None:
    def admin(*arguments: str, uri: str = "ejfat://operator@localhost:1024/") -> tuple[int, str, str]:
        code = main(["ejfat", "admin", *arguments, "--uri", uri, "--control", control_plane])
        captured = capsys.readouterr()
        return code, captured.out.strip(), captured.err

    code, uri, _ = admin("reserve", "run", "--senders", "10.7.0.2", "--hours", "1")
    assert code == 0
    assert uri.endswith("/lb/1?sync=10.7.0.1:19531&data=10.7.0.1:19522")
    assert admin("add-senders", "10.7.0.3", uri=uri)[0] == 0
    status = json.loads(admin("status", "--json", uri=uri)[1])
    assert (status["senderAddresses"], status["slotResolution"]) == (["10.7.0.2", "10.7.0.3"], 512)
    assert admin("remove-senders", "10.7.0.3", uri=uri)[0] == 0
    assert "senders 10.7.0.2" in admin("status", uri=uri)[1]
    assert "10.7.0.1" in admin("overview")[1]
    since = ("--since", "5m")
    assert (
        json.loads(admin("timeseries", "/lb/1/session/*", *since, "--json", uri=uri)[1])["timeseries"] == []
    )
    assert "no metric 'speed'" in admin("timeseries", "/lb/1/speed", uri=uri)[2]
    operator = "ejfat://operator@localhost:1024/"
    for wrong, where in (
        (["reserve", "x", "--strategy", "best"], operator),
        (["status"], operator + "lb/77"),
        (["remove-senders", "10.7.0.77"], operator + "lb/77"),
    ):
        code, out, error = admin(*wrong, uri=where)
        assert (code, out, error.count("\n")) == (2, "", 1), error
    code, _, error = admin("reserve", "second")
    assert (code, error) == (
        1,
        "opavnic: control plane: all 1 load balancers are reserved (RESOURCE_EXHAUSTED)\n",
    )
    assert admin("free", uri=uri)[0] == 0
    assert json.loads(admin("overview", "--json")[1])["loadBalancers"] == []
    assert "PERMISSION_DENIED" in admin("status", uri=uri)[2]


@pytest.mark.parametrize("data", [4, 6])
@pytest.mark.parametrize("sync", [4, 6])
def test_send_chooses_the_ip_versions_of_data_and_of_sync_messages_apart(
    data: int, sync: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e").write_bytes(b"event")
    with contextlib.ExitStack() as stack:
        took: dict[tuple[str, int], socket.socket] = {}
        parts = []
        for family, version, host, text in (
            (socket.AF_INET, 4, "127.0.0.1", "127.0.0.1"),
            (socket.AF_INET6, 6, "::1", "[::1]"),
        ):
            for kind in ("sync", "data"):
                sock = took[kind, version] = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                sock.bind((host, 0))
                sock.setblocking(False)
                parts.append(f"{kind}={text}:{sock.getsockname()[1]}")
        uri = "ejfat://t@h:2000/lb/1?" + "&".join(parts)
        options = [f"-{data}", "--sync-family", str(sync)]
        assert main(["ejfat", "send", "--uri", uri, *options, str(tmp_path / "e")]) == 0
        arrived = {where: sock.recv(100)[:2] for where, sock in took.items() if _has_any(sock)}
        assert arrived == {("data", data): b"LB", ("sync", sync): b"LC"}
    assert main(["ejfat", "send", "--uri", URI + "?data=10.0.0.1", "-6", str(tmp_path / "e")]) == 2
    assert "has no IPv6 data address" in capsys.readouterr().err


def _has_any(sock: socket.socket) -> bool:
    return bool(select.select([sock], [], [], 0)[0])


def test_send_from_the_port_that_the_low_bits_of_the_tick_name(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(bytes(30))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        to = f"127.0.0.1:{sock.getsockname()[1]}"
        first = 0x123450000 + 40_000
        options = ["--event-size", "10", "--first-tick", str(first), "--port-of-tick"]
        assert main(["ejfat", "send", "--to", to, *options, str(tmp_path / "e")]) == 0
        assert [sock.recvfrom(200)[1][1] for _ in range(3)] == [(first + n) & 0xFFFF for n in range(3)]
