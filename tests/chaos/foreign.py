"""Things of others: programs, namespaces, files. No command of ours may touch one; each says if it was."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from chaos.machine import NETNS, process_of

NOBODY: Final = 65534


class Thing(Protocol):
    """Something of somebody else's."""

    name: str

    def trouble(self) -> str | None:
        """Return what was done to it; None where it is as it was."""

    def remove(self) -> None:
        """Take it away again."""


class Program:
    """A program that does nothing, in a namespace or here."""

    def __init__(self, namespace: str | None = None, *words: str) -> None:
        """Start it."""
        inside = [] if namespace is None else ["ip", "netns", "exec", namespace]
        self.process = subprocess.Popen(
            [*inside, *(words or ("sleep", "100000"))], stdin=-3, stdout=-3, stderr=-3
        )
        self.name = f"program sleep (pid {self.process.pid}) in {namespace or 'no namespace'}"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def trouble(self) -> str | None:
        """Return how it ended, where it did."""
        code = self.process.poll()
        if code is None:
            return None
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"

    def remove(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


class Namespace:
    """A network namespace, with a program in it."""

    def __init__(self, name: str) -> None:
        """Make it as a person would, with ip, or take one that is there; a program runs in it."""
        self.path = NETNS / name
        if not self.path.exists():
            subprocess.run(["ip", "netns", "add", name], check=True)
        self.name = f"namespace {name}"
        self.inode = self.path.stat().st_ino
        self.program = Program(name)

    def trouble(self) -> str | None:
        """Return whether it or its program went."""
        try:
            inode = self.path.stat().st_ino
        except FileNotFoundError:
            return "was deleted"
        if inode != self.inode:
            return "is another one now"
        trouble = self.program.trouble()
        return None if trouble is None else f"{self.program.name} {trouble}"

    def remove(self) -> None:
        """Delete it."""
        self.program.remove()
        subprocess.run(["ip", "netns", "delete", self.path.name], check=False, capture_output=True)


class Files:
    """Files, directories, a socket and a FIFO, somewhere under one path."""

    def __init__(self, path: Path, *, kinds: str = "dfsp", uid: int = 0, mode: int = 0o755) -> None:
        """Make them. Args: kinds: d(irectory with files), f(ile), s(ocket), p(ipe, a FIFO)."""
        self.path = path
        self.name = f"files in {path}"
        self._socket: socket.socket | None = None
        path.mkdir()
        if "d" in kinds:
            (path / "deep").mkdir()
            (path / "deep" / "notes.txt").write_text("of somebody else\n")
        if "f" in kinds:
            (path / "notes.txt").write_text("of somebody else\n")
        if "s" in kinds:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(path / "their.sock"))
            self._socket.listen()
        if "p" in kinds:
            os.mkfifo(path / "their.fifo")
        os.chown(path, uid, uid)
        path.chmod(mode)
        self._seen = self._look()

    def add(self, name: str, text: str, uid: int = 0) -> None:
        """Add one file."""
        (self.path / name).write_text(text)
        os.chown(self.path / name, uid, uid)
        self._seen = self._look()

    def _look(self) -> dict[str, object]:
        seen: dict[str, object] = {}
        for path in [self.path, *sorted(self.path.rglob("*"))]:
            status = path.lstat()
            text = path.read_text() if path.is_file() else ""
            seen[str(path)] = (status.st_ino, status.st_mode, status.st_uid, text)
        return seen

    def trouble(self) -> str | None:
        """Return which of them is not as it was; what was added beside them is not theirs."""
        try:
            now = self._look()
        except OSError as error:
            return f"cannot be read any more: {error}"
        for path, was in self._seen.items():
            if path not in now:
                return f"{path} is gone"
            if now[path] != was:
                return f"{path} is not as it was: {was} -> {now[path]}"
        return None

    def remove(self) -> None:
        """Remove what was made, and what is left beside it only if it is nothing."""
        if self._socket is not None:
            self._socket.close()
        for path in sorted(map(Path, self._seen), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()


@dataclass
class Foreigners:
    """All things of others that there are, some of them for one round."""

    lasting: list[Thing] = field(default_factory=list)
    passing: list[Thing] = field(default_factory=list)

    def settle_in(self, runtime: Path) -> None:
        """Make what stays for the whole campaign: names like ours, files among ours."""
        self.lasting += [
            Namespace("opavnic-theirs-h1"),
            Namespace("opavnic-brief"),
            Namespace("theirs"),
            Program(),
            Files(runtime / "theirs"),
            Files(runtime.with_name("elsewhere")),
        ]
        junk = Files(runtime / "brief-2", kinds="d")
        junk.add("state.json", '{"lab": "brief-2", "pid": 1}')
        self.lasting.append(junk)

    def add(self, thing: Thing) -> None:
        """Take a thing in until the end of the round."""
        self.passing.append(thing)

    def trouble(self) -> list[str]:
        """Return what was done to any of them."""
        return [
            f"{thing.name} {trouble}"
            for thing in [*self.lasting, *self.passing]
            if (trouble := thing.trouble())
        ]

    def end_round(self) -> None:
        """Remove what was there for one round."""
        while self.passing:
            self.passing.pop().remove()

    def remove(self) -> None:
        """Remove all."""
        self.end_round()
        while self.lasting:
            self.lasting.pop().remove()


def start_time(pid: int) -> int:
    """Return the start time of a process that runs."""
    process = process_of(pid)
    return 0 if process is None else process[0]
