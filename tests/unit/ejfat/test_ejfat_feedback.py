from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ejfat.control.epochs.calendar import TICKS
from ejfat.control.epochs.ticks import TickPredictor, TickSample
from ejfat.control.feedback import FillController, Gains, reweigh

weights = st.dictionaries(st.integers(0, 20), st.floats(0, 5000), min_size=1, max_size=9)


@given(weights=weights, control=st.floats(-3000, 3000))
def test_reweigh_keeps_the_mean_and_stays_positive(weights: dict[int, float], control: float) -> None:
    moved = reweigh(weights, dict.fromkeys(weights, (0.0, 0.0)) | {next(iter(weights)): (0.0, control)})
    assert min(moved.values()) > 0
    assert sum(moved.values()) / len(moved) == pytest.approx(1000, rel=0.02)


def test_reweigh_without_signals_keeps_the_proportions() -> None:
    moved = reweigh({1: 500.0, 2: 1500.0}, {1: (0.0, 0.0), 2: (0.0, 0.0)})
    assert moved == {1: 500.0, 2: 1500.0}
    assert reweigh({}, {}) == {}


def test_reweigh_fill_level_takes_weight_from_the_full() -> None:
    moved = reweigh({1: 1000, 2: 1000}, {1: (0.9, 0.0), 2: (0.1, 0.0)}, 1.0, fill_gain=500)
    assert moved == {1: 800, 2: 1200}
    assert reweigh({1: 1000, 2: 1000}, {1: (0.9, 0.0), 2: (0.1, 0.0)}) == {1: 1000, 2: 1000}


def test_fill_controller_asks_for_less_when_full_and_for_more_when_empty() -> None:
    controller = FillController(Gains(proportional=10), set_point=0.5)
    assert controller.update(0.9, 0.0) == pytest.approx(-4)
    assert controller.update(0.1, 0.1) == pytest.approx(4)


def test_fill_controller_integral_and_derivative_look_at_the_window() -> None:
    integral = FillController(Gains(integral=2), set_point=0.5, window_s=1.0)
    for step in range(21):
        signal = integral.update(0.0, step / 10)
    assert signal == pytest.approx(2 * 0.5 * 1.0)
    derivative = FillController(Gains(derivative=1), set_point=0.0)
    derivative.update(0.0, 0.0)
    assert derivative.update(0.5, 0.5) == pytest.approx(-1.0)


def test_fill_controller_without_gains_never_asks() -> None:
    assert FillController(Gains()).update(1.0, 0.0) == 0


def test_predict_goes_on_at_the_rate_the_sender_claims() -> None:
    ticks = TickPredictor()
    ticks.sample(("sender", 1), TickSample(1_000_000, at=10.0, rate_hz=1000))
    assert ticks.predict(12.0, 10.5) == 1_002_000


def test_predict_without_a_rate_fits_a_line() -> None:
    ticks = TickPredictor()
    for second in range(12):
        ticks.sample(("sender", 1), TickSample(500 * second, at=float(second)))
    assert ticks.predict(13.0, 11.0) == 6500


def test_predict_the_furthest_source_counts_and_the_seen_tick_bounds_it() -> None:
    ticks = TickPredictor()
    assert ticks.predict(1.0, 0.0) is None
    ticks.sample(("sender", 1), TickSample(100, at=0.0, rate_hz=10))
    ticks.sample(("sender", 2), TickSample(50, at=0.0, rate_hz=1000))
    assert ticks.predict(1.0, 0.0) == 1050
    ticks.observe(2000, 0.0)
    assert ticks.predict(1.0, 0.0) == 2000
    ticks.observe(5000, 0.0)
    assert ticks.predict(1.0, 0.0) == 2050, "twice the rate that is said, for a second"


def test_predict_old_samples_say_nothing() -> None:
    ticks = TickPredictor()
    ticks.sample(("sender", 1), TickSample(100, at=0.0, rate_hz=10))
    assert ticks.predict(100.0, 100.0) is None


def test_predict_at_the_end_of_the_tick_space_stays_inside() -> None:
    ticks = TickPredictor()
    ticks.sample(("sender", 1), TickSample(TICKS - 5, at=0.0, rate_hz=1e9))
    assert ticks.predict(10.0, 0.0) == TICKS - 2


def test_sample_that_goes_backwards_forgets_the_past() -> None:
    ticks = TickPredictor()
    for second, tick in ((0.0, 1000), (1.0, 2000), (2.0, 7)):
        ticks.sample(("sender", 1), TickSample(tick, at=second))
    assert ticks.predict(3.0, 2.0) == 7
