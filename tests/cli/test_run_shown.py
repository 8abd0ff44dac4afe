"""What a run made by `re3_jax.train` shows: its video, and itself in a notebook."""

import importlib.util
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console

from re3_jax.runs import terminal
from re3_jax.runs.errors import UsageError
from re3_jax.runs.interface import Run
from re3_jax.runs.resolve import resolve
from re3_jax.runs.session import Session
from re3_jax.training.host_evaluation import evaluate_lanes
from tests.probe_host_env import EPISODE, SIZE, DotLanes

EPISODES = 2


class Dots:
    """A program whose evaluation plays the dot on a line, which every action moves to the right."""

    def init(self, seeds):
        return seeds

    def start_evaluation(self, state, film=None):
        stats = evaluate_lanes(
            DotLanes(len(state) * EPISODES),
            begin=lambda frame: frame,
            act=lambda memory, key, steps: (memory, jnp.ones((*memory.shape[:2], 1))),
            see=lambda memory, frame, begins: frame,
            seeds=np.asarray(state),
            env_frames=0,
            episodes=EPISODES,
            sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]),
            film=film,
        )
        return lambda: stats

    def close(self):
        pass


@pytest.fixture
def run() -> Run:
    session = Session(resolve("pendulum_swingup", preset="debug"), Dots())
    session.begin()
    return Run(session, {}, progress=False)


def brightness(frames) -> np.ndarray:
    """Column of the dot's centre in each frame, in shares of the width."""
    columns = np.arange(frames.shape[2]) + 0.5
    weight = frames[..., 0].astype(float).sum(axis=1)
    return (weight * columns).sum(axis=1) / weight.sum(axis=1) / frames.shape[2]


def test_a_video_is_the_first_episode_of_the_first_seed(run):
    frames = run.video()
    assert frames.shape == (EPISODE, SIZE, SIZE, 3) and frames.dtype == np.uint8
    lanes = DotLanes(1)
    seed = np.random.SeedSequence([run.config.seed_numbers[0], 0]).generate_state(EPISODES)[:1]
    shown = [lanes.reset(seed)[0]]
    for _ in range(EPISODE - 1):
        lanes.send(np.ones((1, 1)))
        shown.append(lanes.receive().frame[0])
    np.testing.assert_array_equal(frames, shown)
    assert len(np.unique(frames, axis=0)) > 1


def test_a_video_replaces_no_table(run, tmp_path):
    table = tmp_path / "eval.csv"
    table.write_text("seed")
    with pytest.raises(UsageError, match="is no video: end its name in .mp4"):
        run.video(table)
    assert table.read_text() == "seed"


def test_a_video_is_written_where_it_is_asked_for(run, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    path = run.video(tmp_path / "episode.mp4")
    assert path == tmp_path / "episode.mp4"
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run([ffmpeg, "-i", path, *raw], capture_output=True, check=True).stdout
    frames = np.frombuffer(decoded, np.uint8).reshape(EPISODE, 320, 320, 3)
    np.testing.assert_allclose(brightness(frames), brightness(run.video()), atol=0.02)


@pytest.fixture(scope="module")
def trained() -> Run:
    table = b"seed,env_frames,wall_seconds,episodes,return_mean,return_std,length_mean\n"
    table += b"".join(b"%d,%d,1.0,2,0.%d,0,9\n" % (s, x, s) for x in (0, 40) for s in (1, 2))
    session = Session(resolve("doorkey_6x6", preset="debug"), Dots())
    session.begin()
    session.record.env_frames = session.record.evaluated_at = 40
    return Run(session, {"eval.csv": table}, progress=False)


def test_the_last_line_of_a_cell_says_what_the_run_is(trained):
    assert repr(trained) == (
        f"<Run of {trained.config.title()}: 40 of {trained.config.steps:,} env frames>"
    )


def test_a_notebook_shows_the_curve_without_a_plotting_backend(trained):
    figure = trained.plot()
    png = figure._repr_png_()
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and len(png) > 10_000
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert [width, height] == [round(x * figure.dpi) for x in figure.get_size_inches()]
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.15, 0.15])


@pytest.mark.parametrize("has_widgets", [True, False])
def test_the_live_line_in_a_notebook_needs_ipywidgets(monkeypatch, has_widgets):
    """Without them a line is printed every ten seconds."""
    shown = []
    display = types.ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        terminal.importlib.util,
        "find_spec",
        lambda name: object() if name == "ipywidgets" and has_widgets else None,
    )
    made = terminal.Terminal()
    monkeypatch.setattr(terminal.importlib.util, "find_spec", found)
    assert made._is_live is has_widgets
    if not has_widgets:
        now = iter([100.0, 100.0, 105.0, 111.0, 111.0])
        monkeypatch.setattr(terminal.time, "monotonic", lambda: next(now))
        for frames in (10, 20, 30):
            made.show(terminal.Standing(frames, 40, 1.0, 1.0, 0.5, 0.1))
        printed = [one._repr_mimebundle_([], [])["text/plain"] for one in shown]
        assert ["25%" in printed[0], "75%" in printed[1], len(printed)] == [True, True, 2]
