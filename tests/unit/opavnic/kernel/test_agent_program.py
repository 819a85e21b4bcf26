"""A program that the agent of a kernel runs, with an agent that is a list of messages."""

from __future__ import annotations

import pytest

from opavnic.kernel.agent_program import AgentProgram
from opavnic.kernel.cache import KernelError
from opavnic.kernel.messages import WINDOW, AgentMessage, AgentVerb, Messages, number_message


def said(program: AgentProgram) -> list[tuple[int, bytes]]:
    """Return what the program has for its agent, and take it away."""
    data, program.unsent = bytes(program.unsent), b""
    return [(message.kind, message.body) for message in Messages().take(data)]


def test_input_waits_for_what_the_program_has_read() -> None:
    program = AgentProgram(["cat"])
    assert [kind for kind, _ in said(program)] == [AgentVerb.START]
    program.write(bytes(WINDOW + 1))
    program.end_input()
    assert sum(len(body) for _, body in said(program)) == WINDOW
    program.take(number_message(1, AgentVerb.READ, 1))
    assert said(program) == [(AgentVerb.INPUT, b"\0"), (AgentVerb.INPUT, b"")]


def test_output_is_kept_by_stream_and_said_to_be_taken() -> None:
    program = AgentProgram(["ls"])
    said(program)
    program.take(AgentMessage(1, AgentVerb.OUTPUT, b"name\n"))
    program.take(AgentMessage(1, AgentVerb.ERRORS, b"no"))
    assert [kind for kind, _ in said(program)] == [AgentVerb.TAKEN, AgentVerb.TAKEN]
    program.take(number_message(1, AgentVerb.EXITED, 3))
    done = program.completed()
    assert (done.returncode, done.stdout, done.stderr) == (3, b"name\n", b"no")


def test_a_program_that_was_not_started_says_why() -> None:
    program = AgentProgram(["lss"])
    program.take(number_message(1, AgentVerb.FAILED, 2))
    with pytest.raises(KernelError, match="lss: not started: No such file or directory"):
        program.completed()
