"""What an environment on the device returns, checked while it is traced, and by walking in it."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from re3_jax.envs.base import Box, DeviceEnv, EnvSpec, EnvState, TimeStep
from re3_jax.forms import as_float32, check_array, check_same_form, check_tuple


def validated(env: DeviceEnv, strict: bool = False) -> DeviceEnv:
    """The environment, whose functions raise a ValueError while they are traced if a result is bad.

    Observations must be as the specification says, the reward float32 [], both ends bool [], and
    the state must keep structure, shapes and dtypes. Unless it is `strict`, a reward of whole
    numbers becomes float32.

    Raises:
      ValueError: its actions are real numbers but no vector, or its frames are to be stacked.
    """
    spec = env.spec
    _check_spec(spec)
    task, observation = spec.task, (spec.observation_shape, spec.observation_dtype)

    def reset(key: PRNGKeyArray):
        state, seen = check_tuple(f"reset of {task}", env.reset(key), "state, observation")
        check_array(f"the observation that reset of {task} returns", seen, *observation)
        return state, seen

    def step(state: EnvState, action: Int[Array, ""] | Float[Array, "..."], key: PRNGKeyArray):
        returned = env.step(state, action, key)
        after, timestep = check_tuple(f"step of {task}", returned, "state, TimeStep")
        check_same_form(f"the state that step of {task} returns", after, state)
        if not isinstance(timestep, TimeStep):
            raise ValueError(
                f"step of {task} returns a {type(timestep).__name__} beside the state: return a "
                "re3_jax.envs.base.TimeStep"
            )
        for name in ("observation", "final_observation"):
            check_array(f"{name} of a step of {task}", getattr(timestep, name), *observation)
        if not strict:
            timestep = timestep._replace(reward=as_float32(timestep.reward))
        check_array(f"reward of a step of {task}", timestep.reward, (), jnp.float32)
        for name in ("terminated", "truncated"):
            check_array(f"{name} of a step of {task}", getattr(timestep, name), (), jnp.bool_)
        return after, timestep

    return env._replace(reset=reset, step=step)


def _check_spec(spec: EnvSpec) -> None:
    space = spec.action_space
    if isinstance(space, Box) and len(space.shape) != 1:
        raise ValueError(
            f"the actions of {spec.task} have the shape {space.shape}, which is no vector: make "
            f"the action space Box(({space.num_outputs},), {space.low:g}, {space.high:g}) and "
            "reshape in step"
        )
    if spec.frame_stack != 1:
        raise ValueError(
            f"{spec.task} has a frame_stack of {spec.frame_stack}, which is for environments on "
            "the host: put the frames into the observation in step and leave frame_stack at 1"
        )


def check_env(env: DeviceEnv, num_lanes: int = 4, seed: int = 0) -> Float[Array, " lane"]:
    """Walks through an environment of your own with random actions for two of its time limits.

    Args:
      env: the environment.
      num_lanes: copies of it.
      seed: of the actions and the episodes.

    Returns:
      The reward that each lane got in all, float32 [lane].

    Raises:
      ValueError: actions or frames are as no agent takes them, a result has a wrong form, an
        episode is longer than `spec.max_agent_steps`, an observation or a reward is not finite,
        or `final_observation` is not the observation of a step that ended no episode; one
        sentence.

    Example:
      >>> from re3_jax.envs import registry
      >>> from re3_jax.envs.checking import check_env
      >>> check_env(registry.make("minigrid:Empty-5x5")).shape
      (4,)
    """
    spec, checked = env.spec, validated(env, strict=True)
    space, limit = spec.action_space, spec.max_agent_steps

    def one_lane(key: PRNGKeyArray):
        reset_key, key = jax.random.split(key)
        state, first = checked.reset(reset_key)

        def step(carry, key):
            state, length, longest = carry
            action_key, step_key = jax.random.split(key)
            (action,) = space.sample(action_key, 1)
            state, timestep = checked.step(state, action, step_key)
            ended, length = timestep.ended, length + 1
            follows = ended | jnp.array_equal(timestep.observation, timestep.final_observation)
            numbers = _is_finite(timestep.observation) & _is_finite(timestep.final_observation)
            numbers &= _is_finite(timestep.reward)
            longest = jnp.maximum(longest, length)
            carry = state, jnp.where(ended, 0, length), longest
            return carry, (timestep.reward, follows, numbers)

        start = state, jnp.int32(0), jnp.int32(0)
        (_, _, longest), outcomes = jax.lax.scan(step, start, jax.random.split(key, 2 * limit))
        reward, follows, numbers = outcomes
        return jnp.sum(reward), longest, jnp.all(follows), jnp.all(numbers) & _is_finite(first)

    keys = jax.random.split(jax.random.key(seed), num_lanes)
    reward, longest, follows, numbers = jax.jit(jax.vmap(one_lane))(keys)
    if jnp.max(longest) > limit:
        raise ValueError(
            f"an episode of {spec.task} goes on for {jnp.max(longest)} steps, more than its "
            f"max_agent_steps of {limit}: step must end it with terminated or truncated, and begin "
            "the next one"
        )
    if not jnp.all(numbers):
        raise ValueError(f"an observation or a reward of {spec.task} is NaN or infinite")
    if not jnp.all(follows):
        raise ValueError(
            f"final_observation of {spec.task} is not the observation of a step that ended no "
            "episode: return the same for both, and differ only where an episode ends"
        )
    return reward


def _is_finite(values: Array) -> Array:
    return jnp.all(jnp.isfinite(values.astype(jnp.float32)))
