"""`opavnic top` in a terminal of 80 columns and 24 lines, as over ssh: tmux sends keys and captures the screen."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Program
from permission import require
from processes import child

PATIENCE_S = 30
LAB = """
name: NAME
fabric: {link: {credits: {vls: 2, buffer: 64K}}}
hosts: {h1: {}, h2: {}}
vesws: [{id: 2, name: blue, subnet: 10.9.2.0/24, members: [h1, h2]}]
"""
PICTURES = os.environ.get("OPAVNIC_PICTURES")
"""A directory in which screens are kept as SVG; those of docs/pictures were made so."""


class Tmux:
    """A terminal with a command of opavnic on it, and behind it a line that says how it has ended."""

    def __init__(self, directory: Path, command: str) -> None:
        self._socket = str(directory / "tmux")
        program = f"OPAVNIC_RUNTIME_DIR={directory}/run {sys.executable} -m opavnic.cli.main"
        command = f"{program} {command}; echo ended with $?; exec cat"
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", command)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, timeout=30, check=False
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def write(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def shows(self, *texts: str, wanting: str = "", like: str = "") -> str:
        """Wait until the screen shows all texts, what a pattern means, and not another text; return it."""
        end = time.monotonic() + PATIENCE_S
        while True:  # tmux tells nobody of a change
            screen = self.screen()
            there = all(text in screen for text in texts) and re.search(like, screen)
            if there and (not wanting or wanting not in screen):
                return screen
            assert time.monotonic() < end, f"no {texts} (or still {wanting!r}) on\n{screen}"

    def keep(self, name: str) -> None:
        """Keep the screen as a picture, if pictures are wanted."""
        if PICTURES is None:
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(width=80, height=24, record=True, file=io.StringIO())
        seen = re.sub(r"t\d+-tmux", "two-hosts", self._run("capture-pane", "-p", "-e"))
        console.print(Text.from_ansi(seen), end="")
        console.save_svg(str(Path(PICTURES) / f"{name}.svg"), title="opavnic top")

    def close(self) -> None:
        self._run("kill-server")


@pytest.fixture
def lab(opavnic: Program) -> str:
    name = f"t{os.getpid()}-tmux"
    opavnic.up(LAB.replace("NAME", name))
    return name


@pytest.fixture
def terminal(lab: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tmux]:
    """A terminal with `opavnic top`, or the command that the test names."""
    require(["tmux"])
    tmux = Tmux(tmp_path, getattr(request, "param", "top -i 300ms"))
    yield tmux
    tmux.close()


@pytest.mark.slow
def test_keys_filter_sort_open_and_set_faults_on_80_by_24(lab: str, opavnic: Program, terminal: Tmux) -> None:
    command = ["ip", "netns", "exec", f"opavnic-{lab}-h1", "ping", "-qi0.02", "10.9.2.2"]
    with child(command, stdout=-3):
        screen = terminal.shows(f"lab {lab}", "h1", "h2", "q Quit")
        assert len(screen.splitlines()) == 24
        terminal.press(">", ">", ">", ">")
        terminal.shows("tx pkt/s▼")
        terminal.write("/h2")
        terminal.shows("show only rows with: h2", wanting="h1")
        terminal.press("Escape")
        terminal.shows("h1")
        terminal.press("Home")
        terminal.press("Enter")
        terminal.shows("ICMP", "10.9.2.1", "10.9.2.2")
        terminal.keep("top-flows")
        terminal.press("Escape")
        terminal.shows("interface")  # Escape and a key at once are one key of a terminal
        terminal.press("2")
        terminal.write("/h1:")
        terminal.press("Enter")
        terminal.shows("2 links 3 with: h1:", "q Quit")
        terminal.press("Enter")
        terminal.shows("sw0:2->h1:1", "credits", "65.5k", like=r"h1:1->sw0:2 +0 +[1-9]")
        terminal.keep("top-lanes")
        terminal.press("Escape")
        terminal.shows("datapath")
        terminal.press("Escape")
        terminal.shows("em:1->sw0:1", "h1:1->sw0:2")
        terminal.keep("top")
        terminal.press("x")
        terminal.shows("down")
        terminal.press("4")
        terminal.shows("link-down on h1:1--sw0:2")
        terminal.press("2")
        terminal.press("d")
        terminal.shows(" up ", "faults 0")
        terminal.press("f")
        terminal.shows("set a fault: loss on h1:1--sw0:2 10%")
        terminal.press("Enter")
        terminal.shows("faults 1")
        terminal.press("f", "BSpace")
        terminal.shows("set a fault: loss on h1:1--sw0:2 10", wanting="10%")
        terminal.write("%x")
        terminal.press("Enter")
        terminal.shows("10%x")
        terminal.press("Escape")
        terminal.press("2")
        terminal.press("q")
        terminal.shows("ended with 0", wanting="q Quit")


@pytest.mark.parametrize("terminal", ["top -i 300ms", "status -w 300ms"], indirect=True)
def test_lab_that_ends_under_a_screen_is_told_behind_it(lab: str, opavnic: Program, terminal: Tmux) -> None:
    terminal.shows(f"lab {lab}", "h1", "h2")
    assert opavnic("down").returncode == 0
    assert "opavnic: " in terminal.shows("ended with 1")
