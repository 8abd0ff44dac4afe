"""`make watch`: a view of a run from its folder, while the run goes on."""

import functools
import io
import json
import shlex

import numpy as np
import pytest
from rich.console import Console

from re3_jax.commands import report, watch
from re3_jax.runs import lock, progress, text_chart
from tests.cli.written_runs import write_run


@pytest.fixture
def run(tmp_path):
    """A run of three seeds, halfway; a fourth chunk is being written."""
    folder = write_run(tmp_path / "run", finals=(0.2, 0.4, 0.6), frames=(0, 50, 100), steps=200)
    lines = ["seed,env_frames,wall_seconds,episode_return_mean,intrinsic_reward_mean"]
    for chunk in range(1, 5):
        lines += [f"{seed},{25 * chunk},{chunk}.0,nan,0.0{seed}{chunk}" for seed in (1, 2, 3)]
    (folder / "train.csv").write_text("\n".join([*lines, "1,125,5.0,nan,0.9\n2,1"]))
    return folder


def printed(folder, capsys) -> str:
    assert watch.main([str(folder)]) == 0
    return capsys.readouterr().out


def test_the_view_has_the_newest_whole_rows_of_every_seed(run, capsys):
    lines = printed(run, capsys).splitlines()
    assert lines[0].strip() == "doorkey_6x6: a2c + re3, preset paper, 3 seeds"
    # 25 env frames a second of each of three seeds, and 100 to go.
    assert lines[2].strip() == ("50% 100/200 frames 75/s ETA 0:00:04 return 0.400 r_int 0.0240")
    seeds = [line.split() for line in lines if line.split()[0] in ("1", "2", "3")]
    assert seeds == [
        ["1", "0.2", "-", "0.014"],
        ["2", "0.4", "-", "0.024"],
        ["3", "0.6", "-", "0.034"],
    ]
    assert "--resume" in " ".join(lines[-2:])


def test_speed_and_time_to_go_leave_out_what_came_before_the_first_evaluation(run, capsys):
    """Such as the seconds of compilation, which a clock of the process counts."""
    for name in ("train.csv", "eval.csv"):
        header, *lines = (run / name).read_text().splitlines()
        at = header.split(",").index("wall_seconds")
        later = [line.split(",") for line in lines if line.count(",") == header.count(",")]
        for cells in later:
            cells[at] = str(float(cells[at]) + 1000)
        (run / name).write_text("\n".join([header, *map(",".join, later), ""]))
    assert "75/s ETA 0:00:04" in printed(run, capsys)


def test_a_run_that_ends_with_a_whole_chunk_shows_as_many_frames_as_it_had(run, capsys):
    config = json.loads((run / "config.json").read_text())
    config["config"]["steps"] = 90
    (run / "config.json").write_text(json.dumps(config))
    assert "100% 100/100 frames" in printed(run, capsys)


@pytest.mark.parametrize("cell", ["1n5", str(10**20), '"' + 140_000 * "x"])
def test_a_line_that_a_flipped_bit_made_is_refused(run, capsys, cell):
    table = run / "train.csv"
    table.write_text(table.read_text().replace("1,25,", f"1,{cell},", 1))
    assert watch.main([str(run)]) == 2
    assert "train.csv has a damaged line: restore it from a copy" in capsys.readouterr().err


def test_a_run_that_has_just_begun_has_a_view(tmp_path, capsys):
    folder = write_run(tmp_path / "run", frames=(0, 1), steps=200)
    (folder / "eval.csv").unlink()
    shown = printed(folder, capsys)
    assert "0% 0/200 frames -/s ETA - return - r_int -" in shown and "newest video" not in shown


def test_a_run_is_complete_once_it_wrote_its_summary(run, capsys):
    """Before that the last evaluation and the last checkpoint may be missing."""
    table = run / "train.csv"
    lines = table.read_text().splitlines()[:-2]
    lines += [f"{seed},200,9.0,nan,0.1" for seed in (1, 2, 3)]
    table.write_text("\n".join(lines) + "\n")
    assert "to continue it:" in printed(run, capsys)
    for frames, complete, said in ((200, True, True), (100, True, False), (200, False, False)):
        ended = {"complete": complete, "env_frames": frames}
        (run / "summary.json").write_text(json.dumps(ended))
        assert ("the run is complete" in printed(run, capsys)) == said
        assert (report_of(run)[0] == "yes") == said


def report_of(run):
    """What a report says of a run: whether it is complete, and its speed."""
    return [*report._of_run(run)][2:4]


def test_the_newest_video_is_named(run):
    for name in ("eval.mp4", ".predictions.mp4.part"):
        (run / name).touch()
    assert progress.read(run).video == run / "eval.mp4"


def test_whether_a_process_trains_the_run_is_seen_and_changes_nothing(run):
    assert not progress.read(run).is_running
    with lock.held(run):
        assert progress.read(run).is_running
    for _ in range(2):
        assert not progress.read(run).is_running
        with lock.held(run):
            pass


@pytest.fixture
def terminal(monkeypatch) -> io.StringIO:
    shown = io.StringIO()
    shown.isatty = lambda: True
    console = functools.partial(Console, file=shown, force_terminal=True, width=80, height=30)
    monkeypatch.setattr(watch, "Console", console)
    return shown


def test_the_view_follows_the_run_and_ends_with_it(run, terminal, monkeypatch):
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        with (run / "train.csv").open("a") as table:
            table.write(f"25,5.0,nan,0.9\n3,125,5.0,nan,0.{len(waits)}\n1,1")
        if len(waits) == 2:
            held.__exit__(None, None, None)

    monkeypatch.setattr(watch.time, "sleep", sleep)
    held = lock.held(run)
    held.__enter__()
    assert watch.main([str(run), "--every", "0.5"]) == 0
    assert waits == [0.5, 0.5]
    assert "62% 125/200 frames" in terminal.getvalue()


def test_ctrl_c_ends_the_view_with_130(run, terminal, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", interrupted)
    with lock.held(run):
        assert watch.main([str(run)]) == 130


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        (lambda run: (run / "config.json").unlink(), [], "holds no run"),
        (lambda run: (run / "train.csv").write_text("seed\nx\ny\nz\n"), [], "has a damaged line"),
        (lambda run: None, ["--every", "0"], "--every 0.0 is no time to wait"),
        (lambda run: None, ["--every", "inf"], "--every inf is no time to wait"),
    ],
)
def test_what_cannot_be_watched_is_refused(run, capsys, change, words, sentence):
    change(run)
    assert watch.main([str(run), *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said


def test_a_run_must_be_named(capsys):
    assert watch.main([]) == 2
    assert "error: give the folder of a run, as in make watch RUN=" in capsys.readouterr().err


def dots_of(text) -> np.ndarray:
    """The dots of a chart, by the Unicode standard's numbers of dots 1 to 8."""
    places = {
        0: (0, 0),
        1: (1, 0),
        2: (2, 0),
        3: (0, 1),
        4: (1, 1),
        5: (2, 1),
        6: (3, 0),
        7: (3, 1),
    }
    lines = [line.partition("│")[2] for line in text.plain.splitlines()]
    dots = np.zeros((4 * len(lines), 2 * len(lines[0])), bool)
    for i, line in enumerate(lines):
        for j, character in enumerate(line):
            for bit, (row, column) in places.items():
                dots[4 * i + row, 2 * j + column] = (ord(character) - 0x2800) >> bit & 1
    return dots


def test_a_rising_line_is_a_diagonal_of_dots():
    x = np.array([0.0, 19.0])
    line = text_chart.Line(x, x, x, x)
    chart = text_chart.chart(line, width=text_chart.LABEL + 1 + 10, height=5, end=19)
    assert chart.plain.splitlines()[0].startswith("       19│")
    assert chart.plain.splitlines()[-1].startswith("        0│")
    dots = dots_of(chart)
    assert dots.shape == (20, 20)
    expected = np.eye(20, dtype=bool)[::-1]
    assert dots[expected].all()
    # Each column also reaches the row of the next one.
    assert dots.sum() == 20 + 19


def test_nothing_is_drawn_beyond_the_last_point_and_the_band_is_around_the_line():
    x = np.array([0.0, 10.0])
    line = text_chart.Line(x, np.array([1.0, 1.0]), np.array([0.5, 0.5]), np.array([1.25, 1.25]))
    dots = dots_of(text_chart.chart(line, width=text_chart.LABEL + 1 + 10, height=5, end=20))
    assert not dots[:, 10:].any()
    rows = np.flatnonzero(dots[:, :9].any(axis=1))
    # The axis goes from 0.5 to 1.5.
    assert rows.min() == 5 and rows.max() == 19


def test_a_narrow_terminal_gets_one_character_of_the_line():
    x = np.array([0.0, 10.0])
    line = text_chart.Line(x, x, x, x)
    assert dots_of(text_chart.chart(line, width=8, height=5, end=10)).shape == (20, 2)


def test_the_command_that_continues_a_run_can_be_pasted(run, terminal, capsys):
    """In a line of its own, which no width breaks."""
    odd = run.rename(run.with_name("it's a run of a long name" + 70 * "x"))
    assert watch.main([str(odd)]) == 0
    assert "to continue it:" in terminal.getvalue()
    (command,) = capsys.readouterr().out.splitlines()
    words = shlex.split(command)
    assert words[1:4] == ["-m", "re3_jax.commands.train", "--out"] and "--resume" in words
