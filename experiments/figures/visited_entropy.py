"""Entropy of the true states that a run has visited so far.

As in the paper, Equation 1 is evaluated on minibatches of dm_control's proprioceptive observations;
here they are drawn from all that the run has visited so far, and the estimate is their mean. It
depends on the number of states, which is why all minibatches are of one size, and it is of the
observation as it is, in which velocities weigh most, or of its poses alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int
from matplotlib.axes import Axes

from experiments.figures import command, replayed
from re3_jax import compilation
from re3_jax.runs import curves, statistics
from re3_jax.runs.curves import Curve
from re3_jax.state_entropy import particle_entropy

K = 3
MINIBATCH = 512
MINIBATCHES = 20
POINTS = 20

POINT_COLUMNS = "task", "label", "seed", "env_frames", "state_entropy"

LAST_COLUMNS = (
    *("task", "label", "seeds", "env_frames"),
    *("state_entropy", "state_entropy_low", "state_entropy_high"),
)
"""Of `last_point`."""

POSES: command.Options = {
    "--poses": {"action": "store_true", "help": "leave velocities out, which weigh most"}
}


class Measured(NamedTuple):
    """Entropies of one row: its seeds, and a curve with entropies in the place of returns."""

    seeds: list[int]
    curve: Curve


def measure(
    label: str, played: Sequence[replayed.Played], frames: int, velocity: bool = True
) -> Measured:
    """Entropies at equal parts of the first `frames` env frames, once there is a minibatch.

    Without `velocity`, the states are poses.
    """
    repeat = played[0].config.action_repeat
    steps = np.linspace(0, frames // repeat, POINTS + 1).astype(int)
    steps = steps[steps >= MINIBATCH]
    rows = [entropies(replayed.states(one, velocity), steps, one.seed) for one in played]
    return Measured([one.seed for one in played], Curve(label, steps * repeat, np.array(rows)))


def entropies(
    states: Float[np.ndarray, "step state"], steps: Int[np.ndarray, " point"], seed: int
) -> Float[np.ndarray, " point"]:
    """Estimated entropy in nats of the states visited in so many first steps."""
    random, found = np.random.default_rng(seed), []
    for end in steps:
        batches = [random.choice(end, MINIBATCH, replace=False) for _ in range(MINIBATCHES)]
        found.append(np.mean([_entropy()(states[batch].astype(np.float32)) for batch in batches]))
    return np.array(found)


def above(one: Measured, other: Measured) -> Curve | None:
    """How much higher the entropies are than another row's with the same seeds, if it has any.

    A seed decides how episodes begin, so that these differences vary less than the entropies.
    """
    shared = [seed for seed in one.seeds if seed in other.seeds]
    if not shared:
        return None
    rows = [
        each.curve.returns[[each.seeds.index(seed) for seed in shared]] for each in (one, other)
    ]
    return one.curve._replace(returns=rows[0] - rows[1])


def interval(curve: Curve) -> list[str]:
    """Mean over seeds at the end of a curve and its 95% interval, as cells of a table."""
    return [curves.cell(float(x)) for x in statistics.mean_interval(curve.returns[:, -1])]


def last_point(task: str, one: Measured) -> list[object]:
    """The cells of `LAST_COLUMNS`."""
    label, frames, _ = one.curve
    return [task, label, len(one.seeds), frames[-1], *interval(one.curve)]


def write_points(path: Path, found: Mapping[str, Sequence[Measured]]) -> None:
    """Writes every entropy of each task's rows, with `POINT_COLUMNS`."""
    lines = [
        [task, label, seed, frame, f"{x:.6g}"]
        for task, rows in found.items()
        for seeds, (label, frames, values) in rows
        for seed, row in zip(seeds, values, strict=True)
        for frame, x in zip(frames, row, strict=True)
    ]
    curves.write_csv(path, POINT_COLUMNS, lines)


def panel_of(words: command.Words) -> Callable[[Axes, Sequence[Curve], str], None]:
    """What draws curves of entropies, of what `POSES` says, into existing axes."""
    visited = "poses" if words.poses else "states"

    def panel(axes: Axes, drawn: Sequence[Curve], title: str) -> None:
        curves.draw_axes(axes, drawn, title)
        axes.set(ylabel=f"entropy of visited {visited} (nats)")

    return panel


@cache
def _entropy() -> Callable[[Float[np.ndarray, "state dim"]], Array]:
    # Not compiled before it is called: the runs may need the only accelerator.
    return compilation.jit(partial(particle_entropy, k=K))
