"""Reads the tensors of a file of weights (io): `torch.save`'s format, or safetensors.

A downloaded file is data here, never a program (see `torch_pickle`).
"""

from pathlib import Path

import numpy as np

from re3_jax.networks import torch_pickle


def read(path: str | Path) -> dict[str, np.ndarray]:
    """All tensors of the file, by their name in its state dictionary.

    Names in nested dictionaries are joined with dots: `algo_state_dict.encoder.head.weight`.

    Raises:
      ValueError: if there is no such file, or if it is of another format or damaged; the message
        names the file.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        with path.open("rb") as file:
            start = file.read(9)
            if start[8:] == b"{":
                return _read_safetensors(path)
            file.seek(0)
            if start.startswith(torch_pickle.ZIP_MAGIC):
                return torch_pickle.read_zip(file)
            if start.startswith(b"\x80"):
                return torch_pickle.read_legacy(file)
    except ModuleNotFoundError:
        raise ValueError(
            f"{path} is a safetensors file: install safetensors, or take the .pth file"
        ) from None
    # Damaged pickles and archives raise almost any exception of the standard library.
    except Exception as error:
        raise ValueError(f"{path} is damaged or cannot be read ({error})") from None
    raise ValueError(
        f"{path} is not a file of weights: neither torch.save nor safetensors wrote it"
    )


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    return load_file(path)
