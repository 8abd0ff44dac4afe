"""Environment of a process that has several CPU devices."""

import os


def environment(count: int) -> dict[str, str]:
    """This process's environment, its XLA flags included, with `count` CPU devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    return {**os.environ, "XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"}
