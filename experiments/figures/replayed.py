"""The simulator's states in a run from pixels, from the actions in its replay (io).

No run records the true states. Seed and actions determine them, and the replay has the actions: so
they are simulated again, which takes no rendering and no option of the run.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from re3_jax.envs.host import dmc
from re3_jax.envs.host.config import DMCConfig
from re3_jax.runs import run_folder, suites
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError, refusing
from re3_jax.training.checkpoint import CheckpointStore


class Played(NamedTuple):
    """What one seed of a run of DeepMind Control did, until its newest checkpoint.

    Attributes:
      folder: of the run.
      task_id: dm_control's domain and task.
      config: how the run stepped and drew the task.
      seed: of the run and of its lane.
      actions: float32, in the order in which they were taken.
      starts: number of the first step of each episode; also of the next step, if one begins there.
      end: the state of the lane after the last action, as bytes.
    """

    folder: Path
    task_id: str
    config: DMCConfig
    seed: int
    actions: Float[np.ndarray, "step action"]
    starts: Int[np.ndarray, " episode"]
    end: dict[str, bytes]


def read(folder: Path) -> list[Played]:
    """What each seed of the run in a folder did; its agent is RAD or DrQ, with one lane.

    Raises:
      UsageError: there is no run or no intact checkpoint, the replay has lost the first actions, or
        the run has several lanes or another engine.
    """
    config = run_folder.stored_config(folder, "name the folder of a run")
    if config.dmc.engine != "dm_control" or config.sac.num_envs != 1:
        raise UsageError(
            f"the run in {folder} cannot be simulated again: only one lane of dm_control can, so "
            "leave it out, or train it with --dmc.engine dm_control and --sac.num-envs 1"
        )
    store = CheckpointStore(folder / run_folder.CHECKPOINTS)
    with contextlib.closing(store):
        try:
            found = store.read_parts(("replay", "lanes"))
        except ValueError as error:
            raise UsageError(
                f"the run in {folder} cannot be read: {error}; train it again in another folder"
            ) from None
    if found is None:
        raise UsageError(f"{folder} has no checkpoint: finish the run first")
    leaves, _ = found
    steps, capacity = int(leaves["replay/num_transitions"][0]), config.sac.replay_capacity
    if steps > capacity:
        raise UsageError(
            f"the replay of the run in {folder} has {capacity} of its {steps} actions, and its "
            f"states follow from all of them: train it for at most {longest(config)} env frames"
        )
    of_lane = {
        name.removeprefix("lanes/env/"): leaf
        for name, leaf in leaves.items()
        if name.startswith("lanes/env/")
    }
    played = []
    for row, seed in enumerate(config.seed_numbers):
        ages = [*leaves["replay/age"][row, 0, :steps], leaves["replay/newest_age"][row, 0]]
        played.append(
            Played(
                folder=folder,
                task_id=suites.find(config.env)[1],
                config=config.dmc,
                seed=seed,
                actions=leaves["replay/action"][row, 0, :steps],
                starts=np.flatnonzero(np.array(ages) == 0),
                end={name: leaf[row, 0].tobytes() for name, leaf in of_lane.items()},
            )
        )
    return played


def longest(config: RunConfig) -> int:
    """Env frames of the longest run whose replay keeps all actions."""
    return config.sac.replay_capacity * config.dmc.action_repeat


def play(played: Played) -> Iterator[dmc.Lane]:
    """The lane before each action, and at last after all of them.

    Raises:
      UsageError: the lane does not arrive exactly where the run's did.
    """
    with warnings.catch_warnings():
        # dm_control looks for a display when it is first imported.
        warnings.simplefilter("ignore")
        lane = dmc.Lane(played.task_id, played.config)
    lane.begin(played.seed)
    for action in played.actions:
        yield lane
        outcome = lane.advance(action)
        if outcome.terminated or outcome.truncated:
            lane.begin_next()
    if any(value.tobytes() != played.end[name] for name, value in lane.get_state().items()):
        raise UsageError(
            f"the simulator does not arrive at the state that {played.folder} recorded: a worker "
            "was replaced during the run, or another machine or MuJoCo trained it; train it again "
            "here, in another folder"
        )
    yield lane


def states(played: Played, velocity: bool = True) -> Float[np.ndarray, "step state"]:
    """dm_control's proprioceptive observation before each action, or that without `velocity`.

    Raises:
      UsageError: the task's observation cannot be had without velocities.
    """
    with refusing(ValueError):
        return _states(played, velocity)


def _states(played: Played, velocity: bool) -> Float[np.ndarray, "step state"]:
    *before, _ = (lane.proprioception(velocity) for lane in play(played))
    return np.stack(before)
