"""What a bonus returns, checked while its functions are traced: nothing is left in the program."""

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from re3_jax.envs.base import EnvSpec
from re3_jax.forms import as_float32, check_array, check_same_form, check_tuple, checked_info
from re3_jax.intrinsic.base import (
    IntrinsicBatch,
    IntrinsicReward,
    IntrinsicState,
    Observe,
    Step,
    check_is_bonus,
)
from re3_jax.intrinsic.rewarding import reward_rollout


def validated(bonus: IntrinsicReward, strict: bool = False) -> IntrinsicReward:
    """The bonus, whose functions raise a ValueError while they are traced if a result does not fit.

    Its state must keep structure, shapes and dtypes; the index of a step is int32
    [lane, *index_shape], a reward float32 [batch], and every value of an info a float32 scalar.
    Unless it is `strict`, rewards and infos of whole numbers become float32.

    Raises:
      TypeError: it is no bonus, such as the options of one.
    """
    check_is_bonus(bonus)
    number = (lambda value: value) if strict else as_float32

    def observing(observe: Observe, name: str, axes: int) -> Observe:
        def checked(state: IntrinsicState, step: Step):
            after, index = check_tuple(f"{name} of the bonus", observe(state, step), "state, index")
            check_same_form(f"the state that {name} of the bonus returns", after, state)
            rows = step.observation.shape[:axes]
            check_array(
                f"the index that {name} of the bonus returns",
                index,
                (*rows, *bonus.index_shape),
                jnp.int32,
            )
            return after, index

        return checked

    def reward(state: IntrinsicState, batch: IntrinsicBatch):
        returned = bonus.reward(state, batch)
        value, after, info = check_tuple("reward of the bonus", returned, "reward, state, info")
        rows, value = batch.observation.shape[:1], number(value)
        check_array("the reward that reward of the bonus returns", value, rows, jnp.float32)
        check_same_form("the state that reward of the bonus returns", after, state)
        return value, after, checked_info("reward of the bonus", info, strict=strict)

    def update(state: IntrinsicState, batch: IntrinsicBatch, key: PRNGKeyArray):
        returned = bonus.update(state, batch, key)
        after, info = check_tuple("update of the bonus", returned, "state, info")
        check_same_form("the state that update of the bonus returns", after, state)
        return after, checked_info("update of the bonus", info, strict=strict)

    def targets(state: IntrinsicState, batch: IntrinsicBatch):
        found, rows = bonus.targets(state, batch), len(batch.observation)
        for leaf in jax.tree.leaves(found):
            if jnp.shape(leaf)[:1] != (rows,):
                raise ValueError(
                    f"targets of the bonus returns an array of shape {list(jnp.shape(leaf))}: its "
                    f"first axis must be that of the batch, {rows} long"
                )
        return found

    of_rollout = bonus.observe_rollout
    return bonus._replace(
        observe=observing(bonus.observe, "observe", 1),
        reward=reward,
        update=update,
        targets=targets,
        observe_rollout=of_rollout and observing(of_rollout, "observe_rollout", 2),
    )


def check_bonus(
    bonus: IntrinsicReward, spec: EnvSpec, num_lanes: int = 4, time: int = 16
) -> dict[str, jax.ShapeDtypeStruct]:
    """Traces a rollout of a bonus of your own, and one batch; nothing is compiled or run.

    Args:
      bonus: the intrinsic reward.
      spec: a task.
      num_lanes: lanes of the rollout.
      time: steps of each; a bonus that stores a number for each step has room for all of them.

    Returns:
      What it logs: the forms of its infos.

    Raises:
      TypeError: it is no `IntrinsicReward`, such as the options of one.
      ValueError: what one of its functions returns does not fit; one sentence says what would.

    Example:
      >>> import numpy as np
      >>> from re3_jax.envs.base import Discrete, EnvSpec
      >>> from re3_jax.intrinsic import RE3Config, check_bonus, from_config
      >>> spec = EnvSpec("car", (2,), np.dtype(np.float32), Discrete(3), max_agent_steps=200)
      >>> sorted(check_bonus(from_config(RE3Config(ring_size=64)), spec))[:2]
      ['beta', 'duplicate_share']
    """
    whole = validated(bonus, strict=True)
    rows, space = (time, num_lanes), spec.action_space

    def rollout(key: PRNGKeyArray):
        state = whole.init(key, spec, num_lanes)
        observation = jnp.zeros((*rows, *spec.observation_shape), spec.observation_dtype)
        action = jnp.zeros((*rows, *space.shape), space.dtype)
        flags, value = jnp.zeros(rows, bool), jnp.zeros(rows)
        number = None if spec.num_states is None else jnp.zeros(rows, jnp.int32)
        steps = Step(observation, action, observation, flags, flags, number, value)
        first = jax.tree.map(lambda leaf: leaf[0], steps)
        state, index = whole.observe(state, first)
        seen, acted, following, *_ = first
        batch = IntrinsicBatch(seen, acted, following, index, jnp.int32(0), first.value)
        _, state, _ = whole.reward(state, batch)
        state, _ = whole.update(state, batch, key)
        restarted = whole.restart(state, flags[0])
        check_same_form("the state that restart of the bonus returns", restarted, state)
        # Two updates, so that `targets` are asked for.
        order = jnp.arange(time * num_lanes, dtype=jnp.int32)[None].repeat(2, axis=0)
        return reward_rollout(whole, restarted, steps, jnp.int32(0), key, order)[2]

    return jax.eval_shape(rollout, jax.random.key(0))
