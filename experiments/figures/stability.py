"""How much the distances between states change while an encoder learns (paper, Section 3.2).

The paper's reason for a fixed encoder is "a more stable intrinsic reward as the distance between a
given pair of states does not change during training"; it has no measure of it. Here A2C trains with
state entropy over RE3's encoder and over those that learn. At equal parts of the run its encoder
encodes the same observations of random episodes, of which each is rewarded for the distance to its
k-th neighbour among them. What changes is therefore the encoder alone.

    make figure FIG=stability [ARGS="--task doorkey_8x8 --seeds 5"]

Writes stability.png, points.csv with every seed, and table.csv with means over seeds and 95%
intervals; and what it found of each encoder, which it does not compute again with the same options.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, starmap
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped
from matplotlib.figure import Figure
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]
from scipy.stats import spearmanr  # type: ignore[import-untyped]

import re3_jax
from experiments.figures import command
from re3_jax.envs import registry
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.contrastive import contrastive_encoder
from re3_jax.intrinsic.inverse_dynamics import inverse_dynamics_encoder
from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.state_entropy import Encoder, StateEntropyState
from re3_jax.runs import curves, statistics
from re3_jax.runs.config import PresetName, RunConfig, flatten
from re3_jax.runs.curves import Curve
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.resolve import resolve
from re3_jax.runs.run_folder import write_json
from re3_jax.training.train_state import TrainState

K = 3
POINTS = 10
OBSERVATIONS = 512
LANES, STEPS = 64, 256
"""Random episodes from which the observations come."""

LABELS = {
    "re3": "random encoder (RE3)",
    "contrastive": "SE w/ Contrastive",
    "inverse_dynamics": "SE w/ Inverse dynamics",
}
"""Bonus -> its name in the figure."""

MEASURES = {
    "change_of_distances": "change of a distance since the point before",
    "rank_correlation": "rewards: rank correlation with those before",
    "rank_correlation_with_end": "rewards: rank correlation with the last",
}
"""Column -> its title."""

Observations = Shaped[np.ndarray, " state *observation"]


class Point(NamedTuple):
    """What an encoder makes of the observations at one time.

    Attributes:
      distances: between all of them.
      rewards: log(1 + distance to the k-th neighbour), Equation 3.
    """

    distances: Float[np.ndarray, "state state"]
    rewards: Float[np.ndarray, " state"]

    @classmethod
    def of(cls, latents: Float[np.ndarray, "state latent"]) -> "Point":
        """The point of these latents."""
        distances = cdist(latents, latents)
        return cls(distances, np.log1p(np.sort(distances, axis=1)[:, K]))


def change(before: Point, now: Point) -> float:
    """Mean absolute change of a distance, as a share of the mean distance before."""
    return float(np.abs(now.distances - before.distances).mean() / before.distances.mean())


def rank_correlation(one: Point, other: Point) -> float:
    """Spearman's correlation of the rewards."""
    return float(spearmanr(one.rewards, other.rewards).statistic)


def observations(env: DeviceEnv, key: PRNGKeyArray) -> Observations:
    """At most `OBSERVATIONS` different observations of random episodes, in random order."""
    reset_key, scan_key, draw_key = jax.random.split(key, 3)

    def step(state: Any, key: PRNGKeyArray) -> tuple[Any, Array]:
        action_key, step_key = jax.random.split(key)
        action = env.spec.action_space.sample(action_key, LANES)
        state, found = jax.vmap(env.step)(state, action, jax.random.split(step_key, LANES))
        return state, found.observation

    def play() -> Array:
        state, _ = jax.vmap(env.reset)(jax.random.split(reset_key, LANES))
        return jax.lax.scan(step, state, jax.random.split(scan_key, STEPS))[1]

    seen = np.asarray(jax.jit(play)())
    different = np.unique(seen.reshape(LANES * STEPS, *seen.shape[2:]), axis=0)
    return np.asarray(jax.random.permutation(draw_key, different))[:OBSERVATIONS]


def points(words: command.Words, bonus: str) -> Iterator[tuple[int, list[Point]]]:
    """At most `POINTS` equal parts of a run, in whole chunks: env frames, a point of each seed.

    Raises:
      UsageError: the run is a single chunk, after which there is nothing to compare.
    """
    shown = jnp.asarray(observations(registry.make(words.task), jax.random.key(0)))
    options: dict[str, Any] = {"agent": "a2c", "preset": words.preset, "seeds": words.seeds}
    options |= {"evaluation": {"every_env_frames": words.steps, "episodes": 1}, "progress": False}
    ends = [words.steps * part // POINTS for part in range(1, POINTS + 1)]
    run = re3_jax.train(words.task, bonus=bonus, steps=ends[0], **options)
    encode = encoder(bonus, run.config).encode
    of_seeds = jax.jit(jax.vmap(lambda state: encode(state, shown)))
    frames = 0
    for end in ends:
        if end <= frames:
            continue
        run.train(steps=end)
        if frames == 0 and run.metrics["env_frames"][-1] >= words.steps:
            raise UsageError(
                f"--steps {words.steps} are one chunk of {words.task}, and a change needs two: "
                "give more"
            )
        frames = int(run.metrics["env_frames"][-1])
        latents = np.asarray(of_seeds(_encoder_state(run.state)))
        yield frames, [Point.of(of_seed) for of_seed in latents]
        print(f"{bonus}: {frames:,} of {words.steps:,} env frames", flush=True)


def encoder(bonus: str, config: RunConfig) -> Encoder:
    """The encoder of one of the bonuses in `LABELS`."""
    if bonus == "contrastive":
        return contrastive_encoder(config.re3, config.learned)
    if bonus == "inverse_dynamics":
        return inverse_dynamics_encoder(config.re3, config.learned)
    return encoder_from(config.re3)


def _encoder_state(state: TrainState) -> Any:
    """The state of the encoder, of all seeds; the bonus keeps it below its transforms."""

    def is_entropy(leaf: Any) -> bool:
        return isinstance(leaf, StateEntropyState)

    leaves = jax.tree.leaves(state.intrinsic, is_leaf=is_entropy)
    return next(leaf for leaf in leaves if is_entropy(leaf)).encoder


def measured(label: str, found: Sequence[tuple[int, Sequence[Point]]]) -> dict[str, Curve]:
    """Column -> its curve for one encoder, from (env frames, a point of each seed)."""
    frames = np.array([frame for frame, _ in found])
    of_seeds = [*zip(*(of_seed for _, of_seed in found), strict=True)]

    def curve(values: Sequence[Sequence[float]]) -> Curve:
        rows = np.array(values)
        return Curve(label, frames[len(frames) - rows.shape[1] :], rows)

    return {
        "change_of_distances": curve([[*starmap(change, pairwise(one))] for one in of_seeds]),
        "rank_correlation": curve(
            [[*starmap(rank_correlation, pairwise(one))] for one in of_seeds]
        ),
        "rank_correlation_with_end": curve(
            [[rank_correlation(point, one[-1]) for point in one] for one in of_seeds]
        ),
    }


def _row(words: command.Words, bonus: str) -> dict[str, Curve]:
    """`measured` of a bonus, kept in the folder: a figure that was killed goes on after it.

    It is measured anew if the options of the preset are no longer those that it had.
    """
    size = f"{words.preset}-{words.steps}_frames-{words.seeds}_seeds"
    path = words.out / f"{words.task.replace(':', '_')}-{bonus}-{size}.json"
    # As JSON has them, in which tuples are lists.
    options = json.loads(json.dumps(flatten(resolve(words.task, "a2c", bonus, words.preset))))
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("options") == options:
        return {
            name: Curve(LABELS[bonus], np.array(frames), np.array(values))
            for name, (frames, values) in kept["curves"].items()
        }
    found = measured(LABELS[bonus], [*points(words, bonus)])
    lists = {n: (curve.env_frames.tolist(), curve.returns.tolist()) for n, curve in found.items()}
    write_json(path, {"options": options, "curves": lists})
    return found


def _make(words: command.Words) -> command.Lines:
    with refusing(ValueError):
        if registry.is_host(words.task):
            raise UsageError(f"{words.task} is stepped on the host: choose a task on the device")
    if words.steps < POINTS:
        raise UsageError(f"--steps {words.steps} has no {POINTS} parts: give at least {POINTS}")
    words.out.mkdir(parents=True, exist_ok=True)
    found = {bonus: _row(words, bonus) for bonus in words.rows}
    every = [
        (words.task, bonus, name, curve)
        for bonus, curves_of in found.items()
        for name, curve in curves_of.items()
    ]
    columns = "task", "encoder", "measure"
    curves.write_csv(
        words.out / "points.csv",
        (*columns, "seed", "env_frames", "value"),
        (
            (*names, seed, frame, f"{value:.6g}")
            for *names, curve in every
            for seed, values in enumerate(curve.returns, 1)
            for frame, value in zip(curve.env_frames, values, strict=True)
        ),
    )
    yield words.out / "points.csv"
    curves.write_csv(
        words.out / "table.csv",
        (*columns, "seeds", "env_frames", "mean", "low", "high"),
        ((*names, words.seeds, *row) for *names, curve in every for row in _means(curve)),
    )
    yield words.out / "table.csv"
    _draw(found, words.task).savefig(words.out / "stability.png")
    yield words.out / "stability.png"


def _means(curve: Curve) -> Iterator[tuple[object, ...]]:
    """Of every point: its frame, the mean over seeds, and the ends of its 95% interval."""
    intervals = statistics.mean_interval(curve.returns)
    for frame, *values in zip(curve.env_frames, *intervals, strict=True):
        yield frame, *map(curves.cell, values)


def _draw(found: Mapping[str, Mapping[str, Curve]], task: str) -> Figure:
    figure = Figure(figsize=(4.8 * len(MEASURES), 3.6), dpi=130, layout="constrained")
    panels = figure.subplots(1, len(MEASURES))
    for axes, (name, title) in zip(panels, MEASURES.items(), strict=True):
        curves.draw_axes(axes, [curves_of[name] for curves_of in found.values()], title)
        axes.set(ylabel="mean, 95% band")
    figure.suptitle(task)
    return figure


OPTIONS: command.Options = {
    "--task": {"default": "doorkey_8x8", "help": "on the device, with discrete actions"},
    "--rows": command.some_of(LABELS),
    "--preset": {"default": "recommended", "choices": get_args(PresetName)},
    "--seeds": {"type": int, "default": 5},
    "--steps": {"type": int, "default": 400_000, "help": "env frames"},
}

main = command.of("stability", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
