"""What each bonus adds to an update of A2C and PPO on MiniGrid, and of RAD on pixels.

    python -m benchmarks.bonuses [--rounds N] [--pixels small|released] [--part PART]

Prints one JSON object. On MiniGrid an update is a rollout and all that is learned from it, of all
seeds, in the program that a run trains with. On pixels it is a learner's work between two
steps of the environment: the mean of an update with and without the actor, and the bonus's work
on the one new frame, each run once before it is timed. Rings of latents are full. All contenders
take turns; a time is the median over rounds, a ratio the median of the ratios within a round.

Beside the ratios on pixels stand those of the paper's count of floating-point operations
(`experiments.operations`), which has one encoder of 84x84 stacks for all. Weights of pre-trained
encoders are random here: their values cost nothing.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import hardware
from benchmarks.a2c import TASK as MINIGRID_TASK
from benchmarks.a2c import Contender
from benchmarks.knn import take_turns, walk_latents
from benchmarks.sac_update import ACTION_DIM, PHASES, STACK, TASK, full_replay
from benchmarks.sac_update import Contender as Update
from benchmarks.sac_update import with_latents as with_ring
from experiments import operations
from re3_jax import compilation
from re3_jax.agents.sac.agent import make_sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.intrinsic import pretrained
from re3_jax.intrinsic.base import IntrinsicReward, Step
from re3_jax.intrinsic.rewarding import value_if
from re3_jax.intrinsic.state_entropy import scaled
from re3_jax.networks import atc, resnet
from re3_jax.networks.atc import ATCEncoder
from re3_jax.networks.resnet import Bottleneck, Conv, ResNet50
from re3_jax.runs import machine
from re3_jax.runs.bonuses import BONUSES
from re3_jax.runs.build import make_bonus
from re3_jax.runs.config import AgentName, BonusName, PresetName, RunConfig, flatten, unflatten
from re3_jax.runs.resolve import resolve

PARTS = ("minigrid", "ppo", "pixels")
"""Each runs in its own process: many small programs need a device per core, large ones do not."""

AGENTS: dict[str, AgentName] = {"minigrid": "a2c", "ppo": "ppo"}
"""Of the parts on MiniGrid."""

WITHOUT_WEIGHTS: tuple[BonusName, ...] = tuple(
    bonus.name for bonus in BONUSES.values() if not (bonus.weights or bonus.counts_states)
)
"""Bonuses that need neither a file nor a task that numbers its states."""


def minigrid(rounds: int, seeds: int, preset: PresetName, agent: AgentName) -> dict[str, Any]:
    """Milliseconds of an update of all seeds, and their ratio to those of the agent alone."""
    names = (*WITHOUT_WEIGHTS, "counts")
    contenders = {bonus: Contender(bonus, seeds, preset, agent=agent) for bonus in names}
    for _ in range(rounds):
        for contender in contenders.values():
            contender.chunks.turn()
    plain = np.array(contenders["none"].chunks.times)
    return {
        "task": MINIGRID_TASK,
        "agent": agent,
        "preset": preset,
        "seeds": seeds,
        "bonuses": {
            bonus: {
                "ms": round(contender.milliseconds_per_update, 3),
                "times_plain": round(float(np.median(np.array(contender.chunks.times) / plain)), 2),
            }
            for bonus, contender in contenders.items()
        },
    }


def pixels(rounds: int, transitions: int, preset: PresetName) -> dict[str, Any]:
    """The same for RAD, one seed; each bonus with its time for storing a frame."""
    config = resolve(TASK, preset=preset)
    side, ring_size = config.dmc.image_size, config.sac.replay_capacity
    rng = np.random.default_rng(0)
    transitions = min(transitions, ring_size)
    frames = rng.integers(0, 256, (transitions + 1, side, side, 3), dtype=np.uint8)
    shape = (side, side, 3 * STACK)
    spec = EnvSpec(
        f"dmc:{TASK}",
        shape,
        np.dtype(np.uint8),
        Box((ACTION_DIM,), -1, 1),
        500,
        action_repeat=2,
        frame_stack=STACK,
    )
    replay = full_replay(frames)
    stack = jnp.asarray(rng.integers(0, 256, (1, *shape), dtype=np.uint8))
    goes_on = jnp.zeros(1, bool)
    step = Step(stack, None, stack, goes_on, goes_on)
    runs: dict[str, Callable[[], Any]] = {}
    made = bonuses(config)
    for name, bonus in made.items():
        state = bonus.init(jax.random.key(0), spec)
        if (ring := getattr(getattr(state, "bonus", None), "ring", None)) is not None:
            state = with_ring(state, walk_latents(*ring.latents.shape))
        learner = Update(config, spec, bonus, state, replay)
        runs[f"{name} store"] = storing(learner, bonus, step, make_sac(config.sac, spec).value)
        for phase in PHASES:
            runs[f"{name} {phase}"] = lambda learner=learner, phase=phase: learner.update(phase)
    seconds = take_turns(runs, rounds, warm=True)
    whole = {
        name: sum(seconds[f"{name} {phase}"] for phase in PHASES) / 2 + seconds[f"{name} store"]
        for name in made
    }
    return {
        "preset": preset,
        "batch": config.sac.batch_size,
        "image": [9, config.sac.crop_size, config.sac.crop_size],
        "filters": config.sac.num_filters,
        "filters_of_bonus": config.re3.num_filters,
        "hidden": config.sac.hidden_dim,
        "latents": ring_size,
        "transitions": transitions,
        "bonuses": {
            name: {
                "ms": round(1e3 * float(np.median(times)), 2),
                "ms_store_one": round(1e3 * float(np.median(seconds[f"{name} store"])), 2),
                "times_plain": round(float(np.median(times / whole["none"])), 2),
                "paper_operations_times_plain": paper_ratio(name),
            }
            for name, times in whole.items()
        },
    }


def storing(
    learner: Update, bonus: IntrinsicReward, step: Step, value_of: Callable[..., jax.Array]
) -> Callable[[], None]:
    """Observes one step and waits for it; the state is donated, as in training."""

    def observe(state: Any, agent: Any) -> Any:
        value = value_if(bonus.needs_stored_value, partial(value_of, agent), step.observation)
        return bonus.observe(state, step._replace(value=value))

    compiled = compilation.jit(observe, donate_argnums=0)

    def store() -> None:
        learner.bonus_state, index = compiled(learner.bonus_state, learner.agent_state)
        jax.block_until_ready((learner.bonus_state, index))

    return store


def bonuses(config: RunConfig) -> dict[str, IntrinsicReward]:
    """Every bonus, by name."""
    rng = np.random.default_rng(1)
    made = {name: make_bonus(dataclasses.replace(config, bonus=name)) for name in WITHOUT_WEIGHTS}
    entropy = dataclasses.replace(config.re3, ring_size=config.sac.replay_capacity)
    in_ring = {"bonus": "vcse", "vcse.neighbours": "ring"}
    made["vcse in the ring"] = make_bonus(unflatten(flatten(config) | in_ring))
    made["imagenet"] = scaled(entropy, pretrained.imagenet(entropy, random_resnet(rng)))
    made["atc"] = scaled(entropy, pretrained.atc(entropy, random_atc(rng)))
    return made


def random_resnet(rng: np.random.Generator) -> ResNet50:
    """ResNet-50 with random weights."""

    def conv(size: int, channels: int, features: int) -> Conv:
        return Conv(_normal(rng, size, size, channels, features), np.zeros(features, np.float32))

    stages, channels = [], resnet.WIDTHS[0]
    for count, width in zip(resnet.BLOCKS, resnet.WIDTHS, strict=True):
        wide, blocks = resnet.EXPANSION * width, []
        for index in range(count):
            shortcut = None if index else conv(1, channels, wide)
            blocks.append(
                Bottleneck(
                    conv(1, channels, width), conv(3, width, width), conv(1, width, wide), shortcut
                )
            )
            channels = wide
        stages.append(tuple(blocks))
    return ResNet50(conv(7, 3, resnet.WIDTHS[0]), tuple(stages))


def random_atc(rng: np.random.Generator, filters: int = 32, code: int = 128) -> ATCEncoder:
    """ATC's encoder with random weights, in the layout that rlpyt saves."""
    tensors = {"head.model.0.bias": np.zeros(code, np.float32)}
    tensors["head.model.0.weight"] = _normal(rng, filters * atc.POSITIONS**2, code).T
    for index in range(len(atc.STRIDES)):
        channels = filters if index else 3 * STACK
        kernel = _normal(rng, 3, 3, channels, filters)
        tensors[f"conv.conv.{2 * index}.weight"] = kernel.transpose(3, 2, 0, 1)
        tensors[f"conv.conv.{2 * index}.bias"] = np.zeros(filters, np.float32)
    return atc.from_tensors(tensors)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Weights that keep the scale of their inputs; the last axis is that of outputs."""
    return (rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def paper_ratio(bonus: str) -> float | None:
    """Operations of RAD with a bonus over those of RAD; None if the paper gives no count."""
    sizes = SACConfig()
    image = sizes.crop_size, sizes.crop_size, 3 * STACK
    networks = operations.networks(sizes, image, ACTION_DIM)
    ratio = operations.times_rad(bonus, networks, sizes.batch_size)
    return None if ratio is None else round(ratio, 3)


def main() -> None:
    """Runs all parts and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender")
    parser.add_argument("--seeds", type=int, default=10, help="of A2C; PPO has a fifth of them")
    parser.add_argument("--preset", default="recommended", help="of A2C and PPO")
    parser.add_argument("--pixels", choices=("small", "released"), default="small", help="size")
    parser.add_argument("--transitions", type=int, default=20_000, help="held by the replay")
    parser.add_argument("--part", choices=PARTS, help="by default all")
    options = parser.parse_args()
    report: dict[str, Any] = {"benchmark": "bonuses", "rounds": options.rounds}
    if options.part is None:
        command = [sys.executable, "-m", "benchmarks.bonuses", *sys.argv[1:], "--part"]
        for part in PARTS:
            printed = subprocess.run([*command, part], check=True, stdout=subprocess.PIPE).stdout
            report |= json.loads(printed)
    elif options.part in AGENTS:
        machine.use_cpu_devices(machine.usable_cores())
        agent, seeds = AGENTS[options.part], options.seeds
        if agent == "ppo":
            seeds = max(1, seeds // 5)
        measured = minigrid(options.rounds, seeds, options.preset, agent)
        report[options.part] = {"hardware": hardware.describe(), **measured}
    else:
        measured = pixels(options.rounds, options.transitions, options.pixels)
        report["pixels"] = {"hardware": hardware.describe(), **measured}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
