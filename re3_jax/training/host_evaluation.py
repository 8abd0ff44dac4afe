"""Evaluation of a policy in lanes of the host: every episode in a lane of its own (io)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from jaxtyping import Array, Shaped

from re3_jax.agents.base import Memory
from re3_jax.envs.host.base import HostEnv
from re3_jax.training.evaluate import EvalStats

Record = Callable[[np.ndarray], None]
"""A function that is given one frame, uint8 [height, width, 3], after the other."""


MOST_REPLAYS = 3
"""Most replays of an episode whose process is lost.

What loses it each time would never let it end.
"""


def evaluate_lanes(
    env: HostEnv,
    *,
    begin: Callable[..., Memory],
    act: Callable[..., tuple[Memory, Shaped[Array, " seed lane *action"]]],
    see: Callable[..., Memory],
    seeds: np.ndarray,
    env_frames: int,
    episodes: int,
    sharding: Sharding,
    record: Record | None = None,
) -> EvalStats:
    """Plays `episodes` episodes for each seed side by side, each to its own end.

    Where a lane's process is lost, the lane plays another episode from its beginning instead, but
    at most `MOST_REPLAYS` times: then the part that was played counts.

    Args:
      env: `len(seeds) * episodes` lanes, those of one seed next to each other.
      begin: frames [seed, lane, ...] -> memory of lanes at the beginning of an episode.
      act: (memory, key [seed], agent_steps int32 [seed]) -> (memory, action).
      see: (memory, frames, begins) -> memory.
      seeds: with `env_frames` they decide how the episodes begin.
      env_frames: training frames so far: each evaluation has episodes of its own.
      episodes: per seed.
      sharding: of arrays with a leading axis `seed`.
      record: is given every frame of the first lane's episode, in colour also where they are
        grey.

    Returns:
      Statistics with a leading axis `seed`; lengths in agent steps.
    """
    num_seeds = len(seeds)

    def by_seed(x: np.ndarray) -> np.ndarray:
        return x.reshape(num_seeds, episodes, *x.shape[1:])

    def on_device(*arrays: np.ndarray) -> tuple[Array, ...]:
        return jax.device_put(tuple(by_seed(x) for x in arrays), sharding)

    frame = env.reset(lane_seeds(seeds, env_frames, episodes))
    returns = np.zeros(env.num_lanes)
    lengths = np.zeros(env.num_lanes, int)
    finished = np.zeros(env.num_lanes, bool)
    replays = np.zeros(env.num_lanes, int)
    fold = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), env_frames))
    keys = jax.device_put(fold(jnp.asarray(seeds)), sharding)
    agent_steps = np.zeros(num_seeds, np.int32)
    memory = begin(*on_device(frame))
    while True:
        if record is not None and not finished[0]:
            # A view would keep the frames of all lanes for as long as it is kept.
            record(np.broadcast_to(frame[0].copy(), (*frame.shape[1:3], 3)))
        memory, action = act(memory, keys, jax.device_put(agent_steps, sharding))
        # Not in place: on a CPU the device may still be reading this array's own memory.
        agent_steps = agent_steps + 1
        executed = env.spec.action_space.executed(np.asarray(action))
        env.send(executed.reshape(env.num_lanes, -1))
        step = env.receive()
        ended = step.ended
        returns += np.where(finished, 0.0, step.reward)
        lengths += ~finished
        anew = env.lost & ~finished & (replays < MOST_REPLAYS)
        replays += anew
        returns[anew], lengths[anew] = 0.0, 0
        finished |= ended & ~anew
        if finished.all():
            break
        frame = step.frame
        memory = see(memory, *on_device(frame, ended))
    return EvalStats.of(by_seed(returns), by_seed(lengths))


def lane_seeds(
    seeds: np.ndarray, env_frames: int, episodes: int, training: bool = False
) -> np.ndarray:
    """uint32 seeds of the lanes: a function of the run's seed, the frame count and the lane.

    Those of `training` are others, so that no evaluation begins with episodes that are trained on.
    """
    stream = (1,) if training else ()
    sequences = [np.random.SeedSequence([int(seed), env_frames, *stream]) for seed in seeds]
    return np.concatenate([sequence.generate_state(episodes) for sequence in sequences])
