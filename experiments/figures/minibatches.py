"""How much Dreamer's bonus depends on what else is in the batch (paper, Appendix A.3).

Dreamer + RE3 seeks neighbours within a batch of sequences. The paper takes a large k so that they
are not all from a frame's own sequence, and holds that a large batch is "enough for stable entropy
estimation"; it measures neither. Here batches are drawn from stored episodes of random actions, as
Dreamer draws them, so that the same sequences meet other companions each time.

    make figure FIG=minibatches [ARGS="--tasks hopper_hop --seeds 5"]

Writes table.csv: means over seeds, each with its own episodes and encoder, and 95% intervals. The
measures of each task and seed are saved, and a later call goes on with the next: delete them after
a change of what is measured.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, UInt8
from scipy.spatial.distance import cdist  # type: ignore[import-untyped]
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from experiments.figures import command, frames, random_encoders
from experiments.figures.agreement import kept
from experiments.figures.random_encoders import Latents
from re3_jax import compilation
from re3_jax.agents.dreamer.re3 import encoder_from
from re3_jax.envs.host import dmc, tasks
from re3_jax.runs import curves, statistics
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.runs.options import parse

PRESETS = "released", "small"
TASK = "hopper_hop"

SMALL_K = 4
"""The rank of the agents that search a whole ring: the third neighbour, counting the frame."""

SEQUENCES = 20
"""Sequences whose frames are looked at."""

BATCHES = 20
"""Batches that each of these sequences is in."""

MEASURES = "deviation_of_mean", "share_of_own_sequence", "share_of_variance", "rank_correlation"


class Batch(NamedTuple):
    """How Dreamer draws a batch, and where RE3 looks in it.

    Attributes:
      sequences: B.
      length: L, in frames.
      k: rank of the neighbour; the frame itself, at distance 0, is the first.
    """

    sequences: int
    length: int
    k: int


class Measured(NamedTuple):
    """What a batch makes of the distance to the k-th neighbour.

    Attributes:
      deviation_of_mean: standard deviation, between batches, of the mean distance of a batch's
        frames, as a share of its mean: how much an estimate of the entropy varies.
      share_of_own_sequence: of a frame's k - 1 nearest others, how many are of its own sequence.
      share_of_variance: of the distance, between batches, that is due to the frame; the rest is due
        to its companions (intraclass correlation of a one-way analysis of variance).
      rank_correlation: Spearman's, with the distance to the k-th neighbour among all stored frames.
    """

    deviation_of_mean: float
    share_of_own_sequence: float
    share_of_variance: float
    rank_correlation: float


def measure(
    latents: Latents, episodes: Int[np.ndarray, " frame"], batch: Batch, seed: int
) -> Measured:
    """Draws `SEQUENCES` sequences, and for each `BATCHES` times its companions.

    Sequences are drawn as Dreamer's replay does: an episode, then a start.
    """
    random = np.random.default_rng(seed)
    distances = np.empty((SEQUENCES, batch.length, BATCHES))
    own = np.empty_like(distances)
    among_all = np.empty((SEQUENCES, batch.length))
    for number in range(SEQUENCES):
        (sequence,) = _draw(random, episodes, 1, batch.length)
        apart = cdist(latents[sequence], latents)
        among_all[number] = np.partition(apart, batch.k - 1, axis=1)[:, batch.k - 1]
        for at in range(BATCHES):
            companions = _draw(random, episodes, batch.sequences - 1, batch.length)
            of_batch = apart[:, np.concatenate([sequence, companions.ravel()])]
            nearest = np.argsort(of_batch, axis=1, kind="stable")[:, 1 : batch.k]
            own[number, :, at] = (nearest < batch.length).mean(axis=1)
            kth = np.take_along_axis(of_batch, nearest[:, -1:], axis=1)
            distances[number, :, at] = kth[:, 0]
    flat = distances.reshape(-1, BATCHES)
    ranks = [spearmanr(one, among_all.ravel()).statistic for one in flat.T]
    means = [_mean_distance(latents, _draw(random, episodes, *batch[:2]), batch.k) for _ in ranks]
    deviation = float(np.std(means, ddof=1) / np.mean(means))
    return Measured(deviation, float(own.mean()), share_of_variance(flat), float(np.mean(ranks)))


def _mean_distance(latents: Latents, drawn: Int[np.ndarray, "count length"], k: int) -> float:
    of_batch = latents[drawn.ravel()]
    return float(np.partition(cdist(of_batch, of_batch), k - 1, axis=1)[:, k - 1].mean())


def share_of_variance(values: Float[np.ndarray, "group member"]) -> float:
    """Shrout and Fleiss' ICC(1, 1): the share of the variance that lies between groups."""
    members = values.shape[1]
    between = members * values.mean(axis=1).var(ddof=1)
    within = values.var(axis=1, ddof=1).mean()
    return float((between - within) / (between + (members - 1) * within))


def _draw(
    random: np.random.Generator, episodes: Int[np.ndarray, " frame"], count: int, length: int
) -> Int[np.ndarray, "count length"]:
    """Numbers of the frames of random sequences."""
    starts = np.searchsorted(episodes, np.arange(episodes[-1] + 1))
    ends = np.append(starts[1:], len(episodes))
    chosen = random.integers(0, len(starts), count)
    # Never the last sequence of an episode, as in the replay.
    offsets = random.integers(0, ends[chosen] - starts[chosen] - length)
    return (starts[chosen] + offsets)[:, None] + np.arange(length)


def batches(config: RunConfig) -> list[Batch]:
    """The preset's batch with its own k and with `SMALL_K`."""
    size = config.dreamer.batch_size, config.dreamer.sequence_length
    return [Batch(*size, k) for k in (SMALL_K, config.re3.last_neighbour)]


def _of_seed(task: str, seed: int, words: command.Words) -> Iterator[tuple[Batch, Measured]]:
    configs = [_config(preset, words.renderer) for preset in PRESETS]
    found = frames.collect(task, configs[0].dmc, words.frames, seed)
    for config in configs:
        latents = _latents(config, found.images, seed)
        for batch in batches(config):
            yield batch, measure(latents, found.episodes, batch, seed)


def _latents(
    config: RunConfig, images: UInt8[np.ndarray, "frame height width 3"], seed: int
) -> Latents:
    """Those of RE3 in a Dreamer of that configuration."""
    encoder = encoder_from(config.re3, config.dreamer.head_order, config.dreamer.conv_depth)
    params = encoder.init(jax.random.key(seed), dmc.spec(TASK, config.dmc))
    encode = compilation.jit(encoder.encode)
    return random_encoders.in_parts(partial(encode, params), images)


def _config(preset: str, renderer: str) -> RunConfig:
    """Of any task: presets of Dreamer differ in nothing between tasks that matters here."""
    words = "--env", TASK, "--agent", "dreamer", "--preset", preset, "--dmc.renderer", renderer
    return parse([*words])


def _make(words: command.Words) -> command.Lines:
    frames.check_tasks(words)
    repeat = _config(PRESETS[0], words.renderer).dmc.action_repeat
    per_episode = tasks.EPISODE_CONTROL_STEPS // repeat
    if words.frames < 2 * per_episode or words.frames % per_episode:
        raise UsageError(
            f"--frames is {words.frames}: give a multiple of {per_episode}, the frames of an "
            "episode, of two episodes or more"
        )
    folder: Path = words.runs / "minibatches"
    with refusing(OSError):
        for each in (folder, words.out):
            each.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[str, Batch], list[Measured]] = {}
    for task, seed in product(dict.fromkeys(words.tasks), range(1, words.seeds + 1)):
        path = folder / f"{task}-{words.frames}_frames-{words.renderer}-seed{seed}.json"
        rows = kept(path, f"{task}, seed {seed}", partial(_of_seed, task, seed, words))
        for batch, measured in rows:
            found.setdefault((task, Batch(*batch)), []).append(Measured(*measured))
    columns = [f"{measure}{end}" for measure in MEASURES for end in ("", "_low", "_high")]
    lines = []
    for (task, batch), of_seeds in found.items():
        means = [statistics.mean_interval(np.array(each)) for each in zip(*of_seeds, strict=True)]
        numbers = [float(number) for each in means for number in each]
        cells = ["" if np.isnan(number) else f"{number:.4f}" for number in numbers]
        lines.append([task, *batch, words.frames, len(of_seeds), *cells])
    header = "task", *Batch._fields, "stored", "seeds", *columns
    curves.write_csv(words.out / "table.csv", header, lines)
    yield words.out / "table.csv"


OPTIONS: command.Options = {
    "--tasks": frames.OPTIONS["--tasks"],
    "--frames": {"type": command.at_least_one, "default": 10_000, "help": "stored, of each seed"},
    "--renderer": {**frames.OPTIONS["--renderer"], "default": "warp"},
    "--seeds": {"type": command.at_least_one, "default": 5, "help": "1 to SEEDS"},
    "--runs": command.OF_RUNS["--runs"],
}

main = command.of("minibatches", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
