"""A video holds the given frames in order."""

import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import re3_jax
from re3_jax.commands import evaluate, train
from re3_jax.runs import video
from re3_jax.runs.errors import UsageError


def read(path, height: int, width: int) -> tuple[str, np.ndarray]:
    """ffmpeg's metadata of the video, and its frames."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run([ffmpeg, "-i", path, *raw], capture_output=True, check=True)
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, height, width, 3)
    return decoded.stderr.decode(), frames


@pytest.mark.parametrize(("height", "width"), [(84, 84), (37, 51), (400, 330)])
def test_a_video_holds_the_frames(tmp_path, height, width):
    shades = [20, 90, 160, 230, 60]
    frames = [np.full((height, width, 3), shade, np.uint8) for shade in shades]
    for frame in frames:
        frame[: height // 2] = 255 - frame[: height // 2]
    video.write(tmp_path / "eval.mp4", frames)
    factor = -(-320 // min(height, width))
    tall, wide = height * factor // 2 * 2, width * factor // 2 * 2
    said, decoded = read(tmp_path / "eval.mp4", tall, wide)
    assert "h264" in said and "yuv420p" in said and "30 fps" in said and f"{wide}x{tall}" in said
    assert len(decoded) == len(frames)
    for shade, frame in zip(shades, decoded, strict=True):
        np.testing.assert_allclose(frame[: tall // 3], 255 - shade, atol=6)
        np.testing.assert_allclose(frame[-tall // 3 :], shade, atol=6)
    assert [p.name for p in tmp_path.iterdir()] == ["eval.mp4"]


@pytest.mark.parametrize("name", ["dmc:x", "-x"])
def test_a_folder_may_be_named_like_a_protocol_or_an_option(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    video.write(Path(name, "eval.mp4"), [np.zeros((320, 320, 3), np.uint8)])
    assert len(read(tmp_path / name / "eval.mp4", 320, 320)[1]) == 1


def test_a_video_without_frames_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no frames"):
        video.write(tmp_path / "eval.mp4", [])


def test_a_video_replaces_no_other_kind_of_file(tmp_path, capsys):
    kept = tmp_path / "config.json"
    kept.write_text("{}")
    assert evaluate.main(["--run", str(tmp_path), "--video", str(kept)]) == 2
    assert "config.json is no video: end its name in .mp4" in capsys.readouterr().err
    assert kept.read_text() == "{}"


@pytest.mark.parametrize(
    ("number", "every", "shown"), [(7, 3, [0, 3, 6]), (60, 2, range(0, 20, 2))]
)
def test_a_strip_holds_frames_at_equal_distances(tmp_path, number, every, shown):
    frames = np.random.default_rng(0).integers(0, 256, (number, 48, 40, 3), dtype=np.uint8)
    video.write_strip(tmp_path / "strip.png", [*frames], every)
    found = np.round(255 * plt.imread(tmp_path / "strip.png")[..., :3]).astype(int)
    # The smaller side, 40, becomes 96 or more.
    np.testing.assert_array_equal(found[1::3, 1::3], np.hstack([frames[i] for i in shown]))


def test_a_strip_without_frames_or_a_place_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no frames"):
        video.write_strip(tmp_path / "strip.png", [], 1)
    with pytest.raises(UsageError, match="name a file such as"):
        video.write_strip(tmp_path / "missing" / "strip.png", [np.zeros((9, 9, 3), np.uint8)], 1)


def test_a_missing_encoder_is_refused_before_a_run_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    words = ["--env", "pendulum_swingup", "--preset", "debug", "--out", str(tmp_path / "run")]
    assert train.main([*words, "--video"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: a video needs an encoder: ") and "--no-video" in said
    assert not (tmp_path / "run").exists()


def test_a_missing_encoder_is_refused_before_training_in_python(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UsageError, match="a video needs an encoder: "):
        re3_jax.train("pendulum_swingup", preset="debug", out=tmp_path / "run", video=True)
    assert not (tmp_path / "run").exists()


def test_an_unwritable_path_is_refused(tmp_path):
    frames = [np.zeros((64, 64, 3), np.uint8)] * 3
    with pytest.raises(UsageError, match="cannot be written"):
        video.write(tmp_path / "missing" / "eval.mp4", frames)


def test_an_encoder_that_fails_without_a_word_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    frames = [np.zeros((64, 64, 3), np.uint8)] * 3
    with pytest.raises(UsageError, match=r"cannot be written \(ffmpeg failed\): make room"):
        video.write(tmp_path / "eval.mp4", frames)


def test_a_strip_of_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(UsageError, match="name a file such as strip.png"):
        video.write_strip(tmp_path / "strip.xyz", [np.zeros((4, 4, 3), np.uint8)], 1)
