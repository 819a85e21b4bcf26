from __future__ import annotations

import random
from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.control.epochs import calendar
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


def bounds_of(claims: dict[int, Claim]) -> dict[int, tuple[int, int]]:
    """Return what each member may have at least and at most; relaxed as documented where no division is within."""
    even = 512 // len(claims)
    lows = {m: min(round(even * c.min_factor), 512) for m, c in claims.items()}
    highs = {m: round(even * c.max_factor) if c.max_factor else 512 for m, c in claims.items()}
    highs = {m: min(max(high, lows[m]), 512) for m, high in highs.items()}
    if sum(lows.values()) > 512:
        lows = dict.fromkeys(claims, 0)
    if sum(highs.values()) < 512:
        highs = dict.fromkeys(claims, 512)
    return {m: (lows[m], highs[m]) for m in claims}


def computed(claims: dict[int, Claim]) -> dict[int, int]:
    """Compute the division anew: freeze members beyond their bounds, on the side violated more, and repeat."""
    bounds = bounds_of(claims)
    weights = {m: Fraction(c.weight) for m, c in claims.items()}
    if not any(weights.values()):
        weights = dict.fromkeys(claims, Fraction(1))
    shares = {m: Fraction(bounds[m][0]) for m in claims if not weights[m]}
    free = [m for m in claims if weights[m]]
    while free:
        rest = 512 - sum(shares.values())
        factor = rest / sum(weights[m] for m in free)
        clamped = {m: min(max(weights[m] * factor, bounds[m][0]), bounds[m][1]) for m in free}
        violation = sum(clamped.values()) - rest
        frozen = [
            m
            for m in free
            if violation == 0
            or (violation > 0 and clamped[m] > weights[m] * factor)
            or (violation < 0 and clamped[m] < weights[m] * factor)
        ]
        shares |= {m: Fraction(clamped[m]) for m in frozen}
        free = [m for m in free if m not in frozen]
    counts = {m: floor(share) for m, share in shares.items()}
    by_rest = sorted(claims, key=lambda m: (counts[m] - shares[m], m))
    while sum(counts.values()) < 512:
        for member in by_rest:
            if counts[member] < bounds[member][1] and sum(counts.values()) < 512:
                counts[member] += 1
    return counts


def drawn(seed: int) -> dict[int, Claim]:
    """Draw members with weights as they are after reports, and bounds as workers register them."""
    chance = random.Random(seed)
    claims = {}
    for member in chance.sample(range(0xFFFF), chance.choice((1, 2, 3, 5, 8, 13, 40, 100, 511, 512, 600))):
        weight = chance.choice((0.0, 1.0, 1000.0, chance.uniform(0, 5000), 10 ** chance.uniform(-6, 6)))
        low = chance.choice((0.0, 0.0, 0.5, chance.uniform(0, 2)))
        high = chance.choice((0.0, 0.0, 2.0, low + chance.uniform(0, 2), 0.5))
        claims[member] = Claim(weight, low, high if not high or high >= low else low)
    return claims


def law(claims: dict[int, Claim]) -> None:
    """Each member's number of slots is within its bounds, all slots are given, and each as computed anew."""
    counts = apportion(claims)
    assert sum(counts.values()) == 512
    for member, (low, high) in bounds_of(claims).items():
        assert low <= counts[member] <= high
    assert counts == computed(claims)
    slots = spread(counts)
    assert shares(slots) == {member: count for member, count in counts.items() if count}
    turn = dict.fromkeys(counts, 0)
    for slot, member in enumerate(slots):
        middle = (turn[member] + 0.5) * 512 / counts[member]
        assert abs(slot + 0.5 - middle) <= len(counts)
        turn[member] += 1


@pytest.mark.parametrize("seed", range(60))
def test_calendar_is_within_bounds_whole_and_as_computed_anew(seed: int) -> None:
    law(drawn(seed))


@pytest.mark.long
def test_calendar_is_within_bounds_whole_and_as_computed_anew_in_3000_cases() -> None:
    for seed in range(3000):
        law(drawn(seed))


@given(claims=claims)
def test_calendar_of_any_claims_is_within_bounds_whole_and_as_computed_anew(claims: dict[int, Claim]) -> None:
    law(claims)


def no_minimum(bounds: dict[int, tuple[int, int]], slots: int) -> dict[int, tuple[int, int]]:
    lifted = dict.fromkeys(bounds, (0, slots))
    return lifted if sum(high for _, high in bounds.values()) < slots else bounds


SABOTAGES: dict[str, tuple[str, Any]] = {
    "the minimum is lost where maxima are lifted": ("_feasible", no_minimum),
    "bounds are cut instead of rounded": ("round", int),
    "remainders are not compared": ("sorted", lambda found, key=None: list(found)),
    "shares are not clamped": ("_water_fill", lambda weights, bounds, slots: dict.fromkeys(weights, Fraction(0))),
    "slots are not spread": ("spread", lambda counts: tuple(m for m, n in counts.items() for _ in range(n))),
    "slots come late": (
        "spread",
        lambda counts: tuple(m for _, m in sorted(
            ((2 * turn + 2) * 512 / (2 * n), m) for m, n in counts.items() for turn in range(n)
        )),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SABOTAGES)
def test_law_of_the_calendar_is_broken_by(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, instead = SABOTAGES[what]
    monkeypatch.setattr(calendar, name, instead, raising=False)
    if name == "spread":
        monkeypatch.setitem(globals(), name, instead)
    for seed in range(200):
        try:
            law(drawn(seed))
        except AssertionError:
            return
    pytest.fail("no case notices it")


@given(claims=plain, seed=st.text(max_size=20))
def test_scatter_leaves_each_member_its_slots(claims: dict[int, Claim], seed: str) -> None:
    counts = {member: count for member, count in apportion(claims).items() if count}
    assert shares(scatter(spread(counts), seed)) == counts


def test_scatter_gives_the_slots_of_a_member_upstream_to_all_members() -> None:
    plain = spread({1: 256, 2: 256})
    first, second = scatter(plain, "0 10.0.0.1"), scatter(plain, "0 10.0.0.2")
    for upstream, slots in ((plain, first), (first, second), (plain, second)):
        reached = [slots[slot] for slot in range(512) if upstream[slot] == 1]
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


@pytest.mark.parametrize(
    ("claims", "counts"),
    [
        ({}, {}),
        ({1: Claim(0, 0.5, 0.5), 2: Claim(1, max_factor=0.5)}, {1: 128, 2: 384}),
        ({1: Claim(1, 0, 0.5), 2: Claim(3, 0, 0.5)}, {1: 128, 2: 384}),
        ({1: Claim(0), 2: Claim(0)}, {1: 256, 2: 256}),
        ({1: Claim(0), 2: Claim(5)}, {1: 0, 2: 512}),
        ({1: Claim(0, min_factor=0.5), 2: Claim(5)}, {1: 128, 2: 384}),
        ({1: Claim(1.0, 1.0, 0.0), 2: Claim(3.0, 1.0, 0.0)}, {1: 256, 2: 256}),
    ],
)
def test_claims_at_their_limits_are_apportioned(claims: dict[int, Claim], counts: dict[int, int]) -> None:
    assert apportion(claims) == counts
