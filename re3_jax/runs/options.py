"""The command line -> RunConfig: the preset, overridden by the options given.

tyro prints the help. This module reads the words itself, so every mistake becomes one sentence.
"""

import contextlib
import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from re3_jax.envs import registry
from re3_jax.runs import bonuses, option_types, plugins, run_folder, suites
from re3_jax.runs.agents import AGENTS, Agent
from re3_jax.runs.bonuses import BONUSES, Bonus
from re3_jax.runs.config import RunConfig, config_class, field_types, flatten, unflatten
from re3_jax.runs.errors import UsageError, refusing, with_home
from re3_jax.runs.given_files import DIGESTS
from re3_jax.runs.help import show
from re3_jax.runs.option_names import neighbours_option, option_name, option_with, with_ring_of
from re3_jax.runs.registry import Values
from re3_jax.runs.resolve import resolve
from re3_jax.runs.validate import validate

NUMBERS = {int: "a whole number such as 400000", float: "a number such as 0.001"}
"""Type of an option -> the values it takes, in words."""

ELSEWHERE = {
    **{"gamma": "discount", "lr": "learning-rate", "ent-coef": "entropy-coef"},
    **{"total-timesteps": "steps", "timesteps": "steps", "num-steps": "rollout-length"},
}
"""Names that other libraries give to an option, and ours."""

OF_IMAGES = ("image_input", "image_crop", "torso", "num_filters")
OF_ENCODERS = ("encoder_init", "latent_dim", *OF_IMAGES)
"""Options of bonuses that concern encoders of pixels, and random encoders."""

OF_SEARCHES = (
    *("re3.ring_size", "re3.search_size", "re3.merge_copies", "re3.ring_shards"),
    "vcse.search_size",
)
"""Options of a search in the ring of latents."""


def parse(argv: list[str], check: bool = True) -> RunConfig:
    """Resolves the command line, and checks what it says unless told otherwise.

    Values not given come from the preset; with `--resume`, from the run that is resumed.

    Raises:
      UsageError: an option is unknown or its value is out of range.
      SystemExit: `--help`, after printing it.
    """
    words = with_home([word for word in argv if word not in ("-h", "--help")])
    _load_plugin(words)
    given = _given(words)
    named = {"env": RunConfig.env} | _named(given, "preset")
    if not given.get("resume"):
        named.setdefault("preset", suites.default_preset(named["env"]))
    of_preset = partial(resolve, **named, fine_tunes=given.get("init") is not None)
    asks_help = len(words) < len(argv)
    if given.get("resume"):
        out = given.get("out")
        folder = run_folder.newest(_named(given)) if out is None else Path(out)
        stored = run_folder.stored_config(folder, run_folder.START_ONE)
        default = dataclasses.replace(stored, out=str(folder), resume=True)
    elif "env" not in given and not asks_help:
        known = ", ".join(registry.PAPER_TASKS)
        raise UsageError(f"no task was given: add --env TASK, for example one of {known}")
    else:
        default = of_preset()
    values = flatten(default) | given
    if asks_help:
        show(default, lambda name: no_effect(name, values) is None)
    for name in given:
        if (why := no_effect(name, values)) is not None:
            raise UsageError(f"{option_name(name)} has no effect {why}")
    if values["pretrain"] is not None:
        values["steps"] = values["pretrain"]
    for name in DIGESTS:
        # A run may be resumed from another working directory.
        if values[name] is not None:
            values[name] = str(Path(values[name]).resolve())
    agent = AGENTS[values["agent"]]
    values["re3.ring_size"] = values[agent.ring]
    searched = None if given.get("resume") else values["re3.search_size"]
    if "re3.search_size" not in given and searched and searched >= values["re3.ring_size"]:
        # The preset's bound does not apply to a smaller ring that was asked for.
        values["re3.search_size"] = None
    try:
        config = unflatten(values)
    except ValueError as error:
        raise UsageError(with_ring_of(agent, str(error))) from None
    if check:
        validate(config)
    return config


def _load_plugin(words: list[str]) -> None:
    """Imports the plugin that the words name, or that of the run that they resume."""
    named = plugins.named_in(words)
    if "--resume" in words and (out := plugins.named_in(words, "--out")):
        run_folder.load_plugin(Path(out), Path(named) if named else None)
    plugins.load(named)


def no_effect(name: str, values: Values) -> str | None:
    """Why this option has no effect with the others, and the remedy; None if it has one."""
    group, _, leaf = name.rpartition(".")
    env, agent = values["env"], AGENTS[values["agent"]]
    (suite, task_id), parts = suites.find(env), bonuses.parts(values["bonus"])
    of_agents = [other.name for other in AGENTS.values() if other.group == group]
    of_bonus = any(group in other.groups for other in BONUSES.values())
    where = f"on {env}" if suite.in_pixels else f"on {env}, which is not seen as pixels"
    leave = "leave it out or use"
    if name == "steps" and values["pretrain"] not in (None, values["steps"]):
        return (
            f"with --pretrain {values['pretrain']}, which says how long the run is: leave one of "
            "the two out"
        )
    if name == "pretrain_reward" and values["pretrain"] is None:
        return "without --pretrain: leave it out"
    bare = values["pretrain"] is not None and values["pretrain_reward"] == "bare"
    if bare and of_bonus and leaf in ("beta", "rho"):
        return "with --pretrain-reward bare: leave it out or use --pretrain-reward weighted"
    if name == "video" and values[name] and not (suites.shows_frames(env) or agent.foresees):
        return f"{where}: leave it out or choose a task such as cheetah_run_sparse"
    owner = next((one for one in suites.SUITES.values() if one.host and one.group == group), suite)
    if owner.host and owner.name != suite.name:
        here = where if owner.in_pixels else f"on {env}"
        return f"{here}: leave it out or choose a task such as {owner.host.example}"
    if suite.host and group == suite.host.group:
        return suite.host.no_effect(leaf, task_id, values)
    if of_agents and agent.name not in of_agents:
        return f"with --agent {agent.name}: {leave} --agent {' or '.join(of_agents)}"
    if group == agent.group and leaf in agent.of_images and not suite.in_pixels:
        return f"{where}: leave it out"
    if group == agent.group and leaf in agent.of_bonuses and not bonuses.rewards(values["bonus"]):
        return f"with --bonus {values['bonus']}: {leave} a bonus such as --bonus re3"
    if group == agent.group and leaf in agent.with_other:
        other, needed = agent.with_other[leaf]
        now = option_with(f"{group}.{other}", values[f"{group}.{other}"])
        if values[f"{group}.{other}"] != needed:
            return f"with {now}: leave it out or use {option_with(f'{group}.{other}', needed)}"
    owners = _bonuses_with(name, agent)
    concerned = [part for part in parts if part.name in owners]
    if owners and not concerned:
        return f"with --bonus {values['bonus']}: {leave} --bonus {' or '.join(owners)}"
    if of_bonus and leaf == "latent_dim" and suite.name == "minigrid":
        return f"on {env}, whose encoder is the paper's with 64 numbers: leave it out"
    if name == "learned.augmentation" and not suite.in_pixels:
        return f"{where}: leave it out"
    shifts = not suite.in_pixels or values["learned.augmentation"] == "shift"
    if name == "learned.shift_pad" and not shifts:
        return f"with --learned.augmentation crop: {leave} --learned.augmentation shift"
    if of_bonus and leaf in OF_IMAGES and not suite.in_pixels:
        return f"{where}: leave it out"
    if of_bonus and leaf in ("torso", "num_filters") and suite.host and suite.host.fixed_filters:
        return f"on {env}, whose encoder has DQN's convolutions: leave it out"
    why = [_no_effect_on(part, name, values) for part in concerned]
    return next(iter(why), None) if None not in why else None


def _no_effect_on(bonus: Bonus, name: str, values: Values) -> str | None:
    """Why an option has no effect with one of the bonuses, and the remedy; None if it has one."""
    agent, (group, _, leaf) = AGENTS[values["agent"]], name.rpartition(".")
    own = agent.bonuses.get(bonus.name)
    if leaf in OF_ENCODERS and bonus.weights is not None:
        return f"with --bonus {bonus.name}, whose encoder is that of --bonus.weights: leave it out"
    if own is not None and name in own.unused:
        return f"with --agent {agent.name}, {own.because}: leave it out"
    augments = "learned.augmentation" in bonus.inherits
    crops = augments and values["learned.augmentation"] == "crop"
    seen = f"{group}.image_input"
    if leaf == "image_crop" and not crops and values.get(seen) == "newest_frame":
        newest, stacked = option_with(seen, "newest_frame"), option_with(seen, "stacked_crop")
        return f"with {newest}: leave it out or use {stacked}"
    if name == "re3.ring_size" and not agent.on_policy and bonuses.keeps_latents(values):
        return (
            f"with --agent {agent.name}, which keeps a latent for each frame acted on: set "
            f"--{agent.group}.replay-capacity"
        )
    if name == "re3.ring_size" and bonuses.keeps_latents(values):
        # It must hold a rollout, wherever neighbours are sought.
        return None
    sought = neighbours_option(values, bonus)
    if name not in OF_SEARCHES or sought is None:
        return None
    option, scope, in_minibatch = option_name(sought), values[sought], name in bonus.of_minibatch
    if in_minibatch and scope == "ring":
        return f"with {option} ring: leave it out or use {option} minibatch"
    if not in_minibatch and scope != "ring":
        return (
            f"with {option} {scope}, which searches the batch alone: leave it out or use {option} "
            "ring"
        )
    return None


def _bonuses_with(name: str, agent: Agent) -> list[str]:
    """The bonuses with which an option, dotted, has an effect; none if no bonus owns it."""
    group, _, leaf = name.rpartition(".")
    if group == agent.group:
        return [bonus for bonus, own in agent.bonuses.items() if leaf in own.options]
    return [
        bonus.name
        for bonus in BONUSES.values()
        if group in bonus.groups and name not in bonus.unused
    ]


def _named(given: dict[str, Any], *more: str) -> dict[str, Any]:
    return {name: given[name] for name in ("env", "agent", "bonus", *more) if name in given}


def _given(words: list[str]) -> dict[str, Any]:
    """Options on the command line by dotted field name, each checked against its type."""
    annotations = field_types(config_class())
    spellings = {option_name(name): name for name in annotations}
    spellings |= {option_with(n, False): n for n, kind in annotations.items() if kind is bool}
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        option = option.replace("_", "-")
        if not option.startswith("--"):
            raise UsageError(f"'{word}' is not an option: options look like --name value")
        if option not in spellings:
            raise UsageError(f"there is no option {option}: {_meant(option, spellings)}")
        name = spellings[option]
        if annotations[name] is bool:
            if equals:
                raise UsageError(f"{option} takes no value: leave out '={value}'")
            given[name] = option == option_name(name)
            continue
        if not equals:
            value = next(rest, "--")
            if value.startswith("--"):
                raise UsageError(f"{option} needs a value: give it as {option} VALUE")
        if name == "bonus":
            with refusing(ValueError):
                bonuses.parts(value)
            given[name] = value
            continue
        given[name] = checked(option, value, annotations[name])
    return given


def _checked_as_one(option: str, value: str, *annotations: Any) -> Any:
    """`checked` as the first of several types that the value fits."""
    if value == "None" and types.NoneType in annotations:
        return None
    *others, last = (one for one in annotations if one is not types.NoneType)
    for annotation in others:
        with contextlib.suppress(UsageError):
            return checked(option, value, annotation)
    return checked(option, value, last)


def _meant(option: str, spellings: Iterable[str]) -> str:
    """What an unknown option may stand for: the paper's k, the same name in a group, a near one."""
    if option in ("--k", "--re3.k"):
        return "k of RE3 is --re3.first-neighbour and --re3.last-neighbour, of VCSE --vcse.k"
    if any(one.startswith(f"{option}.") for one in spellings):
        return f"{option[2:]} is a group of options: give them as {option}.NAME VALUE"
    group, _, leaf = option.lstrip("-").rpartition(".")
    parts = {one: one.lstrip("-").rpartition(".") for one in spellings}
    same = [one for one, (*_, name) in parts.items() if name == ELSEWHERE.get(leaf, leaf)]
    same = sorted(same, key=lambda one: parts[one][0] != group)[:3]
    nearest = same or difflib.get_close_matches(option, spellings, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(nearest)}?" if nearest else "--help lists them"


def checked(option: str, value: str, annotation: Any) -> Any:
    """The value converted to its type; a UsageError if that is impossible."""
    *others, annotation = option_types.alternatives(annotation)
    if others:
        return _checked_as_one(option, value, *others, annotation)
    if typing.get_origin(annotation) is Literal:
        if value not in (choices := typing.get_args(annotation)):
            own = (
                ", or name the file that registers it with --plugin" if option == "--agent" else ""
            )
            raise UsageError(
                f"{option} {value} is not known: choose from {', '.join(choices)}{own}"
            )
    if annotation in NUMBERS:
        try:
            return annotation(value)
        except ValueError:
            raise UsageError(f"{option} takes {NUMBERS[annotation]}, not '{value}'") from None
    if value == "":
        raise UsageError(f"{option} is empty: give it a value or leave it out")
    return value
