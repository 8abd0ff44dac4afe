"""The figure of the bonuses' losses, from made-up training logs."""

import csv

import pytest
from matplotlib.figure import Figure

from experiments.figures import bonus_losses
from experiments.figures.bonus_losses import LOSSES
from experiments.figures.runs import Runs
from re3_jax.runs import curves


@pytest.fixture
def asked(monkeypatch):
    """The requested runs; each logs losses of two seeds, after a chunk without updates."""
    runs_asked = []

    def ensure(runs, run):
        runs_asked.append(run)
        folder = runs.folder / run.bonus
        folder.mkdir(parents=True, exist_ok=True)
        columns = [column for column, (of, _) in LOSSES.items() if of == run.bonus]
        with (folder / "train.csv").open("w", newline="") as out:
            log = csv.writer(out)
            log.writerow(["seed", "env_frames", *columns])
            for seed in (1, 2):
                log.writerow([seed, 100, *["nan"] * len(columns)])
                for i, frames in enumerate((200, 300)):
                    log.writerow([seed, frames, *(seed / 2**i for _ in columns)])
        (folder / "eval.csv").write_text("seed,env_frames,return_mean\n1,300,0\n2,300,0\n")
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    return runs_asked


@pytest.fixture
def drawn(monkeypatch):
    """Title of a panel -> its lines, once the picture is saved."""
    lines, save = {}, Figure.savefig

    def savefig(figure, *words, **keywords):
        for axes in figure.axes:
            lines[axes.get_title()] = [
                tuple(list(values) for values in line.get_data()) for line in axes.get_lines()
            ]
        save(figure, *words, **keywords)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return lines


def test_every_learned_bonus_is_run_and_all_its_losses_are_drawn(asked, drawn, tmp_path):
    words = ["--seeds", "2", "--steps", "300", "--runs", str(tmp_path / "runs")]
    assert bonus_losses.main([*words, "--out", str(tmp_path / "out")]) == 0
    assert {run.bonus for run in asked} == {"rnd", "icm", "contrastive", "inverse_dynamics"}
    assert {(run.agent, run.seeds, run.steps) for run in asked} == {("rad", 2, 300)}
    # One evaluation, at the end.
    assert all(run.changes == {"evaluation.every-env-frames": "300"} for run in asked)
    for column, (bonus, title) in LOSSES.items():
        of_seeds = curves.read(tmp_path / "out" / f"{bonus}-train.csv", column)
        assert set(of_seeds) == {"1", "2"}
        # The chunk without updates is not drawn.
        assert drawn[title] == [([200, 300], [1.0, 0.5]), ([200, 300], [2.0, 1.0])]
    assert (tmp_path / "out" / "losses.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_without_the_loss_is_refused(asked, tmp_path, monkeypatch, capsys):
    made = Runs.ensure

    def ensure(runs, run):
        folder = made(runs, run)
        for name in ("train.csv", "eval.csv"):
            (folder / name).write_text("seed,env_frames,return_mean\n1,100,0\n")
        return folder

    monkeypatch.setattr(Runs, "ensure", ensure)
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert bonus_losses.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "no column rnd_loss" in said and said.count("\n") == 1
