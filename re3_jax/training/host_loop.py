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
from jaxtyping import Array, Float, Int, UInt8

from re3_jax.agents.base import Agent, AgentState
from re3_jax.agents.transitions import Transitions
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.host.base import HostEnv, HostStep
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.replay import frame_ring
from re3_jax.training.evaluate import EvalStats
from re3_jax.training.host_evaluation import evaluate_lanes, lane_seeds
from re3_jax.training.learner import OffPolicyState, learn
from re3_jax.training.over_seeds import SEED_AXIS, map_over_seeds
from re3_jax.training.train_state import Counters

Metrics = dict[str, np.ndarray]


class HostLanes(NamedTuple):
    """The lane of one seed between two chunks.

    Attributes:
      env: what `HostEnv.get_state` returned when the state was last captured, as bytes: JAX
        would make the physics single precision.
      episode_return: task reward since the lane's last reset.
      episode_length: agent steps since then.
    """

    env: dict[str, Array]
    episode_return: Float[Array, ""]
    episode_length: Int[Array, ""]


class HostLoopConfig(NamedTuple):
    """Numbers of the loop.

    Attributes:
      frame_stack: frames in one observation.
      batch_size: transitions per update.
      replay_capacity: transitions kept per seed.
      initial_agent_steps: steps of uniformly random actions before the first update.
      chunk_agent_steps: agent steps per call of `train`.
      eval_episodes: episodes per evaluation and seed.
      eval_greedy: evaluate the mode of the policy; otherwise actions are sampled.
    """

    frame_stack: int
    batch_size: int
    replay_capacity: int
    initial_agent_steps: int
    chunk_agent_steps: int
    eval_episodes: int
    eval_greedy: bool


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
        one = _OneSeed(spec, agent, bonus, config)

        def compiled(function: Callable[..., Any], donate: tuple[int, ...] = ()):
            return jax.jit(
                map_over_seeds(function, mesh),
                in_shardings=self._sharding,
                out_shardings=self._sharding,
                donate_argnums=donate,
            )

        self._init = compiled(one.init)
        self.programs = StepPrograms(
            act=compiled(one.act),
            act_randomly=compiled(one.act_randomly),
            learn=tuple(
                compiled(partial(one.learn, phase), donate=(0, 1, 3))
                for phase in agent.phases or (agent.update,)
            ),
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
        learn = [p.lower(s.agent, s.intrinsic, s.replay, c, s.key) for p in programs.learn]
        action, observation = (
            jax.ShapeDtypeStruct(info.shape, info.dtype) for info in act.out_info
        )
        step = self.on_device(_zero_step(self.spec, len(self._seeds)))
        insert = programs.insert.lower(s.replay, s.intrinsic, s.lanes, c, observation, action, step)
        self.programs = StepPrograms(
            act.compile(),
            act_randomly.compile(),
            tuple(phase.compile() for phase in learn),
            insert.compile(),
        )
        *_, info = learn[0].out_info
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


class _OneSeed:
    """The programs for one seed: pure functions that share the task, the agent, the bonus."""

    def __init__(self, spec: EnvSpec, agent: Agent, bonus: IntrinsicReward, config: HostLoopConfig):
        assert isinstance(spec.action_space, Box)
        self.spec, self.agent, self.bonus, self.config = spec, agent, bonus, config
        self.action_shape = spec.action_space.shape

    def init(self, seed: Int[Array, ""], frame: UInt8[Array, "height width 3"]) -> OffPolicyState:
        key, evaluation_key, agent_key, bonus_key = jax.random.split(jax.random.key(seed), 4)
        height, width, channels = frame.shape
        replay = frame_ring.init(
            self.config.replay_capacity,
            (height, width, channels),
            self.action_shape[0],
            self.config.frame_stack,
            self.spec.max_agent_steps,
        )
        return OffPolicyState(
            agent=self.agent.init(agent_key),
            intrinsic=self.bonus.init(bonus_key, self.spec),
            replay=frame_ring.start(replay, frame),
            lanes=HostLanes({}, jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)),
            counters=Counters.zero(),
            key=key,
            evaluation_key=evaluation_key,
        )

    def begin(self, replay, lanes: HostLanes, frame: UInt8[Array, "height width 3"]):
        """A new episode in place of one that cannot be gone on with."""
        lanes = lanes._replace(
            episode_return=jnp.zeros_like(lanes.episode_return),
            episode_length=jnp.zeros_like(lanes.episode_length),
        )
        return frame_ring.start(replay, frame), lanes

    def act(self, agent: AgentState, replay, key, agent_steps):
        observation = frame_ring.newest_stack(replay, self.config.frame_stack)
        action = self.agent.act(agent, observation[None], _step_key(key, agent_steps, 0), True)[0]
        return action, observation

    def act_randomly(self, replay, key, agent_steps):
        observation = frame_ring.newest_stack(replay, self.config.frame_stack)
        key = _step_key(key, agent_steps, 0)
        return jax.random.uniform(key, self.action_shape, jnp.float32, -1.0, 1.0), observation

    def evaluation_act(
        self,
        agent: AgentState,
        observation: UInt8[Array, "lane height width channel"],
        key,
        agent_steps: Int[Array, ""],
    ) -> Float[Array, "lane action"]:
        key = _step_key(key, agent_steps, 2)
        return self.agent.act(agent, observation, key, not self.config.eval_greedy)

    def learn(self, phase, agent: AgentState, intrinsic, replay, counters: Counters, key):
        def sample(key) -> tuple[Transitions, Int[Array, " batch"]]:
            return frame_ring.sample(key, replay, self.config.batch_size, self.config.frame_stack)

        agent, intrinsic, info = learn(
            phase,
            self.bonus,
            agent,
            intrinsic,
            sample,
            counters.agent_steps,
            _step_key(key, counters.agent_steps, 1),
        )
        return agent, intrinsic, counters._replace(updates=counters.updates + 1), info

    def insert(
        self,
        replay: frame_ring.FrameReplay,
        intrinsic,
        lanes: HostLanes,
        counters: Counters,
        observation: UInt8[Array, "height width channel"],
        action: Float[Array, " action"],
        step: HostStep,
    ):
        with jax.named_scope("encode"):
            intrinsic, _ = self.bonus.observe(intrinsic, observation[None])
        done = jnp.asarray(step.terminated | step.truncated)
        replay, _ = frame_ring.add(
            replay,
            action,
            jnp.asarray(step.reward),
            1.0 - jnp.asarray(step.terminated, jnp.float32),
            jnp.asarray(step.frame),
            jnp.asarray(step.final_frame),
            done,
        )
        episode_return = lanes.episode_return + step.reward
        episode_length = lanes.episode_length + 1
        info = {
            "episodes": done.astype(jnp.float32),
            "returns": jnp.where(done, episode_return, 0.0),
            "lengths": jnp.where(done, episode_length, 0).astype(jnp.float32),
            "reward_mean": step.reward,
        }
        lanes = lanes._replace(
            episode_return=jnp.where(done, 0.0, episode_return),
            episode_length=jnp.where(done, 0, episode_length),
        )
        counters = counters._replace(
            agent_steps=counters.agent_steps + 1,
            env_frames=counters.env_frames + self.spec.action_repeat,
        )
        return replay, intrinsic, lanes, counters, info


def _step_key(key, agent_steps: Int[Array, ""], stream: int):
    """A key of its own for each step, so that no key has to pass from program to program."""
    return jax.random.fold_in(jax.random.fold_in(key, agent_steps), stream)


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


def _summarise(of_steps: list[Metrics], of_updates: list[Metrics]) -> Metrics:
    def column(rows: list[Metrics], name: str) -> np.ndarray:
        return np.stack([row[name] for row in rows])

    metrics = {name: column(of_updates, name).mean(axis=0) for name in of_updates[0]}
    metrics["reward_mean"] = column(of_steps, "reward_mean").mean(axis=0)
    episodes = column(of_steps, "episodes").sum(axis=0)
    with np.errstate(invalid="ignore"):
        metrics["episodes"] = episodes
        metrics["episode_return_mean"] = column(of_steps, "returns").sum(axis=0) / episodes
        metrics["episode_length_mean"] = column(of_steps, "lengths").sum(axis=0) / episodes
    return metrics
