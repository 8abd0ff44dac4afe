"""Milliseconds of one update of Rainbow, with and without RE3, beside PyTorch, in one run.

    python -m benchmarks.rainbow_update [--rounds N] [--transitions N] [--skip-torch]

Prints one JSON object. An update is all that a learner does between two steps of Atari: drawing
a batch of 32 by priority, the bonus, loss, gradient, Adam, new priorities. With RE3 the ring of
latents is full, at each of the sizes; `knn` is its search alone. `sum_tree` is a draw of 32 and
an update of 32 priorities, by the number of leaves. All contenders take turns; a figure is the
median over rounds, a ratio the median of the ratios within a round. PyTorch's update is the one
that `tests/parity/test_rainbow.py` compares with ours.

The replay holds fewer frames than the 1,000,000 of the configuration, to save memory: only the
time of random access could depend on it.
"""

import argparse
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import hardware
from benchmarks.knn import fill, finished, take_turns, walk_latents
from re3_jax import compilation, intrinsic, knn
from re3_jax.agents.base import LearnerState
from re3_jax.agents.rainbow.agent import make_rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.rainbow.learner import make_learner
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.intrinsic.re3 import from_config
from re3_jax.replay import prioritized, sum_tree
from re3_jax.replay.frame_rows import FrameRows
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.runs import machine
from re3_jax.runs.presets import rainbow as presets
from re3_jax.runs.presets import tables

NUM_ACTIONS = 9
"""Of Beam Rider."""

STACK = 4
SPEC = EnvSpec(
    "atari:BeamRider",
    (84, 84, STACK),
    np.dtype(np.uint8),
    Discrete(NUM_ACTIONS),
    max_agent_steps=27_000,
    action_repeat=4,
    colours=1,
    frame_stack=STACK,
)
RING_SIZES = (100_000, 1_000_000)
LEAVES = (10_000, 100_000, 1_000_000)
UPDATES_PER_TURN = 5


def full_replay(frames: np.ndarray, n: int) -> PrioritizedReplay:
    """Episodes of 1,000 steps; priority 1 for every complete transition."""
    count, rng = len(frames), np.random.default_rng(0)
    age = np.arange(count, dtype=np.int32) % 1_000
    replay = jax.eval_shape(
        lambda: prioritized.init(count, 1, (84, 84, 1), jnp.uint8, n=n, stack=STACK)
    )
    whole = np.ones(count, np.float32)
    whole[-n:] = whole[: STACK - 1] = 0
    tree = sum_tree.update(sum_tree.init(count), jnp.arange(count), jnp.asarray(whole))
    return replay._replace(
        frames=FrameRows.of(jnp.asarray(frames)[..., None], (84, 84, 1)),
        action=jnp.asarray(rng.integers(0, NUM_ACTIONS, (count, 1)), jnp.int32),
        reward=jnp.asarray(rng.integers(-1, 2, (count, 1)), jnp.float32),
        terminated=jnp.asarray(age == 999)[:, None],
        truncated=jnp.zeros((count, 1), bool),
        age=jnp.asarray(age)[:, None],
        bonus_index=jnp.arange(count, dtype=jnp.int32)[:, None],
        tree=tree,
        max_priority=jnp.float32(1),
        num_frames=jnp.int32(count),
    )


class Shared:
    """The replay that our contenders use in turn: each donates it and passes on the result."""

    def __init__(self, replay: PrioritizedReplay):
        self.replay = replay


class Contender:
    """Our update: its state and its program, donated and called as in training."""

    def __init__(self, config: RainbowConfig, shared: Shared, bonus, bonus_state):
        self.state = jax.jit(make_rainbow(config, SPEC).init)(jax.random.key(0)), bonus_state
        (phase,) = make_learner(config, SPEC, bonus).phases
        self.shared, self.keys = shared, (jax.random.key(i) for i in itertools.count())

        def update(agent_state, intrinsic_state, replay, key):
            state = LearnerState(agent_state, intrinsic_state, replay, ())
            state, info = phase(state, jnp.int32(1_000_000), key)
            return state.agent, state.intrinsic, state.replay, info

        self.program = compilation.jit(update, donate_argnums=(0, 1, 2))

    def __call__(self) -> None:
        """Runs some updates and waits for them."""
        for _ in range(UPDATES_PER_TURN):
            *state, self.shared.replay, metrics = self.program(
                *self.state, self.shared.replay, next(self.keys)
            )
            self.state = tuple(state)
        jax.block_until_ready((self.state, self.shared.replay, metrics))


def trees() -> dict[str, Callable[[], Any]]:
    """A draw and an update of 32 priorities each, by the number of leaves."""

    def step(tree, key):
        uniform, within = jax.random.uniform(key, (2, 32))
        leaf = sum_tree.find(tree, sum_tree.stratified_shares(uniform), within)
        return sum_tree.update(tree, leaf, sum_tree.priority_of(tree, leaf))

    def many(tree, key):
        keys = jax.random.split(key, UPDATES_PER_TURN)
        return jax.lax.scan(lambda tree, key: (step(tree, key), None), tree, keys)[0]

    program, key = jax.jit(many, donate_argnums=0), jax.random.key(0)

    def run(held: dict[str, Any]) -> Callable[[], None]:
        def call() -> None:
            held["tree"] = program(held["tree"], key)
            jax.block_until_ready(held["tree"])

        return call

    return {
        f"sum_tree {leaves}": run(
            {"tree": sum_tree.update(sum_tree.init(leaves), jnp.arange(leaves), jnp.ones(leaves))}
        )
        for leaves in LEAVES
    }


def contenders(
    config: RainbowConfig, frames: np.ndarray, with_torch: bool
) -> dict[str, Callable[[], Any]]:
    """All contenders, by name."""
    shared = Shared(full_replay(frames, config.n_steps))
    runs: dict[str, Callable[[], Any]] = {
        "re3_jax": Contender(config, shared, intrinsic.base.none(), ())
    }
    paper = tables.run(presets.RE3).re3
    # Slots of the replay are rows of the ring, which is larger; all its rows are searched.
    for size in RING_SIZES:
        re3 = replace(paper, ring_size=size)
        bonus, ring = from_config(re3), fill(walk_latents(size, re3.latent_dim), size)
        state = bonus.init(jax.random.key(0), SPEC)
        state = state._replace(bonus=state.bonus._replace(ring=ring))
        runs[f"re3_jax+re3 {size}"] = Contender(config, shared, bonus, state)
        index = jnp.asarray(np.random.default_rng(2).integers(0, size, config.batch_size))
        search = jax.jit(
            lambda ring, index: knn.mean_distance(
                ring.latents[index], ring, k=3, first=3, exclude=index
            )
        )
        kept = jax.tree.map(jnp.copy, ring)
        runs[f"knn {size}"] = lambda search=search, kept=kept, index=index: [
            finished(search, kept, index)() for _ in range(UPDATES_PER_TURN)
        ]
    runs |= trees()
    if with_torch:
        from benchmarks import beside, torch_rainbow

        beside.as_jax_does()
        start = jax.jit(make_rainbow(config, SPEC).init)(jax.random.key(0))
        rainbow = torch_rainbow.Contender(config, start, frames, NUM_ACTIONS)
        runs["torch"] = lambda: [rainbow.update() for _ in range(UPDATES_PER_TURN)]
    return runs


def main() -> None:
    """Runs all contenders and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each contender")
    parser.add_argument("--transitions", type=int, default=50_000, help="held by the replay")
    parser.add_argument("--skip-torch", action="store_true", help="ours alone")
    options = parser.parse_args()
    config = RainbowConfig()
    frames = np.random.default_rng(0).integers(
        0, 256, (options.transitions, 84, 84), dtype=np.uint8
    )
    turns = take_turns(contenders(config, frames, not options.skip_torch), options.rounds)
    seconds = {name: times / UPDATES_PER_TURN for name, times in turns.items()}

    def ms(times: np.ndarray) -> dict[str, float]:
        return {
            "ms": round(1e3 * float(np.median(times)), 3),
            "ms_fastest": round(1e3 * float(times.min()), 3),
        }

    report = {
        "hardware": hardware.describe(),
        "rounds": options.rounds,
        "updates_per_turn": UPDATES_PER_TURN,
        "batch": config.batch_size,
        "observation": list(SPEC.observation_shape),
        "transitions": options.transitions,
        "of_one_update": {name: ms(times) for name, times in seconds.items()},
        "percent_of_update_that_is_knn": {
            size: round(
                100 * float(np.median(seconds[f"knn {size}"] / seconds[f"re3_jax+re3 {size}"])), 1
            )
            for size in RING_SIZES
        },
        "peak_device_bytes": machine.peak_device_bytes(),
    }
    if not options.skip_torch:
        report["times_faster_than_torch"] = {
            name: round(float(np.median(seconds["torch"] / times)), 2)
            for name, times in seconds.items()
            if name.startswith("re3_jax")
        }
        report["updates_per_second"] = {
            name: round(1 / float(np.median(seconds[name])), 1) for name in ("re3_jax", "torch")
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
