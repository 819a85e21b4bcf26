from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ejfat.control.epochs.calendar import Claim, apportion, scatter, shares, spread

claims = st.dictionaries(
    st.integers(0, 0xFFFE),
    st.builds(
        Claim,
        weight=st.floats(0, 1e4),
        min_factor=st.floats(0, 2),
        max_factor=st.one_of(st.just(0.0), st.floats(0, 4)),
    ),
    min_size=1,
    max_size=40,
)
plain = st.dictionaries(st.integers(0, 999), st.floats(0.1, 100).map(Claim), min_size=1, max_size=40)


@given(claims=claims)
def test_apportion_fills_all_slots(claims: dict[int, Claim]) -> None:
    counts = apportion(claims)
    assert sum(counts.values()) == 512
    assert min(counts.values()) >= 0
    assert counts.keys() == claims.keys()


@given(claims=plain)
def test_apportion_without_bounds_is_proportional_within_one_slot(claims: dict[int, Claim]) -> None:
    total = sum(claim.weight for claim in claims.values())
    for member, count in apportion(claims).items():
        assert abs(count - 512 * claims[member].weight / total) < 1


@given(claims=plain)
def test_apportion_keeps_the_bounds_that_can_be_kept(claims: dict[int, Claim]) -> None:
    bounded = {member: Claim(claim.weight, 0.5, 2.0) for member, claim in claims.items()}
    even = 512 // len(bounded)
    for count in apportion(bounded).values():
        assert round(even * 0.5) <= count <= max(round(even * 2.0), 1)


def test_apportion_of_bounds_that_leave_slots_empty_gives_them_away() -> None:
    assert apportion({1: Claim(1, 0, 0.5), 2: Claim(3, 0, 0.5)}) == {1: 128, 2: 384}


def test_apportion_of_weights_zero_is_even() -> None:
    assert apportion({1: Claim(0), 2: Claim(0)}) == {1: 256, 2: 256}
    assert apportion({1: Claim(0), 2: Claim(5)}) == {1: 0, 2: 512}
    assert apportion({1: Claim(0, min_factor=0.5), 2: Claim(5)}) == {1: 128, 2: 384}


def test_apportion_of_nobody_is_empty() -> None:
    assert apportion({}) == {}


@given(claims=plain)
def test_spread_gives_every_member_its_slots(claims: dict[int, Claim]) -> None:
    counts = {member: count for member, count in apportion(claims).items() if count}
    assert shares(spread(counts)) == counts
    assert len(spread(counts)) == 512


@given(claims=plain, seed=st.text(max_size=20))
def test_scatter_leaves_each_member_its_slots(claims: dict[int, Claim], seed: str) -> None:
    counts = {member: count for member, count in apportion(claims).items() if count}
    assert shares(scatter(spread(counts), seed)) == counts


def test_scatter_gives_the_slots_of_a_member_upstream_to_all_members() -> None:
    plain = spread({1: 256, 2: 256})
    first, second = scatter(plain, "0 10.0.0.1"), scatter(plain, "0 10.0.0.2")
    for upstream, calendar in ((plain, first), (first, second), (plain, second)):
        reached = [calendar[slot] for slot in range(512) if upstream[slot] == 1]
        assert 64 <= reached.count(1) <= 192


@given(claims=plain)
def test_spread_any_window_holds_about_its_share_of_each_member(claims: dict[int, Claim]) -> None:
    counts = {member: count for member, count in apportion(claims).items() if count}
    calendar = spread(counts)
    for member, count in counts.items():
        for window in (64, 128, 256):
            for start in range(0, 512, 64):
                part = [calendar[(start + i) % 512] for i in range(window)].count(member)
                assert abs(part - count * window / 512) <= 1 + len(counts) / 2
