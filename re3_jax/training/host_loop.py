"""The off-policy loop over environments on the host (io).

One lane a seed. While the lanes make step t, the device runs the update of step t, which does
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

from re3_jax.agents.base import Agent
from re3_jax.envs.base import EnvSpec
from re3_jax.envs.host.base import HostEnv, HostStep
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.training.episodes import EpisodeTotals, episode_metrics
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import evaluate_lanes, lane_seeds
from re3_jax.training.host_step import HostLoopConfig, OneSeed
from re3_jax.training.learner import OffPolicyState
from re3_jax.training.over_seeds import SEED_AXIS, map_over_seeds, with_sharding

Metrics = dict[str, np.ndarray]


class StepPrograms(NamedTuple):
    """What the device runs in one agent step; all over a leading axis `seed`.

    act(agent, replay, key, agent_steps) -> (action, observation).
    act_randomly(replay, key, agent_steps) -> (action, observation).
    learn: one per phase of the agent;
      (agent, intrinsic, replay, counters, key) -> (agent, intrinsic, counters, info), donating
      all that comes back.
    insert(replay, intrinsic, lanes, counters, observation, action, step) ->
      (replay, intrinsic, lanes, counters, info), donating all that comes back. It takes the
      observation that the agent saw: a program that also read it from the replay would copy
      the frames before it writes to them.
    """

    act: Any
    act_randomly: Any
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
        spec: EnvSpec,
        agent: Agent,
        bonus: IntrinsicReward,
        config: HostLoopConfig,
        make_env: Callable[[int], HostEnv],
        *,
        seeds: Sequence[int],
        devices: Sequence[jax.Device] | None = None,
    ):
        """Builds the programs; no environment is started yet.

        Args:
          spec: the task.
          agent: learns it.
          bonus: rewards it for exploring; `intrinsic.none()` for no bonus.
          config: numbers of the loop.
          make_env: number of lanes -> environment; called once for training and once for
            evaluation.
          seeds: one lane each.
          devices: devices to spread the seeds over; their number must divide that of seeds.
        """
        self.config, self.spec, self.agent = config, spec, agent
        self.env_frames_per_chunk = config.chunk_agent_steps * spec.action_repeat
        self._seeds = np.asarray(seeds)
        self._make_env = make_env
        self._env: HostEnv | None = None
        self._evaluation_env: HostEnv | None = None
        mesh = Mesh(np.asarray(devices or jax.devices()[:1]), (SEED_AXIS,))
        self._sharding = NamedSharding(mesh, PartitionSpec(SEED_AXIS))
        one = OneSeed(spec, agent, bonus, config)

        def compiled(function: Callable[..., Any], donate: tuple[int, ...] = ()):
            return jax.jit(
                map_over_seeds(function, mesh),
                in_shardings=self._sharding,
                out_shardings=self._sharding,
                donate_argnums=donate,
            )

        self._init = compiled(one.init)
        phases = agent.phases or (agent.update,)
        learn = {
            phase: compiled(partial(one.learn, phase), donate=(0, 1, 3))
            for phase in dict.fromkeys(phases)
        }
        self.programs = StepPrograms(
            act=compiled(one.act),
            act_randomly=compiled(one.act_randomly),
            learn=tuple(learn[phase] for phase in phases),
            insert=compiled(one.insert, donate=(0, 1, 2, 3)),
        )
        self._begin = compiled(one.begin, donate=(0, 1))
        self._evaluation_act = compiled(one.evaluation_act)
        self._snapshot = compiled(lambda state: jax.tree.map(jnp.copy, state))

    def abstract_state(self) -> OffPolicyState:
        """Shapes and dtypes of the state, but for the lanes' own; starts nothing."""
        seeds = jax.ShapeDtypeStruct(self._seeds.shape, jnp.int32)
        height, width = self.spec.observation_shape[:2]
        frames = jax.ShapeDtypeStruct((len(self._seeds), height, width, 3), jnp.uint8)
        return jax.eval_shape(self._init, seeds, frames)

    def template(self) -> OffPolicyState:
        """Shapes, dtypes and shardings of a captured state; starts the lanes."""
        state, env = self.abstract_state(), self.lanes()
        if env.can_restore:
            env.reset(self._seeds)
            state = state._replace(lanes=state.lanes._replace(env=_as_bytes(env.get_state())))
        return with_sharding(state, self._sharding)

    def init(self, seeds: Int[Array, " seed"]) -> OffPolicyState:
        """State at env frame 0, with the lanes' first frames in the replay."""
        frames = self.lanes().reset(self._seeds)
        return self.capture(self._init(seeds, frames))

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
        frames = env.reset(lane_seeds(self._seeds, env_frames, 1))
        replay, lanes = self._begin(state.replay, state.lanes, frames)
        return state._replace(replay=replay, lanes=lanes)

    def compile(self, state: OffPolicyState) -> None:
        """Compiles every program of training, ahead of their first call."""
        s, c, programs = state, state.counters, self.programs
        act = programs.act.lower(s.agent, s.replay, s.key, c.agent_steps)
        act_randomly = programs.act_randomly.lower(s.replay, s.key, c.agent_steps)
        learn = {
            program: program.lower(s.agent, s.intrinsic, s.replay, c, s.key).compile()
            for program in dict.fromkeys(programs.learn)
        }
        action, observation = (
            jax.ShapeDtypeStruct(info.shape, info.dtype) for info in act.out_info
        )
        step = self.on_device(_zero_step(self.spec, len(self._seeds)))
        insert = programs.insert.lower(s.replay, s.intrinsic, s.lanes, c, observation, action, step)
        self.programs = StepPrograms(
            act.compile(),
            act_randomly.compile(),
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
        for _ in range(self.config.chunk_agent_steps):
            learns = agent_steps >= self.config.initial_agent_steps
            with annotate("act"):
                if learns:
                    action, observation = programs.act(agent, replay, key, counters.agent_steps)
                else:
                    action, observation = programs.act_randomly(replay, key, counters.agent_steps)
                env.send(np.asarray(action))
            if learns:
                with annotate("dispatch update"):
                    learn = programs.learn[updates % len(programs.learn)]
                    agent, intrinsic, counters, info = learn(
                        agent, intrinsic, replay, counters, key
                    )
                of_updates.append(info)
                updates += 1
            with annotate("wait for lanes"):
                step = env.receive()
            with annotate("insert"):
                replay, intrinsic, lanes, counters, info = programs.insert(
                    replay, intrinsic, lanes, counters, observation, action, self.on_device(step)
                )
            of_steps.append(info)
            agent_steps += 1
        state = OffPolicyState(agent, intrinsic, replay, lanes, counters, key, evaluation_key)
        of_updates = jax.device_get(of_updates) or [self._no_update]
        return state, _summarise(jax.device_get(of_steps), of_updates)

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
            self._evaluation_env = self._make_env(len(self._seeds) * self.config.eval_episodes)
        return partial(
            evaluate_lanes,
            self._evaluation_env,
            partial(self._evaluation_act, agent),
            seeds=self._seeds,
            env_frames=env_frames,
            episodes=self.config.eval_episodes,
            frame_stack=self.config.frame_stack,
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
            self._env = self._make_env(len(self._seeds))
        return self._env

    def on_device(self, step: HostStep) -> HostStep:
        """The step, spread over the devices as the seeds are."""
        return jax.device_put(step, self._sharding)


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


def _zero_step(spec: EnvSpec, num_lanes: int) -> HostStep:
    frame = np.zeros((num_lanes, *spec.observation_shape[:2], 3), np.uint8)
    flag = np.zeros(num_lanes, bool)
    return HostStep(frame, np.zeros(num_lanes, np.float32), flag, flag, frame)


def _summarise(
    of_steps: list[tuple[EpisodeTotals, np.ndarray]], of_updates: list[Metrics]
) -> Metrics:
    totals, rewards = jax.tree.map(lambda *rows: np.stack(rows), *of_steps)
    updates = jax.tree.map(lambda *rows: np.mean(rows, axis=0), *of_updates)
    episodes = jax.device_get(episode_metrics(totals, axis=0))
    return {**updates, "reward_mean": rewards.mean(axis=0), **episodes}
