"""A runtime directory without room: the lab works on, says what it could not write, and goes without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opavnic.management.mad_frames import MadMessage, MessageReader
from program import ok, run_program

NAME = f"full{os.getpid()}"
LAB = f"""
name: {NAME}
hosts: {{h1: {{}}, h2: {{}}}}
vesws:
  - {{id: 2, name: blue, pkey: 0x8002, mtu: 1500, subnet: 10.9.2.0/24, members: [h1, h2]}}
"""
EM = "vesws:\n  - {id: 2, name: blue, pkey: 0x8002, mtu: %d, members: [h1, h2]}\n"
PATIENCE_S = 60.0


class SmallDisk:
    """A runtime directory on 64 KiB of memory, in a mount namespace that ends with the test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        mount = f"mount -t tmpfs -o size=64k,mode=700 tmpfs {place} && echo ready && exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount], stdout=-1, text=True
        )
        assert self._holder.stdout.readline() == "ready\n"
        self.seen = Path(f"/proc/{self._holder.pid}/root{place}")
        """The directory as the test sees it."""

    def opavnic(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the program there."""
        environment = {**os.environ, "OPAVNIC_RUNTIME_DIR": str(self.place)}
        return run_program(arguments, environment, namespaces=[Path(f"/proc/{self._holder.pid}/ns/mnt")])

    def fill(self) -> None:
        """Leave no byte: also the last page of the log is full."""
        log = self.seen / NAME / "log"
        if log.exists():
            with log.open("a") as file:
                file.write("x" * (-log.stat().st_size % 4096 - 1) + "\n")
        with contextlib.suppress(OSError), (self.seen / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))

    def free(self) -> None:
        """Make room again."""
        (self.seen / "filler").unlink()

    def end(self) -> None:
        """End the lab that may run there, and the namespace."""
        self.opavnic("down", NAME)
        self._holder.kill()
        self._holder.wait()
        self._holder.stdout.close()


@pytest.fixture
def small_disk(_permitted: None, tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "run")
    yield disk
    disk.end()


@pytest.fixture
def lab_file(tmp_path: Path) -> Path:
    file = tmp_path / "lab.yaml"
    file.write_text(LAB)
    return file


def em_file(tmp_path: Path, mtu: int) -> Path:
    file = tmp_path / f"em-{mtu}.yaml"
    file.write_text(EM % mtu)
    return file


def verified(disk: SmallDisk) -> None:
    """Wait until every agent is as it should be: hosts join groups in their own time, and agents tell it later."""
    end = time.monotonic() + PATIENCE_S
    while (done := disk.opavnic("em", "verify")).returncode != 0:
        assert time.monotonic() < end, done.stdout
    assert done.stdout == "every agent matches the configuration\n"


def works(disk: SmallDisk, tmp_path: Path, mtu: int) -> None:
    """Everything that people do with a lab that runs works, and no packet is unaccounted for."""
    verified(disk)
    assert "2 Sets sent" in ok(disk.opavnic("em", "apply", em_file(tmp_path, mtu)))
    ok(disk.opavnic("fault", "add", "crash", "on", "h1"))
    ok(disk.opavnic("fault", "clear"))
    ok(disk.opavnic("em", "apply", em_file(tmp_path, mtu)))  # waits until h1 is configured again
    verified(disk)
    ok(disk.opavnic("exec", "h1", "--", "ping", "-c1", "-W20", "10.9.2.2"))
    status = json.loads(ok(disk.opavnic("status", "--json")))
    assert status["balance"] == {}


def test_lab_on_a_full_disk_works_and_says_later_what_its_log_lacks(
    small_disk: SmallDisk, lab_file: Path, tmp_path: Path
) -> None:
    ok(small_disk.opavnic("up", lab_file, "-d"))
    small_disk.fill()
    for command in (("capture", "-w"), ("mad", "record")):
        file = small_disk.place / "x.pcapng"
        done = small_disk.opavnic(*command, file)
        told = f"opavnic: {file}: No space left on device"
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, told)
        (small_disk.seen / file.name).unlink(missing_ok=True)
    works(small_disk, tmp_path, 2000)
    assert "the agent crashes" in ok(small_disk.opavnic("logs"))
    small_disk.free()
    works(small_disk, tmp_path, 3000)
    log = (small_disk.seen / NAME / "log").read_text()
    assert "could not be written here: No space left on device" in log
    ok(small_disk.opavnic("down"))
    assert os.listdir(small_disk.seen) == []


def test_lab_goes_down_while_the_disk_is_full_and_leaves_nothing(
    small_disk: SmallDisk, lab_file: Path, tmp_path: Path
) -> None:
    ok(small_disk.opavnic("up", lab_file, "-d"))
    small_disk.fill()
    ok(small_disk.opavnic("em", "apply", em_file(tmp_path, 2000)))
    ok(small_disk.opavnic("down"))
    assert os.listdir(small_disk.seen) == ["filler"]


def test_lab_that_cannot_write_its_journal_is_not_made(small_disk: SmallDisk, lab_file: Path) -> None:
    small_disk.fill()
    done = small_disk.opavnic("up", lab_file, "-d")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"opavnic: cannot write {small_disk.place}/{NAME}/state.json.new: No space left on device"
    )
    assert os.listdir(small_disk.seen) == ["filler"]
    assert not list(Path("/run/netns").glob(f"opavnic-{NAME}-*"))


def test_lab_whose_directory_somebody_removed_ends_without_a_trace(
    small_disk: SmallDisk, lab_file: Path
) -> None:
    ok(small_disk.opavnic("up", lab_file, "-d"))
    pid = json.loads(ok(small_disk.opavnic("ps", "--json")))[0]["pid"]
    process = os.pidfd_open(pid)
    shutil.rmtree(small_disk.seen / NAME)
    signal.pidfd_send_signal(process, signal.SIGTERM)
    assert select.select([process], [], [], 60)[0]
    os.close(process)
    assert os.listdir(small_disk.seen) == []
    assert not list(Path("/run/netns").glob(f"opavnic-{NAME}-*"))


def test_flood_of_bad_mads_leaves_the_log_short(small_disk: SmallDisk, lab_file: Path) -> None:
    ok(small_disk.opavnic("up", lab_file, "-d"))
    log = small_disk.seen / NAME / "log"
    before = log.stat().st_size
    bad = MadMessage(2, b"\1\2\3").build()
    place = os.open(small_disk.seen / NAME, os.O_PATH)  # its own path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as program:
        program.connect(f"/proc/self/fd/{place}/mad.sock")
        os.close(place)
        program.settimeout(60)
        for _ in range(100):
            program.sendall(bad * 50)
            answers = MessageReader()
            count = 0
            while count < 50:
                count += len(list(answers.feed(program.recv(1 << 16))))
    # a line for each would be more than 400 kB; how often some of them are said depends on how long this takes
    assert log.stat().st_size - before < 200_000
