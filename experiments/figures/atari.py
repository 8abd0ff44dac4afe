"""Atari: returns and the number of different screens a run has seen, one column per game.

    make figure FIG=atari ARGS="RUN_DIR [RUN_DIR ...]"
    python -m experiments.figures.atari RUN_DIR [RUN_DIR ...] [--out DIR]

Draws the runs in the given folders and starts none: a game takes hours. Runs that differ in their
seeds only are pooled. Writes curves.png, every run's eval.csv, its screens as NAME-screens.csv, and
table.csv: also the human-normalised score (0 is a random player's, 1 a human's, see
`re3_jax.envs.host.atari_games`) and the screens seen by the last frame that all runs of the game
reached. Screens are counted as Go-Explore's cells are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from experiments.figures import command, runs
from re3_jax.envs.host.atari_games import find, human_normalised
from re3_jax.runs import curves, labels, suites
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError

Kind = tuple[str, str, str, str]
"""Game, agent, preset and bonus."""


class Row(NamedTuple):
    """Runs that differ in their seeds only; `screens` is a curve of screens in place of returns."""

    kind: Kind
    evaluations: Curve
    screens: Curve

    @property
    def game(self) -> str:
        """Its name."""
        return self.kind[0]


def _kind(folder: Path) -> Kind:
    env, *others = runs.options(folder, "env", "agent", "preset", "bonus")
    suite, game = suites.find(env)
    if suite.name != "atari":
        raise UsageError(f"the run in {folder} is of {env}: give runs of Atari games")
    agent, preset, bonus = others
    return find(game), agent, preset, bonus


def _screens(label: str, folders: Sequence[Path]) -> Curve:
    seeds = [curves.read(folder / "train.csv", "screens_seen") for folder in folders]
    screens = curves.common(label, [points for table in seeds for points in table.values()])
    if not screens.env_frames.size:
        raise UsageError(
            f"the runs of {label} have no row of train.csv in common: let them train first"
        )
    return screens


def _load(folders: Sequence[Path]) -> list[Row]:
    rows, pooled = [], runs.pooled(folders, _kind)
    several = len({preset for _, _, preset, _ in pooled}) > 1
    for kind, row in pooled.items():
        _, agent, preset, bonus = kind
        label = labels.of_agent(agent) + several * f" {preset}" + labels.of_bonus(bonus)
        evaluations = row.curve._replace(label=label)
        rows.append(Row(kind, evaluations, _screens(label, row.folders)))
    return rows


def _write_table(rows: Sequence[Row], path: Path) -> None:
    found = {row.kind: row.evaluations for row in rows}
    pairs = [
        (curve, found.get((game, agent, preset, "none")) if bonus != "none" else None)
        for (game, agent, preset, bonus), curve in found.items()
    ]
    scores, seen, frames = [], [], []
    for row in rows:
        frame = min(one.screens.env_frames[-1] for one in rows if one.game == row.game)
        at_frame = curves.at(row.screens, frame)
        score = human_normalised(row.game, row.evaluations.returns[:, -1].mean())
        scores.append(f"{score:.4f}")
        seen.append(f"{at_frame.mean():.6g}")
        frames.append(str(frame))
    curves.write_table(
        [row.evaluations for row in rows],
        path,
        game=[row.game for row in rows],
        human_normalised=scores,
        screens_seen=seen,
        screens_at_env_frames=frames,
        **curves.better_than("none", pairs),
    )


def _draw(rows: Sequence[Row]) -> Figure:
    games = {row.game: [one for one in rows if one.game == row.game] for row in rows}
    panels = {game: [row.evaluations for row in some] for game, some in games.items()}
    panels |= {f"{game}: screens": [row.screens for row in some] for game, some in games.items()}
    figure = curves.draw_panels(panels, (4.6, 3.5), len(games))
    for axes in figure.axes[len(games) :]:
        axes.set_ylabel("different screens seen")
    return figure


def _make(words: command.Words) -> command.Lines:
    drawn = _load(words.folders)
    names = runs.copy_evaluations(words.folders, words.out)
    for name, folder in zip(names, words.folders, strict=True):
        screens = _screens(name, [folder])
        seen = zip(screens.env_frames, screens.returns.mean(axis=0), strict=True)
        curves.write_csv(words.out / f"{name}-screens.csv", ("env_frames", "screens_seen"), seen)
    _write_table(drawn, words.out / "table.csv")
    _draw(drawn).savefig(words.out / "curves.png")
    yield words.out / "curves.png"


OPTIONS: command.Options = {"folders": {"nargs": "+", "type": Path, "metavar": "RUN_DIR"}}

main = command.of("atari", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
