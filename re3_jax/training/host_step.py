"""What the device computes in one step of the host loop, for one seed: pure functions.

`host_loop` maps them over seeds and calls them in turn with the lanes of the host.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt8

from re3_jax.agents.base import Agent, AgentState
from re3_jax.agents.transitions import Transitions
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.host.base import HostStep
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.replay import frame_ring
from re3_jax.training.episodes import count_episodes
from re3_jax.training.learner import OffPolicyState, learn
from re3_jax.training.train_state import Counters, HostLanes


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


class OneSeed:
    """Pure functions that share the task, the agent, the bonus and the numbers of the loop."""

    def __init__(self, spec: EnvSpec, agent: Agent, bonus: IntrinsicReward, config: HostLoopConfig):
        """Nothing is computed yet."""
        assert isinstance(spec.action_space, Box)
        self.spec, self.agent, self.bonus, self.config = spec, agent, bonus, config
        self.action_shape = spec.action_space.shape

    def init(self, seed: Int[Array, ""], frame: UInt8[Array, "height width 3"]) -> OffPolicyState:
        """State at env frame 0, the lane showing `frame`."""
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
        """Chooses the action for the newest observation, which comes back too."""
        observation = frame_ring.newest_stack(replay, self.config.frame_stack)
        action = self.agent.act(agent, observation[None], _step_key(key, agent_steps, 0), True)[0]
        return action, observation

    def act_randomly(self, replay, key, agent_steps):
        """As `act`, uniformly."""
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
        """Actions of the lanes of an evaluation."""
        key = _step_key(key, agent_steps, 2)
        return self.agent.act(agent, observation, key, not self.config.eval_greedy)

    def learn(self, phase, agent: AgentState, intrinsic, replay, counters: Counters, key):
        """Updates agent and bonus by `phase`, one of the updates in the agent's cycle."""

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
        """Stores a step with its latent; also totals of episodes and the reward."""
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
        lanes, totals = count_episodes(lanes, jnp.asarray(step.reward), done)
        counters = counters._replace(
            agent_steps=counters.agent_steps + 1,
            env_frames=counters.env_frames + self.spec.action_repeat,
        )
        return replay, intrinsic, lanes, counters, (totals, step.reward)


def _step_key(key, agent_steps: Int[Array, ""], stream: int):
    """A key of its own for each step, so that no key has to pass from program to program."""
    return jax.random.fold_in(jax.random.fold_in(key, agent_steps), stream)
