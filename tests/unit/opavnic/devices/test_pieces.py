"""Reads and writes that come in pieces: each piece is the one that belongs there, or the call ends."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from opavnic.devices.pieces import MAX_RESTS, Pieces


@given(seed=st.integers(0, 1 << 32))
def test_each_read_gets_the_bytes_of_its_own_message_from_the_first_on(seed: int) -> None:
    """Law: whatever other threads do, however many end in the middle, and whatever offsets somebody else asks for."""
    chance, pieces = random.Random(seed), Pieces()
    got: dict[int, bytes] = {}
    wanted: dict[int, bytes] = {}
    for _ in range(chance.randrange(1, 80)):
        tid, size = chance.randrange(7), chance.randrange(1, 30)
        if tid not in wanted or chance.random() < 0.2:
            wanted[tid] = chance.randbytes(chance.randrange(1, 100))
            pieces.forget_read(tid)
            got[tid] = pieces.begin_read(tid, wanted[tid], size)
        elif chance.random() < 0.1:  # another file of this thread, or a thread that has its number
            at = len(got[tid]) + chance.choice((-1, 1))
            assert pieces.next_read(tid, at, size) == b"", "and the read has ended"
            wanted[tid] = got[tid]
        else:
            got[tid] += pieces.next_read(tid, len(got[tid]), size)
        assert wanted[tid].startswith(got[tid])
        assert len(pieces.rests) <= MAX_RESTS


@given(seed=st.integers(0, 1 << 32))
def test_piece_of_a_write_is_taken_only_behind_the_one_before_it(seed: int) -> None:
    """Law: each byte of a write that was taken whole is counted once, and no other is."""
    chance, pieces = random.Random(seed), Pieces()
    tid, whole = 1, chance.randrange(1, 100)
    at = chance.randrange(1, whole + 1)
    pieces.begin_write(tid, whole, at)
    for _ in range(chance.randrange(30)):
        caller, size = chance.choice((tid, tid, 2)), chance.randrange(1, 20)
        offset = chance.choice((at, at, at - 1, at + 1))
        fits = caller == tid and offset == at and at + size <= whole
        assert pieces.next_write(caller, offset, size) == fits
        at += size if fits else 0
