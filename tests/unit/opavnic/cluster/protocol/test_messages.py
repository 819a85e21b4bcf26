"""Messages between machines: they read back as built; bad bytes are refused by name and raise nothing else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opavnic.cluster.errors import MessageError
from opavnic.cluster.protocol.messages import (
    MAX_PACKET,
    PROTOCOL,
    Grant,
    Open,
    StreamId,
    Train,
    build_body,
    build_grant,
    build_open,
    build_train,
    parse,
    train_head,
)

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
ENDS = st.builds(StreamId, fabric=U32, sc=st.integers(0, 31), from_life=U64, to_life=U64, era=U32)
PACKETS = st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=80)
END = StreamId(0x301, 15, 7, 9, 3)


@given(ENDS, U64, PACKETS)
def test_train_reads_back_as_built(stream_id: StreamId, first: int, packets: list[bytes]) -> None:
    train = parse(build_train(stream_id, first, packets))
    assert isinstance(train, Train)
    assert (train.stream_id, train.first, train.body.packets) == (stream_id, first, packets)
    assert (train.body.count, train.body.size) == (len(packets), sum(map(len, packets)))


@given(ENDS, U64, U64, U64, U32, U64)
def test_room_and_open_read_back_as_built(
    stream_id: StreamId, a: int, b: int, c: int, era: int, d: int
) -> None:
    grant = Grant(stream_id, a, b, c, era, d)
    assert parse(build_grant(grant)) == grant
    assert parse(build_open(stream_id)) == Open(stream_id)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_a_message_error(data: bytes) -> None:
    with contextlib.suppress(MessageError):
        parse(data)


@given(st.data())
def test_any_change_to_a_train_is_a_message_or_a_message_error(data: st.DataObject) -> None:
    good = bytearray(build_train(END, 5, [b"abc", b"d" * 40]))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(good)))
    with contextlib.suppress(MessageError):
        parse(bytes(good[:end]))


@given(ENDS, U32, U64, U64)
def test_train_with_a_grant_reads_back_as_both(stream_id: StreamId, era: int, first: int, limit: int) -> None:
    grant = Grant(stream_id._replace(era=era), 1, limit, 2, 3, 4)
    train = parse(train_head(stream_id, first, grant) + build_body([b"a", b"bc"]))
    assert isinstance(train, Train)
    assert (train.stream_id, train.first, train.grant, train.body.packets) == (
        stream_id,
        first,
        grant,
        [b"a", b"bc"],
    )


@pytest.mark.parametrize(
    "good",
    [
        build_train(END, 0, [b"ab"]),
        build_open(END),
        build_grant(Grant(END, 1, 2, 0, 0, 0)),
        train_head(END, 0, Grant(END, 1, 2, 0, 0, 0)) + build_body([b"ab"]),
    ],
)
def test_truncated_and_longer_messages_are_refused(good: bytes) -> None:
    for end in range(len(good)):
        with pytest.raises(MessageError):
            parse(good[:end])
    with pytest.raises(MessageError, match=r"^length: "):
        parse(good + b"\0")


def test_field_that_is_cut_off_is_named_with_its_path() -> None:
    with pytest.raises(MessageError, match=r"^message -> common head -> to_life: 20 bytes, "):
        parse(build_open(END)[:20])
    with pytest.raises(MessageError, match=r"^message -> train -> first: 3 bytes, the train needs 8$"):
        parse(build_train(END, 0, [b"ab"])[:35])


def test_another_version_is_named_in_the_refusal() -> None:
    other = bytearray(build_open(END))
    other[2] = 9
    with pytest.raises(MessageError, match=f"^version: 9, this is version {PROTOCOL}$"):
        parse(bytes(other))


def test_longest_packet_fits_and_an_empty_one_does_not() -> None:
    train = parse(build_train(END, 0, [b"x" * MAX_PACKET]))
    assert isinstance(train, Train)
    assert train.body.packets == [b"x" * MAX_PACKET]
    with pytest.raises(MessageError, match=r"^length: "):
        parse(build_train(END, 0, [b""]))
    with pytest.raises(MessageError, match=r"^length: "):
        parse(build_train(END, 0, [b"x" * (MAX_PACKET + 1)]))
