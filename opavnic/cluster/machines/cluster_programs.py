"""Programs on hosts of other machines: those that this machine runs for others, and its requests to run them there.

A machine runs `opavnic exec` for others, so that a program finds there what it would find on its own machine: names,
devices, its container, exit codes. A program started from a terminal gets a terminal of its own there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.machines.local_program import LocalProgram, side
from opavnic.cluster.protocol.transport import NodeName, Transport
from opavnic.lab.run.programs_route import Frame, RemoteProgram

if TYPE_CHECKING:
    from opavnic.cluster.machines.node import Machine

log = logging.getLogger("opavnic.cluster")

MAX_RUNNING: Final = 16
"""Programs that a machine runs for others at one time. Each may have two requests open, of 64 in all."""
FORGOTTEN_S: Final = 20.0
"""A program about which no request has come for this long is hung up on: its starter may have died."""


class ClusterPrograms:
    """Runs programs for other machines and asks others to; satisfies
    `opavnic.lab.run.programs_route.RemotePrograms`."""

    def __init__(self, machine: Machine) -> None:
        """Register the request handlers."""
        self._machine = machine
        self._running: dict[int, LocalProgram] = {}
        """Programs about which requests may come."""
        self._alive: set[LocalProgram] = set()
        """These, and programs that have been hung up on and have not ended yet."""
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None
        machine.verbs |= {
            "exec": self._start,
            "exec-more": self._more,
            "exec-give": self._give,
            "exec-keep": self._keep,
            "exec-end": self._end,
        }

    async def start(
        self, host: str, command: list[str], umad: bool | None, terminal: Mapping[str, Any] | None
    ) -> RemoteProgram:
        """See RemotePrograms.start."""
        where = self._machine.machine_with(host)
        body = {"host": host, "command": command, "umad": umad, "terminal": terminal}
        if where == self._machine.transport.name:
            raise ClusterError(f"host {host} is on this machine")
        answer = await self._machine.transport.ask(where, "exec", body)
        return _ClusterProgram(self._machine.transport, where, int(answer["number"]))

    async def _start(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._machine.check_trust(asker)
        lab = self._machine.share_here()
        host = str(body["host"])
        lab.host(host)
        if lab.netdev == "memory":
            raise ClusterError(f"host {host} is in memory: no programs run there")
        self._alive = {program for program in self._alive if not program.ended.is_set()}
        if len(self._alive) >= MAX_RUNNING:
            raise ClusterError(f"{MAX_RUNNING} programs of other machines run here, the most there may be")
        umad = body.get("umad")
        option = [] if umad is None else ["--umad" if umad else "--no-umad"]
        words = [str(word) for word in body["command"]]
        if not words:
            raise ClusterError("a program without a name")
        command = [
            sys.executable,
            "-m",
            "opavnic.cli.main",
            "exec",
            "--lab",
            lab.model.name,
            *option,
            host,
            "--",
            *words,
        ]
        terminal = body.get("terminal")
        environment, size = dict(os.environ), None
        if isinstance(terminal, dict):
            environment["TERM"] = str(terminal.get("term") or "dumb")
            size = (side(terminal.get("rows"), 24), side(terminal.get("columns"), 80))
        try:
            program = LocalProgram(asker, command, environment, size)
        except OSError as error:
            raise ClusterError(f"cannot start programs: {error.strerror}") from error
        self._last += 1
        self._running[self._last] = program
        self._alive.add(program)
        if self._timer is None:
            self._forget()
        log.info("%s runs %s on %s (program %d)", asker, words[0], host, self._last)
        return {"number": self._last}

    async def _more(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        program = self._find(asker, body)
        found = await program.more()
        if found and found[-1][0] is Frame.EXIT:
            self._running.pop(int(body["number"]), None)
        return {"frames": [[int(kind), base64.b64encode(data).decode()] for kind, data in found]}

    async def _give(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        program = self._find(asker, body)
        size = body.get("size")
        data = base64.b64decode(str(body.get("data", "")))
        program.give(
            data, eof=body.get("eof") is True, size=None if size is None else (int(size[0]), int(size[1]))
        )
        return {"has_room": await program.room()}

    async def _keep(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._find(asker, body).asked_at = asyncio.get_running_loop().time()
        return {}

    async def _end(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self._find(asker, body).close()
        del self._running[int(body["number"])]
        return {}

    def _find(self, asker: NodeName, body: Mapping[str, Any]) -> LocalProgram:
        program = self._running.get(int(body.get("number", 0)))
        if program is None or program.owner != asker:
            raise ClusterError(f"{asker} has no program with number {body.get('number')!r:.40} here")
        return program

    def _forget(self) -> None:
        """Hang up on programs without recent requests; repeat while any run."""
        loop = asyncio.get_running_loop()
        for number, program in list(self._running.items()):
            if loop.time() - program.asked_at > FORGOTTEN_S:
                program.close()
                del self._running[number]
        self._timer = loop.call_later(FORGOTTEN_S / 4, self._forget) if self._running else None

    def lost(self, owner: NodeName) -> None:
        """Hang up on the programs of a machine that has left."""
        for number, program in list(self._running.items()):
            if program.owner == owner:
                program.close()
                del self._running[number]

    async def close(self) -> None:
        """Hang up on all of them and wait for them to end: a host must not go while programs run on it."""
        if self._timer is not None:
            self._timer.cancel()
        for program in self._running.values():
            program.close()
        self._running.clear()
        for program in self._alive:
            await program.ended.wait()


class _ClusterProgram:
    """A program on another machine; satisfies RemoteProgram."""

    def __init__(self, transport: Transport, machine: NodeName, number: int) -> None:
        self._transport = transport
        self._machine = machine
        self._number = number
        self._is_over = False

    async def more(self) -> list[tuple[Frame, bytes]]:
        try:
            answer = await self._transport.ask(self._machine, "exec-more", {"number": self._number})
        except AskError as error:
            self._is_over = True
            return [(Frame.LOST, str(error).encode())]
        found = [(Frame(kind), base64.b64decode(data)) for kind, data in answer["frames"]]
        self._is_over = bool(found) and found[-1][0] is Frame.EXIT
        return found

    async def give(self, data: bytes, *, eof: bool, size: tuple[int, int] | None) -> None:
        body = {"number": self._number, "data": base64.b64encode(data).decode(), "eof": eof, "size": size}
        while True:
            answer = await self._transport.ask(self._machine, "exec-give", body)
            if answer.get("has_room"):
                return
            body = {"number": self._number}

    async def keep(self) -> None:
        with contextlib.suppress(AskError):  # `more` reports a program that has ended
            await self._transport.ask(self._machine, "exec-keep", {"number": self._number})

    async def end(self) -> None:
        if self._is_over:
            return
        with contextlib.suppress(AskError):
            await self._transport.ask(self._machine, "exec-end", {"number": self._number}, timeout_s=5.0)
