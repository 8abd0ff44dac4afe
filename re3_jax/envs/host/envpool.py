"""DeepMind Control simulated and drawn by envpool, in threads of this process.

envpool's MuJoCo and its copy of the suite are older than dm_control's, so frames differ by a few
grey levels (mostly the floor's brightness); rewards are the same. Its state cannot be read or
written: a run that must resume bit for bit needs the engine `dm_control`.
"""

import ctypes
import functools
import re
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from re3_jax.envs.base import Box, LaneStep
from re3_jax.envs.host import dmc, gl, tasks
from re3_jax.envs.host.config import DMCConfig
from re3_jax.envs.names import pip_install

INSTALL = pip_install("envpool==1.2.5")

NO_EGL = (
    "envpool draws through EGL, and here it cannot ({reason}): install a driver with "
    f"`{gl.APT_LINE}`, or use the engine dm_control"
)

VISUAL_CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "gl": (),
    "gl_small_shadows": ((r'shadowsize="\d+"', 'shadowsize="512"'),),
    "gl_cheap": ((r'shadowsize="\d+"', 'shadowsize="512" offsamples="0"'),),
}
"""Renderer -> substitutions in the suite's `common/visual.xml`."""

_PROBE = """
import ctypes
ctypes.CDLL("libEGL.so.1", mode=ctypes.RTLD_GLOBAL)
import envpool
pool = envpool.make_dm("PendulumSwingup-v1", num_envs=1, render_mode="rgb_array")
pool.reset()
pool.render()
"""
"""Draws one frame; without a driver, its process dies."""

PROBE_SECONDS = 600
"""Time limit for `_PROBE` on a busy machine."""

_LAST = 2
"""dm_env's step type of an episode's last step."""


@functools.cache
def load() -> ModuleType:
    """Imports envpool after the system's EGL, the only order in which it can draw.

    The wheel brings its own EGL, which finds no driver. The process must therefore load the
    system's EGL, globally, before envpool.

    Raises:
      ImportError: if envpool is not installed.
      ValueError: if something else imported it first; drawing would then end the process.
    """
    if "envpool" in sys.modules:
        raise ValueError(
            "envpool was imported before the system's EGL and cannot draw any more: call "
            "re3_jax.envs.host.envpool.load() before anything imports envpool"
        )
    try:
        ctypes.CDLL("libEGL.so.1", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        # Without EGL envpool still steps (Atari, states); `failure` tells whether it can draw.
        pass
    try:
        import envpool
    except ImportError as error:
        raise ImportError(f"envpool cannot be imported ({error}): {INSTALL}") from error
    return envpool


@functools.cache
def failure() -> str | None:
    """Why envpool cannot draw here, or None; probed once, in a process that may die of it.

    Raises:
      ImportError: if envpool is not installed.
      ValueError: if something imported it before.
    """
    load()
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"drawing one frame took more than {PROBE_SECONDS} seconds"
    if probe.returncode == 0:
        return None
    lines = (probe.stderr + probe.stdout).strip().splitlines()
    return lines[-1].removeprefix("ERROR: ") if lines else f"exit code {probe.returncode}"


def check_drawing() -> None:
    """Raises a ValueError if envpool cannot draw here, an ImportError if it is not installed."""
    reason = failure()
    if reason is not None:
        raise ValueError(NO_EGL.format(reason=reason))


def pool_name(task: tasks.Task) -> str:
    """The task's name in envpool, e.g. `CartpoleSwingupSparse-v1`."""
    words = f"{task.domain}_{task.task}".split("_")
    return "".join(word[:1].upper() + word[1:] for word in words) + "-v1"


def changed_assets(suite: Path, renderer: str, folder: Path) -> Path:
    """Copies the suite's files into `folder`, with `visual.xml` changed for the renderer.

    Args:
      suite: envpool's folder `mujoco/assets_dmc`.
      renderer: a key of `VISUAL_CHANGES`.
      folder: empty folder; it receives links to all other files.

    Returns:
      `folder`, for envpool's `base_path`.

    Raises:
      ValueError: if `visual.xml` does not contain exactly one value to change.
    """
    copy = folder / "mujoco" / "assets_dmc"
    shutil.copytree(suite, copy, copy_function=lambda a, b: Path(b).symlink_to(a))
    visual = copy / "common" / "visual.xml"
    text = visual.read_text()
    for pattern, replacement in VISUAL_CHANGES[renderer]:
        text, count = re.subn(pattern, replacement, text)
        if count != 1:
            raise ValueError(
                f"envpool's {suite / 'common' / 'visual.xml'} has no single {pattern}: use the "
                "renderer gl, or the engine dm_control"
            )
    visual.unlink()
    visual.write_text(text)
    return folder


class PoolLanes(ABC):
    """Base class of lanes in an envpool, whatever they play.

    All steps run in one thread, because a GL context belongs to the thread that drew last; envpool
    releases the interpreter while it steps and draws. `reset` makes a new pool, because envpool
    takes seeds only then.

    Attributes:
      num_lanes: number of lanes.
      can_restore: False: envpool's states can neither be read nor written.
      lost: False in every lane: all of them are in this process.
    """

    can_restore = False

    def __init__(self, num_lanes: int, remedy: str):
        """Starts the thread.

        Args:
          num_lanes: episodes side by side.
          remedy: end of the error message if someone asks for the lanes' state.
        """
        self.num_lanes, self._remedy = num_lanes, remedy
        self.lost = np.zeros(num_lanes, np.bool_)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="envpool")
        self._pool: Any = None
        self._step: Future[LaneStep] | None = None

    def reset(self, seeds: Int[np.ndarray, " lane"]) -> UInt8[np.ndarray, "lane ..."]:
        """Starts a new episode in every lane, lane i from `seeds[i]`; returns the first frames.

        Raises:
          ValueError: if there are not as many seeds as lanes.
        """
        if len(seeds) != self.num_lanes:
            raise ValueError(f"{self.num_lanes} lanes need as many seeds, but got {len(seeds)}")
        self._step = None
        return self._thread.submit(self._reset, [int(seed) % 2**31 for seed in seeds]).result()

    @abstractmethod
    def _reset(self, seeds: list[int]) -> np.ndarray:
        """Implements `reset`, in the thread that owns the pool."""

    @abstractmethod
    def _advance(self, action: np.ndarray) -> LaneStep:
        """Steps all lanes once, in the thread that owns the pool."""

    def _start(self, action: np.ndarray) -> None:
        self._step = self._thread.submit(self._advance, action)

    def receive(self) -> LaneStep:
        """Waits for the step that `send` started; raises the exception of that step, if any."""
        assert self._step is not None, "receive() without send()"
        step, self._step = self._step, None
        return step.result()

    def get_state(self) -> dict[str, np.ndarray]:
        """Not supported by envpool.

        Raises:
          ValueError: always.
        """
        raise ValueError(f"the state of envpool's lanes cannot be read{self._remedy}")

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Not supported by envpool.

        Raises:
          ValueError: always.
        """
        raise ValueError(f"the state of envpool's lanes cannot be written{self._remedy}")

    def close(self) -> None:
        """Ends the pool and its thread; a second call does nothing."""
        self._step = None
        self._thread.shutdown(wait=True)
        self._pool = None


class EnvPoolLanes(PoolLanes):
    """Lanes of one task in an envpool, as a `HostEnv`.

    One agent step is `action_repeat` control steps of envpool's *state* environment, each with
    its reward, and one frame drawn on request. (envpool's own pixel environment with a frame
    skip returns only the last control step's reward and draws the same frame.) A `reset` takes
    about a second.

    Attributes:
      spec: the task's specification.
    """

    def __init__(
        self,
        task_id: str,
        config: DMCConfig,
        num_lanes: int,
        report: Callable[[str], None] = print,
    ) -> None:
        """Checks that envpool can draw; `reset` starts the pool.

        Args:
          task_id: `domain_task`, or a sparse task of the paper.
          config: how to step and draw it; `auto` is `gl`.
          num_lanes: episodes side by side.
          report: never called, because there is no worker to lose.

        Raises:
          ImportError: if envpool is not installed.
          ValueError: if there is no such task or no EGL driver.
        """
        del report
        super().__init__(
            num_lanes,
            ": use the engine dm_control for a run that must go on exactly where it stopped",
        )
        self.spec = dmc.spec(task_id, config)
        self._task = tasks.find(task_id)
        self._config = config
        check_drawing()
        self._envpool = load()
        self._assets = tempfile.TemporaryDirectory(prefix="re3_jax-envpool-")
        self._options = self._pool_options()
        box = self._envpool.make_spec(pool_name(self._task)).action_array_spec["action"]
        self._low, self._high = dmc.bounds(np.asarray(box.minimum), np.asarray(box.maximum))

    def _pool_options(self) -> dict[str, Any]:
        """The arguments of every pool of these lanes, except the seeds."""
        options: dict[str, Any] = {
            "num_envs": self.num_lanes,
            "num_threads": self._config.workers or 0,
            "render_mode": "rgb_array",
            "render_width": self._config.image_size,
            "render_height": self._config.image_size,
            "render_camera_id": self._task.camera,
        }
        renderer = "gl" if self._config.renderer == "auto" else self._config.renderer
        if VISUAL_CHANGES[renderer]:
            base = Path(self._envpool.make_spec(pool_name(self._task)).config.base_path)
            suite = base / "mujoco" / "assets_dmc"
            folder = Path(self._assets.name)
            options["base_path"] = str(changed_assets(suite, renderer, folder))
        return options

    def _reset(self, seeds: list[int]) -> np.ndarray:
        self._pool = None
        self._pool = self._envpool.make_dm(pool_name(self._task), seed=seeds, **self._options)
        lanes = np.arange(self.num_lanes, dtype=np.int32)
        self._pool.reset(lanes)
        return self._draw(lanes)

    def _draw(self, lanes: Int[np.ndarray, " some"]) -> UInt8[np.ndarray, "some height width 3"]:
        return np.array(self._pool.render(env_ids=lanes))

    def send(self, action: Float[np.ndarray, "lane action"]) -> None:
        """Starts one step with `action` in [-1, 1], scaled to the task's bounds."""
        assert isinstance(self.spec.action_space, Box)
        action = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        scaled = self._low + (action + 1.0) / 2.0 * (self._high - self._low)
        self._start(scaled)

    def _advance(self, action: Float[np.ndarray, "lane action"]) -> LaneStep:
        reward = np.zeros(self.num_lanes)
        terminated = np.zeros(self.num_lanes, bool)
        truncated = np.zeros(self.num_lanes, bool)
        for _ in range(self._config.action_repeat):
            # An ended lane must not be stepped: envpool would reset it and drop the action.
            lanes = np.flatnonzero(~(terminated | truncated)).astype(np.int32)
            if not len(lanes):
                break
            step = self._pool.step(action[lanes], lanes)
            lanes = np.asarray(step.observation.env_id)
            reward[lanes] += self._task.kept(np.asarray(step.reward), self._config.sparse_threshold)
            last = np.asarray(step.step_type) == _LAST
            terminated[lanes] = last & (np.asarray(step.discount) == 0.0)
            truncated[lanes] = last & ~terminated[lanes]
        final_frame = self._draw(np.arange(self.num_lanes, dtype=np.int32))
        frame = final_frame
        ended: Bool[np.ndarray, " lane"] = terminated | truncated
        if ended.any():
            frame = final_frame.copy()
            lanes = np.flatnonzero(ended).astype(np.int32)
            self._pool.reset(lanes)
            frame[lanes] = self._draw(lanes)
        return LaneStep(
            frame, reward.astype(np.float32), terminated, truncated, final_frame, terminated
        )

    def close(self) -> None:
        """Ends the pool and its thread, and removes its files."""
        super().close()
        self._assets.cleanup()
