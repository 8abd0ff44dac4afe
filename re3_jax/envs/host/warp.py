"""Frames without OpenGL: mujoco_warp's ray caster, on the CPU or on a GPU (io).

C MuJoCo simulates; this module copies the poses of geoms, cameras and lights and draws all lanes of
a worker at once. Geometry, textures, shadows and sky are those of `gl`; reflections,
anti-aliasing, sites and tendons are missing, and a highlight on a large plane is brighter, because
GL lights a plane at its corners only.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from re3_jax.envs.host.dmc import Lane

_POSES = ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir")


class WarpRenderer:
    """One scene with one world per lane."""

    def __init__(self, lanes: Sequence[Lane], image_size: int):
        """Compiles the kernels of this task, 5 to 25 s where they are not cached yet."""
        model = lanes[0].physics.model.ptr
        self._lanes = lanes
        self._size = image_size
        self._warp = _mujoco_warp()
        self._model = self._warp.put_model(model)
        self._data = self._warp.make_data(model, nworld=len(lanes))
        self._context = self._warp.create_render_context(
            model,
            nworld=len(lanes),
            cam_res=(image_size, image_size),
            cam_active=[lanes[0].task.camera],
            render_rgb=True,
            render_depth=False,
            use_shadows=True,
            render_skybox=True,
        )

    def draw(self, lanes: Sequence[int]) -> np.ndarray:
        """Frames of the lanes with these numbers; casts all lanes, as the cost is per batch."""
        for name in _POSES:
            target = getattr(self._data, name)
            poses = [getattr(lane.physics.data.ptr, name) for lane in self._lanes]
            target.assign(np.stack(poses).astype(np.float32).reshape(target.numpy().shape))
        self._warp.refit_bvh(self._model, self._data, self._context)
        self._warp.render(self._model, self._data, self._context)
        # Pixels are packed as 0xAARRGGBB, which lie in memory as blue, green, red, alpha.
        packed = self._context.rgb_data.numpy()
        pixels = packed.view(np.uint8).reshape(len(self._lanes), self._size, self._size, 4)
        return pixels[list(lanes)][..., 2::-1]


def _mujoco_warp() -> Any:
    import mujoco
    import warp

    warp.config.log_level = warp.LOG_ERROR
    # mujoco.mjx imports JAX, which a worker does not need: an empty package with its folder is
    # enough.
    if "mujoco.mjx" not in sys.modules:
        package = types.ModuleType("mujoco.mjx")
        package.__path__ = [str(Path(mujoco.__path__[0]) / "mjx")]
        sys.modules["mujoco.mjx"] = package
    from mujoco.mjx.third_party import mujoco_warp

    return mujoco_warp
