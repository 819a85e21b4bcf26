"""Programs that a machine runs for another one: pipes or a terminal, exit codes, hanging up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from opavnic.lab.run.programs import MAX_RUNNING, Frame, ServedProgram


class Running:
    """A program, and what it has said."""

    def __init__(self, script: str, size: tuple[int, int] | None) -> None:
        self.program = ServedProgram(["/bin/sh", "-c", script], os.environ, size)
        self.said = dict.fromkeys(Frame, b"")
        self._news = asyncio.Event()
        self.end = asyncio.ensure_future(self.program.run(self._hear))

    async def _hear(self, kind: Frame, data: bytes) -> None:
        self.said[kind] += data
        self._news.set()

    async def until(self, text: bytes) -> None:
        """Wait until it has said something, and forget that."""
        while text not in self.said[Frame.OUT]:
            self._news.clear()
            await self._news.wait()
        self.said[Frame.OUT] = self.said[Frame.OUT].partition(text)[2]


@asynccontextmanager
async def program(script: str, size: tuple[int, int] | None = None) -> AsyncIterator[Running]:
    running = Running(script, size)
    try:
        async with asyncio.timeout(60):
            yield running
    finally:
        running.end.cancel()
        await running.program.hang_up()


async def test_outputs_are_told_apart_and_the_exit_code_comes_last() -> None:
    async with program("echo good; echo bad >&2; exit 7") as running:
        await running.end
        assert running.said == {Frame.OUT: b"good\n", Frame.ERR: b"bad\n", Frame.EXIT: b"7"}


async def test_program_that_a_signal_ends_has_the_exit_code_of_a_shell() -> None:
    async with program("kill -9 $$") as running:
        await running.end
        assert running.said[Frame.EXIT] == b"137"


async def test_output_that_a_child_holds_open_is_not_waited_for() -> None:
    async with program("sleep 1000 & echo $!; exit 3") as running:
        await running.end
        assert running.said[Frame.EXIT] == b"3"
        os.kill(int(running.said[Frame.OUT]), 9)


async def test_input_of_any_length_waits_until_it_is_read(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    os.mkfifo(go_on)
    async with program(f"cat {go_on}; wc -c") as running:
        data = bytes(1 << 20)
        giving = asyncio.ensure_future(running.program.give(data))
        done, _ = await asyncio.wait({giving}, timeout=0.1)
        assert not done, "what a program has not read yet is not taken without end"
        await asyncio.to_thread(go_on.write_text, "")
        await giving
        await running.program.give(b"", eof=True)
        await running.end
        assert running.said[Frame.OUT].strip() == str(len(data)).encode()


async def test_terminal_has_a_size_and_is_the_controlling_one() -> None:
    script = "stty size; echo $(tty) > /dev/tty; read line; stty size; echo $line"
    async with program(script, (31, 97)) as running:
        await running.until(b"31 97")
        await running.until(b"/dev/pts/")
        running.program.resize((50, 120))
        await running.program.give(b"hello\n")
        await running.end
        assert b"50 120" in running.said[Frame.OUT]
        assert b"hello" in running.said[Frame.OUT]


@pytest.mark.parametrize(
    "script", ["echo $$; exec sleep 1000", "trap '' HUP; echo $$; while :; do sleep 1; done"]
)
async def test_program_that_is_hung_up_on_ends(script: str) -> None:
    async with program(script) as running:
        await running.until(b"\n")
        pid = running.program.pid
        await running.program.hang_up()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_end_of_each_program_is_noticed_however_many_run() -> None:
    others = [Running("read line", None) for _ in range(MAX_RUNNING - 1)]
    async with program("exit 7") as running:
        await running.end
        assert running.said[Frame.EXIT] == b"7"
    for other in others:
        await other.program.hang_up()
        await other.end
