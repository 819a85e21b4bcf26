"""The search for the highest rate without loss: bounded, in both directions, and honest about what was offered."""

from __future__ import annotations

import asyncio

import pytest

from opavnic_bench.ejfat.calm import NEAR, TRIALS, highest_calm_rate


def search(first: float, ceiling: float, takes: float, offers: float = 1e9) -> tuple[float, list[float]]:
    """Search with a forwarder that takes `takes` packets per second, and a sender that can offer `offers`."""
    tried: list[float] = []

    async def trial(rate: float) -> float | None:
        tried.append(rate)
        offered = min(rate, offers)
        return offered if offered <= takes else None

    return asyncio.run(highest_calm_rate(trial, first, ceiling)), tried


@pytest.mark.parametrize("takes", [900, 5_000, 20_000, 60_000, 99_000])
def test_rate_is_found_above_and_below_the_first_one(takes: float) -> None:
    found, tried = search(20_000, 100_000, takes)
    assert takes / NEAR**2 <= found <= takes
    assert len(tried) <= TRIALS


def test_first_rate_at_the_ceiling_is_enough_if_nothing_is_lost_there() -> None:
    assert search(100_000, 100_000, 200_000) == (100_000, [100_000])


def test_rate_that_the_sender_cannot_offer_is_not_claimed() -> None:
    found, tried = search(20_000, 100_000, 200_000, offers=30_000)
    assert found == 30_000
    assert len(tried) < TRIALS


def test_no_rate_without_loss_ends_the_search_with_zero() -> None:
    found, tried = search(20_000, 100_000, -1)
    assert found == 0
    assert len(tried) == TRIALS
