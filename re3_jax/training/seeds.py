"""Independent seeds as one compiled program."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax.agents.base import Acting
from re3_jax.cpu import compilation
from re3_jax.envs.base import DeviceEnv
from re3_jax.training.evaluate import EvalStats, evaluate
from re3_jax.training.over_seeds import SEED_AXIS, map_over_seeds
from re3_jax.training.train_state import Metrics, TrainState


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

    init: Callable[[Int[Array, " seed"]], TrainState]
    train: jax.stages.Wrapped
    evaluate: jax.stages.Wrapped
    env_frames_per_chunk: int
    sharding: NamedSharding


def compile_program(
    env: DeviceEnv,
    acting: Acting,
    init: Callable[[PRNGKeyArray], TrainState],
    train: Callable[[TrainState], tuple[TrainState, Metrics]],
    *,
    eval_episodes: int,
    eval_greedy: bool,
    env_frames_per_chunk: int,
    devices: Sequence[jax.Device] | None = None,
) -> Program:
    """Maps any device loop over seeds.

    Args:
      env: the task, for evaluations.
      acting: how the agent acts in evaluations.
      init: key -> state of one seed.
      train: state -> (state, metrics), one chunk of one seed.
      eval_episodes: episodes per evaluation.
      eval_greedy: evaluate the mode of the policy; otherwise it explores.
      env_frames_per_chunk: env frames that `train` adds to each seed.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.
    """
    mesh = Mesh(devices or jax.devices()[:1], (SEED_AXIS,))

    def init_one(seed: Int[Array, ""]) -> TrainState:
        return init(jax.random.key(seed))

    def evaluate_one(state: TrainState) -> EvalStats:
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
