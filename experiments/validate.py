"""Ranges and combinations of options, but for what each group of options refuses itself."""

import math
from typing import Any

from experiments.config import (
    GROUP_OF,
    LEARNED,
    OFF_POLICY,
    PRETRAINED,
    RunConfig,
    choose_chunk_updates,
    frames_per_update,
    keeps_latents,
    lanes,
    learner,
    option_name,
)
from experiments.errors import UsageError
from re3_jax.agents.dreamer.networks import IMAGE_SIZE
from re3_jax.envs import registry
from re3_jax.envs.base import Discrete, EnvSpec
from re3_jax.envs.host import atari
from re3_jax.intrinsic.pretrained import IMAGENET_URL

INT32_MAX = 2**31 - 1

SMALLEST_IMAGE = 15
"""Pixels of which four 3x3 convolutions, the first with stride 2, leave one."""

WEIGHTS = {
    "imagenet": f"torchvision's ResNet-50: fetch {IMAGENET_URL} and name it with --bonus.weights",
    "atc": "a snapshot of rlpyt's ATC (params.pkl): name it with --bonus.weights",
}
"""Bonus -> the file that it cannot do without."""

FROM_ONE_STEP = ("icm", "inverse_dynamics")
"""Bonuses that predict across one step of the environment."""

POSITIVE = (
    "seeds",
    "steps",
    "pretrain",
    "chunk_updates",
    "evaluation.every_env_frames",
    "evaluation.episodes",
)
NOT_NEGATIVE = ("seed", "checkpoint_seconds", "re3.beta", "rnd.beta", "icm.beta")


def validate_values(values: dict[str, Any]) -> None:
    """Checks the values of a RunConfig by dotted name.

    Raises:
      UsageError: one sentence that names the option and a value that would do.
    """
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(name, value)
    if values["pretrain"] is not None and values["bonus"] == "none":
        raise UsageError(
            "--pretrain trains on the bonus alone, and --bonus none is none: choose --bonus re3 or "
            "another one"
        )
    if values["bonus"] in PRETRAINED and values["pretrained.weights"] is None:
        raise UsageError(f"--bonus {values['bonus']} needs {WEIGHTS[values['bonus']]}")
    if values["agent"] == "rainbow" and values["bonus"] in FROM_ONE_STEP:
        _check_one_step(values)
    has_ring = keeps_latents(values["bonus"], values["learned.neighbours"])
    if has_ring and values["agent"] == "a2c":
        _check_ring_of_rollouts(values)
    if values["bonus"] in LEARNED and not has_ring:
        _check_minibatch(values)
    if values["agent"] == "dreamer":
        _check_dreamer(values)
    if values["seed"] + values["seeds"] - 1 > INT32_MAX:
        raise UsageError(f"--seed {values['seed']} is too large: seeds end at {INT32_MAX}")


def validate_for_task(config: RunConfig, spec: EnvSpec) -> None:
    """Checks a configuration against the task it is for.

    Raises:
      UsageError: agent and task do not fit, there is not one update to do, or there are more
        env frames than can be counted.
    """
    _check_agent(config, spec)
    update = frames_per_update(config, spec.action_repeat)
    repeat = f" x {spec.action_repeat} frames" if spec.action_repeat > 1 else ""
    rollout = config.a2c.rollout_length if config.agent == "a2c" else 1
    length = "steps" if config.pretrain is None else "pretrain"
    for name, frames in (
        (length, config.steps),
        ("evaluation.every_env_frames", config.evaluation.every_env_frames),
    ):
        if frames < update:
            raise UsageError(
                f"{option_name(name)} {frames} is less than one update, which takes {update} env "
                f"frames ({lanes(config)} lanes x {rollout} steps{repeat}): give at least {update}"
            )
    chunk = update * (config.chunk_updates or choose_chunk_updates(config, spec.action_repeat))
    # Whole chunks are trained, so the last one may end after STEPS.
    if -(-config.steps // chunk) * chunk > INT32_MAX:
        raise UsageError(
            f"{option_name(length)} {config.steps} in chunks of {chunk} env frames is too large: "
            f"counters are 32-bit, so give at most {INT32_MAX // chunk * chunk}"
            if chunk <= INT32_MAX
            else f"--chunk-updates {config.chunk_updates} is too large: a chunk would be {chunk} "
            f"env frames, and counters are 32-bit, so give at most {INT32_MAX // update}"
        )


def check_memory(needed_bytes: int, available_bytes: int | None, config: RunConfig) -> None:
    """Refuses a state that cannot fit.

    Raises:
      UsageError: the state of all seeds is larger than the memory that is free; the sentence
        has the numbers and an option that fits.
    """
    if available_bytes is None or needed_bytes <= available_bytes:
        return
    raise UsageError(
        f"the state of {config.seeds} seeds takes {needed_bytes / 2**30:.1f} GiB and "
        f"{available_bytes / 2**30:.1f} GiB are free: "
        + _what_fits(needed_bytes, available_bytes, config)
    )


def _what_fits(needed_bytes: int, available_bytes: int, config: RunConfig) -> str:
    if config.agent == "a2c":
        return "lower --seeds, --re3.ring-size or --a2c.num-envs"
    fits = []
    too_many = math.ceil(
        (needed_bytes - available_bytes) / (config.seeds * _least_bytes_per_transition(config))
    )
    capacity = learner(config).replay_capacity - too_many
    option = f"--{GROUP_OF[config.agent]}.replay-capacity"
    if capacity >= _least_capacity(config):
        rounded = capacity // 1000 * 1000 or capacity
        fits.append(f"{option} {rounded}")
    if seeds := available_bytes * config.seeds // needed_bytes:
        fits.append(f"--seeds {seeds}")
    if fits:
        return f"{' or '.join(fits)} would fit"
    smaller_images = "--dmc.image-size and " * (registry.suite(config.env) == "dmc")
    return f"lower {smaller_images}{option}"


def _least_capacity(config: RunConfig) -> int:
    """A replay with which an agent can surely begin."""
    if config.agent == "dreamer":
        return config.dreamer.prefill_env_frames
    return int(max(learner(config).batch_size, learner(config).initial_agent_steps))


def _least_bytes_per_transition(config: RunConfig) -> int:
    """What one more transition adds to a seed's state at the least."""
    frame = {"dmc": 3 * config.dmc.image_size**2, "atari": atari.SIZE**2}.get(
        registry.suite(config.env), 0
    )
    has_latents = config.agent in OFF_POLICY and keeps_latents(
        config.bonus, config.learned.neighbours
    )
    latents = config.re3.ensemble_size * config.re3.latent_dim if has_latents else 0
    action_reward_discount = 3
    return frame + 4 * (latents + action_reward_discount)


def _check_agent(config: RunConfig, spec: EnvSpec) -> None:
    discrete = isinstance(spec.action_space, Discrete)
    if config.agent in ("a2c", "rainbow") and not discrete:
        raise UsageError(
            f"--agent {config.agent} cannot act in {config.env}, whose actions are continuous: use "
            "--agent rad, or choose a task with discrete actions, such as doorkey_6x6 or "
            "gymnax:CartPole-v1"
        )
    if config.agent in ("rad", "drq", "dreamer") and discrete:
        raise UsageError(
            f"--agent {config.agent} cannot act in {config.env}, whose actions are discrete: use "
            "--agent a2c, or choose a task with continuous actions, such as cheetah_run_sparse "
            "or gymnax:Pendulum-v1"
        )
    if config.agent == "a2c" and registry.is_host(config.env):
        raise UsageError(
            f"--agent a2c learns from tasks on the device, and {config.env} is stepped on the "
            "host: use --agent rainbow"
        )
    if config.agent == "drq" and len(spec.observation_shape) != 3:
        raise UsageError(
            f"--agent drq shifts images, which {config.env} does not show: use --agent rad, or "
            "choose a task seen as pixels, such as cheetah_run_sparse"
        )
    if config.agent == "dreamer":
        _check_sight(config, spec)
    if config.agent in ("rad", "drq") and len(spec.observation_shape) == 3:
        _check_images(config)


def _check_sight(config: RunConfig, spec: EnvSpec) -> None:
    if len(spec.observation_shape) != 3:
        raise UsageError(
            f"--agent dreamer learns from images, which {config.env} does not show: use --agent "
            "rad, or choose a task seen as pixels, such as cheetah_run_sparse"
        )
    for name, needed, why in (
        ("image_size", IMAGE_SIZE, f"sees images of {IMAGE_SIZE}x{IMAGE_SIZE} pixels"),
        ("frame_stack", 1, "remembers what it saw and is shown one frame at a time"),
    ):
        value = getattr(config.dmc, name)
        if registry.suite(config.env) == "dmc" and value != needed:
            raise UsageError(
                f"--agent dreamer {why}: leave {option_name(f'dmc.{name}')} at {needed} instead "
                f"of {value}"
            )


def _check_images(config: RunConfig) -> None:
    size, sac = config.dmc.image_size, config.sac
    if sac.augmentation == "crop" and sac.crop_size > size:
        raise UsageError(
            f"--sac.crop-size {sac.crop_size} is more than the {size} pixels of an image: give "
            "at most that, or a larger --dmc.image-size"
        )
    seen = sac.crop_size if sac.augmentation == "crop" else size
    if seen < SMALLEST_IMAGE:
        option = "--sac.crop-size" if sac.augmentation == "crop" else "--dmc.image-size"
        raise UsageError(
            f"{option} {seen} leaves nothing after four convolutions: give at least "
            f"{SMALLEST_IMAGE}"
        )


def _check_range(name: str, value: Any) -> None:
    option = option_name(name)
    if not math.isfinite(value):
        raise UsageError(f"{option} {value} is not finite: give an ordinary number")
    if isinstance(value, int) and value > INT32_MAX:
        raise UsageError(f"{option} {value} is too large: counters are 32-bit, at most {INT32_MAX}")
    if name in POSITIVE and value <= 0:
        raise UsageError(f"{option} {value} is not positive: give a number above 0")
    if name in NOT_NEGATIVE and value < 0:
        raise UsageError(f"{option} {value} is negative: give 0 or more")


def _check_ring_of_rollouts(values: dict[str, Any]) -> None:
    ring, lanes = values["re3.ring_size"], values["a2c.num_envs"]
    steps = values["a2c.rollout_length"]
    if ring < lanes * steps:
        raise UsageError(
            f"--re3.ring-size {ring} cannot hold one rollout of {lanes * steps} states "
            f"({lanes} lanes x {steps} steps): give at least {lanes * steps}"
        )


def _check_dreamer(values: dict[str, Any]) -> None:
    rank = values["re3.last_neighbour"]
    batch = values["dreamer.batch_size"] * values["dreamer.sequence_length"]
    in_batch = values["bonus"] == "re3" and values["dreamer.neighbours"] != "ring"
    if in_batch and rank > batch - (0 if values["re3.count_self"] else 1):
        raise UsageError(
            f"a batch of {batch} frames has no neighbour of rank {rank}: lower "
            "--re3.last-neighbour, raise --dreamer.batch-size or use --dreamer.neighbours ring"
        )


def _check_one_step(values: dict[str, Any]) -> None:
    if values["rainbow.n_steps"] > 1:
        raise UsageError(
            f"--bonus {values['bonus']} learns from one observation and the next, but transitions "
            f"span --rainbow.n-steps {values['rainbow.n_steps']}: add --rainbow.n-steps 1 or "
            "choose another bonus"
        )


def _check_minibatch(values: dict[str, Any]) -> None:
    rank, on_policy = values["re3.last_neighbour"], values["agent"] == "a2c"
    group = GROUP_OF[values["agent"]]
    if on_policy:
        batch = values["a2c.num_envs"] * values["a2c.rollout_length"]
    else:
        batch = values[f"{group}.batch_size"] * values.get(f"{group}.sequence_length", 1)
    if rank > batch - (0 if values["re3.count_self"] else 1):
        raise UsageError(
            f"--learned.neighbours minibatch has no neighbour of rank {rank} among {batch} states: "
            f"lower --re3.last-neighbour or raise "
            f"--{group}.{'num-envs' if on_policy else 'batch-size'}"
        )
