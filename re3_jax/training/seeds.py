"""Independent seeds as one compiled program: what both device loops have in common."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, NotRequired, TypedDict, Unpack

import jax
from jax.sharding import NamedSharding
from jaxtyping import Array, Int, PRNGKeyArray

from re3_jax.agents.base import Acting, Learner, OnPolicyLearner
from re3_jax.envs.base import DeviceEnv
from re3_jax.training import coverage
from re3_jax.training.evaluate import EvalStats, evaluate
from re3_jax.training.over_seeds import OverSeeds
from re3_jax.training.train_state import Counters, Lanes, Metrics, TrainState


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


class ProgramOptions(TypedDict):
    """What every program is asked for.

    Attributes:
      eval_episodes: episodes per evaluation and seed.
      eval_greedy: evaluate the mode of the policy; otherwise it explores.
      devices: devices to spread the seeds over; the number of seeds must be a multiple of
        theirs. One device by default.
    """

    eval_episodes: int
    eval_greedy: bool
    devices: NotRequired[Sequence[jax.Device] | None]


def begin(
    env: DeviceEnv,
    learner: Learner | OnPolicyLearner,
    key: PRNGKeyArray,
    evaluation_key: PRNGKeyArray,
    learner_key: PRNGKeyArray,
    reset_key: PRNGKeyArray,
) -> TrainState:
    """State of one seed at env frame 0, no action chosen."""
    env_state, frame = jax.vmap(env.reset)(jax.random.split(reset_key, learner.num_lanes))
    return TrainState(
        *learner.init(learner_key, frame),
        lanes=Lanes.begin(learner.num_lanes, env_state),
        counters=Counters.zero(),
        key=key,
        evaluation_key=evaluation_key,
        visited=coverage.none_visited(env),
    )


def compile_program(
    env: DeviceEnv,
    acting: Acting,
    init: Callable[[PRNGKeyArray], TrainState],
    train: Callable[[TrainState], tuple[TrainState, Metrics]],
    env_frames_per_chunk: int,
    **options: Unpack[ProgramOptions],
) -> Program:
    """Maps any device loop over seeds.

    Args:
      env: the task, for evaluations.
      acting: how the agent acts in evaluations.
      init: key -> state of one seed.
      train: state -> (state, metrics), one chunk of one seed.
      env_frames_per_chunk: env frames that `train` adds to each seed.
      options: see `ProgramOptions`.
    """
    episodes, greedy = options["eval_episodes"], options["eval_greedy"]

    def init_one(seed: Int[Array, ""]) -> TrainState:
        return init(jax.random.key(seed))

    def evaluate_one(state: TrainState) -> EvalStats:
        key = jax.random.fold_in(state.evaluation_key, state.counters.env_frames)
        return evaluate(env, acting, state.agent, key, episodes=episodes, greedy=greedy)

    over_seeds = OverSeeds(options.get("devices"))
    return Program(
        init=over_seeds.compile(init_one),
        train=over_seeds.compile(train, donate=0),
        evaluate=over_seeds.compile(evaluate_one),
        env_frames_per_chunk=env_frames_per_chunk,
        sharding=over_seeds.sharding,
    )
