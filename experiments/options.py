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

from experiments import presets, run_folder
from experiments.config import (
    BONUSES_OF,
    DEFAULT_PRESET,
    GROUP_OF,
    OFF_POLICY,
    PRETRAINED,
    RunConfig,
    field_types,
    flatten,
    keeps_latents,
    option_name,
    unflatten,
)
from experiments.errors import UsageError
from experiments.validate import validate_values
from re3_jax.envs import registry

IMAGE_OPTIONS = tuple(
    f"{group}.{leaf}"
    for group in ("re3", "rnd", "icm")
    for leaf in ("image_input", "image_crop", "num_filters")
)

ONLY_WITH: dict[str, dict[str, Any]] = {
    "learned.momentum": {"bonus": "contrastive"},
    "learned.augmentation": {"bonus": "contrastive"},
    "learned.shift_pad": {"bonus": "contrastive"},
    "learned.hidden_dim": {"bonus": "inverse_dynamics"},
    "pretrained.atc_output": {"bonus": "atc"},
}
"""Option -> values of others without which it does nothing."""

RANDOM_ENCODER = tuple(
    f"re3.{leaf}"
    for leaf in ("encoder_init", "latent_dim", "image_input", "image_crop", "num_filters")
)
"""Options of the architecture that state entropy over a pre-trained encoder has none of."""


NOT_OF_DREAMER = ("re3.image_input", "re3.image_crop", "re3.num_filters")
"""Options of RE3 that are of another encoder."""


def parse(argv: list[str]) -> RunConfig:
    """Resolves the command line.

    Values not given come from the preset; with `--resume`, from the run that is resumed.

    Raises:
      UsageError: an option that cannot be understood or is out of range.
      SystemExit: `--help`, after printing it.
    """
    words = [word for word in argv if word not in ("-h", "--help")]
    given = _given(words)
    if len(words) < len(argv):
        default = _from_preset(given, given.get("env", "doorkey_6x6"))
        tyro.cli(RunConfig, prog="python -m experiments.train", default=default, args=["--help"])
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
    if values["agent"] in OFF_POLICY:
        # A latent is found by the number of its transition: one ring cannot outlive the other.
        values["re3.ring_size"] = values[f"{GROUP_OF[values['agent']]}.replay_capacity"]
    if "re3.search_size" not in given and values["re3.search_size"] is not None:
        # The preset's bound is none where a smaller ring was asked for.
        if values["re3.search_size"] >= values["re3.ring_size"]:
            values["re3.search_size"] = None
    for group in (*dict.fromkeys(GROUP_OF.values()), *registry.HOST_SUITES, *BONUSES_OF):
        _check_group(group, values)
    validate_values(values)
    return unflatten(values)


def _check_effect(name: str, values: dict[str, Any]) -> None:
    """Refuses an option that the others make meaningless."""
    option, group = option_name(name), name.partition(".")[0]
    env, agent, bonus = values["env"], values["agent"], values["bonus"]
    off_policy, pixels, suite = agent in OFF_POLICY, registry.is_host(env), registry.suite(env)
    if group in BONUSES_OF and bonus not in BONUSES_OF[group]:
        raise UsageError(
            f"{option} has no effect with --bonus {bonus}: leave it out or use --bonus "
            f"{' or '.join(BONUSES_OF[group])}"
        )
    if name == "steps" and values["pretrain"] not in (None, values["steps"]):
        raise UsageError(
            f"--steps {values['steps']} has no effect with --pretrain {values['pretrain']}, which "
            "says how long the run is: leave one of the two out"
        )
    if group in GROUP_OF.values() and group != GROUP_OF[agent]:
        others = " or ".join(name for name, of in GROUP_OF.items() if of == group)
        raise UsageError(
            f"{option} has no effect with --agent {agent}: leave it out or use --agent {others}"
        )
    if group in registry.HOST_SUITES and group != suite:
        example = "cheetah_run_sparse" if group == "dmc" else "montezuma_revenge"
        unseen = "" if pixels else ", which is not seen as pixels"
        raise UsageError(
            f"{option} has no effect on {env}{unseen}: leave it out or choose a task such as "
            f"{example}"
        )
    has_video = pixels or agent == "dreamer"
    if name == "video" and not has_video and values[name] is not False:
        raise UsageError(
            f"{option} has no effect on {env}, which is not seen as pixels: leave it out or "
            "choose a task such as cheetah_run_sparse"
        )
    if name in RANDOM_ENCODER and bonus in PRETRAINED:
        raise UsageError(
            f"{option} has no effect with --bonus {bonus}, whose encoder is that of "
            "--bonus.weights: leave it out"
        )
    for other, value in ONLY_WITH.get(name, {}).items():
        if values[other] != value:
            raise UsageError(
                f"{option} has no effect with {option_name(other)} {values[other]}: leave it out "
                f"or use {option_name(other)} {value}"
            )
    if name in IMAGE_OPTIONS and (not pixels or (suite == "atari" and "filters" in name)):
        raise UsageError(
            f"{option} has no effect on {env}, which is not seen as pixels: leave it out"
            if not pixels
            else f"{option} has no effect on {env}, whose encoder has DQN's filters: leave it out"
        )
    of_sequences = agent == "dreamer" and bonus == "re3"
    if of_sequences and name in NOT_OF_DREAMER:
        raise UsageError(
            f"{option} has no effect with --agent dreamer, whose RE3 has an encoder of the world "
            "model's shape: leave it out"
        )
    in_batch = of_sequences and values["dreamer.neighbours"] != "ring"
    if name in ("re3.search_size", "re3.merge_copies") and in_batch:
        raise UsageError(
            f"{option} has no effect where neighbours are sought among the frames of a batch: "
            "leave it out or use --dreamer.neighbours ring"
        )
    if name in ("dreamer.neighbours", "dreamer.head_order") and bonus != "re3":
        raise UsageError(
            f"{option} has no effect with --bonus {bonus}: leave it out or use --bonus re3"
        )
    if name in ("re3.ring_size", "re3.search_size") and not keeps_latents(
        bonus, values["learned.neighbours"]
    ):
        raise UsageError(
            f"{option} has no effect with --learned.neighbours minibatch, which keeps no latents: "
            "leave one of the two out"
        )
    if name == "re3.ring_size" and off_policy:
        raise UsageError(
            f"{option} has no effect with --agent {agent}, which keeps a latent for each "
            f"frame acted on: set --{GROUP_OF[agent]}.replay-capacity"
        )


def _check_group(group: str, values: dict[str, Any]) -> None:
    """Refuses what the dataclass of a group refuses, in its sentence, but naming options."""
    cls = typing.get_type_hints(RunConfig)[group]
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
    return presets.resolve(
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
    annotations = field_types(RunConfig)
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
