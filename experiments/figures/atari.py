"""Atari: returns and the number of different screens a run has seen, one column per game.

    make figure FIG=atari ARGS="RUN_DIR [RUN_DIR ...]"
    python -m experiments.figures.atari RUN_DIR [RUN_DIR ...] [--out DIR]

Draws the runs in the given folders and starts none: a game takes hours. Writes curves.png, every
run's eval.csv, its screens as NAME-screens.csv, and table.csv: the human-normalised score (0 is a
random player's, 1 a human's, see `re3_jax.envs.host.atari_games`) and the screens seen by the last
frame that all runs of the game reached. Screens are counted as Go-Explore's cells are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.figures import command, runs
from re3_jax.envs.host.atari_games import find, human_normalised
from re3_jax.runs import curves, suites
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError

LABELS = {"none": "Rainbow", "re3": "Rainbow + RE3"}
COLUMNS = (
    *("game", "label", "seeds", "env_frames", "final_return_mean", "human_normalised"),
    *("screens_seen", "screens_at_env_frames"),
)


class Run(NamedTuple):
    """Contents of a run folder; `screens` is a curve of screens in place of returns."""

    game: str
    evaluations: Curve
    screens: Curve


def _load(folder: Path) -> Run:
    env, bonus = runs.options(folder, "env", "bonus")
    suite, game = suites.find(env)
    if suite.name != "atari":
        raise UsageError(f"the run in {folder} is of {env}: give runs of Atari games")
    label = LABELS.get(bonus, f"Rainbow + {bonus}")
    screens = curves.common(label, curves.read(folder / "train.csv", "screens_seen").values())
    if not screens.env_frames.size:
        raise UsageError(f"the run in {folder} has no row in train.csv: let it train first")
    return Run(find(game), curves.load(label, [folder]), screens)


def _table_rows(runs: Sequence[Run]) -> list[list[object]]:
    found = []
    for run in runs:
        frame = min(one.screens.env_frames[-1] for one in runs if one.game == run.game)
        seen = run.screens.returns[:, np.searchsorted(run.screens.env_frames, frame)].mean()
        label, env_frames, returns = run.evaluations
        final = returns[:, -1].mean()
        scores = f"{final:.6g}", f"{human_normalised(run.game, final):.4f}", f"{seen:.6g}"
        found.append([run.game, label, len(returns), env_frames[-1], *scores, frame])
    return found


def _draw(runs: Sequence[Run]) -> Figure:
    games = {run.game: [one for one in runs if one.game == run.game] for run in runs}
    panels = {game: [run.evaluations for run in some] for game, some in games.items()}
    panels |= {f"{game}: screens": [run.screens for run in some] for game, some in games.items()}
    figure = curves.draw_panels(panels, (4.6, 3.5), len(games))
    for axes in figure.axes[len(games) :]:
        axes.set_ylabel("different screens seen")
    return figure


def _make(words: command.Words) -> command.Lines:
    drawn = [_load(folder) for folder in words.folders]
    names = runs.copy_evaluations(words.folders, words.out)
    for name, run in zip(names, drawn, strict=True):
        mean = run.screens.returns.mean(axis=0)
        seen = zip(run.screens.env_frames, mean, strict=True)
        curves.write_csv(words.out / f"{name}-screens.csv", ("env_frames", "screens_seen"), seen)
    curves.write_csv(words.out / "table.csv", COLUMNS, _table_rows(drawn))
    _draw(drawn).savefig(words.out / "curves.png")
    yield words.out / "curves.png"


OPTIONS: command.Options = {"folders": {"nargs": "+", "type": Path, "metavar": "RUN_DIR"}}

main = command.of("atari", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
