from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.wire.internet_checksum import checksum, fold, update, update_udp

words = st.integers(0, 40).flatmap(lambda n: st.binary(min_size=2 * n, max_size=2 * n))


def slow_sum(start: int, *parts: bytes) -> int:
    """Add 16-bit words one by one with end-around carry, as a textbook does."""
    total = start
    for part in parts:
        for i in range(0, len(part), 2):
            total += int.from_bytes(part[i : i + 2].ljust(2, b"\0"), "big")
            total = (total & 0xFFFF) + (total >> 16)
    return total


def inverted(data: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in data)


@given(data=st.binary(max_size=90))
def test_checksum_is_the_textbook_sum(data: bytes) -> None:
    assert checksum(data) == slow_sum(0, data) ^ 0xFFFF


@given(value=st.integers(0, 0xFFFF), old=words, new=words)
def test_update_is_the_textbook_update(value: int, old: bytes, new: bytes) -> None:
    assert update(value, old, new) == slow_sum(value ^ 0xFFFF, inverted(old), new) ^ 0xFFFF


@given(before=words, old=words, new=words)
def test_update_of_a_valid_checksum_is_valid(before: bytes, old: bytes, new: bytes) -> None:
    updated = update(checksum(before + old), old, new)
    assert slow_sum(updated, before, new) in (0, 0xFFFF)


@given(error=st.integers(1, 0xFFFE), before=words, old=words, new=words)
def test_update_keeps_an_error(error: int, before: bytes, old: bytes, new: bytes) -> None:
    wrong = fold(checksum(before + old) + error)
    assert slow_sum(update(wrong, old, new), before, new) % 0xFFFF == error


@given(old=words, new=words)
def test_update_udp_absent_stays_absent(old: bytes, new: bytes) -> None:
    assert update_udp(0, old, new) == 0


@given(value=st.integers(1, 0xFFFF), old=words, new=words)
def test_update_udp_never_turns_into_absent(value: int, old: bytes, new: bytes) -> None:
    assert update_udp(value, old, new) == (update(value, old, new) or 0xFFFF)
