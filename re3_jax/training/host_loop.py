"""The off-policy loop over environments on the host (io).

While the lanes make step t, the device runs the update of step t, which does
not need it (the order of the released code: act, update, step, store). Programs are called
once per agent step from the host and never sit inside a loop of the device, where a CPU's
convolutions are slow.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from re3_jax.cpu import compilation
from re3_jax.envs.host.base import HostEnv, HostStep
from re3_jax.training.episodes import EpisodeTotals, episode_metrics
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import evaluate_lanes, lane_seeds
from re3_jax.training.host_step import SeedFunctions, step_key
from re3_jax.training.learner import OffPolicyState
from re3_jax.training.over_seeds import SEED_AXIS, map_over_seeds, with_sharding

Metrics = dict[str, np.ndarray]


class StepPrograms(NamedTuple):
    """What the device runs in one agent step; all over a leading axis `seed`.

    act: (agent, replay, lanes, key, agent_steps) -> (action, observation).
    learn: one per phase of the agent;
      (agent, intrinsic, replay, counters, key) -> (agent, intrinsic, replay or None, counters,
      info), donating all that comes back.
    insert(replay, intrinsic, lanes, counters, observation, action, step) ->
      (replay, intrinsic, lanes, counters, info), donating all that comes back. It takes the
      observation that the agent saw: a program that also read it from the replay would copy
      the frames before it writes to them.
    """

    act: tuple[Any, ...]
    learn: tuple[Any, ...]
    insert: Any


class HostProgram:
    """Training of several seeds on lanes of the host; the state is explicit all the same.

    Attributes:
      programs: what the device runs in one agent step.
      env_frames_per_chunk: env frames that one call of `train` adds to each seed.
      evaluates_beside_training: evaluations have lanes of their own.
    """

    evaluates_beside_training = True

    def __init__(
        self,
        one: SeedFunctions,
        make_env: Callable[[int], HostEnv],
        *,
        seeds: Sequence[int],
        chunk_agent_steps: int,
        eval_episodes: int,
        devices: Sequence[jax.Device] | None = None,
    ):
        """Builds the programs; no environment is started yet.

        Args:
          one: what is run for one seed: `OneSeed` of `host_step`, `prioritized_host_step` or
            `dreamer_host_step`.
          make_env: number of lanes -> environment; called once for training and once for
            evaluation.
          seeds: numbers of the seeds.
          chunk_agent_steps: agent steps of a lane per call of `train`.
          eval_episodes: episodes per evaluation and seed.
          devices: devices to spread the seeds over; their number must divide that of seeds.
        """
        self._one, self.spec = one, one.spec
        self._chunk_agent_steps, self._eval_episodes = chunk_agent_steps, eval_episodes
        self.env_frames_per_chunk = chunk_agent_steps * one.spec.action_repeat * one.num_lanes
        self._seeds = np.asarray(seeds)
        self._make_env = make_env
        self._env: HostEnv | None = None
        self._evaluation_env: HostEnv | None = None
        mesh = Mesh(np.asarray(devices or jax.devices()[:1]), (SEED_AXIS,))
        self._sharding = NamedSharding(mesh, PartitionSpec(SEED_AXIS))

        def compiled(function: Callable[..., Any], donate: tuple[int, ...] = ()):
            return compilation.jit(
                map_over_seeds(function, mesh),
                in_shardings=self._sharding,
                out_shardings=self._sharding,
                donate_argnums=donate,
            )

        self._init = compiled(one.init)
        learn = {
            phase: compiled(partial(one.learn, phase), donate=one.donated_by_learn)
            for phase in dict.fromkeys(one.phases)
        }
        self.programs = StepPrograms(
            act=tuple(compiled(actor) for actor in one.actors),
            learn=tuple(learn[phase] for phase in one.phases),
            insert=compiled(one.insert, donate=(0, 1, 2, 3)),
        )
        self._begin = compiled(one.begin, donate=(0, 1))
        self._metrics = compiled(one.metrics)

        def evaluation_act(agent, memory, observation, key, agent_steps):
            key = step_key(key, agent_steps, 2)
            return one.acting.act(agent, memory, observation, key, not one.eval_greedy)

        self._evaluation_begin = compiled(lambda agent: one.acting.begin(agent, eval_episodes))
        self._evaluation_act = compiled(evaluation_act)
        self._snapshot = compiled(lambda state: jax.tree.map(jnp.copy, state))

    def abstract_state(self) -> OffPolicyState:
        """Shapes and dtypes of the state, but for the lanes' own; starts nothing."""
        seeds = jax.ShapeDtypeStruct(self._seeds.shape, jnp.int32)
        return jax.eval_shape(self._init, seeds, self._by_seed(self._zero_step().frame))

    def template(self) -> OffPolicyState:
        """Shapes, dtypes and shardings of a captured state; starts the lanes."""
        state, env = self.abstract_state(), self.lanes()
        if env.can_restore:
            env.reset(self._lane_seeds(0))
            state = state._replace(lanes=state.lanes._replace(env=_as_bytes(env.get_state())))
        return with_sharding(state, self._sharding)

    def init(self, seeds: Int[Array, " seed"]) -> OffPolicyState:
        """State at env frame 0, with the lanes' first frames in the replay."""
        frames = self.lanes().reset(self._lane_seeds(0))
        return self.capture(self._init(seeds, self._by_seed(frames)))

    def capture(self, state: OffPolicyState) -> OffPolicyState:
        """The state with the lanes' present ones in it, where the engine can tell them."""
        if not self.lanes().can_restore:
            return state
        lanes = jax.device_put(_as_bytes(self.lanes().get_state()), self._sharding)
        return state._replace(lanes=state.lanes._replace(env=lanes))

    def resume(self, state: OffPolicyState) -> OffPolicyState:
        """Puts the lanes where `state` has them; the state to go on with.

        An engine that cannot do that begins new episodes.
        """
        env = self.lanes()
        if env.can_restore:
            stored = jax.device_get(state.lanes.env)
            env.set_state(_from_bytes(stored, like=env.get_state()))
            return state
        env_frames = int(state.counters.env_frames[0])
        frames = self._by_seed(env.reset(self._lane_seeds(env_frames)))
        replay, lanes = self._begin(state.replay, state.lanes, frames)
        return state._replace(replay=replay, lanes=lanes)

    @property
    def restores_environments(self) -> bool:
        """Whether the engine can put its lanes back."""
        return self.lanes().can_restore

    def compile(self, state: OffPolicyState) -> None:
        """Compiles every program of training, ahead of their first call."""
        s, c, programs = state, state.counters, self.programs
        act = [
            program.lower(s.agent, s.replay, s.lanes, s.key, c.agent_steps)
            for program in programs.act
        ]
        learn = {
            program: program.lower(s.agent, s.intrinsic, s.replay, c, s.key).compile()
            for program in dict.fromkeys(programs.learn)
        }
        action, observation = jax.tree.map(
            lambda info: jax.ShapeDtypeStruct(info.shape, info.dtype), act[0].out_info
        )
        step = self.on_device(self._zero_step())
        insert = programs.insert.lower(s.replay, s.intrinsic, s.lanes, c, observation, action, step)
        self.programs = StepPrograms(
            tuple(actor.compile() for actor in act),
            tuple(learn[program] for program in programs.learn),
            insert.compile(),
        )
        *_, info = learn[programs.learn[0]].out_info
        self._no_update = {name: np.full(len(self._seeds), np.nan, np.float32) for name in info}

    def train(self, state: OffPolicyState) -> tuple[OffPolicyState, Metrics]:
        """One chunk, after `compile`; the state given is donated. Metrics are means, [seed].

        Episode statistics are over the episodes that ended in the chunk, NaN if none did;
        those of updates are NaN before the first one.
        """
        env, programs, annotate = self.lanes(), self.programs, jax.profiler.TraceAnnotation
        agent, intrinsic, replay, lanes, counters, key, evaluation_key = state
        agent_steps = int(counters.agent_steps[0])
        updates = int(counters.updates[0])
        of_updates, of_steps = [], []
        for _ in range(self._chunk_agent_steps):
            with annotate("act"):
                act = programs.act[self._one.actor(agent_steps)]
                action, observation = act(agent, replay, lanes, key, counters.agent_steps)
                env.send(np.asarray(action).reshape(env.num_lanes, -1))
            for _ in range(self._one.updates_due(agent_steps)):
                with annotate("dispatch update"):
                    learn = programs.learn[updates % len(programs.learn)]
                    agent, intrinsic, written, counters, info = learn(
                        agent, intrinsic, replay, counters, key
                    )
                    replay = replay if written is None else written
                of_updates.append(info)
                updates += 1
            with annotate("wait for lanes"):
                step = env.receive()
            with annotate("insert"):
                replay, intrinsic, lanes, counters, info = programs.insert(
                    replay, intrinsic, lanes, counters, observation, action, self.on_device(step)
                )
            of_steps.append(info)
            agent_steps += self._one.num_lanes
        state = OffPolicyState(agent, intrinsic, replay, lanes, counters, key, evaluation_key)
        of_updates = jax.device_get(of_updates) or [self._no_update]
        of_run = jax.device_get(self._metrics(lanes))
        return state, _summarise(jax.device_get(of_steps), of_updates) | of_run

    def start_evaluation(
        self, state: OffPolicyState, record: Callable[[np.ndarray], None] | None = None
    ) -> Callable[[], EvalStats]:
        """Takes a copy of what acts; the function returned plays the episodes, in any thread.

        Args:
          state: may be trained further (and so donated) before the episodes are played.
          record: is given every frame of the first seed's first episode.
        """
        agent = self._snapshot(state.agent)
        env_frames = int(state.counters.env_frames[0])
        if self._evaluation_env is None:
            self._evaluation_env = self._make_env(len(self._seeds) * self._eval_episodes)
        return partial(
            evaluate_lanes,
            self._evaluation_env,
            self._evaluation_begin(agent),
            partial(self._evaluation_act, agent),
            seeds=self._seeds,
            env_frames=env_frames,
            episodes=self._eval_episodes,
            frame_stack=self._one.frame_stack,
            pads_with_zeros=self._one.pads_with_zeros,
            sharding=self._sharding,
            record=record,
        )

    def evaluate(self, state: OffPolicyState) -> EvalStats:
        """Plays the episodes of one evaluation and waits for them."""
        return self.start_evaluation(state)()

    def close(self) -> None:
        """Ends the lanes."""
        for env in (self._env, self._evaluation_env):
            if env is not None:
                env.close()

    def lanes(self) -> HostEnv:
        """The training environment, started when first asked for."""
        if self._env is None:
            self._env = self._make_env(len(self._seeds) * self._one.num_lanes)
        return self._env

    def on_device(self, step: HostStep) -> HostStep:
        """The step, spread over the devices as the seeds are."""
        return jax.device_put(self._by_seed(step), self._sharding)

    def _by_seed(self, arrays: Any) -> Any:
        return self._one.by_seed(arrays, len(self._seeds))

    def _lane_seeds(self, env_frames: int) -> np.ndarray:
        """Seeds of the lanes' episodes after so many frames; one lane begins with its seed's."""
        if env_frames == 0 and self._one.num_lanes == 1:
            return self._seeds
        return lane_seeds(self._seeds, env_frames, self._one.num_lanes)

    def _zero_step(self) -> HostStep:
        num_lanes = len(self._seeds) * self._one.num_lanes
        shape = num_lanes, *self.spec.observation_shape[:2], self.spec.colours
        frame, flag = np.zeros(shape, np.uint8), np.zeros(num_lanes, bool)
        return HostStep(frame, np.zeros(num_lanes, np.float32), flag, flag, frame, flag)


def _as_bytes(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name: np.ascontiguousarray(value).reshape(len(value), -1).view(np.uint8)
        for name, value in state.items()
    }


def _from_bytes(state: dict[str, np.ndarray], like: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name: np.array(state[name]).view(value.dtype).reshape(value.shape)
        for name, value in like.items()
    }


def _summarise(
    of_steps: list[tuple[EpisodeTotals, np.ndarray]], of_updates: list[Metrics]
) -> Metrics:
    totals, rewards = jax.tree.map(lambda *rows: np.stack(rows), *of_steps)
    updates = jax.tree.map(lambda *rows: np.mean(rows, axis=0), *of_updates)
    episodes = jax.device_get(episode_metrics(totals, axis=0))
    return {**updates, "reward_mean": rewards.mean(axis=0), **episodes}
