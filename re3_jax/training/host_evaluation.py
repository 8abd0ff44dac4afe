"""Evaluation of a policy in lanes of the host, which play episodes side by side (io)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding
from jaxtyping import Array, Shaped

from re3_jax.agents.base import Memory
from re3_jax.envs.host.base import HostEnv
from re3_jax.training.evaluate import EvalStats

Frames = list[np.ndarray]
"""Frames of an episode, uint8 [height, width, 3]."""

MOST_LANES = 64
"""Most lanes of an evaluation, but at least one a seed: each takes 65 to 80 MB of the host."""

MOST_REPLAYS = 3
"""Most replays of an episode whose process is lost.

What loses it each time would never let it end.
"""


def lanes_of_a_seed(num_seeds: int, episodes: int) -> int:
    """How many lanes play a seed's episodes, in as few rounds as `MOST_LANES` allow."""
    rounds = -(-episodes // max(1, MOST_LANES // num_seeds))
    return -(-episodes // rounds)


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
    film: Frames | None = None,
) -> EvalStats:
    """Plays `episodes` episodes for each seed, as many side by side as there are lanes.

    Where a lane's process is lost, the lane plays another episode from its beginning instead, but
    at most `MOST_REPLAYS` times: then the part that was played counts.

    Args:
      env: lanes of its own for each seed, those of one seed next to each other.
      begin: frames [seed, lane, ...] -> memory of lanes at the beginning of an episode.
      act: (memory, key [seed], agent_steps int32 [seed]) -> (memory, action).
      see: (memory, frames, begins) -> memory.
      seeds: with `env_frames` they decide how the episodes begin.
      env_frames: training frames so far: each evaluation has episodes of its own.
      episodes: per seed.
      sharding: of arrays with a leading axis `seed`.
      film: receives every frame of the first seed's first episode, in colour also where they are
        grey.

    Returns:
      Statistics with a leading axis `seed`; lengths in agent steps.
    """
    num_seeds, lanes = len(seeds), env.num_lanes // len(seeds)

    def by_seed(x: np.ndarray) -> np.ndarray:
        return x.reshape(num_seeds, lanes, *x.shape[1:])

    def on_device(*arrays: np.ndarray) -> tuple[Array, ...]:
        return jax.device_put(tuple(by_seed(x) for x in arrays), sharding)

    fold = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), env_frames))
    keys = jax.device_put(fold(jnp.asarray(seeds)), sharding)

    def play(
        beginnings: np.ndarray, agent_steps: np.ndarray, film: Frames | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns and lengths [seed, episode] of a round, and the next round's agent steps."""
        number = beginnings.shape[1]
        frame = env.reset(np.pad(beginnings, ((0, 0), (0, lanes - number)), mode="edge").ravel())
        returns = np.zeros(env.num_lanes)
        lengths = np.zeros(env.num_lanes, int)
        finished = np.tile(np.arange(lanes) >= number, num_seeds)
        replays = np.zeros(env.num_lanes, int)
        memory = begin(*on_device(frame))
        while True:
            if film is not None and not finished[0]:
                # A view would keep the frames of all lanes for as long as it is kept.
                film.append(np.broadcast_to(frame[0].copy(), (*frame.shape[1:3], 3)))
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
            if film is not None and anew[0]:
                film.clear()
            finished |= ended & ~anew
            if finished.all():
                return by_seed(returns)[:, :number], by_seed(lengths)[:, :number], agent_steps
            frame = step.frame
            memory = see(memory, *on_device(frame, ended))

    beginnings = lane_seeds(seeds, env_frames, episodes).reshape(num_seeds, episodes)
    # They go on over the rounds, so that each has noise of its own.
    agent_steps = np.zeros(num_seeds, np.int32)
    rounds = []
    for first in range(0, episodes, lanes):
        *found, agent_steps = play(beginnings[:, first : first + lanes], agent_steps, film)
        rounds.append(found)
        film = None
    returns, lengths = (np.concatenate(found, axis=1) for found in zip(*rounds, strict=True))
    return EvalStats.of(returns, lengths)


def lane_seeds(
    seeds: np.ndarray, env_frames: int, episodes: int, training: bool = False
) -> np.ndarray:
    """uint32 seeds of the lanes: a function of the run's seed, the frame count and the lane.

    Those of `training` are others, so that no evaluation begins with episodes that are trained on.
    """
    stream = (1,) if training else ()
    sequences = [np.random.SeedSequence([int(seed), env_frames, *stream]) for seed in seeds]
    return np.concatenate([sequence.generate_state(episodes) for sequence in sequences])
