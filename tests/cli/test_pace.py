"""The forecast of a run's length."""

import math

import pytest

from re3_jax.runs.pace import Pace


def test_slow_frames_after_fast_ones_are_forecast_as_slow():
    pace = Pace(100.0, 0)
    for second in range(1, 11):
        pace.add(100.0 + second, 1_000 * second)
    assert pace.seconds_for(5_000) == pytest.approx(5.0)
    for second in range(1, 31):
        pace.add(110.0 + second, 10_000 + 50 * second)
    assert pace.elapsed() == 40.0
    assert pace.seconds_for(5_000) == pytest.approx(100.0)


def test_frames_before_a_resumption_do_not_count():
    pace = Pace(0.0, 70_000)
    pace.add(10.0, 71_000)
    assert pace.seconds_for(2_000) == pytest.approx(20.0)


def test_nothing_is_forecast_before_the_first_frames():
    assert math.isnan(Pace(0.0, 5).seconds_for(100))
