"""Messages of the raw MAD socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.errors import WireError
from opavnic.management.mad_frames import MAX_MESSAGE, MadMessage, MessageReader

messages = st.builds(
    MadMessage,
    st.integers(0, 0xFFFFFFFF),
    st.binary(max_size=200),
    st.integers(0, 0xFFFF),
    st.integers(0, 255),
    st.integers(0, 255),
)


@given(st.lists(messages, max_size=6), st.integers(1, 40))
def test_stream_cut_anywhere_gives_the_same_messages(sent: list[MadMessage], size: int) -> None:
    stream = b"".join(message.build() for message in sent)
    reader = MessageReader()
    received = [
        message for at in range(0, len(stream), size) for message in reader.feed(stream[at : at + size])
    ]
    assert received == sent


@pytest.mark.parametrize("length", [0, 7, MAX_MESSAGE + 1, 0xFFFFFFFF])
def test_length_that_no_message_has_is_a_wire_error(length: int) -> None:
    with pytest.raises(WireError):
        list(MessageReader().feed(length.to_bytes(4, "big")))


def test_layout_is_the_documented_one() -> None:
    message = MadMessage(lid=0x010203, mad=b"mad", pkey=0x8001, sl=5, outcome=1)
    assert message.build() == bytes.fromhex("0000000b 00010203 8001 05 01") + b"mad"


@pytest.mark.parametrize(
    "message", [MadMessage(-1, b""), MadMessage(0, bytes(2049)), MadMessage(0, b"", pkey=1 << 16)]
)
def test_value_that_does_not_fit_is_refused(message: MadMessage) -> None:
    with pytest.raises(ValueError):
        message.build()
