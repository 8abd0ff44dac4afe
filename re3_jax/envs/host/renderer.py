"""Renderers that turn physics into frames: dm_control's OpenGL, or a ray caster (io)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from re3_jax.envs.host import gl, tasks
from re3_jax.envs.host.config import DMCConfig, RendererName
from re3_jax.envs.host.dmc import Lane
from re3_jax.envs.names import pip_install

SMALL_SHADOWS = 512
"""Texels per side of the shadow map of `gl_small_shadows`; MuJoCo's own is 2048."""


class Renderer(Protocol):
    """Draws some lanes of one worker."""

    def draw(self, lanes: Sequence[int]) -> np.ndarray:
        """Frames of the lanes with these numbers, uint8 [lane, height, width, 3]."""


def choose(config: DMCConfig) -> RendererName:
    """The renderer for `config` on this machine.

    Returns:
      `gl`, `gl_small_shadows`, `gl_cheap` or `warp`. `auto` is `gl` where a driver works, on a
      GPU or a CPU, else `warp`.

    Raises:
      ValueError: if the requested renderer is missing; the message says what to install.
    """
    if config.renderer == "warp":
        if not _has_warp():
            raise ValueError(
                "renderer warp needs mujoco_warp; install it with "
                + pip_install("mujoco-mjx[warp]==3.17.0")
            )
        return "warp"
    driver = gl.probe()
    if driver is not None:
        return "gl" if config.renderer == "auto" else config.renderer
    if config.renderer == "auto" and _has_warp():
        return "warp"
    raise ValueError(gl.missing())


def choose_here(config: DMCConfig) -> RendererName:
    """`choose`, for drawing in this process: call it before the first `Lane` is made.

    Raises:
      ValueError: as `choose`.
    """
    name = choose(config)
    if name != "warp" and (driver := gl.probe()):
        # dm_control reads it when it is first imported.
        os.environ.setdefault("MUJOCO_GL", driver.backend)
    return name


def check(name: str, task_id: str) -> None:
    """Rejects a renderer that cannot draw something essential to the task.

    Raises:
      ValueError: if the task needs GL; the message says how to get it.
    """
    if name == "warp" and task_id in tasks.NEED_GL:
        raise ValueError(
            f"renderer warp cannot draw {tasks.NEED_GL[task_id]} of {task_id}; use --dmc.renderer "
            f"gl, which needs a driver: `{gl.APT_LINE}`"
        )


def make(name: str, lanes: Sequence[Lane], image_size: int) -> Renderer:
    """The renderer called `name` for lanes whose first episodes have begun."""
    if name == "warp":
        from re3_jax.envs.host.warp import WarpRenderer

        return WarpRenderer(lanes, image_size)
    return GLRenderer(name, lanes, image_size)


class GLRenderer:
    """OpenGL through dm_control; one context per lane."""

    def __init__(self, name: str, lanes: Sequence[Lane], image_size: int):
        """Makes the contexts."""
        from dm_control.mujoco import Camera

        for lane in lanes:
            # quadruped_escape makes one when an episode begins, of a size and quality of its own.
            if lane.physics._contexts:
                lane.physics._free_rendering_contexts()
            visual = lane.physics.model.vis
            # A buffer no larger than the frame gives the same pixels and has less to clear.
            visual.global_.offwidth = visual.global_.offheight = image_size
            if name in ("gl_small_shadows", "gl_cheap"):
                visual.quality.shadowsize = SMALL_SHADOWS
            if name == "gl_cheap":
                visual.quality.offsamples = 0
        # physics.render allocates a scene for every frame (about 2 ms); a camera keeps its own.
        self._cameras = [
            Camera(lane.physics, image_size, image_size, camera_id=lane.task.camera)
            for lane in lanes
        ]

    def draw(self, lanes: Sequence[int]) -> np.ndarray:
        """Frames of the lanes with these numbers."""
        return np.stack([self._cameras[number].render() for number in lanes])


def _has_warp() -> bool:
    mujoco = importlib.util.find_spec("mujoco")
    if importlib.util.find_spec("warp") is None or mujoco is None:
        return False
    # Looks into the folder: find_spec of the module would import mujoco.mjx, which needs JAX.
    folders = mujoco.submodule_search_locations or []
    return any((Path(folder) / "mjx/third_party/mujoco_warp").is_dir() for folder in folders)
