"""`python -m benchmarks.gpu.device`: the machine as JSON, asked in a process that then ends."""

import importlib.util
import json

import jax

from benchmarks import hardware


def torch_sees_it() -> bool:
    """Whether PyTorch is installed and runs on JAX's device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available() or jax.default_backend() == "cpu"


if __name__ == "__main__":
    print(json.dumps({"hardware": hardware.describe(), "torch": torch_sees_it()}))
