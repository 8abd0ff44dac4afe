"""Devices that XLA can compile for without one, with their peaks.

The compilers are `jax-cuda12-plugin` with CUDA's libraries and `libtpu`; neither needs a driver.
`requirements-compile-cuda.txt` and `requirements-compile-tpu.txt` pin them.

Peaks are the manufacturers' figures: NVIDIA's data sheets of H100 SXM and A100 SXM 80 GB (float32
outside the tensor cores), Google Cloud's pages on TPU v5e and v6e. A TPU multiplies bfloat16; a
float32 product takes six of its products (`precision="highest"`), so that its peak is a sixth.
"""

import importlib.util
import os
from importlib import resources
from typing import NamedTuple

import jax
from jax.experimental import topologies

BFLOAT16_PRODUCTS = 6
"""Products of bfloat16 that make one of float32 at the precision `highest`."""


class Target(NamedTuple):
    """A device to compile for.

    Attributes:
      name: what it is called here.
      platform: JAX's name of the compiler.
      topology: the plugin's name of four such devices.
      memory_bytes: of one device, as its maker names it; the driver sees some more on a GPU.
      bytes_per_second: peak bandwidth of that memory.
      operations_per_second: peak of float32 products.
    """

    name: str
    platform: str
    topology: str
    memory_bytes: float
    bytes_per_second: float
    operations_per_second: float


TARGETS = {
    target.name: target
    for target in (
        Target("h100", "cuda", "1x1x4", 80e9, 3.35e12, 67e12),
        Target("a100", "cuda", "1x1x4", 80e9, 2.039e12, 19.5e12),
        Target("v5e", "tpu", "v5e:2x2", 16 * 2**30, 819e9, 197e12 / BFLOAT16_PRODUCTS),
        Target("v6e", "tpu", "v6e:2x2", 32 * 2**30, 1_640e9, 918e12 / BFLOAT16_PRODUCTS),
    )
}
"""The devices to compile for, by name. Each topology has four of them."""


WITHOUT_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
"""Environment variables that answer what libtpu would ask a server of Google Cloud, and let several
processes compile at a time."""

PACKAGES = {"cuda": "jax_cuda12_plugin", "tpu": "libtpu"}
"""Platform -> the module of its compiler."""


def missing_compiler(target: Target) -> str | None:
    """The package that compiles for a target; None if it is installed."""
    package = PACKAGES[target.platform]
    found = importlib.util.find_spec(package)
    return package.replace("_", "-") if found is None else None


def devices(target: Target) -> list[jax.Device]:
    """Four devices for which programs can be compiled, but not run.

    Pass them where devices are asked for, and shapes in place of arrays. Without an NVIDIA driver
    a process that compiles for such GPUs must name its platform, `JAX_PLATFORMS=cpu`, before it
    first uses JAX: else the plugin looks for the driver and is not there afterwards.

    Raises:
      ImportError: the compiler of the target is not installed.
      RuntimeError: the compiler refuses, or JAX has not taken it.
    """
    if (missing := missing_compiler(target)) is not None:
        raise ImportError(f"compiling for {target.name} needs {missing}")
    if target.platform == "tpu":
        for name, value in WITHOUT_TPU.items():
            os.environ.setdefault(name, value)
        described = topologies.get_topology_desc(target.topology, "tpu")
    else:
        text = (resources.files(__package__) / f"{target.name}.txtpb").read_text()
        try:
            described = topologies.get_topology_desc(
                target.name, target.platform, topology=target.topology, target_config=text
            )
        except NotImplementedError as error:
            raise RuntimeError(
                f"JAX has not taken the compiler for {target.name}: set JAX_PLATFORMS=cpu before "
                "the process first uses JAX"
            ) from error
    return list(described.devices)
