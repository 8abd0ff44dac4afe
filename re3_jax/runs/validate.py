"""Ranges and combinations of options that a group of options does not check itself."""

import math
from collections.abc import Collection
from typing import Any

from re3_jax import checks
from re3_jax.envs.base import Box, Discrete, EnvSpec
from re3_jax.plural import number_of
from re3_jax.replay.frame_rows import row_size
from re3_jax.runs import bonuses, loggers, suites
from re3_jax.runs.agents import AGENTS, Agent
from re3_jax.runs.bonuses import BONUSES, Bonus
from re3_jax.runs.config import MOST_EPISODES, RunConfig, flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.option_names import neighbours_option, option_name
from re3_jax.runs.registry import Values

INT32_MAX = 2**31 - 1

WIDTHS = "_dim", "_pad", "_filters"
"""Ends of the names of options that say how wide a layer or a border is."""

MOST_WIDE = 2**28
"""Largest width of a layer or border; small multiples of it, such as a GRU's, are still 32-bit."""

POSITIVE = (
    *("seeds", "steps", "pretrain", "chunk_updates"),
    *("evaluation.every_env_frames", "evaluation.episodes"),
)
NOT_NEGATIVE = "seed", "checkpoint_seconds"
"""Options that may be 0, but not less."""


def validate(config: RunConfig) -> None:
    """Refuses what no task allows, in a sentence with the option and a value that works."""
    values, agent = flatten(config), AGENTS[config.agent]
    if config.evaluation.episodes > MOST_EPISODES:
        raise UsageError(
            f"--evaluation.episodes {config.evaluation.episodes} is too large: give at most "
            f"{MOST_EPISODES}"
        )
    positive = {*POSITIVE, *(f"{agent.group}.{name}" for name in agent.sizes)}
    for name, value in values.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(name, value, positive)
    loggers.names(config.loggers)
    if config.pretrain is not None and not bonuses.rewards(config.bonus):
        other = next(other.name for other in BONUSES.values() if other.rewards)
        raise UsageError(
            f"--pretrain trains on the bonus alone, and --bonus {config.bonus} is none: choose "
            f"--bonus {other} or another one"
        )
    for bonus in bonuses.parts(config.bonus):
        _check_bonus(values, agent, bonus)
    if config.seed + config.seeds - 1 > INT32_MAX:
        raise UsageError(f"--seed {config.seed} is too large: seeds end at {INT32_MAX}")


def _check_bonus(values: Values, agent: Agent, bonus: Bonus) -> None:
    """Refuses a bonus, or a part of a sum, that does not suit the agent or the options."""
    stack, why = agent.sees.get("frame_stack", (bonus.frames, ""))
    if stack < bonus.frames:
        raise UsageError(
            f"--bonus {bonus.name} encodes stacks of {bonus.frames} frames, but --agent "
            f"{agent.name} {why}: choose another bonus or another agent"
        )
    if bonus.weights is not None and values["pretrained.weights"] is None:
        raise UsageError(f"--bonus {bonus.name} needs {bonus.weights}")
    if bonus.needs_value and not agent.gives_value:
        givers = ", ".join(other.name for other in AGENTS.values() if other.gives_value)
        raise UsageError(
            f"--bonus {bonus.name} compares the values of observations, which --agent {agent.name} "
            f"does not give: choose another bonus, or one of the agents {givers}"
        )
    if bonus.needs_value and values["pretrain"] is not None:
        raise UsageError(
            f"--bonus {bonus.name} compares values of the task's reward, which --pretrain "
            "withholds: choose another bonus, such as re3"
        )
    _check_batch(values, agent, bonus)


def validate_for_task(config: RunConfig, spec: EnvSpec) -> None:
    """Checks a configuration against the task it is for.

    Raises:
      UsageError: the agent does not fit the task, the run is shorter than one update, or it has
        more env frames than can be counted.
    """
    _check_agent(config, spec)
    _check_counts(config, spec)
    update, lanes = config.frames_per_update(spec.action_repeat), config.of_agent.num_envs
    repeat = f" x {spec.action_repeat} frames" if spec.action_repeat > 1 else ""
    rollout = config.steps_per_update
    every = config.evaluation.every_env_frames
    for name, frames in ((config.length, config.steps), ("evaluation.every_env_frames", every)):
        if frames < update:
            raise UsageError(
                f"{option_name(name)} {frames} is less than one update, which takes {update} env "
                f"frames ({lanes} lanes x {rollout} steps{repeat}): give at least {update}"
            )
    chunk = update * config.choose_chunk_updates(spec.action_repeat)
    # Training runs whole chunks, so the last one may end after STEPS.
    if -(-config.steps // chunk) * chunk > INT32_MAX:
        raise UsageError(
            f"{option_name(config.length)} {config.steps} in chunks of {chunk} env frames is too "
            f"large: counters are 32-bit, so give at most {INT32_MAX // chunk * chunk}"
            if chunk <= INT32_MAX
            else f"--chunk-updates {config.chunk_updates} is too large: a chunk would be {chunk} "
            f"env frames, and counters are 32-bit, so give at most {INT32_MAX // update}"
        )


def check_memory(needed_bytes: int, available_bytes: int, config: RunConfig) -> None:
    """Refuses a state larger than the free memory, with both sizes and an option that fits."""
    if needed_bytes <= available_bytes:
        return
    raise UsageError(
        f"the state of {number_of(config.seeds, 'seed')} takes {needed_bytes / 2**30:.1f} GiB and "
        f"{available_bytes / 2**30:.1f} GiB are free: "
        + _what_fits(needed_bytes, available_bytes, config)
    )


def sizes(config: RunConfig) -> str:
    """The options of the agent and its bonus that take the most memory."""
    agent = AGENTS[config.agent]
    if agent.on_policy:
        ring = "--re3.ring-size or " * bonuses.keeps_latents(flatten(config))
        return f"{ring}--{agent.group}.num-envs"
    return f"--{agent.group}.batch-size or --{agent.group}.replay-capacity"


def _what_fits(needed_bytes: int, available_bytes: int, config: RunConfig) -> str:
    agent = AGENTS[config.agent]
    if agent.on_policy:
        others = ", or divide the ring among devices with --re3.ring-shards"
        return f"lower --seeds, {sizes(config)}" + others * bonuses.keeps_latents(flatten(config))
    options, option = config.of_agent, f"--{agent.group}.replay-capacity"
    bytes_of_one = config.seeds * _least_bytes_per_transition(config)
    too_many = math.ceil((needed_bytes - available_bytes) / bytes_of_one)
    capacity, fits = options.replay_capacity - too_many, []
    # A whole number of steps of all lanes, which the devices of a ring can divide.
    parts = options.num_envs * config.re3.ring_shards
    round_one = math.lcm(1000, parts)
    capacity = capacity // round_one * round_one or capacity // parts * parts
    # With fewer transitions an agent may be unable to start learning.
    first = getattr(options, agent.first_update) if agent.first_update else 0
    if capacity >= max(options.batch_size, first):
        fits.append(f"{option} {capacity}")
    if seeds := available_bytes * config.seeds // needed_bytes:
        fits.append(f"--seeds {seeds}")
    if fits:
        return f"{' or '.join(fits)} would fit"
    on_host = suites.host_of(config.env)
    smaller_images = f"--{on_host.group}.image-size and " if on_host and on_host.is_drawn else ""
    return f"lower {smaller_images}{option}"


def _least_bytes_per_transition(config: RunConfig) -> int:
    """Fewest bytes that one more transition adds to a seed's state."""
    (suite, task), frame = suites.find(config.env), 0
    if suite.host is not None:
        spec = suite.host.spec(task, getattr(config, suite.host.group))
        frame = row_size(spec.frame_shape)
    has_latents = bonuses.keeps_latents(flatten(config))
    latents = config.re3.ensemble_size * config.re3.latent_dim if has_latents else 0
    action_reward_discount = 3
    # The devices that divide a seed's work have a replay each, and a share of the latents.
    latents *= config.batch_shards
    return config.devices_per_seed * (frame + 4 * action_reward_discount) + 4 * latents


EXAMPLES = {
    Box: "continuous actions, such as cheetah_run_sparse or gymnax:Pendulum-v1",
    Discrete: "discrete actions, such as doorkey_6x6 or gymnax:CartPole-v1",
}


def _check_agent(config: RunConfig, spec: EnvSpec) -> None:
    agent, actions = AGENTS[config.agent], type(spec.action_space)
    on_host, values = suites.host_of(config.env), flatten(config)
    if not isinstance(spec.action_space, agent.actions):
        kind = EXAMPLES[actions].partition(" ")[0]
        fits = next(text for of, text in EXAMPLES.items() if issubclass(of, agent.actions))
        raise UsageError(
            f"--agent {agent.name} cannot act in {config.env}, whose actions are {kind}: use "
            f"--agent {suites.default_agent(config.env)}, or choose a task with {fits}"
        )
    if agent.needs_images and not spec.is_image:
        raise UsageError(
            f"--agent {agent.name} {agent.needs_images}, which {config.env} does not show: use "
            f"--agent {suites.default_agent(config.env)}, or choose a task seen as pixels, such as "
            "cheetah_run_sparse"
        )
    if on_host is not None and on_host.is_drawn:
        for name, (needed, why) in agent.sees.items():
            if (value := values[option := f"{on_host.group}.{name}"]) != needed:
                raise UsageError(
                    f"--agent {agent.name} {why}: leave {option_name(option)} at {needed} instead "
                    f"of {value}"
                )
    agent.check_task(values, spec)


def _check_counts(config: RunConfig, spec: EnvSpec) -> None:
    counts_states = any(part.counts_states for part in bonuses.parts(config.bonus))
    if counts_states and spec.num_states is None:
        raise UsageError(
            f"--bonus {config.bonus} counts states, which {config.env} does not number: choose a "
            "task that does, such as doorkey_6x6 or gymnax:DeepSea-bsuite, or another bonus"
        )


def _check_range(name: str, value: Any, positive: Collection[str]) -> None:
    option = option_name(name)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UsageError(f"{option} {value} is not finite: give an ordinary number")
        if abs(value) > checks.FLOAT32_MAX:
            raise UsageError(f"{option} {value} is too large: numbers are 32-bit, at most 3e38")
    if name.endswith(WIDTHS) and value > MOST_WIDE:
        raise UsageError(
            f"{option} {value} is too large: nothing here is so wide, at most {MOST_WIDE}"
        )
    if isinstance(value, int) and value > INT32_MAX:
        raise UsageError(f"{option} {value} is too large: counters are 32-bit, at most {INT32_MAX}")
    if name in positive and value <= 0:
        raise UsageError(f"{option} {value} is not positive: give a number above 0")
    if name in NOT_NEGATIVE and value < 0:
        raise UsageError(f"{option} {value} is negative: give 0 or more")


def _check_batch(values: Values, agent: Agent, bonus: Bonus) -> None:
    names = [f"{agent.group}.{name}" for name in agent.batch]
    batch = math.prod(values[name] for name in names)
    ring, rank = values["re3.ring_size"], values[bonus.rank]
    own = 0 if values["re3.count_self"] and bonus.rank == Bonus.rank else 1
    if agent.on_policy and bonuses.keeps_latents(values) and ring < batch:
        lanes, steps = (values[name] for name in names)
        raise UsageError(
            f"--re3.ring-size {ring} cannot hold one rollout of {batch} states "
            f"({lanes} lanes x {steps} steps): give at least {batch}"
        )
    sought = neighbours_option(values, bonus)
    batch_option = sought if sought and values[sought] != "ring" else None
    bounded = bonuses.keeps_latents(values) and not batch_option
    searched = values[bonus.search_size] if bounded else None
    now = f"{option_name(bonus.search_size)} {searched}"
    if agent.on_policy and searched and searched < batch:
        raise UsageError(f"{now} is less than one rollout of {batch} states: give at least {batch}")
    lanes = values[f"{agent.group}.num_envs"]
    if not agent.on_policy and searched and searched < lanes:
        raise UsageError(f"{now} is less than one step of {lanes} lanes: give at least {lanes}")
    if batch_option and rank > batch - own:
        lower, higher = option_name(bonus.rank), option_name(names[0])
        raise UsageError(
            f"a batch of {batch} states has no neighbour of rank {rank}: lower {lower}, raise "
            f"{higher} or use {option_name(batch_option)} ring"
        )
