"""The log of a lab: bounded, honest about what it left out, and never the reason why something fails."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lab_in_memory import lab_in_memory, pings
from opavnic.base import packages
from opavnic.lab.ownership import log_file
from opavnic.lab.run.logs import (
    INTERVAL_S,
    KEPT_LINES,
    MAX_ALIKE,
    MAX_KINDS,
    MAX_RECORD,
    RETRY_S,
    LogHub,
    RateLimit,
)

pytestmark = pytest.mark.looptime

log = logging.getLogger("opavnic.test")


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[LogHub]:
    made = LogHub(tmp_path / "lab" / "log")
    yield made
    made.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "lab"
    directory.mkdir()
    return directory


def lines(place: Path, name: str = "log") -> list[str]:
    """What the file says, without times."""
    return [line[24:] for line in (place / name).read_text().splitlines()]


class Disk:
    """Stands in the way of writing: `full` refuses everything, `room` takes that many bytes more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: int | None = None
        self.room: int | None = None
        real = os.write

        def write(fd: int, data: bytes) -> int:
            if self.error is not None:
                raise OSError(self.error, os.strerror(self.error))
            if self.room is not None:
                data, self.room = data[: self.room], max(0, self.room - len(data))
                if not data:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(fd, data)

        monkeypatch.setattr(log_file.os, "write", write)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


# --- what cannot be written -------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
async def test_log_on_a_broken_disk_raises_nothing_and_counts_what_is_lost(
    place: Path, hub: LogHub, disk: Disk, error: int
) -> None:
    log.info("before")
    disk.error = error
    for number in range(3):
        log.info("lost %d", number)
    assert [line[24:] for line in hub.lines][-1] == "INFO    opavnic.test: lost 2"  # who follows sees it
    disk.error = None
    log.info("after")
    found = lines(place)
    assert found[0] == "INFO    opavnic.test: before"
    assert found[1].startswith("WARNING opavnic.lab.run.logs: 3 records since ")
    assert found[1].endswith(f"could not be written here: {os.strerror(error)}")
    assert found[2:] == ["INFO    opavnic.test: after"]


async def test_lost_records_are_said_though_nothing_more_is_logged(
    place: Path, hub: LogHub, disk: Disk
) -> None:
    disk.error = errno.ENOSPC
    log.info("lost")
    disk.error = None
    await asyncio.sleep(RETRY_S)
    assert "1 records since " in lines(place)[0]


async def test_disk_that_fills_up_within_a_line_leaves_no_half_of_it(
    place: Path, hub: LogHub, disk: Disk
) -> None:
    log.info("before")
    disk.room = 20
    log.info("does not fit")
    disk.room = None
    log.info("after")
    found = lines(place)
    assert found[0] == "INFO    opavnic.test: before"
    assert "1 records since " in found[1]
    assert found[2:] == ["INFO    opavnic.test: after"]


async def test_directory_that_vanishes_and_comes_back_is_written_again(place: Path, hub: LogHub) -> None:
    log.info("before")
    os.rename(place, f"{place}-away")
    log.info("lost")
    log.info("lost too")
    os.mkdir(place)
    log.info("after")
    found = lines(place)
    assert "2 records since " in found[0]
    assert found[0].endswith("could not be written here: No such file or directory")
    assert found[1:] == ["INFO    opavnic.test: after"]


async def test_file_that_is_removed_or_moved_is_made_anew(place: Path, hub: LogHub) -> None:
    log.info("one")
    (place / "log").unlink()
    log.info("two")
    (place / "log").rename(place / "elsewhere")
    log.info("three")
    assert lines(place) == ["INFO    opavnic.test: three"]
    assert lines(place, "elsewhere") == ["INFO    opavnic.test: two"]


async def test_log_on_a_full_device_closes_without_a_word() -> None:
    hub = LogHub(Path("/dev/full"))
    log.info("lost")
    hub.close()
    log.info("not heard")
    assert len(hub.lines) == 1


async def test_log_is_for_its_user_alone(place: Path, hub: LogHub) -> None:
    log.info("one")
    assert (place / "log").stat().st_mode & 0o777 == 0o600


async def test_link_at_the_place_of_the_log_is_not_followed(place: Path, hub: LogHub) -> None:
    (place / "log").symlink_to(place / "target")
    log.info("lost")
    assert not (place / "target").exists()


@pytest.mark.parametrize("arguments", [("one",), (1, 2, 3)])
async def test_message_that_does_not_fit_its_arguments_is_said_and_raises_nothing(
    place: Path, hub: LogHub, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...]
) -> None:
    hub.handle(log.makeRecord(log.name, logging.INFO, __file__, 1, "%d and %d", arguments, None))
    assert "test_logs.py" in lines(place)[0]
    assert "TypeError" in lines(place)[0]
    assert capsys.readouterr().err == ""


async def test_record_of_another_thread_is_written(place: Path, hub: LogHub) -> None:
    thread = threading.Thread(target=lambda: log.info("from %s", "there"))
    thread.start()
    thread.join()
    await asyncio.sleep(0)
    assert lines(place) == ["INFO    opavnic.test: from there"]


# --- bounds -----------------------------------------------------------------------------------------------------


async def test_flood_of_one_message_is_cut_and_counted(place: Path, hub: LogHub) -> None:
    for number in range(5000):
        log.warning("refused: %d", number)
    log.warning("something else")
    assert len(lines(place)) == MAX_ALIKE + 1
    await asyncio.sleep(INTERVAL_S)
    assert lines(place)[-1] == (
        f"WARNING opavnic.test: {5000 - MAX_ALIKE} more like it within 10 s, the last one: refused: 4999"
    )
    assert len(lines(place)) == MAX_ALIKE + 2
    await asyncio.sleep(10 * INTERVAL_S)
    assert len(lines(place)) == MAX_ALIKE + 2


async def test_what_was_left_out_is_said_when_the_log_ends(place: Path, hub: LogHub) -> None:
    for number in range(MAX_ALIKE + 5):
        log.warning("refused: %d", number)
    hub.close()
    assert "5 more like it" in lines(place)[-1]


async def test_reader_of_the_log_gets_what_was_kept_and_then_what_comes(hub: LogHub) -> None:
    log.info("before")
    reader = hub.subscribe()
    log.info("after")
    found = [await reader.next(), await reader.next()]
    assert [line and line.split(": ")[1] for line in found] == ["before", "after"]
    hub.end_followers()
    assert await reader.next() is None


async def test_file_is_rotated_and_bounded(place: Path, hub: LogHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MAX_FILE_BYTES", 2000)
    for number in range(MAX_ALIKE):
        log.info("line %d", number)
    sizes = [(place / name).stat().st_size for name in ("log.1", "log")]
    assert 1900 < sizes[0] <= 2000
    assert 0 < sizes[1] <= 2000
    both = lines(place, "log.1") + lines(place)
    assert both == [f"INFO    opavnic.test: line {n}" for n in range(MAX_ALIKE - len(both), MAX_ALIKE)]
    assert sorted(os.listdir(place)) == ["log", "log.1"]


async def test_rotation_that_fails_keeps_the_bound(
    place: Path, hub: LogHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_FILE_BYTES", 2000)
    (place / "log.1" / "in the way").mkdir(parents=True)
    for number in range(MAX_ALIKE):
        log.info("line %d", number)
    assert (place / "log").stat().st_size <= 2000
    (place / "log.1" / "in the way").rmdir()
    (place / "log.1").rmdir()
    log.info("after")
    assert "could not be written here: Is a directory" in lines(place)[0]
    assert lines(place)[1] == "INFO    opavnic.test: after"


async def test_long_message_is_cut_in_its_middle(place: Path, hub: LogHub) -> None:
    log.info("begin %s end", "x" * 1_000_000)
    (line,) = lines(place)
    assert len(line) < MAX_RECORD + 100
    assert line.startswith("INFO    opavnic.test: begin xxx")
    assert " characters left out ... " in line
    assert line.endswith("xxx end")


async def test_follower_who_does_not_read_misses_the_oldest_and_is_told(hub: LogHub) -> None:
    follower = hub.subscribe()
    for number in range(KEPT_LINES + 500):
        follower.put(f"line {number}")
    assert await follower.next() == "... 500 lines are left out here: they came faster than they were read"
    assert await follower.next() == "line 500"
    follower.end()
    rest = 1
    while await follower.next() is not None:
        rest += 1
    assert rest == KEPT_LINES
    hub.unsubscribe(follower)


def test_kinds_without_end_are_taken_for_one_kind() -> None:
    limit, record = RateLimit(), logging.makeLogRecord({})
    passed = sum(limit.admit(0.0, number, record) for number in range(100_000))
    assert passed == MAX_KINDS + MAX_ALIKE
    assert sum(number for number, _ in limit.take(INTERVAL_S)) == 100_000 - passed
    assert limit.take(2 * INTERVAL_S) == []


# --- one line for one record --------------------------------------------------------------------------------------


async def test_control_characters_of_others_are_shown_and_not_obeyed(place: Path, hub: LogHub) -> None:
    name = "\x1b[2J\r\nfalse line\udc80\u202e"  # straight to the hub: pytest-xdist cannot carry half a surrogate pair
    hub.handle(log.makeRecord(log.name, logging.INFO, __file__, 1, "name %s", (name,), None))
    assert lines(place) == [r"INFO    opavnic.test: name \x1b[2J\r\nfalse line\udc80\u202e"]


async def test_traceback_has_lines_of_its_own_with_nothing_to_obey(place: Path, hub: LogHub) -> None:
    try:
        raise ValueError("a\x1bb")
    except ValueError:
        log.exception("it failed")
    text = (place / "log").read_text()
    assert text.splitlines()[1] == "Traceback (most recent call last):"
    assert text.splitlines()[-1] == r"ValueError: a\x1bb"


# --- who is heard ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hfi_sim.x", "vema.em", "opavnic.lab", "ejfat.live.app", "lnet.node.lnd"])
async def test_all_packages_are_heard(place: Path, hub: LogHub, name: str) -> None:
    logging.getLogger(name).info("state change")
    assert lines(place) == [f"INFO    {name}: state change"]


async def test_package_from_outside_is_heard(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    installed = {
        "opavnic.parts": (EntryPoint("x", "outside.deep:start", "opavnic.parts"),),
        "other.apps": (EntryPoint("y", "stranger:start", "other.apps"),),
    }
    monkeypatch.setattr(packages, "all_entry_points", lambda: installed)
    packages.log_packages.cache_clear()
    hub = LogHub(place / "log")
    logging.getLogger("outside.part").info("heard")
    logging.getLogger("stranger").warning("not heard")
    hub.close()
    monkeypatch.undo()
    packages.log_packages.cache_clear()
    assert lines(place) == ["INFO    outside.part: heard"]


@pytest.mark.parametrize("first", [0, 1])
async def test_loggers_are_as_they_were_when_all_logs_are_closed(tmp_path: Path, first: int) -> None:
    """Of two labs in one process either may end first, and the other goes on to be heard."""
    loggers = [logging.getLogger(name) for name in (*packages.log_packages(), "asyncio")]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    hubs = [LogHub(tmp_path / name) for name in "ab"]
    hubs.pop(first).close()
    log.info("still here")
    assert lines(tmp_path, "ba"[first]) == ["INFO    opavnic.test: still here"]
    hubs.pop().close()
    assert [(logger.level, list(logger.handlers)) for logger in loggers] == before


async def test_task_that_fails_unseen_is_in_the_log(place: Path, hub: LogHub) -> None:
    def broken() -> None:
        raise ValueError("nobody waits for me")

    asyncio.get_running_loop().call_soon(broken)
    await asyncio.sleep(0.1)
    assert any("nobody waits for me" in line for line in (place / "log").read_text().splitlines())


# --- a whole lab ---------------------------------------------------------------------------------------------------

LAB = """
name: log-lab
hosts: {h1: {}, h2: {}}
vesws:
  - {id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}
"""


async def test_lab_whose_log_takes_nothing_works_and_accounts_for_every_packet() -> None:
    hub = LogHub(Path("/dev/full"))
    async with lab_in_memory(LAB) as lab:
        lab.world.faults.add("crash on h1")
        lab.world.faults.clear()
        assert lab.manager is not None
        await lab.manager.em.wait_for(lambda: False, 60.0)  # long enough to find h1 without a memory
        assert lab.manager.em.converged
        assert await lab.manager.em.verify() == []
        assert await pings(lab, "h1", "h2") == 1
        assert lab.status().balance == {}
    hub.close()
    assert any("the agent crashes" in line for line in hub.lines)
