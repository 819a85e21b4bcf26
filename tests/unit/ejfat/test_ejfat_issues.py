"""What a control plane knows as trouble stands in the text form of each program that works with a reservation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ejfat.control.pb import loadbalancer_pb2 as pb
from ejfat.events.uri import EjfatUri, Endpoint
from ejfat.live.doctor import health_of
from opavnic.cli.main import main
from unit.ejfat.test_ejfat_live import LOOPBACK, SENDER, WORKER, Wire

MISSED = "error member_miss: "
WHY = "packets were dropped: the worker of their slot has no address of their IP version"


def free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def reservation() -> Iterator[str]:
    """Yield the URI of a reservation in which packets miss a worker of their IP version all the time."""
    port, data = free_port(socket.SOCK_STREAM), free_port(socket.SOCK_DGRAM)
    started, loop, ended, uris = (
        threading.Event(),
        asyncio.new_event_loop(),
        asyncio.Event(),
        list[EjfatUri](),
    )

    async def serve() -> None:
        wire = Wire(listen=f"127.0.0.1:{port}")
        await wire.app.start()
        uris.append(wire.app.reserve("run", [SENDER]))
        balancer = wire.app.plane.get(uris[0].lb_id).balancer
        missed = 0
        balancer.watch.observe_misses(missed, loop.time())
        started.set()
        while not ended.is_set():
            missed += 1
            balancer.watch.observe_misses(missed, wire.app._now())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), 0.02)
        await wire.app.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(60)
    yield str(replace(uris[0], host="127.0.0.1", port=port, data=(Endpoint(LOOPBACK, data),), sync=()))
    loop.call_soon_threadsafe(ended.set)
    thread.join(10)
    loop.close()


@pytest.mark.parametrize("command", ["status", "overview"])
def test_admin_shows_issues_as_text(
    reservation: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ejfat", "admin", command, "--uri", reservation]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert MISSED in out
    assert WHY in out


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("command", ["send", "recv"])
def test_program_says_what_is_wrong_with_its_reservation(
    reservation: str, command: str, as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_bytes(bytes(100))
    listen = ["--listen", f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}", "--address", str(WORKER)]
    more = [str(tmp_path / "data")] if command == "send" else [*listen, "--duration", "300ms"]
    assert main(["ejfat", command, "--uri", reservation, *more, *(["--json"] if as_json else [])]) == 0
    captured = capsys.readouterr()
    assert f"control plane: {MISSED}" in captured.err
    if as_json:
        (issue,) = json.loads(captured.out)["issues"]
        assert WHY in issue


def test_send_to_a_control_plane_that_is_not_there_sends_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_bytes(bytes(100))
    ports = free_port(socket.SOCK_STREAM), free_port(socket.SOCK_DGRAM)
    uri = f"ejfat://t@127.0.0.1:{ports[0]}/lb/1?data=127.0.0.1:{ports[1]}"
    assert main(["ejfat", "send", "--uri", uri, str(tmp_path / "data"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events"] == 1


def issue(kind: str, quiet_s: float | None) -> pb.HealthIssue:
    found = pb.HealthIssue(type=kind, severity="warning", message="text")
    if quiet_s is not None:
        found.details.update({"quiet_s": quiet_s})
    return found


@pytest.mark.parametrize(("quiet_s", "ok"), [(None, False), (2.0, False), (31.0, True)])
def test_doctor_judges_what_it_has_seen_itself(quiet_s: float | None, ok: bool) -> None:
    """A cause that was there before the check and has gone is shown, and fails nothing."""
    other = pb.WorkerStatus(name="another", healthIssues=[issue("receiver_silent", None)])
    status = pb.LoadBalancerStatusReply(healthIssues=[issue("sync_refused", quiet_s)], workers=[other])
    good, text = health_of(status, 30.0)
    assert good is ok
    assert "sync_refused" in text
    assert ("before this check" in text) is ok
