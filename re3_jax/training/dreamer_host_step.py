"""What the device computes in one step of the host loop for Dreamer: `host_step`'s counterpart.

One lane a seed, as the other agents have on DeepMind Control; arrays keep the axis of lanes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from re3_jax.agents.base import Acting
from re3_jax.agents.dreamer.agent import Belief, Dreamer, DreamerState
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.envs.base import EnvSpec
from re3_jax.envs.host.base import HostStep
from re3_jax.intrinsic.base import IntrinsicReward, IntrinsicState, Step
from re3_jax.replay import sequence_ring
from re3_jax.replay.sequence_ring import SequenceReplay
from re3_jax.training import dreamer_update
from re3_jax.training.episodes import count_episodes
from re3_jax.training.host_step import step_key
from re3_jax.training.learner import OffPolicyState
from re3_jax.training.train_state import BelievingHostLanes, Counters

Frames = UInt8[Array, "lane 64 64 channels"]


class OneSeed:
    """Dreamer on frames: whole episodes are stored, and learned from in bursts."""

    num_lanes = 1
    frame_stack = 1
    pads_with_zeros = False
    donated_by_learn: tuple[int, ...] = (0, 1, 3)

    def __init__(
        self,
        spec: EnvSpec,
        dreamer: Dreamer,
        bonus: IntrinsicReward,
        config: DreamerConfig,
        *,
        eval_greedy: bool,
        reward_free: bool = False,
    ):
        """Nothing is computed yet.

        Args:
          spec: a task of single 64x64 frames with actions that are real numbers.
          dreamer: the agent.
          bonus: `sequence_re3` with a ring of the replay's size, or `intrinsic.none()`.
          config: numbers of the agent and of the loop.
          eval_greedy: evaluate the policy's mode; otherwise it explores.
          reward_free: whether the task's reward is withheld from the agent.

        Raises:
          ValueError: if there could be nothing to draw from, or there are to be several lanes.
        """
        dreamer_update.check_sizes(config, spec)
        if config.num_envs != self.num_lanes:
            raise ValueError(
                f"on the host each seed has one lane, but num_envs is {config.num_envs}: leave it "
                "at 1 and train more seeds"
            )
        self.spec, self.dreamer, self.bonus, self.config = spec, dreamer, bonus, config
        self.acting, self.eval_greedy = Acting(dreamer.begin, dreamer.act), eval_greedy
        self.phases, self.reward_free = (dreamer.update,), reward_free
        self.actors: tuple[Callable[..., Any], ...] = (self.act,)

    def init(self, seed: Int[Array, ""], frame: Frames) -> OffPolicyState:
        """State at env frame 0, the lane showing `frame`."""
        key, evaluation_key, agent_key, bonus_key = jax.random.split(jax.random.key(seed), 4)
        agent = self.dreamer.init(agent_key)
        return OffPolicyState(
            agent=agent,
            intrinsic=self.bonus.init(bonus_key, self.spec, self.num_lanes),
            replay=dreamer_update.new_replay(
                self.config, self.spec, self.dreamer.action_dim, frame
            ),
            lanes=BelievingHostLanes(
                {},
                jnp.zeros(self.num_lanes, jnp.float32),
                jnp.zeros(self.num_lanes, jnp.int32),
                frame,
                self.dreamer.begin(agent, self.num_lanes),
            ),
            counters=Counters.zero(),
            key=key,
            evaluation_key=evaluation_key,
        )

    def begin(self, replay: SequenceReplay, lanes: BelievingHostLanes, frame: Frames):
        """A new episode in place of one that cannot be gone on with."""
        lanes = lanes._replace(
            episode_return=jnp.zeros_like(lanes.episode_return),
            episode_length=jnp.zeros_like(lanes.episode_length),
            frame=frame,
            belief=jax.tree.map(jnp.zeros_like, lanes.belief),
        )
        return sequence_ring.begin(replay, frame), lanes

    def act(self, agent: DreamerState, replay, lanes: BelievingHostLanes, key, agent_steps):
        """Chooses actions, at random in the beginning; also what is then believed."""
        del replay
        act_key, random_key = jax.random.split(step_key(key, agent_steps, 0))
        belief, action = self.dreamer.act(agent, lanes.belief, lanes.frame, act_key, True)
        random = jax.random.uniform(random_key, action.shape, minval=-1.0, maxval=1.0)
        is_prefill = agent_steps * self.spec.action_repeat < self.config.prefill_env_frames
        action = jnp.where(is_prefill, random, action)
        return action, belief._replace(action=action)

    def learn(
        self,
        phase,
        agent: DreamerState,
        intrinsic: IntrinsicState,
        replay: SequenceReplay,
        counters: Counters,
        key,
    ):
        """A burst of updates, of whose metrics the means come back."""
        del phase
        number = self.config.updates_per_burst
        agent, intrinsic, sums = dreamer_update.burst(
            self.dreamer,
            self.bonus,
            self.config,
            agent,
            intrinsic,
            replay,
            counters.agent_steps,
            jnp.int32(number),
            step_key(key, counters.agent_steps, 1),
            reward_free=self.reward_free,
        )
        counters = counters._replace(updates=counters.updates + number)
        return agent, intrinsic, None, counters, jax.tree.map(lambda total: total / number, sums)

    def insert(
        self,
        replay: SequenceReplay,
        intrinsic: IntrinsicState,
        lanes: BelievingHostLanes,
        counters: Counters,
        belief: Belief,
        action: Float[Array, "lane action"],
        step: HostStep,
    ):
        """Stores a step; also totals of episodes and the reward."""
        reward, done = jnp.asarray(step.reward), jnp.asarray(step.terminated | step.truncated)
        with jax.named_scope("encode"):
            seen = Step(
                lanes.frame,
                action,
                jnp.asarray(step.final_frame),
                jnp.asarray(step.terminated),
                jnp.asarray(step.truncated),
            )
            intrinsic, index = self.bonus.observe(intrinsic, seen)
        replay = sequence_ring.add(
            replay,
            action,
            reward,
            jnp.asarray(step.terminated),
            jnp.asarray(step.final_frame),
            jnp.asarray(step.frame),
            done,
            index,
            length=self.config.sequence_length,
        )
        lanes, totals = count_episodes(lanes, reward, done)
        lanes = lanes._replace(
            frame=jnp.asarray(step.frame), belief=dreamer_update.forget(belief, done)
        )
        counters = counters._replace(
            agent_steps=counters.agent_steps + 1,
            env_frames=counters.env_frames + self.spec.action_repeat,
        )
        totals = jax.tree.map(jnp.sum, totals)
        return replay, intrinsic, lanes, counters, (totals, jnp.mean(reward))

    def metrics(self, lanes: BelievingHostLanes) -> dict[str, Array]:
        """Nothing."""
        del lanes
        return {}

    def actor(self, agent_steps: int) -> int:
        """There is one."""
        del agent_steps
        return 0

    def updates_due(self, agent_steps: int) -> int:
        """A burst with the first step after every so many env frames."""
        repeat = self.spec.action_repeat
        before, now = (agent_steps - 1) * repeat, agent_steps * repeat
        return int(agent_steps > 0 and dreamer_update.is_due(self.config, before, now))

    def by_seed(self, step: Any, num_seeds: int) -> Any:
        """Adds the axis of seeds before that of lanes."""
        return jax.tree.map(
            lambda x: np.reshape(x, (num_seeds, self.num_lanes, *np.shape(x)[1:])), step
        )
