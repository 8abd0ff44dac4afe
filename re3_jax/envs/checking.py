"""What environments return, on the device checked while they are traced, and by walking in them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from re3_jax import checks
from re3_jax.envs.base import Box, DeviceEnv, EnvSpec, EnvState, TimeStep
from re3_jax.envs.endless import EndlessEpisode
from re3_jax.envs.host.foreign import ForeignLanes
from re3_jax.forms import as_float32, check_array, check_same_form, check_tuple


def validated(env: DeviceEnv, strict: bool = False) -> DeviceEnv:
    """The environment, whose functions raise a ValueError while they are traced if a result is bad.

    Observations must be as the specification says, the reward float32 [], both ends bool [], and
    the state must keep structure, shapes and dtypes. Unless it is `strict`, a reward of whole
    numbers becomes float32.

    Raises:
      ValueError: its actions are real numbers but no vector, its observation is a single number, or
        its frames are to be stacked.
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
    if not spec.observation_shape:
        raise ValueError(
            f"an observation of {spec.task} is a single number: make it a vector of one, and the "
            "observation_shape (1,)"
        )
    if spec.frame_stack != 1:
        raise ValueError(
            f"{spec.task} has a frame_stack of {spec.frame_stack}, which is for environments on "
            "the host: put the frames into the observation in step and leave frame_stack at 1"
        )


def _check_bounds(spec: EnvSpec) -> None:
    """Refuses actions that cannot be drawn uniformly."""
    space = spec.action_space
    if isinstance(space, Box) and not space.high - space.low <= checks.FLOAT32_MAX:
        raise ValueError(
            f"the actions of {spec.task} lie between {space.low:g} and {space.high:g}, from which "
            "none can be drawn at random: give the Box bounds whose difference float32 holds, such "
            "as -1 and 1, and scale actions in step"
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
      ValueError: actions, observations or frames are as no agent takes them, actions have no bounds
        to draw them from, a result has a wrong form, an episode is longer than
        `spec.max_agent_steps`, an observation or a reward is not finite, `final_observation` is not
        the observation of a step that ended no episode, or the next episode does not begin where
        one ends; one sentence.

    Example:
      >>> from re3_jax.envs import registry
      >>> from re3_jax.envs.checking import check_env
      >>> check_env(registry.make("minigrid:Empty-5x5")).shape
      (4,)
    """
    spec, checked = env.spec, validated(env, strict=True)
    _check_bounds(spec)
    space, limit = spec.action_space, spec.max_agent_steps

    def one_lane(key: PRNGKeyArray):
        reset_key, key = jax.random.split(key)
        state, seen = checked.reset(reset_key)

        def step(carry, key):
            state, length, longest, first, later, before = carry
            action_key, step_key = jax.random.split(key)
            (action,) = space.sample(action_key, 1)
            state, timestep = checked.step(state, action, step_key)
            ended, length = timestep.ended, length + 1
            follows = ended | _are_equal(timestep.observation, timestep.final_observation)
            numbers = _is_finite(timestep.observation) & _is_finite(timestep.final_observation)
            numbers &= _is_finite(timestep.reward)
            longest = jnp.maximum(longest, length)
            # Lengths of the first episode, and of the longest that follows.
            later = jnp.where(first > 0, jnp.maximum(later, length), later)
            first = jnp.where(ended & (first == 0), length, first)
            moves = ~ended & ~jnp.array_equal(timestep.observation, before)
            begins = ended & ~jnp.array_equal(timestep.observation, timestep.final_observation)
            length = jnp.where(ended, 0, length)
            carry = state, length, longest, first, later, timestep.observation
            return carry, (timestep.reward, follows, numbers, ended, moves, begins)

        nothing = jnp.int32(0)
        start = state, nothing, nothing, nothing, nothing, seen
        keys = jax.random.split(key, 2 * limit)
        (_, _, *lengths, _), outcomes = jax.lax.scan(step, start, keys)
        reward, follows, numbers, *events = outcomes
        return (
            (jnp.sum(reward), jnp.all(follows), jnp.all(numbers) & _is_finite(seen)),
            lengths,
            [jnp.sum(event) for event in events],
        )

    keys = jax.random.split(jax.random.key(seed), num_lanes)
    (reward, follows, numbers), lengths, events = jax.jit(jax.vmap(one_lane))(keys)
    longest, first, later = lengths
    ends, moves, begins = map(jnp.sum, events)
    if jnp.max(longest) > limit:
        raise EndlessEpisode(spec.task, limit)
    if not jnp.all(numbers):
        raise ValueError(f"an observation or a reward of {spec.task} is NaN or infinite")
    if not jnp.all(follows):
        raise ValueError(
            f"final_observation of {spec.task} is not the observation of a step that ended no "
            "episode: return the same for both, and differ only where an episode ends"
        )
    lasted = jnp.any(first > 1) and jnp.all(first != 1)
    if lasted and ends > 2 * num_lanes and jnp.max(later) == 1:
        raise ValueError(
            f"after the first end of an episode of {spec.task} every step ends one: step must "
            "return the state of the next episode where one ends"
        )
    if ends and moves and not begins:
        raise ValueError(
            f"where episodes of {spec.task} end, observation is always the same as "
            "final_observation: return the first observation of the next episode as observation, "
            "and the last of the old one as final_observation (ignore this if every episode ends "
            "as the next begins)"
        )
    return reward


def check_lanes(
    lanes: Any, spec: EnvSpec, num_lanes: int, num_steps: int = 1_000, seed: int = 0
) -> Float[np.ndarray, " lane"]:
    """Steps lanes of your own on the host with random actions.

    Args:
      lanes: a `HostEnv` of a plugin; `can_restore`, `lost` and the like may be missing.
      spec: what the suite says of the task.
      num_lanes: how many lanes there are.
      num_steps: steps of all lanes; some episodes should end meanwhile.
      seed: of the actions and the episodes.

    Returns:
      The reward that each lane got in all, float64 [lane].

    Raises:
      ValueError: actions have no bounds to draw them from, a result has a wrong form, `reset` with
        the same seeds begins other episodes, an episode is longer than `spec.max_agent_steps`, a
        frame or a reward is not finite, `final_frame` is not the frame of a step that ended no
        episode, or the next episode does not begin where one ends; one sentence.
    """
    _check_bounds(spec)
    checked, task, space = ForeignLanes(lanes, spec, num_lanes), spec.task, spec.action_space
    seeds = np.arange(seed, seed + num_lanes)
    first = checked.reset(seeds)
    if not np.array_equal(first, checked.reset(seeds)):
        raise ValueError(
            f"reset of {task} with the same seeds begins other episodes: let nothing but the seed "
            "of a lane decide how its episode begins"
        )
    keys = jax.random.split(jax.random.key(seed), num_steps)
    actions = np.asarray(jax.jit(jax.vmap(lambda key: space.sample(key, num_lanes)))(keys))
    returns, ends, begins = np.zeros(num_lanes), 0, 0
    for action in actions:
        checked.send(action.reshape(num_lanes, -1))
        step = checked.receive()
        returns, ended = returns + step.reward, step.ended
        if not all(np.isfinite(leaf).all() for leaf in (step.frame, step.final_frame, step.reward)):
            raise ValueError(f"a frame or a reward of {task} is NaN or infinite")
        if not np.array_equal(step.frame[~ended], step.final_frame[~ended]):
            raise ValueError(
                f"final_frame of {task} is not the frame of a step that ended no episode: return "
                "the same for both, and differ only where an episode ends"
            )
        ends += ended.sum()
        begins += not np.array_equal(step.frame[ended], step.final_frame[ended])
    if ends and not begins:
        raise ValueError(
            f"where episodes of {task} end, frame is always the same as final_frame: return the "
            "first frame of the next episode as frame, and the last of the old one as final_frame"
        )
    return returns


def _are_equal(one: Array, other: Array) -> Bool[Array, ""]:
    """Whether two observations are the same; floats may differ by rounding.

    XLA may compute a number anew for each place where it is used, and not in the same order.
    """
    if jnp.issubdtype(one.dtype, jnp.floating):
        return jnp.allclose(one, other, rtol=1e-5, atol=1e-5)
    return jnp.array_equal(one, other)


def _is_finite(values: Array) -> Array:
    return jnp.all(jnp.isfinite(values.astype(jnp.float32)))
