"""The one pytree that holds all that a resumed run needs."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from re3_jax.agents.base import AgentState, Frame, Learner, LearnerState, Memory, OnPolicyLearner
from re3_jax.envs.base import EnvState
from re3_jax.inheritance import inherits
from re3_jax.intrinsic.base import IntrinsicState

Metrics = dict[str, Float[Array, "..."]]


class Counters(NamedTuple):
    """Progress of one seed, int32.

    Attributes:
      agent_steps: actions taken, summed over lanes.
      env_frames: `agent_steps` times the action repeat; the x-axis of every curve.
      updates: of the agent, as its `updates_due` counts them; an on-policy agent has one for each
        rollout, whatever number of gradient steps it takes.
    """

    agent_steps: Int[Array, ""]
    env_frames: Int[Array, ""]
    updates: Int[Array, ""]

    def after(self, agent_steps: int, action_repeat: int) -> "Counters":
        """The counters `agent_steps` later."""
        return self._replace(
            agent_steps=self.agent_steps + agent_steps,
            env_frames=self.env_frames + agent_steps * action_repeat,
        )


class EpisodeTotals(NamedTuple):
    """Sums over the episodes that ended in a stretch of training; lengths in agent steps."""

    episodes: Float[Array, "..."]
    returns: Float[Array, "..."]
    lengths: Float[Array, "..."]

    def metrics(self, axis: int | None = None) -> Metrics:
        """Number of episodes and means over them, NaN if none ended; over `axis`, or all."""
        episodes, returns, lengths = (jnp.sum(total, axis) for total in self)
        return {
            "episodes": episodes,
            "episode_return_mean": returns / episodes,
            "episode_length_mean": lengths / episodes,
        }


class Lanes(NamedTuple):
    """The environments of one seed.

    Attributes:
      env: their states. On the host only a captured state has them, and programs see none: what
        `HostEnv.get_state` returned, as bytes (JAX would make the physics single precision); empty
        for an engine that cannot tell them.
      action: chosen and not yet taken; None where lanes act when they step.
      episode_return: task reward since the lane's last reset.
      episode_length: agent steps since then.
    """

    env: EnvState
    action: Shaped[Array, " lane *action"] | None
    episode_return: Float[Array, " lane"]
    episode_length: Int[Array, " lane"]

    @classmethod
    def begin(cls, num_lanes: int, env: EnvState) -> "Lanes":
        """Lanes at the beginning of their episodes, no action chosen."""
        return cls(env, None, jnp.zeros(num_lanes), jnp.zeros(num_lanes, jnp.int32))

    def count_step(
        self, reward: Float[Array, " lane"], done: Bool[Array, " lane"]
    ) -> tuple["Lanes", EpisodeTotals]:
        """Adds one step of every lane to its episode; totals are per lane."""
        returns, lengths = self.episode_return + reward, self.episode_length + 1
        totals = EpisodeTotals(
            episodes=done.astype(jnp.float32),
            returns=jnp.where(done, returns, 0.0),
            lengths=jnp.where(done, lengths, 0).astype(jnp.float32),
        )
        after = self._replace(
            episode_return=jnp.where(done, 0.0, returns),
            episode_length=jnp.where(done, 0, lengths),
        )
        return after, totals


@inherits("agent", "intrinsic")
class TrainState(NamedTuple):
    """State of one seed; a program over seeds gives every leaf a leading axis `seed`.

    Attributes:
      agent: parameters and optimisers.
      intrinsic: of the bonus.
      replay: what was stored, each transition with the index that the bonus gave it. On
        policy it is () on the device, and the rollout so far on the host.
      memory: what the acting lanes carry.
      lanes: the environments.
      counters: progress.
      key: the random stream that training consumes.
      evaluation_key: root of the streams of evaluations on the device, each folded in by its frame
        count, and of what is only looked at. Evaluations on the host begin from the seeds' numbers.
      visited: a table of what the run has met so far: how often an action was taken in each of the
        environment's states (`coverage`), or which grey screens were seen (`screens`); None where
        neither is known.
    """

    agent: AgentState
    intrinsic: IntrinsicState
    replay: Any
    memory: Memory
    lanes: Lanes
    counters: Counters
    key: PRNGKeyArray
    evaluation_key: PRNGKeyArray
    visited: Int[Array, " place"] | Bool[Array, " place"] | None

    @classmethod
    def begin(
        cls,
        learner: Learner | OnPolicyLearner,
        frame: Frame,
        env: EnvState,
        visited: Int[Array, " place"] | Bool[Array, " place"] | None,
        key: PRNGKeyArray,
        evaluation_key: PRNGKeyArray,
        learner_key: PRNGKeyArray,
    ) -> "TrainState":
        """State at env frame 0, the lanes showing `frame`."""
        lanes, counters = Lanes.begin(learner.num_lanes, env), Counters(*jnp.zeros(3, jnp.int32))
        learned = learner.init(learner_key, frame)
        return cls(*learned, lanes, counters, key, evaluation_key, visited)

    @property
    def learner(self) -> LearnerState:
        """The part that a learner knows."""
        return LearnerState(self.agent, self.intrinsic, self.replay, self.memory)

    def with_learner(self, learner: LearnerState) -> "TrainState":
        """The state with the learner's part replaced."""
        return self._replace(**learner._asdict())
