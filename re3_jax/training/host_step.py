"""What the device computes in one step of the host loop, for one seed: pure functions.

`host_loop` maps them over seeds and calls them in turn with the lanes of the host.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt8

from re3_jax.agents.base import Acting, Agent, AgentState, without_memory
from re3_jax.agents.transitions import Transitions
from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.host.base import HostStep
from re3_jax.intrinsic.base import IntrinsicReward, Step
from re3_jax.replay import frame_ring
from re3_jax.training.episodes import count_episodes
from re3_jax.training.learner import OffPolicyState, learn
from re3_jax.training.train_state import Counters, HostLanes


class HostStepConfig(NamedTuple):
    """Numbers of soft actor-critic's steps.

    Attributes:
      frame_stack: frames in one observation.
      batch_size: transitions per update.
      replay_capacity: transitions kept per seed.
      initial_agent_steps: steps of uniformly random actions before the first update.
      eval_greedy: evaluate the mode of the policy; otherwise actions are sampled.
    """

    frame_stack: int
    batch_size: int
    replay_capacity: int
    initial_agent_steps: int
    eval_greedy: bool


class SeedFunctions(Protocol):
    """What the loop runs for one seed; all but the last three are pure functions for the device.

    Attributes:
      spec: the task.
      acting: how the agent acts in an evaluation.
      phases: updates of the agent, of which `learn` takes one after the other.
      eval_greedy: whether it then acts as it thinks best.
      frame_stack: frames in one observation.
      actors: (agent, replay, lanes, key, agent_steps) -> (action, observation), one of which acts
        at a time; `insert` is given both.
      donated_by_learn: arguments of `learn` that it gives back.
      num_lanes: lanes of one seed.
      pads_with_zeros: whether observations have zeros before an episode's first frame, and not
        that frame again.
    """

    spec: EnvSpec
    acting: Acting
    phases: tuple[Any, ...]
    eval_greedy: bool
    frame_stack: int
    actors: tuple[Callable[..., Any], ...]
    donated_by_learn: tuple[int, ...]
    num_lanes: int
    pads_with_zeros: bool

    def init(self, seed: Int[Array, ""], frame: UInt8[Array, "..."]) -> OffPolicyState:
        """State at env frame 0, the lanes showing `frame`."""

    def begin(self, replay: Any, lanes: Any, frame: UInt8[Array, "..."]) -> tuple[Any, Any]:
        """(replay, lanes) with new episodes in place of those that cannot be gone on with."""

    def learn(self, phase: Any, agent: Any, intrinsic: Any, replay: Any, counters: Any, key: Any):
        """(agent, intrinsic, replay or None, counters, metrics) after learning by `phase`.

        None says that the replay was only read.
        """

    def insert(self, replay, intrinsic, lanes, counters, observation, action, step):
        """(replay, intrinsic, lanes, counters, (totals of episodes, reward)) after a step."""

    def metrics(self, lanes: Any) -> dict[str, Array]:
        """What is reported of the run so far, once a chunk."""

    def actor(self, agent_steps: int) -> int:
        """Which of the actors acts now."""

    def updates_due(self, agent_steps: int) -> int:
        """How often to learn with the step that begins now."""

    def by_seed(self, step: Any, num_seeds: int) -> Any:
        """NumPy arrays of all lanes as arrays of all seeds."""


class OneSeed:
    """Soft actor-critic: one lane, a ring of frames, an update with every step."""

    num_lanes = 1
    pads_with_zeros = False
    donated_by_learn: tuple[int, ...] = (0, 1, 3)

    def __init__(self, spec: EnvSpec, agent: Agent, bonus: IntrinsicReward, config: HostStepConfig):
        """Nothing is computed yet."""
        assert isinstance(spec.action_space, Box)
        self.spec, self.agent, self.bonus, self.config = spec, agent, bonus, config
        self.acting, self.eval_greedy = without_memory(agent), config.eval_greedy
        self.phases = agent.phases or (agent.update,)
        self.action_shape, self.frame_stack = spec.action_space.shape, config.frame_stack
        self.actors: tuple[Callable[..., Any], ...] = (self.act, self.act_randomly)

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
            intrinsic=self.bonus.init(bonus_key, self.spec, self.num_lanes),
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

    def act(self, agent: AgentState, replay, lanes: HostLanes, key, agent_steps):
        """Chooses the action for the newest observation, which comes back too."""
        del lanes
        observation = frame_ring.newest_stack(replay, self.config.frame_stack)
        action = self.agent.act(agent, observation[None], step_key(key, agent_steps, 0), True)[0]
        return action, observation

    def act_randomly(self, agent: AgentState, replay, lanes: HostLanes, key, agent_steps):
        """As `act`, uniformly."""
        del agent, lanes
        observation = frame_ring.newest_stack(replay, self.config.frame_stack)
        key = step_key(key, agent_steps, 0)
        return jax.random.uniform(key, self.action_shape, jnp.float32, -1.0, 1.0), observation

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
            step_key(key, counters.agent_steps, 1),
        )
        return agent, intrinsic, None, counters._replace(updates=counters.updates + 1), info

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
            following = jnp.concatenate(
                [observation[..., step.frame.shape[-1] :], jnp.asarray(step.final_frame)], axis=-1
            )
            terminated, truncated = jnp.asarray(step.terminated), jnp.asarray(step.truncated)
            seen = Step(observation, action, following, terminated, truncated)
            intrinsic, index = self.bonus.observe(
                intrinsic, jax.tree.map(lambda leaf: leaf[None], seen)
            )
        done = jnp.asarray(step.terminated | step.truncated)
        replay = frame_ring.add(
            replay,
            action,
            jnp.asarray(step.reward),
            1.0 - jnp.asarray(step.terminated, jnp.float32),
            jnp.asarray(step.frame),
            jnp.asarray(step.final_frame),
            done,
            index[0],
        )
        lanes, totals = count_episodes(lanes, jnp.asarray(step.reward), done)
        counters = counters._replace(
            agent_steps=counters.agent_steps + 1,
            env_frames=counters.env_frames + self.spec.action_repeat,
        )
        return replay, intrinsic, lanes, counters, (totals, step.reward)

    def metrics(self, lanes: HostLanes) -> dict[str, Array]:
        """Nothing."""
        del lanes
        return {}

    def actor(self, agent_steps: int) -> int:
        """Uniformly random actions come first."""
        return int(agent_steps < self.config.initial_agent_steps)

    def updates_due(self, agent_steps: int) -> int:
        """One with every step, once there are enough."""
        return int(agent_steps >= self.config.initial_agent_steps)

    def by_seed(self, step: Any, num_seeds: int) -> Any:
        """A lane is a seed."""
        del num_seeds
        return step


def step_key(key, agent_steps: Int[Array, ""], stream: int):
    """A key of its own for each step, so that no key has to pass from program to program."""
    return jax.random.fold_in(jax.random.fold_in(key, agent_steps), stream)
