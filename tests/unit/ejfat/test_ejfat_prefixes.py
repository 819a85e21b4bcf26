from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.base.errors import ExhaustedError
from ejfat.control.epochs.calendar import EVERYTHING, TICKS, WORST_CASE, cover, covered

tick = st.integers(0, TICKS)
ranges = st.tuples(tick, tick).map(sorted)


@given(ends=ranges)
def test_cover_holds_exactly_the_range(ends: list[int]) -> None:
    start, end = ends
    at = start
    for prefix in cover(start, end):  # in order, without gap or overlap
        assert prefix.value == at
        assert prefix.value % prefix.size == 0
        at += prefix.size
    assert at == end


@given(ends=ranges, probe=st.integers(0, TICKS - 1))
def test_cover_matches_a_tick_where_the_range_holds_it(ends: list[int], probe: int) -> None:
    start, end = ends
    assert covered(cover(start, end), probe) == (start <= probe < end)


@given(ends=ranges)
def test_cover_never_needs_more_than_the_table_holds(ends: list[int]) -> None:
    assert len(cover(*ends)) <= WORST_CASE == 126


@given(base=st.integers(0, TICKS // 256 - 1), a=st.integers(0, 256), b=st.integers(0, 256))
def test_cover_is_minimal(base: int, a: int, b: int) -> None:
    start, end = sorted((a, b))
    fewest = [0] * (end + 1)  # fewest[i]: prefixes for [i, end), by trying every block that begins at i
    for i in range(end - 1, start - 1, -1):
        sizes = [1 << k for k in range(9) if i % (1 << k) == 0 and i + (1 << k) <= end]
        fewest[i] = 1 + min(fewest[i + size] for size in sizes)
    assert len(cover(base * 256 + start, base * 256 + end)) == (fewest[start] if start < end else 0)


@given(start=st.integers(10**15, 2 * 10**15))
def test_cover_of_a_second_of_microseconds_is_small(start: int) -> None:
    assert len(cover(start, start + 10**6)) <= 2 * 20


def test_cover_of_everything_is_the_wildcard() -> None:
    assert cover(0, TICKS) == (EVERYTHING,)
    assert cover(7, 7) == ()
    assert len(cover(1, TICKS - 1)) == WORST_CASE


def test_cover_beyond_its_limit_is_refused() -> None:
    with pytest.raises(ExhaustedError, match="needs 126 prefixes; the epoch table has room for 100"):
        cover(1, TICKS - 1, 100)


@pytest.mark.parametrize(("start", "end"), [(5, 4), (-1, 4), (0, TICKS + 1)])
def test_cover_of_no_range_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="are not a range of 64-bit ticks"):
        cover(start, end)
