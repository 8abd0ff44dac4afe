"""Evaluation of a policy in lanes of the host: every episode in a lane of its own (io)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from jaxtyping import Array, Float

from re3_jax.agents.base import Memory
from re3_jax.envs.host.base import HostEnv
from re3_jax.training.evaluate import EvalStats

Act = Callable[..., tuple[Memory, Float[Array, "seed lane action"]]]


def evaluate_lanes(
    env: HostEnv,
    memory: Memory,
    act: Act,
    *,
    seeds: np.ndarray,
    env_frames: int,
    episodes: int,
    frame_stack: int,
    pads_with_zeros: bool,
    sharding: Sharding,
    record: Callable[[np.ndarray], None] | None = None,
) -> EvalStats:
    """Plays `episodes` episodes for each seed side by side, each to its own end.

    Args:
      env: `len(seeds) * episodes` lanes, those of one seed next to each other.
      memory: of lanes at the beginning of an episode, with a leading axis of seeds.
      act: (memory, observation uint8 [seed, lane, height, width, channel], key [seed],
        agent_steps int32 [seed]) -> (memory, action [seed, lane, action]).
      seeds: with `env_frames` they decide how the episodes begin.
      env_frames: training frames so far: each evaluation has episodes of its own.
      episodes: per seed.
      frame_stack: frames in one observation.
      pads_with_zeros: what is before an episode's first frame: zeros, or that frame.
      sharding: of arrays with a leading axis `seed`.
      record: is given every frame of the first lane's episode, in colour also where they are
        grey.

    Returns:
      Statistics with a leading axis `seed`; lengths in agent steps.
    """
    num_seeds = len(seeds)

    def by_seed(x: np.ndarray) -> np.ndarray:
        return x.reshape(num_seeds, episodes, *x.shape[1:])

    frame = env.reset(lane_seeds(seeds, env_frames, episodes))
    before = np.zeros_like(frame) if pads_with_zeros else frame
    stack = np.concatenate([before] * (frame_stack - 1) + [frame], axis=-1)
    returns = np.zeros(env.num_lanes)
    lengths = np.zeros(env.num_lanes, int)
    finished = np.zeros(env.num_lanes, bool)
    fold = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), env_frames))
    keys = jax.device_put(fold(jnp.asarray(seeds)), sharding)
    agent_steps = np.zeros(num_seeds, np.int32)
    while not finished.all():
        if record is not None and not finished[0]:
            newest = stack[0, ..., -frame.shape[-1] :]
            record(np.broadcast_to(newest, (*newest.shape[:2], 3)))
        observation, now = jax.device_put((by_seed(stack), agent_steps), sharding)
        memory, action = act(memory, observation, keys, now)
        # Not in place: on a CPU the device reads this array's own memory, when it comes to it.
        agent_steps = agent_steps + 1
        env.send(np.asarray(action).reshape(env.num_lanes, -1))
        step = env.receive()
        returns += np.where(finished, 0.0, step.reward)
        lengths += ~finished
        finished |= step.terminated | step.truncated
        stack = np.concatenate([stack[..., frame.shape[-1] :], step.frame], axis=-1)
    returns, lengths = by_seed(returns), by_seed(lengths)
    return EvalStats(
        episodes=np.full(num_seeds, episodes),
        return_mean=returns.mean(axis=1),
        return_std=returns.std(axis=1),
        length_mean=lengths.mean(axis=1),
    )


def lane_seeds(seeds: np.ndarray, env_frames: int, episodes: int) -> np.ndarray:
    """uint32 seeds of the lanes: a function of the run's seed, the frame count and the lane."""
    return np.concatenate(
        [np.random.SeedSequence([int(seed), env_frames]).generate_state(episodes) for seed in seeds]
    )
