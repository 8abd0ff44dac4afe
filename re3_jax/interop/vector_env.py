"""A wrapper of Gymnasium's `VectorEnv` that adds a bonus to the reward, for on-policy loops.

Every step is observed, rewarded and learned from at once: o_t is compared with all observations
before it and with those of the other lanes at t. Where a loop can wait for a whole rollout,
`NumpyBonus.reward_rollout` costs less.
"""

from typing import Any

import numpy as np

from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.envs.names import pip_install
from re3_jax.interop.numpy_bonus import Info, NumpyBonus
from re3_jax.intrinsic.base import IntrinsicReward, Step, check_is_bonus

try:
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
except ImportError as error:
    raise ImportError(
        f"this wrapper needs the package gymnasium ({error}): {pip_install('gymnasium==1.3.0')}"
    ) from error

SMALLEST_IMAGE = 15
"""Shorter sides are those of tables of numbers."""

NO_LIMIT = np.iinfo(np.int32).max
"""Time limit of a task that states none."""


class BonusVectorEnv(VectorWrapper):
    """Rewards with r = r_e + beta_t r_i (Equation 4).

    Both of Gymnasium's auto-resets give the same rewards for the same trajectories. With
    `AutoresetMode.SAME_STEP`, o_{t+1} of the last step of an episode is the lane's `final_obs`.
    With `NEXT_STEP`, the step after the last one only resets its lane: it is no transition, so it
    is not observed, its bonus is 0, and the loop must not learn from it. With `DISABLED`, the loop
    resets ended lanes by `reset(options={"reset_mask": mask})`.

    `info` holds `task_reward` and `intrinsic_reward`, float64 [lane]. Wrappers inside this one,
    such as `RecordEpisodeStatistics`, see the task's reward.

    Attributes:
      bonus: the bonus with its state, to `save` and `restore`.
      diagnostics: `info` of the bonus at the newest step that was rewarded.
    """

    def __init__(
        self, env: VectorEnv, bonus: IntrinsicReward, seed: int = 0, spec: EnvSpec | None = None
    ):
        """Draws the initial state of the bonus.

        Args:
          env: the environments.
          bonus: such as `re3_jax.intrinsic.from_config(RE3Config(beta=0.01))`.
          seed: that of `NumpyBonus`.
          spec: of one environment as the bonus sees it; `spec_of(env)` if None. Images that lead
            with their channels are turned for the bonus, here and where `spec` is given.

        Raises:
          TypeError: if it is no bonus, such as the options of one.
          ValueError: if the environments do not tell how they reset, if `spec_of` cannot describe
            them, or if the bonus cannot be paid for a step of all lanes, or where a step may be
            a transition in some lanes only (`NEXT_STEP`) for one lane, or remembers episodes.
        """
        check_is_bonus(bonus)
        super().__init__(env)
        self._mode = env.metadata.get("autoreset_mode")
        if not isinstance(self._mode, AutoresetMode):
            raise ValueError(
                f"{env} does not tell how it resets: set its metadata['autoreset_mode'] to a "
                "gymnasium.vector.AutoresetMode"
            )
        if bonus.in_order and self._mode is AutoresetMode.NEXT_STEP:
            raise ValueError(
                "this bonus remembers episodes, so every lane must make a transition in every "
                "step: make the environments with autoreset_mode=AutoresetMode.SAME_STEP"
            )
        self._turns = _leads_with_channels(env.single_observation_space)
        spec = spec or spec_of(env, channels_may_lead=True)
        self.bonus = NumpyBonus(bonus, spec, env.num_envs, seed)
        self._check()
        self.diagnostics: Info = {}
        self._observation: Any = None
        self._only_resets = np.zeros(env.num_envs, bool)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets all lanes, or those of `options["reset_mask"]`.

        The bonus forgets their episodes, and nothing else.
        """
        # Read first: the environments take the mask out of `options`.
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        observation, info = self.env.reset(seed=seed, options=options)
        self.bonus.restart(mask)
        self._observation = np.array(observation)
        self._only_resets = self._only_resets & ~mask
        return observation, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all lanes and adds the bonus of o_t, the observation that was acted on."""
        observation, reward, terminated, truncated, info = self.env.step(actions)
        done = terminated | truncated
        following = self._following(observation, done, info)
        moved, paid = ~self._only_resets, np.zeros(self.num_envs)
        if moved.any():
            before, after = map(self._as_seen, (self._observation, following))
            step = before, np.asarray(actions), after, terminated, truncated
            rollout: Any = [leaf[None, moved] for leaf in step]
            rewards, self.diagnostics = self.bonus.reward_rollout(Step(*rollout))
            paid[moved] = rewards[0]
        self._observation = np.array(observation)
        self._only_resets = done & (self._mode is AutoresetMode.NEXT_STEP)
        info = {**info, "task_reward": np.array(reward, np.float64), "intrinsic_reward": paid}
        return observation, reward + paid, terminated, truncated, info

    def _as_seen(self, observation: np.ndarray) -> np.ndarray:
        """Observations of all lanes, images with their channels at the end."""
        return np.moveaxis(observation, 1, -1) if self._turns else observation

    def _check(self) -> None:
        self.bonus.check_rollout(time=1, lanes=self.num_envs)
        if self._mode is AutoresetMode.NEXT_STEP:
            try:
                self.bonus.check_rollout(time=1, lanes=1)
            except ValueError as error:
                raise ValueError(
                    f"a step may be a transition in one lane only, but {error}; or make the "
                    "environments with autoreset_mode=AutoresetMode.SAME_STEP"
                ) from None

    def _following(self, observation: Any, done: Any, info: dict[str, Any]) -> np.ndarray:
        """o_{t+1} of the same episode, also where it ended."""
        following = np.array(observation)
        if self._mode is AutoresetMode.SAME_STEP:
            for lane in np.flatnonzero(done):
                following[lane] = info["final_obs"][lane]
        return following


def _registered(env: Any) -> Any:
    """What Gymnasium registered of the environment; environments made one by one say it each."""
    if spec := getattr(env, "spec", None):
        return spec
    if hasattr(env, "envs"):
        return getattr(env.envs[0], "spec", None)
    return env.get_attr("spec")[0] if hasattr(env, "get_attr") else None


def _leads_with_channels(seen: Any) -> bool:
    """Whether observations are images [channels, height, width], as PyTorch has them."""
    is_image = seen.dtype == np.uint8 and len(seen.shape) == 3
    return is_image and seen.shape[0] < min(seen.shape[1:])


def _refuse_hidden_images(shape: tuple[int, ...], dtype: Any) -> None:
    """Refuses images that would count as vectors, for what they lack."""
    sides = sorted(shape)[-2:]
    if len(shape) not in (2, 3) or min(sides) < SMALLEST_IMAGE:
        return
    if len(shape) == 2 and dtype == np.uint8:
        raise ValueError(
            f"observations are bytes {list(shape)}, which are no image without an axis of "
            "channels: add one of length 1 at the end, or describe them with a spec"
        )
    if len(shape) == 3 and dtype != np.uint8:
        raise ValueError(
            f"observations are {np.dtype(dtype)}{list(shape)}: give images as they were drawn, "
            "uint8, or describe them with a spec if they are none"
        )


def spec_of(env: Any, channels_may_lead: bool = False) -> EnvSpec:
    """Describes one of the environments.

    Images are uint8 [height, width, channels]; a number of channels that 3 divides counts as
    frames in colour, any other as grey frames, the newest last. Bounds of actions are the
    outermost ones. There is no time limit if `env` does not know it.

    Args:
      env: a `VectorEnv` or an `Env` of Gymnasium, or a `VecEnv` of Stable-Baselines3.
      channels_may_lead: whether images may be [channels, height, width]; they are described with
        their channels at the end all the same, where the bonus must be given them.

    Raises:
      ValueError: if observations are not one array, if they are images that are not uint8 or have
        no channels, if images lead with their channels and may not, or if actions are neither
        numbers from 0 nor an array.
    """
    single = "single_" if hasattr(env, "single_observation_space") else ""
    seen, acted = (getattr(env, f"{single}{name}_space") for name in ("observation", "action"))
    if not isinstance(seen, spaces.Box):
        raise ValueError(
            f"a bonus needs observations that are one array, but these are {seen}: wrap each "
            "environment, for example in gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(acted, spaces.Discrete) and acted.start == 0:
        action_space: Discrete | Box = Discrete(int(acted.n))
    elif isinstance(acted, spaces.Box):
        action_space = Box(acted.shape, float(acted.low.min()), float(acted.high.max()))
    else:
        raise ValueError(
            "a bonus needs actions that are numbers from 0 or one array of real numbers, but "
            f"these are {acted}: wrap the environments"
        )
    shape = seen.shape
    _refuse_hidden_images(shape, seen.dtype)
    is_image = seen.dtype == np.uint8 and len(shape) == 3
    if _leads_with_channels(seen):
        if not channels_may_lead:
            raise ValueError(
                f"a bonus needs images [height, width, channels], but these are {list(shape)}: "
                "move the channels to the end, also in the observations of its steps"
            )
        shape = (*shape[1:], shape[0])
    channels = shape[-1] if is_image else 1
    colours = 3 if not is_image or channels % 3 == 0 else 1
    dtype = np.dtype(seen.dtype)
    # JAX has no whole numbers of 64 bits.
    becomes_float = np.issubdtype(dtype, np.floating) or dtype.itemsize == 8
    registered = _registered(env)
    return EnvSpec(
        task=f"gymnasium:{registered.id if registered else type(env.unwrapped).__name__}",
        observation_shape=shape,
        observation_dtype=np.dtype(np.float32) if becomes_float else dtype,
        action_space=action_space,
        max_agent_steps=(registered and registered.max_episode_steps) or NO_LIMIT,
        colours=colours,
        frame_stack=channels // colours if is_image else 1,
    )
