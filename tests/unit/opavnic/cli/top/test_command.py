"""`opavnic top`, asked of a lab in memory that is served by this process, and of stand-ins of one."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from lab_states import lab_state

from lab_in_memory import answering, pings, stand_in
from opavnic.cli.main import main
from opavnic.lab.ownership.runtime import LabDir
from opavnic.lab.run.lab import Lab

LAB = """
name: x
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""
PING_BYTES = 98


pytestmark = pytest.mark.usefixtures("own_runtime")


def served(directory: LabDir) -> AbstractAsyncContextManager[Lab]:
    """A lab in memory that answers at its control socket."""
    return answering(directory, LAB)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run `opavnic top`; what is given as `meanwhile` is what happens in each interval, however long that takes."""

    async def run_top(*arguments: str, meanwhile: Callable[[], Any]) -> tuple[int, str, str]:
        loop = asyncio.get_running_loop()

        def pause(seconds: float) -> None:
            asyncio.run_coroutine_threadsafe(meanwhile(), loop).result()

        monkeypatch.setattr("opavnic.cli.top.command._pause", pause)
        code = await asyncio.to_thread(main, ["top", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_top


def pinging(lab: Lab, count: int = 5, answered: int = 5, timeout_s: float = 5.0) -> Callable[[], Any]:
    async def meanwhile() -> None:
        assert await pings(lab, "h1", "h2", count, timeout_s=timeout_s) == answered

    return meanwhile


async def nothing() -> None:
    """Be an interval in which nothing happens."""


async def test_json_line_says_what_passed_vnics_and_links(directory: LabDir, run: Callable[..., Any]) -> None:
    async with served(directory) as lab:
        await pinging(lab)()  # from now on the hosts know each other's addresses
        code, out, err = await run("-c", "1", "--json", meanwhile=pinging(lab))
        assert (code, err) == (0, "")
        data = json.loads(out)
        assert {"time", "seconds", "lab", "vnics", "links", "drops"} <= data.keys()
        assert data["lab"] == "x"
        assert data["drops"] == {}
        for vnic, host in zip(data["vnics"], ("h1", "h2"), strict=True):
            assert (vnic["host"], vnic["vesw"], vnic["state"]) == (host, "blue", "up")
            for way in ("tx", "rx"):
                assert vnic[f"{way}_packets_per_s"] * data["seconds"] == pytest.approx(5, rel=0.01)
                bits = vnic[f"{way}_bits_per_s"] / vnic[f"{way}_packets_per_s"]
                assert bits == pytest.approx(8 * PING_BYTES, rel=0.01)
        links = {link["name"]: link for link in data["links"]}
        for way in ("forth", "back"):
            assert links["h1:1->sw0:2"][f"packets_{way}_per_s"] * data["seconds"] >= 4.9
            assert links["h1:1->sw0:2"][f"bits_{way}_per_s"] > 8 * PING_BYTES * 4.9 / data["seconds"]


async def test_loss_is_named_by_link_and_reason(directory: LabDir, run: Callable[..., Any]) -> None:
    async with served(directory) as lab:
        await pinging(lab)()
        lab.world.faults.add("loss on h2 l4=ethernet count=2")
        code, out, _ = await run("-c", "1", "--json", meanwhile=pinging(lab, answered=3, timeout_s=3.0))
        assert code == 0
        data = json.loads(out)
        lost = {
            element: round(rate * data["seconds"])
            for element, reasons in data["drops"].items()
            for rate in (reasons["link_fault"],)
        }
        assert sum(lost.values()) == 2
        assert sum(link["drops_per_s"] for link in data["links"]) * data["seconds"] == pytest.approx(
            2, rel=0.01
        )
        assert all("h2:1" in name for name in lost)
        assert json.loads((await run("-c", "1", "--json", meanwhile=pinging(lab)))[1])["drops"] == {}


async def test_without_a_terminal_table_follows_table_and_nothing_is_escaped(
    directory: LabDir, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(directory) as lab:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "20")
        code, out, err = await run("-c", "2", "--sort", "load", meanwhile=pinging(lab))
        assert (code, err) == (0, "")
        assert out.count("lab x: datapath python, EM builtin") == 2
        assert out.count("host  vesw  interface  state  tx pkt/s  tx bit/s  rx pkt/s  rx bit/s") == 2
        assert out.count("\nh1:1->sw0:2 ") == 2
        assert "\x1b" not in out


async def test_vnic_that_is_gone_by_a_crash_is_shown_and_counts_on_when_it_is_back(
    directory: LabDir, run: Callable[..., Any]
) -> None:
    async with served(directory) as lab:

        def packets(line: str) -> tuple[str, int]:
            data = json.loads(line)
            vnic = next(vnic for vnic in data["vnics"] if vnic["host"] == "h2")
            return vnic["state"], round(vnic["rx_packets_per_s"] * data["seconds"])

        async def crash() -> None:
            lab.world.faults.add("crash on h2")

        async def mend() -> None:
            lab.world.faults.clear()
            assert lab.manager is not None
            assert await lab.manager.em.wait_converged(60)

        intervals = iter((pinging(lab, 200, 200), crash, mend, pinging(lab)))
        code, out, _ = await run("-c", "4", "--json", meanwhile=lambda: next(intervals)())
        busy, gone, back, again = map(packets, out.splitlines())
        assert code == 0
        assert busy[0] == "up"
        assert busy[1] >= 200
        assert gone == ("not created by the EM", 0)
        assert back[1] < 100, "what it had counted before is not counted again"
        assert again[0] == "up"
        assert 5 <= again[1] < 100


async def test_lab_that_ends_meanwhile_is_told_in_one_line(
    run: Callable[..., Any], directory: LabDir
) -> None:
    async with served(directory):

        async def end() -> None:
            directory.control_socket.unlink()

        code, out, err = await run("--json", meanwhile=end)
        assert (code, out) == (1, "")
        assert json.loads(err) == {"error": "lab x has ended", "hint": None, "exit_code": 1}


def said(**changes: Any) -> dict[str, Any]:
    return lab_state(**{"pid": os.getpid(), "datapath": "python", "em": "off"} | changes).as_json()


async def test_another_lab_of_that_name_is_not_taken_for_the_same(
    directory: LabDir, run: Callable[..., Any]
) -> None:
    other = os.getpid() + 1
    async with stand_in(directory, said(), said(pid=other)):
        line = f"opavnic: lab x has ended; another one of that name runs (pid {other})\n"
        assert await run(meanwhile=nothing) == (1, "", line)


async def test_lab_of_another_version_is_told_as_such(directory: LabDir, run: Callable[..., Any]) -> None:
    old = said()
    del old["drops"]
    async with stand_in(directory, old):
        code, out, err = await run(meanwhile=nothing)
    assert (code, out) == (1, "")
    assert err.startswith("opavnic: lab x was started by another version of opavnic: ")
    assert err.count("\n") == 1


async def test_interrupt_is_a_quiet_end(
    directory: LabDir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("opavnic.cli.top.command._pause", interrupted)
    async with stand_in(directory, said()):
        assert await asyncio.to_thread(main, ["top"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("delay", "seconds"), [([], 1), (["-i", "2"], 2), (["-i", "500ms"], 0.5), (["--interval", "5m"], 300)]
)
async def test_delay_is_a_time_with_a_unit_or_in_seconds(
    delay: list[str],
    seconds: float,
    directory: LabDir,
    run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused: list[float] = []

    monkeypatch.setattr("opavnic.cli.top.command._pause", paused.append)
    async with stand_in(directory, said(), said(uptime_s=2.0)):
        assert await asyncio.to_thread(main, ["top", "-c", "1", *delay]) == 0
    assert paused == [seconds]


PROGRAM = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "  # Ctrl-C is for this session
    "from opavnic.cli.start import start; start()"
)
BUG = (
    "import opavnic.cli.top.lab as lab; look = lab.TopLab.look; "
    "lab.TopLab.look = lambda self, **closer: 1 / 0 if closer else look(self); "
)
LOADED = "opavnic.cli.top.command, opavnic.cli.top.lab, opavnic.observe.rate_tables"
READY = "Quit"
"""In the last line of a screen, which is drawn at last."""
CLEARED = "\x1b[?1049l\x1b[?25h"
"""What was on the terminal before is shown, and the cursor as well."""


class Terminal:
    """A terminal with `opavnic top` on it."""

    def __init__(self, *arguments: str, rows: int = 24, program: str = PROGRAM, **environment: str) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(rows)
        self._settings = termios.tcgetattr(self._theirs)
        self._unread = ""
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "top", *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=subprocess.PIPE,
            text=True,
            # nobody changes these two when a terminal changes its size
            env={**os.environ, "TERM": "xterm", "LINES": "30", "COLUMNS": "80", **environment},
            start_new_session=True,
        )

    def resize(self, rows: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    async def shows(self, text: str) -> str:
        """Wait until a text is shown, and return what came before it."""
        loop = asyncio.get_running_loop()
        while text not in self._unread:
            readable = asyncio.Event()
            loop.add_reader(self._ours, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._ours)
            self._unread += self._decode(os.read(self._ours, 4096))
        before, _, self._unread = self._unread.partition(text)
        return before

    async def end(self) -> tuple[int, str]:
        """Wait for the end of the program; return its exit code and what it said on stderr."""
        assert self.process.stderr is not None
        await self.shows(CLEARED)
        err = await asyncio.to_thread(self.process.stderr.read)
        code = await asyncio.to_thread(self.process.wait)
        assert termios.tcgetattr(self._theirs) == self._settings
        return code, err

    def close(self) -> None:
        with self.process:  # closes what is left of it
            self.process.kill()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def make(*arguments: str, **environment: Any) -> Terminal:
        made.append(Terminal(*arguments, **environment))
        return made[-1]

    yield make
    for one in made:
        one.close()


async def test_terminal_shows_a_picture_that_keys_change_and_end(
    directory: LabDir, terminal: Callable[..., Terminal]
) -> None:
    async with served(directory):
        screen = terminal("-i", "0.1")
        await screen.shows("lab x: datapath python, EM builtin")
        await screen.shows(READY)
        screen.press(b"2")
        await screen.shows("h1:1->sw0:2")
        screen.press(b"<")
        await screen.shows("drops/s▼")
        screen.press(b"q")
        assert await screen.end() == (0, "")


async def test_screen_follows_the_size_of_the_terminal_and_not_of_the_environment(
    directory: LabDir, terminal: Callable[..., Terminal]
) -> None:
    async with served(directory):
        screen = terminal("-i", "1000", rows=24)
        await screen.shows("\x1b[24;1H")
        screen.resize(40)
        await screen.shows("\x1b[40;1H")
        screen.press(b"q")
        assert await screen.end() == (0, "")


async def test_screen_has_no_colour_where_none_is_wanted(
    directory: LabDir, terminal: Callable[..., Terminal]
) -> None:
    async with served(directory):
        screen = terminal("-i", "1000", NO_COLOR="1")
        seen = await screen.shows(READY)
        screen.press(b"q")
        assert await screen.end() == (0, "")
    styles = {code for found in re.findall(r"\x1b\[([0-9;]*)m", seen) for code in found.split(";")}
    assert not [
        code for code in styles if code[:1] in ("3", "4", "9") and len(code) > 1 and code not in ("39", "49")
    ]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda screen: screen.press(b"\x03"), 0),
        (lambda screen: screen.process.send_signal(signal.SIGTERM), 0),
        (lambda screen: screen.process.send_signal(signal.SIGHUP), 0),
    ],
    ids=["ctrl-c", "sigterm", "sighup"],
)
async def test_terminal_is_given_back_when_the_program_is_ended(
    directory: LabDir, terminal: Callable[..., Terminal], end: Callable[[Terminal], None], code: int
) -> None:
    async with served(directory):
        screen = terminal("-i", "1000")
        await screen.shows(READY)
        end(screen)
        assert await screen.end() == (code, "")


async def test_terminal_is_lent_to_the_shell_while_the_program_is_stopped(
    directory: LabDir, terminal: Callable[..., Terminal]
) -> None:
    async with served(directory):
        screen = terminal("-i", "1000")
        await screen.shows(READY)
        screen.press(b"\x1a")
        await screen.shows(CLEARED)
        pid = screen.process.pid
        assert os.WIFSTOPPED((await asyncio.to_thread(os.waitpid, pid, os.WUNTRACED))[1])
        os.kill(pid, signal.SIGCONT)
        await screen.shows(READY)
        screen.press(b"q")
        assert await screen.end() == (0, "")


async def test_lab_that_ends_under_a_picture_is_told_behind_it(
    terminal: Callable[..., Terminal], directory: LabDir
) -> None:
    async with served(directory):
        screen = terminal("-i", "0.1")
        await screen.shows(READY)
        directory.control_socket.unlink()
        assert await screen.end() == (1, "opavnic: lab x has ended\n")


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["-c", "2"], {}), (["-c", "2", "--json"], {}), (["-c", "2"], {"TERM": "dumb"})],
)
async def test_count_of_intervals_and_a_terminal_that_cannot_redraw_have_no_screen_and_do_not_load_one(
    directory: LabDir, terminal: Callable[..., Terminal], arguments: list[str], environment: dict[str, str]
) -> None:
    async with served(directory):
        screen = terminal("-i", "0.1", *arguments, **environment)
        seen = await screen.shows("h2:1->sw0:3")
        seen += await screen.shows("h2:1->sw0:3")
        assert "\x1b[?1049h" not in seen
        assert await asyncio.to_thread(screen.process.wait) == 0


def test_neither_command_nor_its_lab_load_the_library_of_screens() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {LOADED}, sys; print('textual' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"


async def test_bug_under_a_screen_is_told_in_one_line_behind_it(
    terminal: Callable[..., Terminal], directory: LabDir
) -> None:
    async with served(directory):
        screen = terminal("-i", "0.1", program=BUG + PROGRAM)
        code, err = await screen.end()
        assert code == 1
        assert err.startswith("opavnic: internal error, ZeroDivisionError: ")
        assert err.count("\n") == 1
