"""The generator of faults and jitter against known words, and the rules by which packets draw from it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfi_sim.base.random_stream import RandomStream, threshold


def test_words_from_state_0_are_those_that_splitmix64_is_known_by() -> None:
    stream = RandomStream(0)
    assert [stream.word() for _ in range(3)] == [
        0xE220_A839_7B1D_CDAF,
        0x6E78_9E6A_A1B9_65F4,
        0x06C4_5D18_8009_454F,
    ]


def test_stream_of_a_name_begins_where_the_rule_says() -> None:
    """native/engine/src/random.rs has the same words."""
    stream = RandomStream.named(1, "h1:1->sw0:1")
    assert stream.state == 0xDA5B_A4AD_0FCF_B692
    assert [stream.word() for _ in range(4)] == [
        0xE099_3650_4EBF_D1A0,
        0xFB28_6972_21A2_F877,
        0xA9BF_5253_A813_B7D7,
        0x270D_0B95_B186_18C0,
    ]


def test_streams_of_other_names_or_seeds_are_others() -> None:
    keys = [(1, "a:1->b:1"), (1, "b:1->a:1"), (2, "a:1->b:1"), (1, "a:1->b:1 jitter"), (1 << 70, "a:1->b:1")]
    assert len({RandomStream.named(*key).word() for key in keys}) == len(keys)


@pytest.mark.parametrize(("probability", "chance"), [(0, 0), (1, 1 << 53), (0.5, 1 << 52), (1e-30, 1)])
def test_threshold_keeps_never_always_and_whatever_is_above_never(probability: float, chance: int) -> None:
    assert threshold(probability) == chance


@given(st.integers(0, (1 << 64) - 1), st.floats(0, 1))
def test_hit_is_a_word_whose_upper_bits_are_below_the_probability(state: int, probability: float) -> None:
    assert RandomStream(state).hits(threshold(probability)) == (
        (RandomStream(state).word() >> 11) / (1 << 53) < probability
    )


@given(st.integers(0, (1 << 64) - 1), st.integers(1, 200), st.data())
def test_sample_is_of_different_numbers_and_draws_a_word_for_each(
    state: int, limit: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(0, limit))
    stream, same = RandomStream(state), RandomStream(state)
    numbers = stream.sample(limit, count)
    for _ in range(count):
        same.word()
    assert len(numbers) == count
    assert numbers <= set(range(limit))
    assert stream.state == same.state


def test_sample_takes_every_number_about_as_often() -> None:
    stream = RandomStream(7)
    taken = Counter(number for _ in range(4000) for number in stream.sample(10, 3))
    assert all(1050 < taken[number] < 1350 for number in range(10))
