"""Programs that a machine runs for another one: pipes or a terminal, exit codes, hanging up."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from opavnic.cluster.errors import ClusterError
from opavnic.cluster.machines.cluster_programs import MAX_RUNNING
from opavnic.cluster.machines.local_program import PIECE, LocalProgram
from opavnic.cluster.protocol.transport import NodeName
from opavnic.lab.run.programs_route import Frame


def program(script: str, size: tuple[int, int] | None = None) -> LocalProgram:
    return LocalProgram(NodeName("alpha"), ["/bin/sh", "-c", script], os.environ, size)


async def end_of(running: LocalProgram) -> dict[Frame, bytes]:
    """Return all that it says, and its exit code."""
    said = dict.fromkeys(Frame, b"")
    while not said[Frame.EXIT]:
        for kind, data in await running.more():
            said[kind] += data
    return said


async def test_outputs_are_told_apart_and_the_exit_code_comes_last() -> None:
    said = await end_of(program("echo good; echo bad >&2; exit 7"))
    assert (said[Frame.OUT], said[Frame.ERR], said[Frame.EXIT]) == (b"good\n", b"bad\n", b"7")


async def test_program_that_a_signal_ends_has_the_exit_code_of_a_shell() -> None:
    assert (await end_of(program("kill -9 $$")))[Frame.EXIT] == b"137"


async def test_input_of_any_length_is_read_to_its_end(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"
    os.mkfifo(go_on)
    running = program(f"cat {go_on}; wc -c")
    data = bytes(4 * PIECE)
    running.give(data, eof=False, size=None)
    assert not running.has_room, "what a program has not read yet is not taken without end"
    await asyncio.to_thread(go_on.write_text, "")
    running.give(b"", eof=True, size=None)
    assert (await end_of(running))[Frame.OUT].strip() == str(len(data)).encode()


async def test_terminal_has_a_size_and_is_the_controlling_one() -> None:
    running = program("stty size; echo $(tty) > /dev/tty; read line; stty size; echo $line", (31, 97))
    said = b""
    while b"/dev/pts/" not in said:
        said += b"".join(data for _, data in await running.more())
    assert b"31 97" in said
    running.give(b"hello\n", eof=False, size=(50, 120))
    rest = (await end_of(running))[Frame.OUT]
    assert b"50 120" in rest
    assert b"hello" in rest


async def test_program_that_is_hung_up_on_ends() -> None:
    running = program("echo $$; exec sleep 1000")
    found: list[tuple[Frame, bytes]] = []
    while not found:
        found = await running.more()
    pid = int(found[0][1])
    running.close()
    await running.ended.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_input_beyond_what_may_wait_is_refused() -> None:
    running = program("read one; exec sleep 1000")
    running.give(bytes(4 * PIECE), eof=False, size=None)
    with pytest.raises(ClusterError, match="bytes of input are waiting: the program is not reading"):
        running.give(b"more", eof=False, size=None)
    running.close()
    await running.ended.wait()


async def test_end_of_each_program_is_noticed_however_many_run() -> None:
    others = [program("read line") for _ in range(MAX_RUNNING - 1)]
    async with asyncio.timeout(60):
        assert (await end_of(program("exit 7")))[Frame.EXIT] == b"7"
        for other in others:
            other.close()
            await other.ended.wait()
