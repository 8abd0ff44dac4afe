"""The state of a bonus in one file, for loops that keep it themselves (io)."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.schedules import Decay
from re3_jax.training.transfer import name_of
from re3_jax.training.whole_file import replacing


def save(path: str | Path, state: Any) -> None:
    """Writes a state, NumPy's npz.

    The file is written beside `path` and then renamed, so that a process killed meanwhile leaves
    the old file whole.

    Args:
      path: of the file.
      state: a pytree of arrays, keys and numbers of any shapes and dtypes, such as `bonus.init`
        returns.

    Raises:
      ValueError: if two leaves have one path, such as a/b and b in a, or a name ends in .npy.
      OSError: if the file cannot be written.
    """
    path = Path(path)
    # `np.savez` takes the arrays as keywords beside its own, `file` and `allow_pickle`.
    with replacing(path) as part, ZipFile(part, "w") as archive:
        for name, array in _as_numpy(_of_arrays(state)).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def restore(path: str | Path, like: Any) -> Any:
    """Reads a state, bit for bit as it was saved, but for weights of bonuses: beta_0 and rho.

    These are those of `like`, because they are options and nothing that a loop arrived at.

    Args:
      path: of the file.
      like: a state of the same form, such as `bonus.init(key, spec, num_lanes)` with the same
        bonus, task and number of lanes. It is left as it is.

    Returns:
      The state, with the leaves of `like` replaced by those of the file: JAX's arrays where `like`
      has them, else NumPy's.

    Raises:
      ValueError: if the file is missing or damaged, or if its state has another form than `like`.

    Example:
      >>> import tempfile
      >>> import jax, numpy as np
      >>> from re3_jax.envs.base import Discrete, EnvSpec
      >>> from re3_jax.interop import state_file
      >>> from re3_jax.intrinsic import RE3Config, Step, from_config
      >>> spec = EnvSpec("car", (2,), np.dtype(np.float32), Discrete(3), max_agent_steps=200)
      >>> bonus = from_config(RE3Config(ring_size=64))
      >>> state, _ = bonus.observe(bonus.init(jax.random.key(0), spec), Step(np.ones((4, 2), "f4")))
      >>> path = tempfile.mkdtemp() + "/bonus.npz"
      >>> state_file.save(path, state)
      >>> again = state_file.restore(path, like=bonus.init(jax.random.key(1), spec))
      >>> state, index = bonus.observe(again, Step(np.ones((4, 2), "f4")))
      >>> [int(place) for place in index]
      [4, 5, 6, 7]
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
            if not all(isinstance(array, np.ndarray) for array in found.values()):
                raise ValueError
    except (ValueError, TypeError):
        # NumPy's sentence advises to unpickle what may be anything; an .npy file has no `with`.
        raise ValueError(
            f"cannot read the state of a bonus from {path}: it is not an .npz file that save wrote"
        ) from None
    except (OSError, EOFError, BadZipFile, RuntimeError) as error:
        raise ValueError(f"cannot read the state of a bonus from {path} ({error})") from None
    like = _of_arrays(like)
    own = _as_numpy(like)
    forms = [
        {name: (leaf.shape, leaf.dtype) for name, leaf in each.items()} for each in (own, found)
    ]
    if forms[0] != forms[1]:
        raise ValueError(
            f"{path} does not hold a state of this bonus: restore it with the same bonus, task and "
            "number of lanes"
        )

    def restored(leaf: Any, name: str) -> Any:
        if _is_key(leaf):
            data = jnp.array(found[name])
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        value = found[name].view(leaf.dtype)
        return jnp.array(value) if isinstance(leaf, jax.Array) else value

    leaves, tree = jax.tree.flatten(like)
    state = jax.tree.unflatten(tree, map(restored, leaves, own))
    return jax.tree.map(
        lambda ours, saved: jax.tree.map(_copy, ours) if _is_weight(ours) else saved,
        *(like, state),
        is_leaf=_is_weight,
    )


def _of_arrays(state: Any) -> Any:
    """The same with Python's numbers as arrays."""
    return jax.tree.map(lambda leaf: leaf if hasattr(leaf, "dtype") else np.asarray(leaf), state)


def _copy(leaf: Any) -> Any:
    return jnp.copy(leaf) if isinstance(leaf, jax.Array) else np.copy(leaf)


def _is_weight(node: Any) -> bool:
    return isinstance(node, Decay)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as_numpy(state: Any) -> dict[str, Any]:
    """The leaves by their path, in order; keys as their data, bfloat16 and its kin as bits.

    NumPy writes a dtype that is not its own as bytes without a name, so the name goes to the path.
    """
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        array, name = (
            np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf),
            name_of(path),
        )
        if array.dtype.kind == "V":
            name, array = f"{name}:{array.dtype}", array.view(f"u{array.dtype.itemsize}")
        if name in leaves or name.endswith(".npy"):
            raise ValueError(
                f"a leaf of the state is called {name}, as another is or as NumPy calls files: "
                "rename one"
            )
        leaves[name] = array
    return leaves
