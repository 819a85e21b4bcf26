"""Programs on hosts of other machines: those that this machine runs for others, and its requests to run them there.

A machine runs `opavnic exec` for others, so that a program finds there what it would find on its own machine: names,
devices, its container, exit codes. A program started from a terminal gets a terminal of its own there.
"""

from __future__ import annotations

import base64
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from opavnic.cluster.errors import AskError, ClusterError
from opavnic.cluster.machines.directory import MachineDirectory
from opavnic.cluster.machines.jobs import Jobs, RemoteJob
from opavnic.cluster.machines.local_program import LocalProgram, side
from opavnic.cluster.protocol.transport import NodeName
from opavnic.lab.run.programs_route import Frame, RemoteProgram

log = logging.getLogger("opavnic.cluster")

MAX_RUNNING: Final = 16
"""Programs that a machine runs for others at one time. Each may have two requests open, of 64 in all."""
FORGOTTEN_S: Final = 20.0
"""A program about which no request has come for this long is hung up on: its starter may have died."""


class ClusterPrograms(Jobs[LocalProgram]):
    """Runs programs for other machines and asks others to; satisfies
    `opavnic.lab.run.programs_route.RemotePrograms`."""

    def __init__(self, machine: MachineDirectory) -> None:
        """Register the request handlers."""
        super().__init__("program", FORGOTTEN_S)
        self._machine = machine
        self._alive: set[LocalProgram] = set()
        """Programs about which requests may come, and those that have been hung up on and have not ended yet."""
        machine.verbs |= {
            "exec": self._start,
            "exec-more": self._more,
            "exec-give": self._give,
            "exec-keep": self.keep,
            "exec-end": self._hang_up,
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
        return _ClusterProgram(self._machine.transport, where, "exec", int(answer["number"]))

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
        number = self.add(program)
        self._alive.add(program)
        log.info("%s runs %s on %s (program %d)", asker, words[0], host, number)
        return {"number": number}

    async def _more(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        program = self.find(asker, body)
        found = await program.more()
        if found and found[-1][0] is Frame.EXIT:
            self.remove(body)
        return {"frames": [[int(kind), base64.b64encode(data).decode()] for kind, data in found]}

    async def _give(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        program = self.find(asker, body)
        size = body.get("size")
        data = base64.b64decode(str(body.get("data", "")))
        program.give(
            data, eof=body.get("eof") is True, size=None if size is None else (int(size[0]), int(size[1]))
        )
        return {"has_room": await program.room()}

    async def _hang_up(self, asker: NodeName, body: dict[str, Any]) -> dict[str, Any]:
        self.find(asker, body).close()
        self.remove(body)
        return {}

    async def ended(self) -> None:
        """Hang up on all of them and wait for them to end: a host must not go while programs run on it."""
        self.close()
        for program in self._alive:
            await program.ended.wait()


class _ClusterProgram(RemoteJob):
    """A program on another machine; satisfies RemoteProgram."""

    async def more(self) -> list[tuple[Frame, bytes]]:
        try:
            answer = await self._ask("more")
        except AskError as error:
            self._is_over = True
            return [(Frame.LOST, str(error).encode())]
        found = [(Frame(kind), base64.b64decode(data)) for kind, data in answer["frames"]]
        self._is_over = bool(found) and found[-1][0] is Frame.EXIT
        return found

    async def give(self, data: bytes, *, eof: bool, size: tuple[int, int] | None) -> None:
        body: dict[str, Any] = {"data": base64.b64encode(data).decode(), "eof": eof, "size": size}
        while not (await self._ask("give", **body)).get("has_room"):
            body = {}
