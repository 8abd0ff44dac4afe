"""Finds the OpenGL driver with which this machine draws without a screen (io).

A separate process asks, because a missing driver may end the process that asks.
"""

import functools
import os
import subprocess
import sys
from typing import NamedTuple

APT_LINE = "apt-get install -y libegl1 libegl-mesa0 libgl1-mesa-dri"
"""Installs EGL with a driver for the CPU on a bare Debian or Ubuntu machine."""

_PROBE = """
import mujoco
from OpenGL import GL
model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')
context = mujoco.GLContext(32, 32)
context.make_current()
mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
print("driver:", GL.glGetString(GL.GL_RENDERER).decode())
context.free()
"""

_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "software")


class Driver(NamedTuple):
    """A driver that can draw.

    Attributes:
      backend: value of MUJOCO_GL: egl, osmesa or glfw.
      name: the name that the driver reports.
      on_gpu: whether a GPU draws.
    """

    backend: str
    name: str
    on_gpu: bool


@functools.cache
def probe() -> Driver | None:
    """The best driver that works, or None; the answer is kept for the life of the process.

    Tries EGL first, which uses a GPU if it finds one, then OSMesa. If MUJOCO_GL names a backend,
    tries that one only.
    """
    chosen = os.environ.get("MUJOCO_GL", "").lower()
    backends = (chosen,) if chosen in ("egl", "osmesa", "glfw") else ("egl", "osmesa")
    for backend in backends:
        name = _try(backend)
        if name is not None:
            return Driver(backend, name, not any(word in name.lower() for word in _SOFTWARE))
    return None


def device(worker: int) -> str | None:
    """The GPU for worker number `worker`, out of those that CUDA_VISIBLE_DEVICES names.

    None leaves the choice to the driver: if CUDA_VISIBLE_DEVICES is not set, is not a list of
    numbers, or names a GPU that EGL does not know, or if MUJOCO_EGL_DEVICE_ID is already set.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if "MUJOCO_EGL_DEVICE_ID" in os.environ or not all(name.isdigit() for name in visible):
        return None
    chosen = visible[worker % len(visible)]
    return chosen if _works(chosen) else None


@functools.cache
def _works(device: str) -> bool:
    return _try("egl", MUJOCO_EGL_DEVICE_ID=device) is not None


def missing() -> str:
    """The error message for a missing GL driver."""
    return (
        f"no OpenGL driver works here; install one with `{APT_LINE}`, or train without GL: "
        "--dmc.renderer warp"
    )


def _try(backend: str, **variables: str) -> str | None:
    environment = {**os.environ, "MUJOCO_GL": backend, **variables}
    # A platform that was already set for PyOpenGL would contradict the backend.
    environment.pop("PYOPENGL_PLATFORM", None)
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in answer.stdout.splitlines():
        if answer.returncode == 0 and line.startswith("driver: "):
            return line.removeprefix("driver: ")
    return None
