"""Messages to and from the agent in a kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.kernel.messages import (
    BODY_MAX,
    AgentMessage,
    AgentVerb,
    Messages,
    number_message,
    start_message,
)

MESSAGES = st.builds(AgentMessage, st.integers(0, 2**32 - 1), st.integers(0, 255), st.binary(max_size=50))


@given(st.lists(MESSAGES), st.integers(1, 20))
def test_messages_come_whole_and_in_order_however_the_stream_is_cut(
    sent: list[AgentMessage], piece: int
) -> None:
    stream = b"".join(message.build() for message in sent)
    messages = Messages()
    pieces = (stream[at : at + piece] for at in range(0, len(stream), piece))
    assert [message for part in pieces for message in messages.take(part)] == sent


def test_a_program_is_started_with_its_words_its_directory_and_its_environment() -> None:
    message = start_message(
        7,
        ["ls", "-l"],
        directory="/srv/x",
        environment={"A": "b"},
        terminal=(24, 80),
    )
    assert (message.session, message.kind) == (7, AgentVerb.START)
    assert message.body == bytes.fromhex("0100 0018 0050 0003") + b"/srv/x\0ls\0-l\0A=b\0"


@pytest.mark.parametrize(
    ("words", "reason"),
    [(["a\0b"], "a zero byte"), (["x" * BODY_MAX], "at most 65527")],
    ids=["zero", "long"],
)
def test_what_cannot_be_told_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        start_message(1, words, environment={})


def test_numbers_are_read_back_and_none_is_zero() -> None:
    assert number_message(1, AgentVerb.TAKEN, 70_000).number == 70_000
    assert AgentMessage(1, AgentVerb.EXITED, b"\0").number == 0
