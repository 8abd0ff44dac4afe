"""Frames of DeepMind Control under random actions, with the true state behind each.

The true state is the simulator's positions: angles by sine and cosine, lengths in metres. A single
frame shows no velocities.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from experiments.figures import command
from re3_jax.envs.host import dmc, renderer, tasks
from re3_jax.envs.host.config import DMCConfig
from re3_jax.runs.errors import UsageError, refusing

UNSEEN_JOINT = "rootx"
"""Joint of the distance travelled: the camera follows the body, so frames do not show it."""

ACTION_REPEAT = 10
"""Control steps for which an action lasts, so that bodies move far and frames differ."""

FRAMES_PER_EPISODE = tasks.EPISODE_CONTROL_STEPS // ACTION_REPEAT

OPTIONS: command.Options = {
    "--tasks": {
        "nargs": "+",
        "default": ["hopper_hop", "cheetah_run", "walker_walk"],
        "help": "of DeepMind Control",
    },
    "--frames": {"type": command.at_least_one, "default": 600, "help": "of each task and seed"},
    "--renderer": {"default": "auto", "choices": ("auto", "gl", "warp")},
    "--queries": {"type": int, "default": 2, "help": "frames shown"},
    "--k": {"type": int, "default": 3, "help": "neighbours shown of each"},
}

SHOWN_SEED = 1
"""Of the frames and encoders that pictures show, and of the choice of frames."""


class Frames(NamedTuple):
    """Frames under random actions, their positions, and the number of each frame's episode."""

    images: UInt8[np.ndarray, "frame height width 3"]
    states: Float[np.ndarray, "frame state"]
    episodes: Int[np.ndarray, " frame"]


def check(words: command.Words, neighbours: int) -> None:
    """A `UsageError` if `OPTIONS` cannot be met, or leave a frame fewer neighbours than that."""
    check_tasks(words)
    if min(words.queries, words.k) < 1:
        raise UsageError(f"--queries is {words.queries} and --k {words.k}: give at least 1 of each")
    least = FRAMES_PER_EPISODE + max(words.k, neighbours, words.queries)
    if words.frames < least:
        raise UsageError(
            f"--frames {words.frames} is too few, because the neighbours of a frame are from other "
            f"episodes than its own, which has {FRAMES_PER_EPISODE} frames: give at least {least}"
        )


def check_tasks(words: command.Words) -> None:
    """A `UsageError` if a task is unknown, or not to be drawn by that renderer."""
    with refusing(ValueError):
        for task in words.tasks:
            tasks.find(task)
            renderer.check(renderer.choose(config(words.renderer)), task)


def shown(words: command.Words, task_id: str) -> tuple[Frames, Int[np.ndarray, " query"]]:
    """The frames of a picture, and the numbers of those whose neighbours it shows."""
    found = collect(task_id, config(words.renderer), words.frames, SHOWN_SEED)
    random = np.random.default_rng(SHOWN_SEED)
    return found, random.choice(words.frames, words.queries, replace=False)


def collect(task_id: str, config: DMCConfig, num_frames: int, seed: int) -> Frames:
    """All frames of episodes under uniform random actions.

    Raises:
      UsageError: no renderer works here.
    """
    random = np.random.default_rng(seed)
    with refusing(ValueError, ImportError, OSError):
        drawn_by = renderer.choose_here(config)
        lane = dmc.Lane(task_id, config)
        screen = renderer.make(drawn_by, [lane], config.image_size)
    found, episode, over = [], -1, True
    for _ in range(num_frames):
        if over:
            episode += 1
            lane.begin(int(random.integers(2**31)))
        outcome = lane.advance(random.uniform(-1, 1, lane.task.action_dim))
        over = outcome.terminated or outcome.truncated
        found.append((screen.draw([0])[0], position(lane.physics), episode))
    lane.physics.free()
    return Frames(*map(np.array, zip(*found, strict=True)))


def config(renderer_name: Any) -> DMCConfig:
    """How the frames of figures are drawn."""
    return DMCConfig(action_repeat=ACTION_REPEAT, renderer=renderer_name)


def position(physics: Any) -> Float[np.ndarray, " state"]:
    """The positions of the bodies, as far as a frame shows them."""
    import mujoco

    model, parts = physics.model, []
    ends = [*model.jnt_qposadr[1:], model.nq]
    for joint, (start, end) in enumerate(zip(model.jnt_qposadr, ends, strict=True)):
        values = np.array(physics.data.qpos[start:end])
        if model.id2name(joint, "joint") != UNSEEN_JOINT:
            turns = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
            parts += [np.sin(values), np.cos(values)] if turns else [values]
    return np.concatenate(parts)
