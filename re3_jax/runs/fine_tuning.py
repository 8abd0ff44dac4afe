"""`--init RUN`: loads what a run starts from, and checks that it fits.

`re3_jax.training.transfer` decides what a run inherits; this module finds, compares and reads the
source run. Nothing is written.
"""

import contextlib
import shlex
from pathlib import Path

import jax
import numpy as np

from re3_jax.envs.base import Box, EnvSpec
from re3_jax.runs import bonuses, run_folder
from re3_jax.runs.agents import AGENTS
from re3_jax.runs.build import task_spec
from re3_jax.runs.config import RunConfig, flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.given_files import DIGESTS
from re3_jax.runs.option_names import option_name, option_with
from re3_jax.training import transfer
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.train_state import TrainState

Learned = dict[str, np.ndarray]
"""What a run inherits, by the paths of `transfer.inherited`, each [seed, ...]."""


def load(config: RunConfig, spec: EnvSpec) -> Learned | None:
    """What this run, whose task is `spec`, inherits from the run in `config.init`.

    Returns:
      None if `config.init` is not set or this run has a checkpoint of its own to resume from.

    Raises:
      UsageError: there is no such run, it is not finished, or its agent, bonus or kind of task
        is another one.
    """
    resumes = config.resume and run_folder.has_checkpoint(Path(str(config.out)))
    if config.init is None or resumes:
        return None
    folder = Path(config.init)
    otherwise = "name the folder of a finished run with --init, or leave it out"
    source = run_folder.stored_config(folder, otherwise)
    _check_kind(config, source, folder)
    _check_spaces(config, spec, source, folder)
    _check_options(config, source, folder)
    return _read(config, source, folder)


def check_fits(config: RunConfig, shapes: TrainState, learned: Learned) -> None:
    """Refuses inherited arrays that differ from the state in a way that no option shows."""
    try:
        transfer.inherit(shapes, learned)
    except ValueError as error:
        raise UsageError(
            f"the run in {config.init} does not fit: {error}; leave --init out or train another run"
        ) from None
    except TypeError as error:
        raise UsageError(f"--init cannot be used: {error}, or leave --init out") from None


def begin(fresh: TrainState, learned: Learned) -> TrainState:
    """The state at env frame 0 of a run that starts from another, on the devices of `fresh`."""
    return jax.tree.map(
        lambda leaf, there: leaf if leaf is there else jax.device_put(leaf, there.format),
        transfer.inherit(fresh, learned),
        fresh,
    )


def _check_kind(config: RunConfig, source: RunConfig, folder: Path) -> None:
    if config.agent != source.agent:
        raise UsageError(
            f"the run in {folder} trained --agent {source.agent}, whose networks are not those of "
            f"{config.agent}: add --agent {source.agent}, or leave --init out"
        )
    wants_bonus = bonuses.rewards(config.bonus)
    if wants_bonus and not bonuses.rewards(source.bonus):
        raise UsageError(
            f"the run in {folder} had no bonus, so there is nothing to start {config.bonus} from: "
            "add --bonus none to take over the agent alone"
        )
    if wants_bonus and config.bonus != source.bonus:
        raise UsageError(
            f"the run in {folder} had --bonus {source.bonus}, whose encoder and statistics are not "
            f"those of {config.bonus}: add --bonus {source.bonus}, or --bonus none to take over "
            "the agent alone"
        )
    wanted, there = config.seed_numbers, source.seed_numbers
    if missing := sorted(set(wanted) - set(there)):
        raise UsageError(
            f"the run in {folder} has the seeds {there[0]} to {there[-1]}, and seed {missing[0]} "
            f"is to start from its own: add --seeds {source.seeds} --seed {source.seed}"
        )


def _check_spaces(config: RunConfig, spec: EnvSpec, source: RunConfig, folder: Path) -> None:
    spaces = _spaces(spec).items(), _spaces(task_spec(source)).items()
    for (what, here), (_, there) in zip(*spaces, strict=True):
        if here != there:
            raise UsageError(
                f"{config.env} cannot start from the run in {folder}: its {what} are {here}, "
                f"those of {source.env} {there}; choose a run of a task with the same"
            )


def _check_options(config: RunConfig, source: RunConfig, folder: Path) -> None:
    agent, parts = AGENTS[config.agent], bonuses.parts(config.bonus)
    own = [agent.bonuses[part.name] for part in parts if part.name in agent.bonuses]
    networks = (*agent.networks, *(name for form in own for name in form.networks))
    names = [f"{agent.group}.{name}" for name in networks]
    names += [name for part in parts for name in part.inherits]
    here, there = flatten(config), flatten(source)
    for name in names:
        # Of a file its contents count.
        is_file = name in DIGESTS and None not in (here[name], there[name])
        if is_file and run_folder.has_the_file(name, config, folder):
            continue
        if here[name] != there[name]:
            raise UsageError(
                f"{option_name(name)} is {here[name]}, but the run in {folder} has {there[name]}: "
                f"add {option_with(name, there[name])}, or leave --init out"
            )
        if is_file:
            raise UsageError(
                f"{option_name(name)} {here[name]} is not the file that the run in {folder} was "
                "trained with: put that file back, or leave --init out"
            )


def _read(config: RunConfig, source: RunConfig, folder: Path) -> Learned:
    parts = ("agent", "intrinsic") if bonuses.rewards(config.bonus) else ("agent",)
    found = None
    if run_folder.has_checkpoint(folder):
        with contextlib.closing(CheckpointStore(folder / run_folder.CHECKPOINTS)) as store:
            try:
                found = store.read_parts(parts)
            except ValueError as error:
                raise UsageError(
                    f"the run in {folder} cannot be started from: {error}; finish it again with "
                    "--resume, or choose another one"
                ) from None
    leaves, record = found or ({}, {"env_frames": 0})
    if record["env_frames"] < source.steps:
        raise UsageError(
            f"the run in {folder} is not finished ({record['env_frames']:,} of {source.steps:,} "
            f"env frames): finish it first with --resume --out {shlex.quote(str(folder))}"
        )
    rows = [seed - source.seed for seed in config.seed_numbers]
    return {name: leaf[rows] for name, leaf in leaves.items()}


def _spaces(spec: EnvSpec) -> dict[str, str]:
    seen, space = "x".join(map(str, spec.observation_shape)), spec.action_space
    if isinstance(space, Box):
        shape = "x".join(map(str, space.shape))
        actions = f"{shape} numbers from {space.low} to {space.high}"
    else:
        actions = f"{space.num_actions} choices"
    return {"observations": f"{seen} {np.dtype(spec.observation_dtype).name}", "actions": actions}
