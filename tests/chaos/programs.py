"""Programs of ours that a campaign runs: each has an end, and nothing that it prints goes unread."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.ground import FILES
from processes import child, ignores_sigint

OPAVNIC: Final = (sys.executable, str(Path(sys.executable).with_name("opavnic")))
LIMIT_S: Final = 60.0
"""How long any command may take on a machine that is busy: more is a hang."""
END_S: Final = 30.0
"""How long a program may go on after it was told to end."""
BAD_WORDS: Final = re.compile(
    r"Traceback \(most recent|internal error|\(a bug\)|panicked at|never retrieved|was never awaited"
    r"|incomplete answer|Fatal Python error: (?!init_)|Exception ignored"
)
CODES: Final = (0, 1, 2, 130)
"""What our program may end with: done, failed, wrong usage, interrupted."""


def bad_line(text: str) -> str | None:
    """Return the first line that no program of ours may print.

    Python itself is not ours: where it is interrupted before it has come to our first line, it says so at length.
    """
    if "KeyboardInterrupt" in text and "/opavnic/" not in text:
        return None
    lines = iter(text.splitlines())
    bad = next((line for line in lines if BAD_WORDS.search(line)), None)
    if bad is not None and bad.startswith("Traceback"):  # the line that ends it says what it was
        bad += " " + next((line for line in lines if not line.startswith(" ")), "")
    return None if bad is None else bad.rstrip()


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked."""
        return self.code == 0


class Client:
    """A command that runs beside; it prints into a file."""

    def __init__(self, words: Sequence[str], file: Path, environment: dict[str, str], *, deaf: bool) -> None:
        """Start it. Args: deaf: SIGINT is ignored, as in background jobs of scripts."""
        self.words = words
        self.file = file
        self.deaf = deaf
        # what it inherits is set here, not in the child: no code of ours runs between fork and exec
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else signal.SIG_DFL)
        try:
            with file.open("wb") as out:
                self.process = subprocess.Popen(
                    [*OPAVNIC, *words],
                    env=environment,
                    stdin=-3,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
        finally:
            signal.signal(signal.SIGINT, before)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it has ended."""
        self.process.send_signal(number)

    def wait(self, limit_s: float) -> int | None:
        """Return its exit code; None where it did not end in time."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def wait_ready(self) -> None:
        """Wait until a lab in the foreground runs. Raises RuntimeError: it did not come up."""
        if not wait_for(
            lambda: "end it with Ctrl-C" in self.said() or self.process.poll() is not None, LIMIT_S
        ):
            raise RuntimeError(f"no lab within {LIMIT_S:g} s: {self.said()}")
        if self.process.poll() is not None:
            raise RuntimeError(f"no lab: {self.said()}")

    def kill(self) -> None:
        """End it without asking."""
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """Return what it has printed so far."""
        return self.file.read_text(encoding="utf-8", errors="replace")


@dataclass
class Programs:
    """Starts commands, keeps an eye on what they print and on when they end."""

    found: Callable[[str], None]
    """Told of what should not be."""
    note: Callable[[str], None]
    """Told what is done."""
    counts: Counter[str] = field(default_factory=Counter)
    clients: list[Client] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    _number: int = 0

    def run(self, *words: str, limit_s: float = LIMIT_S) -> Done:
        """Run a command of ours to its end."""
        self.note(f"opavnic {' '.join(words)}")
        self.counts["commands"] += 1
        done = self.run_as([*OPAVNIC, *words], " ".join(words), limit_s)
        if done.code not in CODES:
            self.found(f"`opavnic {' '.join(words)}` ended with {done.code}: {done.err[-300:]}")
        return done

    def run_as(
        self,
        command: Sequence[str],
        name: str,
        limit_s: float = LIMIT_S,
        more: Mapping[str, str] | None = None,
    ) -> Done:
        """Run any command line that ends in one of ours. Args: more: goes into its environment."""
        environment = {**self.environment, **(more or {})}
        with child(command, env=environment, stdin=-3, stdout=-1, stderr=-1, errors="replace") as process:
            try:
                out, err = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                self.found(f"`opavnic {name}` hangs: it did not end within {limit_s:g} s")
                return Done(1, "", "")
        if (line := bad_line(out + err)) is not None:
            self.found(f"`opavnic {name}` printed: {line[:300]}")
        return Done(process.returncode, out, err)

    def start(self, *words: str, deaf: bool = False) -> Client:
        """Start a command of ours beside; `finish` ends it."""
        self.note(f"opavnic {' '.join(words)} &")
        self.counts["clients"] += 1
        self._number += 1
        client = Client(words, FILES / f"out-{self._number}", self.environment, deaf=deaf)
        self.clients.append(client)
        return client

    def finish(
        self, client: Client, number: signal.Signals = signal.SIGTERM, limit_s: float = END_S
    ) -> int | None:
        """Send a signal to a client that is to end on it, and look at what it said; return its exit code."""
        name = f"opavnic {' '.join(client.words)}"
        if client.process.poll() is None:
            # a program that inherits it ignored has to ask for it first
            if (
                client.deaf
                and number == signal.SIGINT
                and not wait_for(lambda: not ignores_sigint(client.pid), limit_s)
            ):
                self.found(f"`{name}` still ignores SIGINT after {limit_s:g} s")
            self.note(f"{number.name} to `{name}`")
            client.send(number)
        code = client.wait(limit_s)
        if code is None:
            self.found(f"`{name}` goes on {limit_s:g} s after {number.name}")
        return self.let_go(client)

    def let_go(self, client: Client) -> int | None:
        """Kill a client if it still runs, read what it said, and forget it; return its exit code."""
        client.kill()
        if (line := bad_line(client.said())) is not None:
            self.found(f"`opavnic {' '.join(client.words)}` printed: {line[:300]}")
        if client in self.clients:
            self.clients.remove(client)
        client.file.unlink(missing_ok=True)
        return client.process.returncode

    def finish_all(self) -> None:
        """End every client."""
        for client in list(self.clients):
            client.send(signal.SIGCONT)
            self.finish(client)

    def kill_all(self) -> None:
        """Kill every client, on the way out."""
        for client in self.clients:
            client.kill()
        self.clients.clear()


def wait_for(condition: Callable[[], bool], limit_s: float, pause_s: float = 0.02) -> bool:
    """Look again and again until something is true; return whether it came true in time."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause_s)
    return True
