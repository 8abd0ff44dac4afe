"""The loop over environments on the host, for every agent (io).

While the lanes make step t, the device runs the updates due before it, which do not need it (the
order of the released code: act, learn, step, store). An on-policy agent learns from a rollout when
its last step is stored, and the lanes wait. Programs are called once per agent step from
the host and never sit inside a loop of the device, where a CPU's convolutions are slow.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from re3_jax.agents.base import Learner, OnPolicyLearner
from re3_jax.envs.base import LaneStep
from re3_jax.envs.host.base import HostEnv
from re3_jax.training import screens
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import Frames, evaluate_lanes, lane_seeds, lanes_of_a_seed
from re3_jax.training.host_functions import SeedFunctions, step_key
from re3_jax.training.host_rollout import collecting
from re3_jax.training.seeds import OverSeeds, ProgramOptions
from re3_jax.training.state_program import StateProgram
from re3_jax.training.train_state import TrainState

Metrics = dict[str, np.ndarray]

STORED = "intrinsic", "replay", "memory", "lanes", "counters", "visited"
"""The fields of the state that storing a step changes."""


class StepPrograms(NamedTuple):
    """What the device runs in one agent step; all over a leading axis `seed`.

    act, act_randomly: state -> (memory, action).
    learn: one per phase of the learner; state -> (state, info).
    store: (state, action, step) -> (state, (totals of episodes, reward)).
    """

    act: Any
    act_randomly: Any
    learn: tuple[StateProgram, ...]
    store: StateProgram


class HostProgram:
    """Training of several seeds on lanes of the host; the state is explicit all the same.

    Attributes:
      learner: what learns.
      programs: what the device runs in one agent step.
    """

    # Evaluations have lanes of their own.
    evaluates_beside_training = True

    def __init__(
        self,
        learner: Learner | OnPolicyLearner,
        make_env: Callable[[int], HostEnv],
        *,
        seeds: Sequence[int],
        chunk_agent_steps: int,
        **options: Unpack[ProgramOptions],
    ):
        """Builds the programs; no environment is started yet.

        Args:
          learner: learns a task of frames, or one whose observations are vectors.
          make_env: number of lanes -> environment; called once for training and once for
            evaluation.
          seeds: numbers of the seeds.
          chunk_agent_steps: agent steps of a lane per call of `train`.
          options: see `ProgramOptions`.
        """
        if isinstance(learner, OnPolicyLearner):
            learner = collecting(learner)
        self.learner, self.spec = learner, learner.spec
        self._chunk_agent_steps, self._eval_episodes = chunk_agent_steps, options["eval_episodes"]
        frames_per_step = learner.num_lanes * learner.spec.action_repeat
        self.env_frames_per_chunk = chunk_agent_steps * frames_per_step
        self._seeds, self._make_env = np.asarray(seeds), make_env
        self._env: HostEnv | None = None
        self._evaluation_env: HostEnv | None = None
        over_seeds = OverSeeds.of(options)
        self._over_seeds, self._sharding = over_seeds, over_seeds.sharding
        compiled = over_seeds.compile
        program = partial(StateProgram.of, over_seeds)
        one, acting, greedy = SeedFunctions(learner), learner.acting, options["eval_greedy"]
        changes = *learner.learns, "counters"
        learn = cache(lambda phase: program(partial(one.learn, phase), *changes))
        self.programs = StepPrograms(
            act=compiled(one.act),
            act_randomly=compiled(one.act_randomly),
            learn=tuple(map(learn, learner.phases)),
            store=program(one.store, *STORED),
        )
        self._init = compiled(one.init)
        self._restart = compiled(one.restart, donate=0)
        self._screens_seen = compiled(screens.count)

        def evaluation_act(agent, memory, key, agent_steps):
            return acting.act(agent, memory, step_key(key, agent_steps, 2), not greedy)

        self._begin, self._see = compiled(acting.begin), compiled(acting.see)
        self._act = compiled(evaluation_act)
        self._snapshot = compiled(lambda state: jax.tree.map(jnp.copy, state))

    def abstract_state(self, num_seeds: int) -> TrainState:
        """Shapes, dtypes and shardings of the state, but for the lanes' own; starts nothing.

        Traces all that trains, which finds mistakes.
        """
        state, programs = self._shapes(num_seeds), self.programs
        for learn in dict.fromkeys(programs.learn):
            learn.eval_shape(state)
        programs.store.eval_shape(state, *self._of_a_step(state))
        return state

    def _shapes(self, num_seeds: int) -> TrainState:
        seeds = jax.ShapeDtypeStruct((num_seeds,), jnp.int32)
        shapes = self._init.eval_shape(seeds, self._by_seed(self._zero_step().frame))
        return self._over_seeds.with_shardings(shapes)

    def template(self, num_seeds: int) -> TrainState:
        """Shapes, dtypes and shardings of a captured state; starts the lanes."""
        if self.restores_environments:
            self.lanes().reset(self._lane_seeds(0))
        return self._over_seeds.with_shardings(self.capture(self._shapes(num_seeds)))

    def init(self, seeds: Int[Array, " seed"]) -> TrainState:
        """State at env frame 0, where the lanes show the first frames of their episodes."""
        frames = self.lanes().reset(self._lane_seeds(0))
        state: TrainState = self._init(seeds, self._by_seed(frames))
        return state

    def capture(self, state: TrainState) -> TrainState:
        """The state with the lanes' present ones in it, where the engine can tell them."""
        if not self.restores_environments:
            return state
        as_bytes = {
            name: np.ascontiguousarray(value).reshape(len(value), -1).view(np.uint8)
            for name, value in self.lanes().get_state().items()
        }
        env = jax.device_put(self._by_seed(as_bytes), self._sharding)
        return state._replace(lanes=state.lanes._replace(env=env))

    def resume(self, state: TrainState) -> TrainState:
        """Puts the lanes where `state` has them; the state to go on with.

        An engine that cannot do that begins new episodes.
        """
        env, stored = self.lanes(), jax.device_get(state.lanes.env)
        state = state._replace(lanes=state.lanes._replace(env={}))
        if env.can_restore:
            like = env.get_state().items()
            told = {key: np.array(stored[key]).view(x.dtype).reshape(x.shape) for key, x in like}
            env.set_state(told)
            return state
        env_frames = int(state.counters.env_frames[0])
        return self._restart(state, self._by_seed(env.reset(self._lane_seeds(env_frames))))

    @property
    def restores_environments(self) -> bool:
        """Whether the engine can put its lanes back."""
        return self.lanes().can_restore

    def lowered(self, num_seeds: int) -> dict[str, jax.stages.Lowered]:
        """Every program of training by its name, for shapes alone; starts nothing."""
        state, programs = self._shapes(num_seeds), self.programs
        updates = {f"update {i}": learn for i, learn in enumerate(programs.learn, 1)}
        return {
            "act": programs.act.lower(state),
            **{name: learn.lower(state) for name, learn in updates.items()},
            "store": programs.store.lower(state, *self._of_a_step(state)),
        }

    def _of_a_step(self, state: TrainState) -> tuple[Any, LaneStep]:
        """Shapes, dtypes and shardings of the actions of a step, and of what follows them."""
        _, action = self.programs.act.eval_shape(state)
        step = jax.eval_shape(lambda: self._by_seed(self._zero_step()))
        found: tuple[Any, LaneStep] = self._over_seeds.with_shardings((action, step))
        return found

    def compile(self, state: TrainState) -> None:
        """Compiles every program of training, ahead of their first call."""
        programs = self.programs
        _, action = programs.act.eval_shape(state)
        _, info = programs.learn[0].eval_shape(state)
        self._no_update = {name: np.full(len(self._seeds), np.nan, np.float32) for name in info}
        step = self.on_device(self._zero_step())
        learn = cache(lambda program: program.compiled(state))
        self.programs = StepPrograms(
            act=programs.act.lower(state).compile(),
            act_randomly=programs.act_randomly.lower(state).compile(),
            learn=tuple(map(learn, programs.learn)),
            store=programs.store.compiled(state, action, step),
        )

    def train(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One chunk, after `compile`; the state given is donated. Metrics are means, [seed].

        Episode statistics are over the episodes that ended in the chunk, NaN if none did;
        those of updates are NaN where the chunk made none.
        """
        env, programs, annotate = self.lanes(), self.programs, jax.profiler.TraceAnnotation
        agent_steps, updates = int(state.counters.agent_steps[0]), int(state.counters.updates[0])
        lanes = self.learner.num_lanes
        of_updates: list[Any] = []
        of_steps = []

        def learn(state: TrainState) -> TrainState:
            """Dispatches the updates that are due with the newest step stored."""
            for _ in range(self.learner.updates_due(agent_steps - lanes, agent_steps)):
                with annotate("dispatch update"):
                    update = programs.learn[(updates + len(of_updates)) % len(programs.learn)]
                    state, info = update(state)
                of_updates.append(info)
            return state

        for _ in range(self._chunk_agent_steps):
            with annotate("act"):
                is_random = agent_steps < self.learner.random_agent_steps
                act = programs.act_randomly if is_random else programs.act
                memory, action = act(state)
                state = state._replace(memory=memory)
                self.send(action)
            if self.learner.learns_while_lanes_step:
                state = learn(state)
            with annotate("wait for lanes"):
                step = env.receive()
            with annotate("store"):
                state, info = programs.store(state, action, self.on_device(step))
            of_steps.append(info)
            agent_steps += lanes
            if not self.learner.learns_while_lanes_step:
                state = learn(state)
        # Each seed's numbers side by side: so their sums do not depend on how many seeds there are.
        stack = partial(jax.tree.map, lambda *values: np.stack(values, axis=-1))
        totals, rewards = stack(*jax.device_get(of_steps))
        updates_info = jax.device_get(of_updates) or [self._no_update]
        metrics = {
            **{name: np.mean(values, axis=-1) for name, values in stack(*updates_info).items()},
            "reward_mean": rewards.mean(axis=-1),
            **jax.device_get(totals.metrics(axis=-1)),
        }
        if state.visited is not None:
            metrics["screens_seen"] = jax.device_get(self._screens_seen(state.visited))
        return state, metrics

    def start_evaluation(
        self, state: TrainState, film: Frames | None = None
    ) -> Callable[[], EvalStats]:
        """Takes a copy of what acts; the function returned plays the episodes, in any thread.

        Args:
          state: may be trained further (and so donated) before the episodes are played.
          film: receives every frame of the first seed's first episode, of a task seen as pixels.
        """
        agent = self._snapshot(state.agent)
        env_frames = int(state.counters.env_frames[0])
        if self._evaluation_env is None:
            lanes = lanes_of_a_seed(len(self._seeds), self._eval_episodes)
            self._evaluation_env = self._make_env(len(self._seeds) * lanes)
        return partial(
            evaluate_lanes,
            self._evaluation_env,
            begin=partial(self._begin, agent),
            act=partial(self._act, agent),
            see=self._see,
            seeds=self._seeds,
            env_frames=env_frames,
            episodes=self._eval_episodes,
            sharding=self._sharding,
            film=film if self.spec.is_image else None,
        )

    def close(self) -> None:
        """Ends the lanes."""
        for env in (self._env, self._evaluation_env):
            if env is not None:
                env.close()

    def lanes(self) -> HostEnv:
        """The training environment, started when first asked for."""
        if self._env is None:
            self._env = self._make_env(len(self._seeds) * self.learner.num_lanes)
        return self._env

    def send(self, action: Shaped[Array, "seed lane *action"]) -> None:
        """Starts a step of the training lanes."""
        env, executed = self.lanes(), self.spec.action_space.executed(np.asarray(action))
        env.send(executed.reshape(env.num_lanes, -1))

    def on_device(self, step: LaneStep) -> LaneStep:
        """The step, spread over the devices as the seeds are."""
        return jax.device_put(self._by_seed(step), self._sharding)

    def _by_seed(self, arrays: Any) -> Any:
        """Arrays of all lanes -> [seed, lane, ...]."""
        leading = len(self._seeds), self.learner.num_lanes
        return jax.tree.map(lambda x: np.reshape(x, (*leading, *np.shape(x)[1:])), arrays)

    def _lane_seeds(self, env_frames: int) -> np.ndarray:
        """Seeds of the lanes' episodes after so many frames; one lane begins with its seed's."""
        if env_frames == 0 and self.learner.num_lanes == 1:
            return self._seeds
        return lane_seeds(self._seeds, env_frames, self.learner.num_lanes, training=True)

    def _zero_step(self) -> LaneStep:
        num_lanes = len(self._seeds) * self.learner.num_lanes
        shape = num_lanes, *self.spec.frame_shape
        return LaneStep.zeros(np.zeros(shape, self.spec.observation_dtype))
