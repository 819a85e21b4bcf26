"""The programs `opavnic ejfat lb`, `send` and `recv` on hosts of a lab: real sockets, real TAPs, one virtual switch."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from e2e.conftest import Program
from e2e.ejfat_commands import namespace_of, run_ejfat_beside, start_ejfat
from e2e.kernel import ip, program, wait_until
from ejfat.pipeline.native import make_pipeline
from native_module import needs_native
from opavnic.lab.file.errors import LabError
from opavnic.lab.file.model import LabModel
from opavnic.lab.run.lab import Lab
from unit.ejfat.pipelines import IMPLEMENTATIONS
from vema.base.sections import AS_WRITTEN

pytestmark = pytest.mark.timeout(300)
EVENTS = 60
SIZE = 20_000
HOSTS = ["lb", "src", "w1", "w2"]
MODEL = LabModel.model_validate(
    {
        "name": f"ejfat-{os.getpid()}",
        "hosts": {host: {} for host in HOSTS},
        "vesws": [{"id": 7, "name": "daq", "subnet": "10.7.0.0/24", "members": HOSTS}],
    }
)


async def wait_for_line(process: Popen[str], word: str) -> str:
    """Return the first line of the program's stderr that holds `word`."""

    def read() -> str:
        seen = []
        for line in process.stderr:
            seen.append(line)
            if word in line:
                return line
        raise AssertionError(f"ended before it said {word!r}: {seen}")

    return await asyncio.wait_for(asyncio.to_thread(read), 60)


async def wait_for_slots(netns: str, uri: str, workers: int, control: str = "") -> None:
    """Wait until every slot of the calendar belongs to one of so many workers, each of which has some."""
    question = ["admin", "status", "--json", "--uri", uri, *(["--control", control] if control else [])]
    for _ in range(60):
        status = json.loads((await run_ejfat_beside(netns, *question)).stdout)
        slots = [worker["slotsAssigned"] for worker in status["workers"]]
        if len(slots) == workers and all(slots) and sum(slots) == status["slotResolution"]:
            return
    raise AssertionError(f"slots never went to {workers} workers: {slots}")


async def end(process: Popen[str]) -> tuple[str, str]:
    """Interrupt a program and return what it printed."""
    process.terminate()
    return await asyncio.wait_for(asyncio.to_thread(process.communicate), 30)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
async def test_events_of_a_real_sender_arrive_whole_at_one_worker_each(
    tmp_path: Path, implementation: str
) -> None:
    data = hashlib.shake_128(b"event").digest(EVENTS * SIZE)
    (tmp_path / "data.bin").write_bytes(data)
    async with Lab(MODEL) as lab:
        programs: list[Popen[str]] = []

        def start(host: str, *arguments: str) -> Popen[str]:
            netns = namespace_of(lab, host)
            programs.append(start_ejfat(netns, *arguments, stdin=-3, stdout=PIPE, stderr=PIPE))
            return programs[-1]

        try:
            # the load balancer is 10.7.0.100; its control plane listens on the host's own 10.7.0.1
            lb = start(
                "lb", "lb", "--interface", "daq", "--ipv4", "10.7.0.100", "--listen", "10.7.0.1:18008",
                "--period", "0.2", "--reserve", "run", "--senders", "10.7.0.2", "--pipeline", implementation,
            )  # fmt: skip
            assert implementation in await wait_for_line(lb, "pipeline: ")
            await wait_for_line(lb, "ready")
            uri = lb.stdout.readline().strip()
            workers = {}
            for number, name in ((3, "w1"), (4, "w2")):
                workers[name] = start(
                    name, "recv", "--listen", "0.0.0.0:10000", "--uri", uri, "--address", f"10.7.0.{number}",
                    "--name", name, "--out", str(tmp_path / name), "--timeout", "2", "--json",
                )  # fmt: skip
                await wait_for_line(workers[name], "session")
            await wait_for_slots(namespace_of(lab, "lb"), uri, len(workers))
            ping = await lab.run("src", ["ping", "-c", "1", "-w", "30", "10.7.0.100"])
            assert ping.returncode == 0, ping.stdout
            first_tick = 1000
            what = ["--event-size", str(SIZE), "--rate", "60", "--first-tick", str(first_tick), "--json"]
            sender = await run_ejfat_beside(
                namespace_of(lab, "src"), "send", "--uri", uri, *what, tmp_path / "data.bin"
            )
            assert json.loads(sender.stdout)["events"] == EVENTS, sender.stderr

            def written() -> list[Path]:
                return sorted(path for path in tmp_path.glob("w?/event-*") if path.stat().st_size == SIZE)

            await wait_until(lambda: len(written()) == EVENTS, "every event is in a file", 60)
            files = written()
            counters = {name: json.loads((await end(process))[0]) for name, process in workers.items()}
            _, said = await end(lb)
        finally:
            for process in programs:
                process.kill()
                process.communicate()
    by_tick = {int(path.name.split("-")[1]): path for path in files}
    assert sorted(by_tick) == list(range(first_tick, first_tick + EVENTS))
    assert b"".join(by_tick[tick].read_bytes() for tick in sorted(by_tick)) == data
    assert sum(c["events_complete"] for c in counters.values()) == EVENTS
    assert all(c["events_lost"] == 0 and c["events_complete"] > EVENTS / 4 for c in counters.values())
    packets = EVENTS * -(-SIZE // (1500 - 28 - 36))
    assert f"{packets} forwarded" in said


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
async def test_load_balancer_on_a_tap_of_its_own_serves_the_host_behind_it(
    namespace: Path, tmp_path: Path, implementation: str
) -> None:
    """Sender and worker are programs of one host; the load balancer is the only other one on its wire."""
    data = hashlib.shake_128(b"tap").digest(20 * SIZE)
    (tmp_path / "data.bin").write_bytes(data)
    control = f"unix:{tmp_path}/cp.sock"
    inside = ["ip", "netns", "exec", namespace.name]
    programs: list[Popen[str]] = []

    def start(*arguments: str) -> Popen[str]:
        programs.append(start_ejfat(namespace.name, *arguments, stdin=-3, stdout=PIPE, stderr=PIPE))
        return programs[-1]

    try:
        lb = start(
            "lb", "--tap", "ejfat0", "--ipv4", "10.7.5.1", "--ipv6", "fd07:5::1", "--listen", control,
            "--period", "0.2", "--reserve", "run", "--senders", "10.7.5.2,fd07:5::2,fd07:5::3",
            "--pipeline", implementation,
        )  # fmt: skip
        assert implementation in await wait_for_line(lb, "pipeline: ")
        await wait_for_line(lb, "ready")
        uri = lb.stdout.readline().strip()
        for address in ("10.7.5.2/24", "10.7.5.3/24", "fd07:5::2/64", "fd07:5::3/64"):
            await ip(namespace, "address", "add", address, "dev", "ejfat0", *(["nodad"] * (":" in address)))
        await ip(namespace, "link", "set", "ejfat0", "up")
        # version 1 leaves the sender's address in place, and here that is the receiving host's own
        accept = "echo 1 > /proc/sys/net/ipv4/conf/ejfat0/accept_local"
        await program(*inside, "sh", "-c", accept)
        for version, worker_ip, target, extra in (
            (2, "10.7.5.3", "10.7.5.1", []),
            (3, "fd07:5::3", "[fd07:5::1]", []),
            (1, "10.7.5.3", "10.7.5.1", ["--old-headers"]),
        ):
            worker = start(
                "recv", "--listen", f"{worker_ip if ':' not in worker_ip else f'[{worker_ip}]'}:10000",
                "--uri", uri, "--control", control, "--out", str(tmp_path / f"v{version}"), "--count", "20",
                "--timeout", "20", *extra,
            )  # fmt: skip
            await wait_for_line(worker, "session")
            await wait_for_slots(namespace.name, uri, 1, control)
            ping = ["ping", "-c", "1", "-w", "30", target.strip("[]")]
            assert "1 received" in await program(*inside, *ping), "the load balancer answers itself"
            sender = start(
                "send", "--to", target, "--version", str(version), "--rate", "100", "--event-size", str(SIZE),
                *(["--mtu", "1400"] if version == 3 else []), str(tmp_path / "data.bin"),
            )  # fmt: skip
            assert await asyncio.wait_for(asyncio.to_thread(sender.wait), 60) == 0, sender.communicate()
            assert await asyncio.wait_for(asyncio.to_thread(worker.wait), 60) == 0, worker.communicate()
            assert in_order(tmp_path / f"v{version}") == data
        _, said = await end(lb)
        assert " 0 not accepted by the interface" in said
    finally:
        for process in programs:
            process.kill()
            process.communicate()


def in_order(directory: Path) -> bytes:
    """Return what all files of events hold, by tick."""
    files = sorted(directory.iterdir(), key=lambda path: int(path.name.split("-")[1]))
    return b"".join(path.read_bytes() for path in files)


def test_example_runs_and_status_says_which_pipeline(opavnic: Program) -> None:
    example = Path(__file__).parents[2] / "examples" / "ejfat.yaml"
    assert opavnic("up", "-d", example).returncode == 0
    (app,) = opavnic.data("status")["apps"]
    assert (app["kind"], app["host"]) == ("ejfat-lb", "lb")
    assert app["pipeline"] == ("native" if make_pipeline().backend == "native" else "python")
    assert app["uri"].startswith("ejfat://")
    assert "@localhost:18008/" in app["uri"], "a client on any host reaches it there"


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)  # a hundred programs, one after the other: minutes on a busy machine
@needs_native
def test_bench_measures_labs_and_the_program_on_taps(opavnic: Program) -> None:
    quick = ("--rounds", "1", "--seconds", "0.1", "--changes", "100")
    result = opavnic.data("bench", "ejfat", *quick, timeout=840)
    assert not result["skipped"].keys() - {"udplbd2's mock"}, "only what is not ours may be missing"
    rates = {(r["what"], r["by"], r["payload"]): r["packets_per_second"] for r in result["figures"]}
    for what in ("live in a lab on TAPs", "stand-alone on a TAP"):
        assert all(rates[what, by, payload] > 0 for by in ("python", "native") for payload in (100, 1400))
    veth = "stand-alone on a veth (--interface)"
    sizes = (80, 1400, 8864)  # with their headers 116, 1436, 8900 bytes
    assert all(rates[veth, by, size] > 0 for by in ("python", "native") for size in sizes)
    assert all(rates["plain forwarder on a veth", "python", size] > 0 for size in sizes)
    assert all(row["lost"] >= 0 for row in result["figures"])
    compared = {(row["of"], row["to"]) for row in result["ratios"]}
    assert (f"{veth}, native", "plain forwarder on a veth, native") in compared
    assert ("stand-alone on a TAP, native", "UDP relay, python") in compared


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("kind", "flaps"), [("--tap", True), ("--interface", True), ("--interface", False)])
async def test_load_balancer_ends_when_its_interface_is_gone(
    namespace: Path, tmp_path: Path, implementation: str, kind: str, flaps: bool
) -> None:
    if kind == "--interface":
        await ip(namespace, "link", "add", "ejfat0", "type", "veth", "peer", "name", "ejfat1")
        await ip(namespace, "link", "set", "ejfat0", "up")
    options = ["--ipv4", "10.7.5.1", "--listen", f"unix:{tmp_path}/cp.sock", "--pipeline", implementation]
    lb = start_ejfat(namespace.name, "lb", kind, "ejfat0", *options, stdin=-3, stdout=PIPE, stderr=PIPE)
    try:
        await wait_for_line(lb, "ready")
        await ip(namespace, "link", "set", "ejfat0", "up")
        if flaps:
            await ip(namespace, "link", "set", "ejfat0", "down")  # this it outlives
            await ip(namespace, "link", "set", "ejfat0", "up")
        assert lb.poll() is None
        await ip(namespace, "link", "delete", "ejfat0")
        _, said = await asyncio.wait_for(asyncio.to_thread(lb.communicate), 60)
        assert lb.returncode == 1
        assert said.rstrip().endswith("opavnic: the interface is lost: it is gone")
    finally:
        lb.kill()
        lb.communicate()


@pytest.mark.parametrize(
    ("datapath", "implementation", "where"),
    [
        ("python", "python", "event loop"),
        pytest.param("python", "native", "event loop", marks=needs_native),
        pytest.param("native", "native", "native datapath", marks=needs_native),
        pytest.param("native", "python", "event loop", marks=needs_native),
    ],
)
async def test_load_balancer_as_an_app_has_a_vnic_and_no_tap(
    tmp_path: Path, datapath: str, implementation: str, where: str
) -> None:
    data = hashlib.shake_128(b"app").digest(20 * SIZE)
    (tmp_path / "data.bin").write_bytes(data)
    options = {"period": 0.2, "senders": ["src"], "pipeline": implementation}
    written = MODEL.model_dump(mode="json", context=AS_WRITTEN)
    extra = {"apps": [{"kind": "ejfat-lb", "host": "lb", "options": options}], "datapath": datapath}
    async with Lab(LabModel.model_validate(written | extra)) as lab:
        (app,) = lab.status().apps
        status = app.said
        assert (status["pipeline"], status["pipeline_in"]) == (implementation, where)
        command = [
            "recv",
            "--listen",
            "0.0.0.0:10000",
            "--uri",
            status["uri"],
            "--control",
            status["control"],
        ]
        command += ["--address", "10.7.0.3", "--out", "-", "--count", "20"]
        with (tmp_path / "out.bin").open("wb") as out:
            worker = start_ejfat(namespace_of(lab, "w1"), *command, stdin=-3, stdout=out, stderr=PIPE)
        try:
            await wait_for_line(worker, "session")
            await wait_until(
                lambda: lab.parts.apps["lb"].app.plane.get("1").balancer.epochs.current is not None,
                "an epoch",
            )  # type: ignore[attr-defined]
            what = ["--event-size", str(SIZE), "--rate", "50", "--json", str(tmp_path / "data.bin")]
            sender = await run_ejfat_beside(namespace_of(lab, "src"), "send", "--uri", status["uri"], *what)
            assert json.loads(sender.stdout)["events"] == 20, sender.stderr
            assert await asyncio.wait_for(asyncio.to_thread(worker.wait), 30) == 0
        finally:
            worker.kill()
            worker.communicate()
        with pytest.raises(LabError, match="host lb belongs to an app"):
            lab.popen("lb", ["true"])
        packets = 20 * -(-SIZE // (1500 - 28 - 36))
        assert lab.status().apps[0].said["tx_packets"] == packets
        ping = await lab.run("w2", ["ping", "-c", "2", "-i", "0.2", "-w", "30", "10.7.0.1"])
        assert "2 received" in ping.stdout, "the load balancer answers itself"
        assert lab.status().balance == {}
    assert (tmp_path / "out.bin").read_bytes() == data
