"""The forecast of a run's length."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from re3_jax.runs import observers
from re3_jax.runs.host_record import HostRecord
from re3_jax.runs.pace import Pace
from re3_jax.runs.resolve import resolve
from re3_jax.runs.terminal import Terminal


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
    assert pace.frames_per_second(seeds=3) == pytest.approx(300.0)


def test_nothing_is_forecast_before_the_first_frames():
    assert math.isnan(Pace(0.0, 5).seconds_for(100))
    assert math.isnan(Pace(0.0, 5).frames_per_second(seeds=1))


def test_the_live_line_of_a_resumed_run_has_the_speed_of_its_forecast(monkeypatch, capsys):
    clock = iter((0.0, 10.0))
    monkeypatch.setattr(observers, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), steps=185_000)
    slow = HostRecord(env_frames=85_000, timed_frames=85_000, train_seconds=85_000.0)
    session = SimpleNamespace(config=config, record=slow)
    display = observers.Display(Terminal(), session)
    slow.env_frames += 1_000
    display.trained(session, {})
    assert f"{100 * config.seeds}/s ETA 0:16:30" in capsys.readouterr().out


def test_the_end_is_foretold_once_after_20_seconds(monkeypatch, capsys):
    seconds = (10.0, 19.9, 20.0, 40.0)
    clock = iter((0.0, *seconds))
    monkeypatch.setattr(observers, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), steps=185_000)
    session = SimpleNamespace(config=config, record=HostRecord())
    display, foretold = observers.Display(Terminal(), session), []
    for second in seconds:
        session.record.env_frames = int(50 * second)
        display.trained(session, {})
        said = capsys.readouterr().out.splitlines()
        foretold += [(second, line) for line in said if "to go" in line]
    assert foretold == [(20.0, "about 1:01:20 to go")]
