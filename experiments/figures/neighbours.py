"""The paper's first figure: nearest neighbours by a random encoder and by the true state.

Collects frames of a task under random actions. For some of them it shows the nearest frames by the
distance between latents of RE3's untrained encoder, beside the nearest by the distance between the
simulator's positions (angles by sine and cosine, lengths in metres; a single frame shows no
velocities). Neighbours come from other episodes than their query, so that none is close merely
because it is the next frame.

    make figure FIG=neighbours [ARGS="--task cheetah_run --frames 4000"]
"""

import json
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, UInt8
from matplotlib.figure import Figure

from experiments.errors import UsageError, refusing
from experiments.figures import command
from experiments.presets import dmc as presets
from experiments.presets import tables
from re3_jax.cpu import compilation
from re3_jax.envs.host import dmc, renderer, tasks
from re3_jax.envs.host.config import DMCConfig
from re3_jax.intrinsic.re3 import encoder_from

UNSEEN_JOINT = "rootx"
"""Joint of the distance travelled: the camera follows the body, so frames do not show it."""

ENCODED_AT_ONCE = 100

PARTS = ("frame", "random encoder", "true state")
"""Of the picture, from left to right."""


class Frames(NamedTuple):
    """Frames under random actions, their positions, and the number of each frame's episode."""

    images: UInt8[np.ndarray, "frame height width 3"]
    states: Float[np.ndarray, "frame state"]
    episodes: Int[np.ndarray, " frame"]


def collect(task_id: str, config: DMCConfig, num_frames: int, seed: int) -> Frames:
    """All frames of episodes under uniform random actions; a ValueError if none can be rendered."""
    drawn_by = renderer.choose_here(config)
    random = np.random.default_rng(seed)
    lane = dmc.Lane(task_id, config)
    screen = renderer.make(drawn_by, [lane], config.image_size)
    found, episode, over = [], -1, True
    for _ in range(num_frames):
        if over:
            episode += 1
            lane.begin(seed + episode)
        outcome = lane.advance(random.uniform(-1, 1, lane.task.action_dim))
        over = outcome.terminated or outcome.truncated
        found.append((screen.draw([0])[0], position(lane.physics), episode))
    return Frames(*map(np.array, zip(*found, strict=True)))


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


def encode(images: UInt8[np.ndarray, "frame height width 3"], seed: int) -> np.ndarray:
    """Latents of RE3's random encoder as the released code has it, [frame, latent]."""
    spec = dmc.spec("hopper_hop", DMCConfig(image_size=images.shape[1], frame_stack=1))
    encoder = encoder_from(tables.run(presets.RELEASED_RE3).re3)
    params = encoder.init(jax.random.key(seed), spec)
    compiled = compilation.jit(encoder.encode)
    parts = range(0, len(images), ENCODED_AT_ONCE)
    return np.concatenate([compiled(params, images[at : at + ENCODED_AT_ONCE]) for at in parts])


def nearest(
    points: Float[np.ndarray, "frame dim"],
    episodes: Int[np.ndarray, " frame"],
    queries: Int[np.ndarray, " query"],
) -> Int[np.ndarray, "query other"]:
    """The nearest frames from other episodes than the query's, nearest first."""
    distances = np.linalg.norm(points[queries, None] - points[None], axis=-1)
    distances[episodes[queries, None] == episodes[None]] = np.inf
    others = int(np.isfinite(distances).sum(axis=1).min())
    return np.argsort(distances, axis=1, kind="stable")[:, :others]


def share_nearer(
    encoded: Int[np.ndarray, "query other"], true: Int[np.ndarray, "query other"], k: int
) -> float:
    """Mean share of frames that are nearer in the true state than the encoder's k neighbours are.

    0 if both agree on the nearest frames, 0.5 on average if the latents carry no information.
    """
    ranks = [np.flatnonzero(np.isin(t, e[:k])) for e, t in zip(encoded, true, strict=True)]
    return float(np.concatenate(ranks).mean() / true.shape[1])


def draw(
    frames: Frames,
    queries: Int[np.ndarray, " query"],
    encoded: Int[np.ndarray, "query other"],
    true: Int[np.ndarray, "query other"],
    k: int,
) -> Figure:
    """One row per query: the frame, its k neighbours by latents, its k neighbours by states."""
    size = 1.05 * (2 * k + 1.6), 1.05 * len(queries) + 0.45
    figure = Figure(size, dpi=150, layout="constrained")
    (parts,) = figure.subfigures(1, 3, squeeze=False, width_ratios=[1, k, k], wspace=0.05)
    columns = queries[:, None], encoded[:, :k], true[:, :k]
    for part, title, shown in zip(parts, PARTS, columns, strict=True):
        part.suptitle(title, fontsize=10)
        places = part.subplots(*shown.shape, squeeze=False)
        for axes, frame in zip(places.flat, shown.flat, strict=True):
            axes.imshow(frames.images[frame], interpolation="nearest")
            axes.set_axis_off()
    return figure


def _make(words: command.Words) -> command.Lines:
    # Each action lasts ten control steps, so that bodies move far and frames differ.
    config = DMCConfig(action_repeat=10, renderer=words.renderer)
    per_episode = tasks.EPISODE_CONTROL_STEPS // config.action_repeat
    if words.frames < per_episode + words.k or min(words.queries, words.k) < 1:
        raise UsageError(
            f"--frames {words.frames} with --k {words.k} leaves no neighbours: give more than "
            f"one episode of {per_episode} frames, and --k and --queries of at least 1"
        )
    with refusing(ValueError, ImportError, OSError):
        tasks.find(words.task)
        frames = collect(words.task, config, words.frames, words.seed)
        words.out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(words.seed)
    queries = random.choice(words.frames, words.queries, replace=False)
    every = random.choice(words.frames, min(words.frames, 200), replace=False)
    latents = encode(frames.images, words.seed)
    seen = nearest(latents, frames.episodes, every)
    share = share_nearer(seen, nearest(frames.states, frames.episodes, every), words.k)
    encoded = nearest(latents, frames.episodes, queries)
    true = nearest(frames.states, frames.episodes, queries)
    path = words.out / f"{words.task}.png"
    draw(frames, queries, encoded, true, words.k).savefig(path)
    measured = {name: getattr(words, name) for name in ("task", "frames", "k", "seed")}
    measured |= {"renderer": renderer.choose(config), "share_nearer_in_true_state": share}
    path.with_suffix(".json").write_text(json.dumps(measured, indent=2) + "\n")
    yield f"share of frames nearer in the true state than the encoder's {words.k}: {share:.3f}"
    yield f"figure  {path}"


OPTIONS: command.Options = {
    "--task": {"default": "hopper_hop", "help": "a task of DeepMind Control"},
    "--frames": {"type": int, "default": 2000},
    "--queries": {"type": int, "default": 4},
    "--k": {"type": int, "default": 4, "help": "neighbours shown of each"},
    "--seed": {"type": int, "default": 1},
    "--renderer": {"default": "auto", "choices": ("auto", "gl", "warp")},
}

main = command.of("neighbours", _make, OPTIONS)

if __name__ == "__main__":
    raise SystemExit(main())
