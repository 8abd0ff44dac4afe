"""What the device computes in one step of the host loop for Rainbow: `host_step`'s counterpart.

Lanes of a seed share one replay, network and noise. The newest stack of frames is kept beside the
replay, which stores a frame together with the action that it was answered with.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, UInt8

from re3_jax.agents.base import Agent, without_memory
from re3_jax.agents.rainbow.agent import RainbowState
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.envs.base import EnvSpec
from re3_jax.envs.host.base import HostStep
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState, Step
from re3_jax.replay import prioritized
from re3_jax.replay.prioritized import PrioritizedReplay
from re3_jax.training import prioritized_update, screens
from re3_jax.training.episodes import count_episodes
from re3_jax.training.host_step import step_key
from re3_jax.training.learner import OffPolicyState
from re3_jax.training.train_state import Counters, StackedLanes

Frames = UInt8[Array, "lane height width 1"]


class OneSeed:
    """Rainbow on grey frames: `config.num_envs` lanes, and updates as `config` says."""

    pads_with_zeros = True
    # With the replay, whose priorities are written.
    donated_by_learn: tuple[int, ...] = (0, 1, 2, 3)

    def __init__(
        self,
        spec: EnvSpec,
        agent: Agent,
        bonus: IntrinsicReward,
        config: RainbowConfig,
        *,
        eval_greedy: bool,
    ):
        """Nothing is computed yet.

        Args:
          spec: a task of grey frames with discrete actions.
          agent: Rainbow.
          bonus: rewards it for exploring.
          config: numbers of the agent and of the loop.
          eval_greedy: evaluate the mean weights' best action; otherwise it explores.

        Raises:
          ValueError: if the capacity is no multiple of the number of lanes, or there could be
            nothing to draw from at the first update.
        """
        prioritized_update.check_sizes(config, spec)
        self.spec, self.agent, self.bonus, self.config = spec, agent, bonus, config
        self.num_lanes, self.frame_stack = config.num_envs, spec.observation_shape[-1]
        self.acting, self.eval_greedy = without_memory(agent), eval_greedy
        self.phases = (agent.update,)
        self.actors: tuple[Callable[..., Any], ...] = (self.act,)

    def init(self, seed: Int[Array, ""], frame: Frames) -> OffPolicyState:
        """State at env frame 0, the lanes showing `frame`."""
        key, evaluation_key, agent_key, bonus_key = jax.random.split(jax.random.key(seed), 4)
        lanes, c = frame.shape[0], self.config
        return OffPolicyState(
            agent=self.agent.init(agent_key),
            intrinsic=self.bonus.init(bonus_key, self.spec, self.num_lanes),
            replay=prioritized.init(
                c.replay_capacity // lanes,
                lanes,
                self.spec.observation_shape[:2],
                jnp.dtype(jnp.uint8),
                n=c.n_steps,
                stack=self.frame_stack,
            ),
            lanes=StackedLanes(
                {},
                jnp.zeros(lanes, jnp.float32),
                jnp.zeros(lanes, jnp.int32),
                self._first_stack(frame),
                screens.see(screens.none_seen(), frame[..., 0]),
            ),
            counters=Counters.zero(),
            key=key,
            evaluation_key=evaluation_key,
        )

    def _first_stack(self, frame: Frames) -> UInt8[Array, "lane height width frames"]:
        nothing = jnp.zeros((*frame.shape[:3], self.frame_stack - 1), jnp.uint8)
        return jnp.concatenate([nothing, frame], axis=-1)

    def begin(self, replay: PrioritizedReplay, lanes: StackedLanes, frame: Frames):
        """New episodes in place of those that cannot be gone on with: a time limit cut them."""
        lanes = lanes._replace(
            episode_return=jnp.zeros_like(lanes.episode_return),
            episode_length=jnp.zeros_like(lanes.episode_length),
            stack=self._first_stack(frame),
        )
        return prioritized.cut(replay), lanes

    def act(self, agent: RainbowState, replay, lanes: StackedLanes, key, agent_steps):
        """Actions for the newest stacks, which come back too."""
        del replay
        return self.agent.act(agent, lanes.stack, step_key(key, agent_steps, 0), True), lanes.stack

    def learn(
        self,
        phase,
        agent: RainbowState,
        intrinsic: IntrinsicState,
        replay: PrioritizedReplay,
        counters: Counters,
        key,
    ):
        """One update of agent, bonus and priorities."""
        key = jax.random.fold_in(step_key(key, counters.agent_steps, 1), counters.updates)
        agent, intrinsic, replay, info = prioritized_update.update(
            phase,
            self.bonus,
            self.config,
            agent,
            intrinsic,
            replay,
            counters.agent_steps,
            key,
            stack=self.frame_stack,
        )
        return agent, intrinsic, replay, counters._replace(updates=counters.updates + 1), info

    def insert(
        self,
        replay: PrioritizedReplay,
        intrinsic: IntrinsicState,
        lanes: StackedLanes,
        counters: Counters,
        observation: UInt8[Array, "lane height width frames"],
        action: Int[Array, " lane"],
        step: HostStep,
    ):
        """Stores a step of all lanes with its latents; also totals of episodes and the reward."""
        with jax.named_scope("encode"):
            following = jnp.concatenate(
                [observation[..., 1:], jnp.asarray(step.final_frame)], axis=-1
            )
            # Where a life ends the task goes on for an episodic memory.
            seen = Step(
                observation,
                action,
                following,
                jnp.asarray(step.terminated),
                jnp.asarray(step.truncated),
            )
            intrinsic, index = self.bonus.observe(intrinsic, seen)
        reward = jnp.asarray(step.reward)
        clip = self.config.reward_clip
        replay = prioritized.add(
            replay,
            observation[..., -1],
            action,
            jnp.clip(reward, -clip, clip),
            jnp.asarray(step.task_ended),
            jnp.asarray(step.truncated),
            index,
            n=self.config.n_steps,
            stack=self.frame_stack,
        )
        begins = jnp.asarray(step.task_ended | step.truncated)[:, None, None, None]
        frame = jnp.asarray(step.frame)
        moved = jnp.concatenate([observation[..., 1:], frame], axis=-1)
        lanes, totals = count_episodes(lanes, reward, jnp.asarray(step.terminated | step.truncated))
        lanes = lanes._replace(
            stack=jnp.where(begins, self._first_stack(frame), moved),
            screens=screens.see(lanes.screens, frame[..., 0]),
        )
        agent_steps = counters.agent_steps + self.num_lanes
        counters = counters._replace(
            agent_steps=agent_steps,
            env_frames=counters.env_frames + self.num_lanes * self.spec.action_repeat,
        )
        totals = jax.tree.map(jnp.sum, totals)
        return replay, intrinsic, lanes, counters, (totals, jnp.mean(reward))

    def metrics(self, lanes: StackedLanes) -> dict[str, Array]:
        """How many different screens there were."""
        return {"screens_seen": screens.count(lanes.screens)}

    def actor(self, agent_steps: int) -> int:
        """The policy acts from the start: its noise explores, or epsilon does."""
        del agent_steps
        return 0

    def updates_due(self, agent_steps: int) -> int:
        """One for every `agent_steps_per_update` of what is stored, once there are enough."""
        if agent_steps < self.config.initial_agent_steps:
            return 0
        every = self.config.agent_steps_per_update
        return agent_steps // every - (agent_steps - self.num_lanes) // every

    def by_seed(self, step: Any, num_seeds: int) -> Any:
        """Adds the axis of seeds before that of lanes."""
        return jax.tree.map(
            lambda x: np.reshape(x, (num_seeds, self.num_lanes, *np.shape(x)[1:])), step
        )
