"""Pictures of a run: its latents, the states it visits, and frames that its encoder finds alike.

    make look RUN=runs/a
    python -m re3_jax.commands.look RUN_DIR [--out FOLDER] [--seed NUMBER]

Of the newest checkpoint, which is left as it is. Writes what the run can show:

- latents.png: principal components of the stored latents, coloured by time and by rewards.
- states.png: MiniGrid's cells, by how often the agent is in them and by what it has visited.
- neighbours.png: frames beside those with the nearest latents. They come from the replay; an agent
  without one plays them now, if the task is on the device.

Of a sum of bonuses, it looks at the state entropy alone.
"""

import dataclasses
import math
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from matplotlib.figure import Figure

from re3_jax.envs.base import DeviceEnv, EnvSpec
from re3_jax.envs.device import minigrid
from re3_jax.intrinsic.base import IntrinsicBatch, Step
from re3_jax.runs import curves, installing, interface, machine, plugins, run_folder, suites
from re3_jax.runs.build import make_environment, make_learner, task_spec
from re3_jax.runs.errors import Parser, UsageError, in_one_sentence, refuse_lack_of_memory
from re3_jax.runs.looking import figures, frames, stored
from re3_jax.runs.looking.part import Part, with_latents
from re3_jax.training.play import Played, play

POINTS = 2_000
"""Most latents in a picture."""

FEWEST = 3
"""Fewest latents of which a picture is drawn."""

FRAMES = 600
"""Frames among which neighbours are sought."""

QUERIES, NEAREST = 5, 6
LANES, STEPS = 16, 400
"""Lanes, and steps of each lane, of the agent's play on the device."""

MOST_SEEDS = 6
"""Seeds in a picture of states."""


class Picture(NamedTuple):
    """A picture, and in a sentence what it lacks and why; "" if it is whole."""

    figure: Figure
    lacks: str = ""


class Looked:
    """A run at its newest checkpoint, and what is read off it once."""

    def __init__(self, folder: Path, at: int):
        """Loads the run in `folder`; `at` is the place of the seed to look at.

        Raises:
          UsageError: there is no checkpoint.
        """
        run = interface.load(folder, progress=False)
        self.state, self.at = run.state, at
        re3 = dataclasses.replace(run.config.re3, ring_shards=1)
        self.config = dataclasses.replace(run.config, re3=re3)
        self.spec: EnvSpec = task_spec(self.config)
        self.env: DeviceEnv | None = None
        if suites.host_of(self.config.env) is None:
            self.env = make_environment(self.config.env)
        self.places = None
        if self.spec.task.startswith(frames.MINIGRID):
            self.places = minigrid.places(self.spec.task.removeprefix(frames.MINIGRID))
        intrinsic = stored.in_one_piece(self.state.intrinsic)
        of_one = jax.tree.map(lambda leaf: leaf[self.at], intrinsic)
        self.part = with_latents(self.config, of_one)

    def of_seed(self, of_all: Any) -> Any:
        """One seed's part, as NumPy arrays."""
        return jax.tree.map(lambda leaf: np.asarray(leaf[self.at]), of_all)

    @cached_property
    def drawn(self) -> stored.Drawn | None:
        """Different transitions of the replay, in the order of their places; None without one.

        A place is that of the part with latents.
        """
        # Mapped over seeds, because slicing a replay would copy it.
        draw = jax.jit(jax.vmap(lambda replay, key: stored.draw(replay, key, POINTS)))
        found = self.of_seed(draw(self.state.replay, self.state.evaluation_key))
        if found is None:
            return None
        assert self.part is not None
        place = found.place.reshape(len(found.place), -1)[:, self.part.column]
        _, first = np.unique(place, return_index=True)
        return stored.Drawn(found.frame[first], place[first], found.reward[first])

    @cached_property
    def played(self) -> Played | None:
        """Play of all seeds' agents, with a leading axis `seed`; None for a task on the host."""
        if self.env is None:
            return None
        acting = make_learner(self.config, self.spec).acting
        place = self.places and self.places.number
        of_one = partial(play, self.env, acting, lanes=LANES, steps=STEPS, place=place)
        played: Played = jax.jit(jax.vmap(of_one))(self.state.agent, self.state.evaluation_key)
        return played


def latents(run: Looked) -> Picture | str:
    """The picture of the latents that the run has stored, or why there is none."""
    if run.part is None:
        return f"--bonus {run.config.bonus} stores no latents in this run"
    entry, ring = run.part.entry, run.part.ring
    place = stored.places(ring, POINTS) if run.drawn is None else run.drawn.place
    if len(place) < FEWEST:
        return "the run has hardly stored anything yet"
    points = stored.latents(ring, place)
    if not np.isfinite(points).all():
        return "latents of the run are not finite numbers"
    steps_ago = stored.ages(ring, place)
    now = int(run.of_seed(run.state.counters.env_frames))
    colours = {"env frame": now - steps_ago * float(run.spec.action_repeat)}
    lacks = ""
    if run.part.bonus.needs_value:
        lacks = (
            f"no colours by intrinsic reward: --bonus {entry.name} compares the agent's values of "
            "a minibatch, which the run does not store"
        )
    elif entry.is_entropy:
        colours[f"intrinsic reward of {entry.name}"] = _intrinsic_reward(run, run.part, place)
    if run.drawn is not None:
        colours["reward of the task"] = run.drawn.reward
    return Picture(figures.of_latents(points, colours), lacks)


def _intrinsic_reward(run: Looked, part: Part, place: Int[np.ndarray, " point"]) -> np.ndarray:
    """What a state entropy that needs no values would pay now for states that it has stored."""
    # It looks up by their places all that it stored of states, and uses nothing else of a batch.
    observation = jnp.zeros((len(place), *run.spec.observation_shape), run.spec.observation_dtype)
    space = run.spec.action_space
    action = jnp.zeros((len(place), *space.shape), space.dtype)
    steps = run.of_seed(run.state.counters.agent_steps)
    batch = IntrinsicBatch(observation, action, observation, jnp.asarray(place), steps)
    reward, _, _ = jax.jit(part.bonus.reward)(part.state, batch)
    return np.asarray(reward)


def neighbours(run: Looked) -> Picture | str:
    """The picture of frames beside those with the nearest latents, or why there is none."""
    if run.part is None:
        return f"--bonus {run.config.bonus} stores no latents in this run"
    if run.drawn is None and run.env is None:
        return (
            f"--agent {run.config.agent} has no replay, and frames are played only for tasks on "
            f"the device, which {run.config.env} is not"
        )
    random = np.random.default_rng(0)
    frame, encoded = _encoded(run, run.part, random)
    # Copies of a frame would only show themselves.
    _, different = np.unique(encoded, axis=0, return_index=True)
    chosen = random.permutation(different)[:FRAMES]
    pictures = frames.pictures(frame[chosen], run.spec)
    if pictures is None:
        return f"observations of {run.config.env} are not images"
    if len(chosen) <= NEAREST:
        return "the run has seen too few different frames"
    queries = np.arange(min(QUERIES, len(chosen)))
    return Picture(figures.of_neighbours(pictures, encoded[chosen], queries, NEAREST))


def _encoded(run: Looked, part: Part, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Frames and their latents: stored ones, or those of frames that the agent sees now."""
    if run.drawn is not None:
        return run.drawn.frame, stored.latents(part.ring, run.drawn.place)
    assert run.played is not None
    seen = run.of_seed(run.played.observation).reshape(-1, *run.spec.observation_shape)
    number = min(FRAMES, stored.most_at_once(part.state), len(seen))
    frame = seen[random.choice(len(seen), number, replace=False)]
    # No latent depends on a value, and the state that would store the values is dropped.
    step = Step(jnp.asarray(frame), value=jnp.zeros(number))
    after, place = jax.jit(part.bonus.observe)(part.state, step)
    renewed = stored.ring_of(after)
    assert renewed is not None
    return frame, stored.latents(renewed, np.asarray(place))


def states(run: Looked) -> Picture | str:
    """The picture of the cells that the agents visit, or why there is none."""
    if run.places is None:
        return f"the states of {run.config.env} are no cells of a room"
    assert run.played is not None and run.played.place is not None
    seeds = run.config.seed_numbers[:MOST_SEEDS]
    form = run.places.height, run.places.width, figures.DIRECTIONS
    place = np.asarray(run.played.place).reshape(len(run.config.seed_numbers), -1)[: len(seeds)]
    counts = np.stack([np.bincount(one, minlength=math.prod(form)) for one in place])
    rows = {
        "share of time, now": counts / counts.sum(axis=1, keepdims=True),
        "directions visited so far": np.asarray(run.state.visited)[: len(seeds)] > 0,
    }
    of_cells = {name: row.reshape(-1, *form) for name, row in rows.items()}
    return Picture(figures.of_states(of_cells, seeds))


PICTURES = {"latents": latents, "states": states, "neighbours": neighbours}


def written(run: Looked, out: Path) -> Iterator[str]:
    """Writes the pictures; a line for each, and one for what it lacks."""
    for name, make in PICTURES.items():
        made = make(run)
        if isinstance(made, str):
            yield f"no {name}.png: {made}"
            continue
        curves.save(made.figure, out / f"{name}.png")
        yield str(out / f"{name}.png")
        if made.lacks:
            yield made.lacks


@in_one_sentence
def main(argv: Sequence[str] | None = None) -> int:
    """Writes the pictures and prints their paths; returns the exit code (0 or 2)."""
    parser = Parser("python -m re3_jax.commands.look")
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: look/ in the run")
    parser.add_argument("--seed", type=int, help="of the run (default: its first)")
    plugins.add_option(parser)
    words = parser.parse_args(argv)
    if words.run is None:
        example = installing.example("look", "RUN", "runs/a")
        raise UsageError(f"give the folder of a run, as in {example}")
    run_folder.load_plugin(words.run, words.plugin)
    seeds = run_folder.stored_config(words.run, "name the folder of a run").seed_numbers
    seed = seeds[0] if words.seed is None else words.seed
    if seed not in seeds:
        raise UsageError(f"--seed {seed} is none of the run's seeds: {seeds[0]} to {seeds[-1]}")
    out = words.out or words.run / "look"
    run_folder.make_empty(out, [f"{name}.png" for name in PICTURES], "a look at a run")
    machine.keep_compiled_programs()
    with refuse_lack_of_memory("--seeds of the run"):
        for line in written(Looked(words.run, seeds.index(seed)), out):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
