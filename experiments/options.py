"""The command line -> RunConfig: preset first, then the options given over it.

tyro prints the help. The words are read here, so that every mistake becomes one sentence.
"""

import dataclasses
import difflib
import re
import types
import typing
from pathlib import Path
from typing import Any, Literal

import tyro

from experiments import agents, bonuses, plugins, run_folder, suites
from experiments.agents import AGENTS
from experiments.bonuses import BONUSES
from experiments.config import (
    DEFAULT_PRESET,
    RunConfig,
    as_class,
    config_class,
    field_types,
    flatten,
    help_class,
    option_name,
    unflatten,
)
from experiments.errors import UsageError
from experiments.resolve import resolve
from experiments.validate import validate_values
from re3_jax.envs import registry

IMAGE_OPTIONS = tuple(
    f"{group}.{leaf}"
    for group in ("re3", "rnd", "icm")
    for leaf in ("image_input", "image_crop", "num_filters")
)

RANDOM_ENCODER = tuple(
    f"re3.{leaf}"
    for leaf in ("encoder_init", "latent_dim", "image_input", "image_crop", "num_filters")
)
"""Options of the architecture that state entropy over a pre-trained encoder has none of."""


def parse(argv: list[str]) -> RunConfig:
    """Resolves the command line.

    Values not given come from the preset; with `--resume`, from the run that is resumed.

    Raises:
      UsageError: an option that cannot be understood or is out of range.
      SystemExit: `--help`, after printing it.
    """
    words = [word for word in argv if word not in ("-h", "--help")]
    plugins.load(plugins.named_in(words))
    given = _given(words)
    if len(words) < len(argv):
        default = _from_preset(given, given.get("env", "doorkey_6x6"))
        cls = help_class()
        default = as_class(default, cls)
        tyro.cli(cls, prog="python -m experiments.train", default=default, args=["--help"])
    if given.get("resume"):
        default = _from_run(given)
    elif "env" not in given:
        known = ", ".join(registry.PAPER_TASKS)
        raise UsageError(f"no task was given: add --env TASK, for example one of {known}")
    else:
        default = _from_preset(given, given["env"])
    values = flatten(default) | given
    for name in given:
        _check_effect(name, values)
    if values["pretrain"] is not None:
        values["steps"] = values["pretrain"]
    if values["plugin"] is not None:
        # A run may be resumed from another working directory.
        values["plugin"] = str(Path(values["plugin"]).resolve())
    agent = AGENTS[values["agent"]]
    if not agent.on_policy:
        # A latent is found by the number of its transition: one ring cannot outlive the other.
        values["re3.ring_size"] = values[f"{agent.group}.replay_capacity"]
    if "re3.search_size" not in given and values["re3.search_size"] is not None:
        # The preset's bound is none where a smaller ring was asked for.
        if values["re3.search_size"] >= values["re3.ring_size"]:
            values["re3.search_size"] = None
    of_agents = dict.fromkeys(known.group for known in AGENTS.values())
    for group in (*of_agents, *_suites_by_group(), *bonuses.groups()):
        _check_group(group, values)
    validate_values(values)
    return unflatten(values)


def _check_effect(name: str, values: dict[str, Any]) -> None:
    """Refuses an option that the others make meaningless."""
    option, group = option_name(name), name.partition(".")[0]
    env, agent, bonus = values["env"], AGENTS[values["agent"]], BONUSES[values["bonus"]]
    on_host = suites.host_of(env)
    pixels = on_host is not None
    if group in bonuses.groups() and group not in bonus.groups:
        raise UsageError(
            f"{option} has no effect with --bonus {bonus.name}: leave it out or use --bonus "
            f"{' or '.join(bonuses.of_group(group))}"
        )
    if name == "steps" and values["pretrain"] not in (None, values["steps"]):
        raise UsageError(
            f"--steps {values['steps']} has no effect with --pretrain {values['pretrain']}, which "
            "says how long the run is: leave one of the two out"
        )
    if group != agent.group and (others := agents.of_group(group)):
        raise UsageError(
            f"{option} has no effect with --agent {agent.name}: leave it out or use --agent "
            f"{' or '.join(others)}"
        )
    other = _suites_by_group().get(group)
    if other is not None and (on_host is None or group != on_host.group):
        unseen = "" if pixels else ", which is not seen as pixels"
        raise UsageError(
            f"{option} has no effect on {env}{unseen}: leave it out or choose a task such as "
            f"{other.example}"
        )
    has_video = pixels or agent.foresees is not None
    if name == "video" and not has_video and values[name] is not False:
        raise UsageError(
            f"{option} has no effect on {env}, which is not seen as pixels: leave it out or "
            "choose a task such as cheetah_run_sparse"
        )
    if name in RANDOM_ENCODER and bonus.weights is not None:
        raise UsageError(
            f"{option} has no effect with --bonus {bonus.name}, whose encoder is that of "
            "--bonus.weights: leave it out"
        )
    owners = [other.name for other in BONUSES.values() if name in other.own]
    owners = owners or [
        other for other, names in agent.bonus_options.items() if name in _dotted(agent, names)
    ]
    if owners and bonus.name not in owners:
        raise UsageError(
            f"{option} has no effect with --bonus {bonus.name}: leave it out or use --bonus "
            f"{' or '.join(owners)}"
        )
    if name in IMAGE_OPTIONS and on_host is None:
        raise UsageError(
            f"{option} has no effect on {env}, which is not seen as pixels: leave it out"
        )
    if name in IMAGE_OPTIONS and on_host and on_host.fixed_filters and "filters" in name:
        raise UsageError(
            f"{option} has no effect on {env}, whose encoder has DQN's filters: leave it out"
        )
    if (why := agent.no_effect(name, values)) is not None:
        raise UsageError(f"{option} has no effect {why}")
    if name in ("re3.ring_size", "re3.search_size") and not bonuses.keeps_latents(values):
        raise UsageError(
            f"{option} has no effect with --learned.neighbours minibatch, which keeps no latents: "
            "leave one of the two out"
        )
    if name == "re3.ring_size" and not agent.on_policy:
        raise UsageError(
            f"{option} has no effect with --agent {agent.name}, which keeps a latent for each "
            f"frame acted on: set --{agent.group}.replay-capacity"
        )


def _suites_by_group() -> dict[str, suites.HostSuite]:
    return {suite.host.group: suite.host for suite in suites.SUITES.values() if suite.host}


def _dotted(agent: agents.Agent, names: tuple[str, ...]) -> list[str]:
    return [f"{agent.group}.{name}" for name in names]


def _check_group(group: str, values: dict[str, Any]) -> None:
    """Refuses what the dataclass of a group refuses, in its sentence, but naming options."""
    cls = typing.get_type_hints(config_class())[group]
    names = [item.name for item in dataclasses.fields(cls)]
    try:
        cls(**{name: values[f"{group}.{name}"] for name in names})
    except ValueError as error:
        sentence = re.sub(
            rf"\b({'|'.join(names)})\b",
            lambda found: option_name(f"{group}.{found[0]}"),
            str(error),
        )
        raise UsageError(sentence) from None


def _from_preset(given: dict[str, Any], env: str) -> RunConfig:
    return resolve(
        env,
        given.get("agent"),
        given.get("bonus"),
        given.get("preset", DEFAULT_PRESET),
        fine_tunes=given.get("init") is not None,
    )


def _from_run(given: dict[str, Any]) -> RunConfig:
    if "out" in given:
        folder = Path(given["out"])
    else:
        folder = run_folder.newest(given.get("env"), given.get("agent"), given.get("bonus"))
    stored = run_folder.stored_config(folder)
    return dataclasses.replace(stored, out=str(folder), resume=True)


def _given(words: list[str]) -> dict[str, Any]:
    """Options on the command line by dotted field name, each checked against its type."""
    annotations = field_types(config_class())
    spellings = {option_name(name): name for name in annotations}
    for name, annotation in annotations.items():
        if annotation is bool:
            parent, dot, leaf = name.rpartition(".")
            spellings[option_name(f"{parent}{dot}no_{leaf}")] = name
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        option = option.replace("_", "-")
        if not option.startswith("--"):
            raise UsageError(f"'{word}' is not an option: options look like --name value")
        if option not in spellings:
            nearest = difflib.get_close_matches(option, spellings, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(nearest)}?" if nearest else "--help lists all"
            raise UsageError(f"there is no option {option}: {hint}")
        name = spellings[option]
        if annotations[name] is bool:
            if equals:
                raise UsageError(f"{option} takes no value: leave '={value}' away")
            given[name] = option == option_name(name)
            continue
        if not equals:
            value = next(rest, "--")
            if value.startswith("--"):
                raise UsageError(f"{option} needs a value: give it as {option} VALUE")
        given[name] = _checked(option, value, annotations[name])
    return given


def _checked(option: str, value: str, annotation: Any) -> Any:
    """The value as its type, or one sentence that says why not."""
    if isinstance(annotation, types.UnionType):
        if value == "None":
            return None
        (annotation,) = (a for a in typing.get_args(annotation) if a is not types.NoneType)
    if typing.get_origin(annotation) is Literal:
        choices = typing.get_args(annotation)
        if value not in choices:
            raise UsageError(f"{option} {value} is not known: choose from {', '.join(choices)}")
    if annotation is int:
        return _number(int, option, value, "a whole number such as 400000")
    if annotation is float:
        return _number(float, option, value, "a number such as 0.001")
    if value == "":
        raise UsageError(f"{option} is empty: give it a value or leave it out")
    return value


def _number(convert: type, option: str, value: str, wanted: str) -> Any:
    try:
        return convert(value)
    except ValueError:
        raise UsageError(f"{option} takes {wanted}, not '{value}'") from None
