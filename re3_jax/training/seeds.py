"""Independent seeds as one program: `vmap` within a device, `shard_map` over devices."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from re3_jax.agents.base import Agent
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.training.device_loop import init_train_state, train_chunk
from re3_jax.training.evaluate import EvalStats, evaluate
from re3_jax.training.train_state import TrainState

SEED_AXIS = "seed"


class Program(NamedTuple):
    """Training of several seeds, compiled.

    Attributes:
      init: seed numbers -> state; every leaf has a leading axis `seed`.
      train: state -> (state, metrics[seed]), one chunk; the state given is donated.
      evaluate: state -> `EvalStats`, each [seed]; leaves the state alone, and gives the same
        answer whenever it is asked at the same env frame.
      env_frames_per_chunk: env frames that one chunk adds to each seed.
    """

    init: Callable[[Int[Array, " seed"]], TrainState]
    train: jax.stages.Wrapped
    evaluate: jax.stages.Wrapped
    env_frames_per_chunk: int


def make_program(
    env: DeviceEnv,
    agent: Agent,
    bonus: IntrinsicReward,
    *,
    num_envs: int,
    rollout_length: int,
    chunk_updates: int,
    eval_episodes: int,
    eval_greedy: bool,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps the device loop over seeds.

    Args:
      env: the task.
      agent: learns it.
      bonus: rewards it for exploring; `intrinsic.none()` for no bonus.
      num_envs: lanes per seed.
      rollout_length: agent steps per lane per update.
      chunk_updates: updates per call of `train`; the host hears once per chunk.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the mode of the policy; otherwise actions are sampled.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.

    Returns:
      The compiled program.
    """
    mesh = Mesh(devices or jax.devices()[:1], (SEED_AXIS,))
    over_seeds = PartitionSpec(SEED_AXIS)

    def map_seeds(function):
        mapped = jax.vmap(function)
        if mesh.size == 1:
            return mapped
        return jax.shard_map(
            mapped, mesh=mesh, in_specs=over_seeds, out_specs=over_seeds, check_vma=False
        )

    def init_one(seed: Int[Array, ""]) -> TrainState:
        return init_train_state(env, agent, bonus, num_envs, jax.random.key(seed))

    def evaluate_one(state: TrainState) -> EvalStats:
        key = jax.random.fold_in(state.evaluation_key, state.counters.env_frames)
        return evaluate(env, agent, state.agent, key, episodes=eval_episodes, greedy=eval_greedy)

    train_one = partial(
        train_chunk,
        env,
        agent,
        bonus,
        rollout_length=rollout_length,
        chunk_updates=chunk_updates,
    )
    frames = chunk_updates * rollout_length * num_envs * env.spec.action_repeat
    # Explicit on both sides: a state that comes back from `train` must look to the compiler
    # like the one that `init` made, or the second chunk would compile anew.
    sharding = NamedSharding(mesh, over_seeds)
    compiled = partial(jax.jit, in_shardings=sharding, out_shardings=sharding)
    return Program(
        init=compiled(map_seeds(init_one)),
        train=compiled(map_seeds(train_one), donate_argnums=0),
        evaluate=compiled(map_seeds(evaluate_one)),
        env_frames_per_chunk=frames,
    )
