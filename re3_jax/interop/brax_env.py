"""A wrapper of brax environments that adds a bonus to the reward, for brax's own training.

    train(environment=env, wrap_env_fn=partial(brax_env.wrap, bonus=from_config(RE3Config())), ...)

The state of the bonus travels in `State.info`, so it lives where brax keeps its lanes: every device
has its own, and `num_resets_per_eval` above 0 empties it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from re3_jax.envs.base import Box, EnvSpec
from re3_jax.envs.device.brax import import_brax
from re3_jax.intrinsic.base import IntrinsicReward, Step, check_is_bonus
from re3_jax.intrinsic.rewarding import reward_rollout

envs: Any = import_brax()

STATE, TASK, BONUS = "bonus_state", "task_reward", "intrinsic_reward"
"""Names in `State.info`, and of the two metrics."""

BONUS_STREAM = 0xB0B05


def wrap(
    env: Any,
    episode_length: int = 1000,
    action_repeat: int = 1,
    randomization_fn: Callable[..., Any] | None = None,
    *,
    bonus: IntrinsicReward,
) -> Any:
    """Brax's wrapping for training (`brax.envs.training.wrap`), with a bonus.

    Args:
      env: one environment, whose observations are vectors.
      episode_length: brax's steps after which an episode is truncated.
      action_repeat: those for which an action is repeated; the bonus sees the last observation.
      randomization_fn: brax's, which draws a system for every lane.
      bonus: such as `re3_jax.intrinsic.from_config(RE3Config(beta=0.01))`.

    Raises:
      TypeError: if it is no bonus, such as the options of one.
      ValueError: if observations are not vectors.
    """
    if randomization_fn is None:
        lanes = envs.training.VmapWrapper(env)
    else:
        lanes = envs.training.DomainRandomizationVmapWrapper(env, randomization_fn)
    episodes = envs.training.EpisodeWrapper(lanes, episode_length, action_repeat)
    agent_steps = -(-episode_length // action_repeat)
    return envs.training.AutoResetWrapper(BonusEnv(episodes, bonus, agent_steps))


class BonusEnv(envs.Wrapper):
    """Rewards a batch of environments with r = r_e + beta_t r_i (Equation 4).

    It belongs inside brax's auto-reset, where the last observation of an episode is still seen.
    Every step is observed, rewarded and learned from at once. The metrics `task_reward` and
    `intrinsic_reward` hold both parts: brax's evaluations report them as
    `eval/episode_task_reward` and `eval/episode_intrinsic_reward`. (The bonus of an evaluation
    begins anew and knows its own episodes only.)
    """

    def __init__(self, env: Any, bonus: IntrinsicReward, max_agent_steps: int = 1000):
        """Wraps a batch of environments.

        Args:
          env: brax's `EpisodeWrapper` of them.
          bonus: that rewards them.
          max_agent_steps: the most of an episode, actions that are repeated counted once.

        Raises:
          TypeError: if it is no bonus.
          ValueError: if observations are not vectors.
        """
        check_is_bonus(bonus)
        super().__init__(env)
        if not isinstance(env.observation_size, int):
            raise ValueError(
                f"a bonus needs observations that are vectors, but these are {env.observation_size}"
            )
        self._bonus = bonus
        self._spec = EnvSpec(
            task=f"brax:{type(env.unwrapped).__name__}",
            observation_shape=(env.observation_size,),
            observation_dtype=np.dtype(np.float32),
            action_space=Box((env.action_size,), -1.0, 1.0),
            max_agent_steps=max_agent_steps,
        )

    def reset(self, rng: Array) -> Any:
        """Resets all lanes; the bonus begins anew, with a key from the first lane's."""
        if jnp.issubdtype(rng.dtype, jax.dtypes.prng_key):
            rng = _bare(rng)
        state = self.env.reset(rng)
        lanes = state.done.shape[0]
        # Apart from what the first lane's own environment draws from its key.
        key = jax.random.fold_in(jax.random.wrap_key_data(rng[0]), BONUS_STREAM)
        init_key, stream = jax.random.split(key)
        intrinsic = self._bonus.init(init_key, self._spec, lanes)
        # As plain numbers, because brax casts every leaf of its states.
        stream = jax.random.key_data(stream)
        nothing = jnp.zeros_like(state.reward)
        kept = intrinsic, stream, jnp.zeros((), jnp.int32)
        return _with(state, kept, state.reward, nothing, nothing)

    def step(self, state: Any, action: Array) -> Any:
        """Steps all lanes and adds the bonus of the observations that were acted on."""
        after = self.env.step(_without(state), action)
        intrinsic, stream, agent_steps = state.info[STATE]
        key, used = jax.random.split(jax.random.wrap_key_data(stream))
        truncated = after.info["truncation"].astype(bool)
        terminated = after.done.astype(bool) & ~truncated
        step = Step(state.obs, action, after.obs, terminated, truncated)
        rollout = jax.tree.map(lambda leaf: leaf[None], step)
        paid, intrinsic, _ = reward_rollout(self._bonus, intrinsic, rollout, agent_steps, used)
        # Steps beyond the last that int32 can count are counted as the last.
        agent_steps += jnp.minimum(len(action), jnp.iinfo(jnp.int32).max - agent_steps)
        kept = intrinsic, jax.random.key_data(key), agent_steps
        return _with(after, kept, after.reward + paid[0], after.reward, paid[0])


def _bare(keys: PRNGKeyArray) -> Array:
    """Keys as words: brax's wrappers count the lanes by the shape of those.

    Words say not of which generator they are and count as the default one's: keys of another draw
    keys of it.
    """
    words = jax.random.key_data(jax.random.key(0))
    if jax.random.key_impl(keys) == jax.random.key_impl(jax.random.key(0)):
        return jax.random.key_data(keys)
    # One after another: rbg draws the bits of all keys of a `vmap` from the first.
    return jax.lax.map(lambda key: jax.random.bits(key, words.shape, words.dtype), keys)


def _without(state: Any) -> Any:
    """The state as brax's wrappers inside know it: they map over `info` and sum the metrics."""
    info = {name: leaf for name, leaf in state.info.items() if name != STATE}
    metrics = {name: leaf for name, leaf in state.metrics.items() if name not in (TASK, BONUS)}
    return state.replace(info=info, metrics=metrics)


def _with(state: Any, kept: Any, reward: Array, task_reward: Array, paid: Array) -> Any:
    return state.replace(
        reward=reward,
        info={**state.info, STATE: kept},
        metrics={**state.metrics, TASK: task_reward, BONUS: paid},
    )
