"""RAD with RE3 at the paper's size, and PyTorch's learner beside it on the same data.

    python -m benchmarks.beside_torch --folder FOLDER [--updates N] [--out OUT]

One seed of cheetah_run_sparse with the preset `released`. Our agent acts. After each of its updates
the oracle of the tests makes the one of the same number: from the same transitions, crops and noise
and the same stored latents, but with its own weights, search, running standard deviation and
schedule. Both begin with the same weights; rounding separates them, so after the first updates
curves are compared and not numbers. Prints one JSON object and draws `beside_torch.png`.

Every `--save-every` updates both sides are saved. The same command goes on from there, however the
process ended, and computes what came after once more: those rows must equal the ones written
before, bit for bit, or it stops. The JSON lists every process. With `--updates 0` a run that is
begun is only drawn, as far as its rows go.
"""

import argparse
import csv
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import psutil
import torch
from matplotlib.figure import Figure

from benchmarks import beside, hardware
from re3_jax import compilation
from re3_jax.agents.sac import replays
from re3_jax.agents.sac.agent import draw
from re3_jax.envs.base import EnvSpec
from re3_jax.runs.build import build, make_bonus, prepared
from re3_jax.runs.config import RunConfig
from re3_jax.runs.resolve import resolve
from re3_jax.training.checkpoint import CheckpointStore
from re3_jax.training.host_functions import step_key
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.train_state import TrainState
from re3_jax.training.whole_file import replacing
from tests.torch_oracle import neighbours
from tests.torch_oracle.running_std import ReleasedStd
from tests.torch_oracle.sac import TorchSAC

TASK = "cheetah_run_sparse"
COMPILE_EVENT = "/jax/core/compile/backend_compile_duration"

MEASURED = {
    "critic_loss": "loss of the critic",
    "actor_loss": "loss of the actor",
    "q_mean": "mean Q",
    "target_mean": "mean target",
    "temperature": "temperature",
    "entropy": "entropy of the policy",
    "intrinsic_reward_mean": "mean bonus",
    "running_std": "running std of the distances",
    "nearest_distance_p50": "median distance to the nearest other latent",
}
"""Columns of both sides, and what they are."""


class Given(NamedTuple):
    """What an update learns from."""

    transitions: Any
    draws: Any
    latents: Any
    stored: Any
    num_stored: Any
    agent_steps: Any


def what_is_given(config: RunConfig, spec: EnvSpec) -> Callable[[TrainState], Given]:
    """The program that tells what the next update of a state will learn from.

    It derives the keys as `host_functions` and `sac.learner` do; if it did not, the first losses of
    the two sides would differ.
    """
    action_dim = spec.action_space.shape[0]
    store = replays.of_frames(config.sac, spec, action_dim, make_bonus(config).index_shape)

    def of_seed(state: TrainState) -> Given:
        steps = state.counters.agent_steps
        key = jax.random.fold_in(step_key(state.key, steps, 1), state.counters.updates)
        sample_key, _, agent_key = jax.random.split(key, 3)
        batch, index = store.sample(sample_key, state.replay)
        ring = state.intrinsic.bonus.ring
        # The images are in the draws.
        rest = batch._replace(observation=None, next_observation=None)
        draws = draw(agent_key, batch, config.sac)
        # PyTorch reads these where they are, while the update may be given the ring to write into.
        stored = jnp.copy(ring.latents)
        return Given(rest, draws, ring.latents[index], stored, ring.num_valid, steps)

    return compilation.jit(jax.vmap(of_seed))


class Torch:
    """PyTorch's side: the learner, the bonus and what they remember."""

    def __init__(self, config: RunConfig, state: TrainState):
        """Begins with the weights of `state`."""
        self.config = config
        self.learner = TorchSAC(config.sac, jax.tree.map(lambda x: x[0], state.agent))
        self.std = ReleasedStd()
        self.newest: dict[str, float] = {"actor_loss": np.nan, "entropy": np.nan}

    def update(self, given: Given, full: bool) -> dict[str, float]:
        """One update; what was measured."""
        re3 = self.config.re3
        given = jax.tree.map(lambda x: torch.from_dlpack(x)[0], given)  # type: ignore[attr-defined]
        rows = given.stored[: given.num_stored]
        near = neighbours.smallest(given.latents, rows, re3.last_neighbour)
        std = self.std(near[:, -1].cpu().numpy())
        beta = re3.beta * (1 - re3.rho) ** int(given.agent_steps)
        bonus = beta * near[:, -1] / std
        batch = given.transitions._replace(bonus=bonus)
        self.newest |= self.learner.update(batch, given.draws, full)
        return self.newest | {
            "temperature": self.learner.log_alpha.exp().item(),
            "intrinsic_reward_mean": bonus.mean().item(),
            "running_std": std,
            "nearest_distance_p50": near[:, 1].quantile(0.5).item(),
        }

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        learner = self.learner
        return [learner.actor_optimizer, learner.critic_optimizer, learner.alpha_optimizer]

    def _tensors(self) -> list[torch.Tensor]:
        learner = self.learner
        return jax.tree.leaves((learner.actor, learner.critic, learner.target, learner.log_alpha))

    def save(self, path: Path) -> None:
        """Writes all of it."""
        saved = {
            "tensors": [tensor.detach() for tensor in self._tensors()],
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers()],
            "std": vars(self.std),
            "newest": self.newest,
        }
        with replacing(path) as part:
            torch.save(saved, part)

    def restore(self, path: Path) -> None:
        """Reads what `save` wrote."""
        saved = torch.load(path, weights_only=False)
        with torch.no_grad():
            for tensor, stored in zip(self._tensors(), saved["tensors"], strict=True):
                tensor.copy_(stored)
        for optimizer, stored in zip(self._optimizers(), saved["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        vars(self.std).update(saved["std"])
        self.newest = saved["newest"]


class Rows:
    """updates.csv; rows that are computed again must be the same."""

    def __init__(self, path: Path, done: int):
        """Goes on after `done` updates."""
        self.path, self.rows = path, []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = list(csv.DictReader(file))
        self._next = done

    def add(self, row: dict[str, Any]) -> None:
        """Writes a row.

        Raises:
          SystemExit: it differs from what was written before.
        """
        # Nine digits tell all float32 apart.
        texts = {
            name: str(value) if isinstance(value, int) else f"{value:.9g}"
            for name, value in row.items()
        }
        if self._next < len(self.rows):
            before = self.rows[self._next]
            differing = [name for name in before if before[name] != texts[name] and name != "bytes"]
            if differing:
                raise SystemExit(
                    f"update {row['update']} computed again differs in {', '.join(differing)}"
                )
        else:
            self.rows.append(texts)
            is_new = not self.path.exists()
            with self.path.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(texts))
                if is_new:
                    writer.writeheader()
                writer.writerow(texts)
        self._next += 1


class Pair:
    """One of the learner's programs, after which PyTorch makes the same update."""

    def __init__(self, learn: Any, is_full: bool, given: Any, theirs: Torch, rows: Rows):
        """Takes the place of `learn` in the loop."""
        self.learn, self.is_full, self.given, self.theirs = learn, is_full, given, theirs
        self.rows, self.memory = rows, psutil.Process().memory_info

    def __call__(self, state: TrainState) -> tuple[TrainState, Any]:
        """Both updates."""
        given = jax.block_until_ready(self.given(state))
        state, info = self.learn(state)
        ours = {name: value[0].item() for name, value in jax.device_get(info).items()}
        theirs = self.theirs.update(given, self.is_full)
        update = int(state.counters.updates[0])
        if update == 1:
            np.testing.assert_allclose(
                [theirs[name] for name in MEASURED], [ours[name] for name in MEASURED], rtol=1e-3
            )
        sides = {"ours": ours, "torch": theirs}
        values = {f"{side}_{name}": sides[side][name] for name in MEASURED for side in sides}
        self.rows.add({"update": update, **values, "bytes": self.memory().rss})
        return state, info


def train(config: RunConfig, folder: Path, updates: int, save_every: int) -> None:
    """Begins or goes on, to `updates`."""
    config, spec = prepared(replace(config, seeds=1, chunk_updates=1))
    runner = build(config, spec, print)
    assert isinstance(runner, HostProgram)
    store = CheckpointStore(folder / "checkpoints")
    state = runner.init(np.array([config.seed], np.int32))
    theirs = Torch(config, state)
    found = store.restore(runner.template(1), print)
    if found is not None:
        state = runner.resume(found[0])
        theirs.restore(folder / f"torch-{int(state.counters.updates[0])}.pt")
    done = begun = int(state.counters.updates[0])
    rows = Rows(folder / "updates.csv", done)
    runner.compile(state)
    given, programs = what_is_given(config, spec), runner.programs
    pairs = [
        Pair(learn, i % config.sac.actor_every == 0, given, theirs, rows)
        for i, learn in enumerate(programs.learn)
    ]
    runner.programs = programs._replace(learn=tuple(pairs))
    listed = folder / "processes.json"
    processes = json.loads(listed.read_text()) if listed.exists() else []
    process = {"from_update": done, "rows_computed_again": len(rows.rows) - done}
    processes.append(process)
    compiled: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if event == COMPILE_EVENT else None
    )
    late = 0
    while done < updates:
        before = len(compiled)
        state, _ = runner.train(state)
        # The programs of the first steps of a process are compiled in them.
        late += len(compiled) - before if done > begun + 2 else 0
        was, done = done, int(state.counters.updates[0])
        process |= {"to_update": done, "programs_compiled_after_two_updates": late}
        listed.write_text(json.dumps(processes))
        if done // save_every > was // save_every:
            theirs.save(folder / f"torch-{done}.pt")
            store.save(done, runner.capture(state), {"updates": done})
            kept = {f"torch-{step}.pt" for step in store.steps()}
            for path in folder.glob("torch-*.pt"):
                if path.name not in kept:
                    path.unlink()
    store.close()
    runner.close()


def columns(path: Path) -> dict[str, np.ndarray]:
    """Columns of updates.csv."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def memory(found: dict[str, np.ndarray]) -> dict[str, int]:
    """Mebibytes of the process after 50 updates, when everything has run, and at the end."""
    places = {"after_50_updates": min(49, len(found["bytes"]) - 1), "at_the_end": -1}
    return {name: round(found["bytes"][place] / 2**20) for name, place in places.items()}


def compared(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Both sides in the last quarter, and when they have come apart."""
    last, rows = slice(-max(len(found["update"]) // 4, 1), None), {}
    for name in MEASURED:
        ours, theirs = found[f"ours_{name}"], found[f"torch_{name}"]
        apart = np.abs(ours - theirs) > 0.01 * np.abs(theirs)
        rows[name] = {
            "ours_in_the_last_quarter": float(f"{ours[last].mean():.5g}"),
            "torch_in_the_last_quarter": float(f"{theirs[last].mean():.5g}"),
            "first_update_apart_by_a_hundredth": int(found["update"][apart][0])
            if any(apart)
            else None,
        }
    return rows


def picture(found: dict[str, np.ndarray], smooth: int = 20) -> Figure:
    """Both sides, as means of `smooth` updates."""
    figure = Figure(figsize=(12, 8), dpi=100, layout="constrained")
    smooth = min(smooth, len(found["update"]))
    whole = len(found["update"]) // smooth * smooth

    def means(values: np.ndarray) -> np.ndarray:
        return values[:whole].reshape(-1, smooth).mean(axis=1)

    for axes, (name, title) in zip(figure.subplots(3, 3).flat, MEASURED.items(), strict=True):
        for side, style in {"torch": "C1-", "ours": "C0--"}.items():
            label = {"torch": "PyTorch", "ours": "re3_jax"}[side]
            axes.plot(means(found["update"]), means(found[f"{side}_{name}"]), style, label=label)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("updates")
        axes.grid(alpha=0.25)
    figure.axes[0].legend(frameon=False)
    return figure


def main() -> None:
    """Runs the pair, draws it and prints the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="of the run; goes on if begun")
    parser.add_argument("--out", type=Path, help="picture; by default in the folder")
    parser.add_argument("--updates", type=int, default=4_000)
    parser.add_argument("--save-every", type=int, default=100, help="updates")
    parser.add_argument("--preset", choices=("released", "debug"), default="released")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    # Both sides give the same numbers each time, on a GPU too.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    beside.as_jax_does()
    config = resolve(TASK, preset=options.preset, bonus="re3")
    config = replace(config, deterministic=True)
    if not options.updates and not (options.folder / "updates.csv").exists():
        parser.error(f"{options.folder} holds no run to draw: leave out --updates 0")
    if options.updates:
        train(config, options.folder, options.updates, options.save_every)
    found = columns(options.folder / "updates.csv")
    out = options.out or options.folder / "beside_torch.png"
    picture(found).savefig(out)
    report = {
        "benchmark": "beside_torch",
        "command": "python -m benchmarks.beside_torch --folder FOLDER",
        "preset": options.preset,
        "hardware": hardware.describe(),
        "updates": len(found["update"]),
        "processes": json.loads((options.folder / "processes.json").read_text()),
        "mebibytes": memory(found),
        "sides": compared(found),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
