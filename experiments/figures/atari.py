"""Atari: returns, and how many different screens a run has seen, a column a game.

    make figure FIG=atari ARGS="RUN_DIR [RUN_DIR ...]"
    python -m experiments.figures.atari RUN_DIR [RUN_DIR ...] [--out DIR]

Draws the runs in the given folders and starts none: a game takes hours. Writes curves.png, every
run's eval.csv, its screens as NAME-screens.csv, and table.csv: human-normalised score (0 a random
player's, 1 a human's, see `re3_jax.envs.host.atari_games`), and the screens seen by the last frame
that all runs of the game came to. Screens count as Go-Explore's cells do.
"""

import argparse
import csv
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments import run_folder
from experiments.errors import UsageError
from experiments.figures import curves
from experiments.figures.curves import Curve
from re3_jax.envs import registry
from re3_jax.envs.host.atari_games import find, human_normalised

LABELS = {"none": "Rainbow", "re3": "Rainbow + RE3"}
COLUMNS = (
    *("game", "label", "seeds", "env_frames", "final_return_mean", "human_normalised"),
    *("screens_seen", "screens_at_env_frames"),
)


class Run(NamedTuple):
    """What a run folder holds; `screens` has them in place of returns."""

    game: str
    evaluations: Curve
    screens: Curve


def load(folder: Path) -> Run:
    """Reads one run.

    Raises:
      UsageError: there is no run of Rainbow on an Atari game.
    """
    try:
        config = json.loads((folder / run_folder.CONFIG).read_text())["config"]
        suite, _, game = registry.canonical(config["env"]).partition(":")
        label = LABELS.get(config["bonus"], f"Rainbow + {config['bonus']}")
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(f"{folder} holds no run: give folders with a config.json") from None
    if suite != "atari":
        raise UsageError(f"the run in {folder} is of {config['env']}: this figure draws Atari's")
    series: dict[str, dict[int, float]] = {}
    try:
        with (folder / "train.csv").open(newline="") as lines:
            for row in csv.DictReader(lines):
                points = series.setdefault(row["seed"], {})
                points[int(row["env_frames"])] = float(row["screens_seen"])
    except OSError:
        raise UsageError(f"{folder} has no train.csv: give the folder of a run") from None
    frames = sorted(set.intersection(*map(set, series.values()))) if series else []
    if not frames:
        raise UsageError(f"the run in {folder} has no row in train.csv: let it train first")
    screens = [[points[frame] for frame in frames] for points in series.values()]
    return Run(
        find(game), curves.load(label, [folder]), Curve(label, np.array(frames), np.array(screens))
    )


def table_rows(runs: Sequence[Run]) -> list[list[str]]:
    """A row for each run, under `COLUMNS`."""
    found = []
    for run in runs:
        frame = min(one.screens.env_frames[-1] for one in runs if one.game == run.game)
        seen = run.screens.returns[:, np.searchsorted(run.screens.env_frames, frame)].mean()
        final = run.evaluations.returns[:, -1].mean()
        found.append(
            [
                *(run.game, run.evaluations.label, str(len(run.evaluations.returns))),
                *(str(run.evaluations.env_frames[-1]), f"{final:.6g}"),
                *(f"{human_normalised(run.game, final):.4f}", f"{seen:.6g}", str(frame)),
            ]
        )
    return found


def draw(runs: Sequence[Run], path: Path) -> None:
    """Returns above, screens below."""
    games = list(dict.fromkeys(run.game for run in runs))
    figure = Figure(figsize=(4.6 * len(games), 7.0), dpi=130, layout="constrained")
    places = figure.subplots(2, len(games), squeeze=False)
    for column, game in enumerate(games):
        of_game = [run for run in runs if run.game == game]
        curves.draw_axes(places[0, column], [run.evaluations for run in of_game], game)
        curves.draw_axes(places[1, column], [run.screens for run in of_game], "")
        places[1, column].set_ylabel("different screens seen")
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> int:
    """The command in this module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m experiments.figures.atari")
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, default=Path("results/atari"))
    words = parser.parse_args(argv)
    names = [folder.resolve().name for folder in words.folders]
    try:
        if len(set(names)) < len(names):
            raise UsageError("two of the folders have the same name: rename one")
        runs = [load(folder) for folder in words.folders]
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    words.out.mkdir(parents=True, exist_ok=True)
    for folder, name, run in zip(words.folders, names, runs, strict=True):
        shutil.copyfile(folder / "eval.csv", words.out / f"{name}.csv")
        with (words.out / f"{name}-screens.csv").open("w", newline="") as lines:
            table = csv.writer(lines)
            table.writerow(["env_frames", "screens_seen"])
            mean = run.screens.returns.mean(axis=0)
            table.writerows(zip(run.screens.env_frames, mean, strict=True))
    with (words.out / "table.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([COLUMNS, *table_rows(runs)])
    draw(runs, words.out / "curves.png")
    print(words.out / "curves.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
