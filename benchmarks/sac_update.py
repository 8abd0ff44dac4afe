"""Milliseconds of one update of RAD with RE3, beside the same update in PyTorch, in one run.

    python -m benchmarks.sac_update [--rounds N] [--transitions N] [--skip-torch]

Prints one JSON object. An update is everything between two steps of the environment that a
learner does: sampling from the replay, crops, k-NN over a full ring of latents, critic, and every
second time actor, temperature and target. `full` is such a second update, `critic_only` the
other, `mean` what training pays. All contenders take turns, round by round, so that what else the
machine does meets them alike; each runs once before it is timed. A figure is the median over
rounds, a ratio the median of the ratios within a round. PyTorch's update is the one that
`tests/parity/test_sac.py` compares with ours.

RE3's share is said twice: of its parts alone (a search, and encoding and storing one observation,
which all updates of an agent step share), and by what updates with and without RE3 take, to which
storing is added.

The sizes, ring of latents included, are those of the presets `released` (batch 512, 9x84x84 out
of 100x100, 100,000 latents) and `small`, of whose latents both sides search the newest and whose
returns have one step here, as PyTorch's. The replay holds fewer transitions than the ring has
latents, to save memory; only the time of random access could depend on it.
"""

import argparse
import itertools
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import beside, hardware
from benchmarks.knn import fill, finished, take_turns, walk_latents
from re3_jax import compilation, intrinsic
from re3_jax.agents.base import LearnerState
from re3_jax.agents.sac.agent import make_sac
from re3_jax.agents.sac.learner import make_learner
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.host.config import DMCConfig
from re3_jax.intrinsic.base import ChainState, IntrinsicBatch, IntrinsicReward, Step
from re3_jax.intrinsic.re3 import from_config
from re3_jax.replay import frame_ring
from re3_jax.replay.frame_ring import FrameReplay
from re3_jax.runs import machine
from re3_jax.runs.config import PresetName, RunConfig
from re3_jax.runs.resolve import resolve

TASK = "cheetah_run_sparse"
ACTION_DIM = 6
STACK = DMCConfig.frame_stack
PRESETS: tuple[PresetName, ...] = ("released", "small")
PHASES = ("full", "critic_only")


def full_replay(frames: np.ndarray) -> FrameReplay:
    """A replay of one long episode, transition i starting at frame i."""
    count = len(frames) - 1
    replay = frame_ring.init(count, 1, frames.shape[1:], ACTION_DIM, STACK, count)
    rng = np.random.default_rng(0)
    return replay._replace(
        frames=replay.frames.write((0, slice(count + 1)), jnp.asarray(frames)),
        action=jnp.asarray(rng.uniform(-1, 1, (1, count, ACTION_DIM)), jnp.float32),
        reward=jnp.asarray(rng.random((1, count)), jnp.float32),
        discount=jnp.ones((1, count)),
        frame_number=jnp.arange(count, dtype=jnp.int32)[None],
        age=jnp.arange(count, dtype=jnp.int32)[None],
        bonus_index=jnp.arange(count, dtype=jnp.int32)[None],
        newest_age=jnp.full(1, count, jnp.int32),
        num_frames=jnp.full(1, count + 1, jnp.int32),
        num_transitions=jnp.int32(count),
    )


def with_latents(state: ChainState, latents: np.ndarray) -> ChainState:
    """RE3's state, its rings full."""
    rings = {"ring": fill(latents, len(latents))}
    if getattr(state.bonus, "newest", None) is not None:
        searched = len(state.bonus.newest.latents)
        rings["newest"] = fill(latents[-searched:], searched)
    return state._replace(bonus=state.bonus._replace(**rings))


class Contender:
    """Our update: state, compiled programs, and a key for each call."""

    def __init__(self, config: RunConfig, spec: EnvSpec, bonus: IntrinsicReward, state, replay):
        """Compiles one program per phase; the state is donated as in training."""
        self.agent_state = jax.jit(make_sac(config.sac, spec).init)(jax.random.key(0))
        self.bonus_state, self.replay = state, replay
        learner = make_learner(config.sac, spec, bonus)
        self.keys = (jax.random.key(number) for number in itertools.count())
        arguments = self.agent_state, self.bonus_state, self.replay, next(self.keys)

        def program(phase):
            def update(agent_state, bonus_state, replay, key):
                state = LearnerState(agent_state, bonus_state, replay, ())
                state, info = phase(state, jnp.int32(50_000), key)
                return state.agent, state.intrinsic, info

            return compilation.jit(update, donate_argnums=(0, 1))

        self.programs = {
            name: program(phase).lower(*arguments).compile()
            for name, phase in zip(PHASES, learner.phases, strict=True)
        }

    def update(self, name: str) -> None:
        """Runs one update and waits for it."""
        self.agent_state, self.bonus_state, metrics = self.programs[name](
            self.agent_state, self.bonus_state, self.replay, next(self.keys)
        )
        jax.block_until_ready((self.agent_state, self.bonus_state, metrics))


def re3_alone(
    config: RunConfig, spec: EnvSpec, latents: np.ndarray
) -> dict[str, Callable[[], Any]]:
    """What RE3 adds: the rewards of a batch, and encoding and storing one new observation."""
    bonus = from_config(config.re3)
    state = with_latents(bonus.init(jax.random.key(0), spec), latents)
    size = config.sac.batch_size
    index = np.random.default_rng(2).integers(0, len(latents), size).astype(np.int32)
    observation = jnp.zeros((size, *spec.observation_shape), jnp.uint8)
    batch = IntrinsicBatch(
        observation, jnp.zeros((size, ACTION_DIM)), observation, jnp.asarray(index), jnp.int32(0)
    )
    stored = {"state": state}
    observe = compilation.jit(bonus.observe, donate_argnums=0)

    def encode_and_store():
        stored["state"], _ = observe(stored["state"], Step(observation[:1]))
        jax.block_until_ready(stored)

    reward = jax.jit(lambda state, batch: bonus.reward(state, batch)[0])
    return {
        "knn": lambda: finished(reward, stored["state"], batch)(),
        "encode_and_store": encode_and_store,
    }


def contenders(
    config: RunConfig, frames: np.ndarray, latents: np.ndarray, with_torch: bool
) -> dict[str, Callable[[], Any]]:
    """All contenders, by `name phase`."""
    size = config.dmc.image_size
    shape = (size, size, 3 * STACK)
    space = Box((ACTION_DIM,), -1, 1)
    spec = EnvSpec(
        f"dmc:{TASK}", shape, np.dtype(np.uint8), space, 500, action_repeat=2, frame_stack=STACK
    )
    replay = full_replay(frames)
    bonus, none = from_config(config.re3), intrinsic.base.none()
    state = with_latents(bonus.init(jax.random.key(0), spec), latents)
    on_gpu = jax.default_backend() == "gpu"

    def ours(bonus: IntrinsicReward, state: Any, precision: str | None = None) -> Any:
        with jax.default_matmul_precision(precision):
            return Contender(config, spec, bonus, state, replay).update

    asked = {"re3_jax": (bonus, jax.tree.map(jnp.copy, state)), "re3_jax_without_re3": (none, ())}
    if on_gpu:
        asked["re3_jax_tf32"] = (bonus, jax.tree.map(jnp.copy, state), beside.TENSOR_FLOAT)
    # They compile side by side.
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda arguments: ours(*arguments), asked.values())
        learners: dict[str, Any] = dict(zip(asked, made, strict=True))
    if with_torch:
        import torch

        from benchmarks import torch_sac
        from tests.torch_oracle import neighbours

        beside.as_jax_does()
        rows = torch.as_tensor(latents[-(config.re3.search_size or len(latents)) :])
        searches = {
            "torch": (neighbours.nearest, False),
            "torch_without_re3": (None, False),
            "torch_as_released_good_knn": (neighbours.nearest, True),
            "torch_as_released": (neighbours.nearest_by_broadcast, True),
        }
        if on_gpu:
            searches |= {f"{name}_tf32": searches[name] for name in ("torch", "torch_as_released")}
        start = jax.jit(make_sac(config.sac, spec).init)(jax.random.key(0))

        def theirs(name: str, update: Callable[[bool], None], phase: str) -> None:
            beside.products_in_tf32(name.endswith("tf32"))
            update(phase == "full")

        for name, (search, as_released) in searches.items():
            made_of = config.sac, start, frames, rows, search, as_released
            learners[name] = partial(theirs, name, torch_sac.Contender(*made_of).update)
    runs = {
        f"{name} {phase}": (lambda update=update, phase=phase: update(phase))
        for name, update in learners.items()
        for phase in PHASES
    }
    return runs | re3_alone(config, spec, latents)


def report(preset: PresetName, rounds: int, transitions: int, with_torch: bool) -> dict[str, Any]:
    """Times one size."""
    config = resolve(TASK, preset=preset)
    config = replace(config, sac=replace(config.sac, n_steps=1))
    rng = np.random.default_rng(0)
    searched = config.re3.search_size or config.re3.ring_size
    side, transitions = config.dmc.image_size, min(transitions, searched)
    frames = rng.integers(0, 256, (transitions + 1, side, side, 3), dtype=np.uint8)
    latents = walk_latents(config.re3.ring_size, config.re3.latent_dim)
    seconds = take_turns(contenders(config, frames, latents, with_torch), rounds, warm=True)

    def ms(times: np.ndarray) -> float:
        return round(1e3 * float(np.median(times)), 2)

    names = list(dict.fromkeys(name.split()[0] for name in seconds if " " in name))
    means = {name: sum(seconds[f"{name} {phase}"] for phase in PHASES) / 2 for name in names}
    ours, stored = means["re3_jax"], seconds["encode_and_store"] / config.sac.updates_per_step

    def percent(times: np.ndarray) -> float:
        return round(100 * float(np.median(times / (ours + stored))), 2)

    return {
        "batch": config.sac.batch_size,
        "image": [9, config.sac.crop_size, config.sac.crop_size],
        "filters": config.sac.num_filters,
        "hidden": config.sac.hidden_dim,
        "latents_searched": searched,
        "updates_per_agent_step": config.sac.updates_per_step,
        "transitions": transitions,
        "ms": {
            name: {phase: ms(seconds[f"{name} {phase}"]) for phase in PHASES}
            | {"mean": ms(means[name]), "mean_fastest": round(1e3 * float(means[name].min()), 2)}
            for name in names
        },
        "ms_knn_alone": ms(seconds["knn"]),
        "ms_encode_and_store_one": ms(seconds["encode_and_store"]),
        "percent_of_update_that_is_re3": percent(seconds["knn"] + stored),
        "percent_by_difference": percent(ours - means["re3_jax_without_re3"] + stored),
        "times_faster_than": {
            name: round(float(np.median(means[name] / ours)), 2)
            for name in names
            if not name.startswith("re3_jax")
        },
    }


def main() -> None:
    """Runs both sizes and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--transitions", type=int, default=20_000, help="held by the replay")
    parser.add_argument("--preset", choices=(*PRESETS, "debug"), help="one size alone")
    parser.add_argument("--skip-torch", action="store_true", help="ours alone")
    options = parser.parse_args()
    sizes = {
        preset: report(preset, options.rounds, options.transitions, not options.skip_torch)
        for preset in ((options.preset,) if options.preset else PRESETS)
    }
    of_all = {
        "hardware": hardware.describe(),
        "rounds": options.rounds,
        "sizes": sizes,
        "peak_device_bytes": machine.peak_device_bytes(),
    }
    print(json.dumps(of_all, indent=2))


if __name__ == "__main__":
    main()
