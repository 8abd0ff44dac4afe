"""Independent seeds as one compiled program."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.agents.base import Acting, Agent, without_memory
from re3_jax.cpu import compilation
from re3_jax.envs.base import DeviceEnv
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.training.device_loop import init_train_state, train_chunk
from re3_jax.training.evaluate import EvalStats, evaluate
from re3_jax.training.over_seeds import SEED_AXIS, map_over_seeds

State = Any
"""`TrainState` or `OffPolicyState`."""


class Program(NamedTuple):
    """Training of several seeds, compiled.

    Attributes:
      init: seed numbers -> state; every leaf has a leading axis `seed`.
      train: state -> (state, metrics[seed]), one chunk; the state given is donated.
      evaluate: state -> `EvalStats`, each [seed]; leaves the state alone, and gives the same
        answer whenever it is asked at the same env frame.
      env_frames_per_chunk: env frames that one chunk adds to each seed.
      sharding: of every leaf of the state.
    """

    init: Callable[[Int[Array, " seed"]], State]
    train: jax.stages.Wrapped
    evaluate: jax.stages.Wrapped
    env_frames_per_chunk: int
    sharding: NamedSharding


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
    return compile_program(
        env,
        without_memory(agent),
        partial(init_train_state, env, agent, bonus, num_envs),
        partial(
            train_chunk,
            env,
            agent,
            bonus,
            rollout_length=rollout_length,
            chunk_updates=chunk_updates,
        ),
        eval_episodes=eval_episodes,
        eval_greedy=eval_greedy,
        env_frames_per_chunk=chunk_updates * rollout_length * num_envs * env.spec.action_repeat,
        devices=devices,
    )


def compile_program(
    env: DeviceEnv,
    acting: Acting,
    init: Callable[[PRNGKeyArray], State],
    train: Callable[[State], tuple[State, dict[str, Float[Array, ""]]]],
    *,
    eval_episodes: int,
    eval_greedy: bool,
    env_frames_per_chunk: int,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps any device loop over seeds.

    Args:
      env: the task, for evaluations.
      acting: what is evaluated.
      init: key -> state of one seed, with the fields `agent`, `counters` and `evaluation_key`.
      train: state -> (state, metrics), one chunk of one seed.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the mode of the policy; otherwise actions are sampled.
      env_frames_per_chunk: env frames that `train` adds to each seed.
      devices: as in `make_program`.
    """
    mesh = Mesh(devices or jax.devices()[:1], (SEED_AXIS,))

    def init_one(seed: Int[Array, ""]) -> State:
        return init(jax.random.key(seed))

    def evaluate_one(state: State) -> EvalStats:
        key = jax.random.fold_in(state.evaluation_key, state.counters.env_frames)
        return evaluate(env, acting, state.agent, key, episodes=eval_episodes, greedy=eval_greedy)

    # Explicit on both sides: a state that comes back from `train` must look to the compiler
    # like the one that `init` made, or the second chunk would compile anew.
    sharding = NamedSharding(mesh, PartitionSpec(SEED_AXIS))
    compiled = partial(compilation.jit, in_shardings=sharding, out_shardings=sharding)
    return Program(
        init=compiled(map_over_seeds(init_one, mesh)),
        train=compiled(map_over_seeds(train, mesh), donate_argnums=0),
        evaluate=compiled(map_over_seeds(evaluate_one, mesh)),
        env_frames_per_chunk=env_frames_per_chunk,
        sharding=sharding,
    )
