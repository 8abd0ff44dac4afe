"""Any loop over environments on the device, mapped over seeds and compiled."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Unpack

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from re3_jax.agents.base import Acting, AgentState
from re3_jax.cpu.by_platform import in_turn
from re3_jax.envs.base import DeviceEnv
from re3_jax.envs.endless import EndlessEpisode
from re3_jax.training.evaluate import EvalStats, evaluate
from re3_jax.training.host_evaluation import Frames
from re3_jax.training.seeds import OverSeeds, ProgramOptions
from re3_jax.training.train_state import Metrics, TrainState


class DeviceProgram:
    """Training of several seeds whose environments are part of their state.

    Attributes:
      init: seed numbers -> state at env frame 0; every leaf has a leading axis `seed`.
      train: state -> (state, metrics[seed]), one chunk; the state given is donated.
      evaluate: state -> `EvalStats`, each [seed]; leaves the state alone, and gives the same
        answer whenever it is asked at the same env frame.
      env_frames_per_chunk: env frames that one chunk adds to each seed.
      evaluates_beside_training: whether an evaluation may be played in a thread while `train`
        goes on.
      restores_environments: whether `resume` puts them where they were; else episodes begin anew.
    """

    evaluates_beside_training = False
    restores_environments = True

    def __init__(
        self,
        env: DeviceEnv,
        acting: Acting,
        init: Callable[[PRNGKeyArray], TrainState],
        train: Callable[[TrainState], tuple[TrainState, Metrics]],
        env_frames_per_chunk: int,
        **options: Unpack[ProgramOptions],
    ):
        """Makes the programs of all seeds from functions of one seed, without compiling them.

        Args:
          env: the task, for evaluations.
          acting: how the agent acts in evaluations.
          init: key -> state of one seed.
          train: state -> (state, metrics), one chunk of one seed.
          env_frames_per_chunk: env frames that `train` adds to each seed.
          options: see `ProgramOptions`.
        """
        episodes, greedy = options["eval_episodes"], options["eval_greedy"]

        # In turn: side by side, every seed would play on until the last one's episodes end.
        @in_turn
        def play(agent: AgentState, key: PRNGKeyArray) -> EvalStats:
            return evaluate(env, acting, agent, key, episodes=episodes, greedy=greedy)

        def evaluate_one(state: TrainState) -> EvalStats:
            key = jax.random.fold_in(state.evaluation_key, state.counters.env_frames)
            return play(state.agent, key)

        over_seeds = OverSeeds.of(options)
        self.env_frames_per_chunk, self._over_seeds = env_frames_per_chunk, over_seeds
        self._env = env
        self.init = over_seeds.compile(lambda seed: init(jax.random.key(seed)))
        self.train: Any = over_seeds.compile(train, donate=0)
        self.evaluate: Any = over_seeds.compile(evaluate_one)

    def abstract_state(self, num_seeds: int) -> TrainState:
        """Shapes, dtypes and shardings of the state, after a trace that finds mistakes."""
        shapes = self.init.eval_shape(jax.ShapeDtypeStruct((num_seeds,), np.int32))
        self.train.eval_shape(shapes)
        return self._over_seeds.with_shardings(shapes)

    def template(self, num_seeds: int) -> TrainState:
        """Shapes, dtypes and shardings of the state, for `CheckpointStore.restore`."""
        return self.abstract_state(num_seeds)

    def lowered(self, num_seeds: int) -> dict[str, jax.stages.Lowered]:
        """Every program of training by its name, for shapes alone."""
        return {"train": self.train.lower(self.abstract_state(num_seeds))}

    def compile(self, state: TrainState) -> None:
        """Compiles both programs, side by side: much of a compilation runs on one core."""
        lowered = self.train.lower(state), self.evaluate.lower(state)
        with ThreadPoolExecutor(2) as pool:
            self.train, self.evaluate = pool.map(lambda one: one.compile(), lowered)

    def start_evaluation(
        self, state: TrainState, film: Frames | None = None
    ) -> Callable[[], EvalStats]:
        """Dispatches the episodes, which show no frames; the function returned waits for them.

        Raises:
          EndlessEpisode: from that function, if one does not end within its task's limit.
        """
        del film
        dispatched = self.evaluate(state)

        def found() -> EvalStats:
            stats: EvalStats = jax.device_get(dispatched)
            if np.isnan(stats.length_mean).any():
                raise EndlessEpisode(self._env.spec.task, self._env.spec.max_agent_steps)
            return stats

        return found

    def capture(self, state: TrainState) -> TrainState:
        """What a checkpoint must hold: the state itself."""
        return state

    def resume(self, state: TrainState) -> TrainState:
        """The state to go on with after `restore`: the state itself."""
        return state

    def close(self) -> None:
        """Does nothing, because nothing lives outside of the state."""
