"""Structures, shapes and dtypes of what a user's function returns, in sentences for the user."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

_WIDE = {np.dtype(np.float32): np.float64, np.dtype(np.int32): np.int64}


def check_tuple(what: str, returned: Any, names: str) -> tuple[Any, ...]:
    """The parts of what a function returned; a ValueError if it has not as many as `names`."""
    if not isinstance(returned, tuple) or len(returned) != len(names.split(", ")):
        found = f"{len(returned)} values" if isinstance(returned, tuple) else "one value"
        raise ValueError(f"{what} returns {found}: return ({names})")
    return returned


def check_array(what: str, value: Any, shape: Sequence[int], dtype: DTypeLike) -> None:
    """Raises a ValueError unless a value is an array or a number of this shape and kind.

    With 64-bit JAX, float64 is of the kind of float32.
    """
    wanted = jax.ShapeDtypeStruct(tuple(shape), dtype)
    try:
        found = _typeof(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} is a {type(value).__name__}, where {described(wanted)} is needed"
        ) from None
    allowed = {wanted.dtype, jax.dtypes.canonicalize_dtype(_WIDE.get(wanted.dtype, wanted.dtype))}
    if found.shape != wanted.shape or found.dtype not in allowed:
        raise ValueError(f"{what} is {described(found)}, where {described(wanted)} is needed")


def as_float32(value: Any) -> Any:
    """Whole, half and boolean numbers as float32; whatever else as it is."""
    return _cast(value, jnp.float32, jnp.integer, jnp.bool_, jnp.float16, jnp.bfloat16)


def as_int32(value: Any) -> Any:
    """Whole and boolean numbers as int32; whatever else as it is."""
    return _cast(value, jnp.int32, jnp.integer, jnp.bool_)


def _cast(value: Any, to: DTypeLike, *kinds: DTypeLike) -> Any:
    try:
        dtype = _typeof(value).dtype
    except (TypeError, ValueError):
        return value
    is_one = any(jnp.issubdtype(dtype, kind) for kind in kinds)
    return jnp.asarray(value, to) if is_one else value


def checked_info(function: str, info: Any, *, strict: bool = False) -> dict[str, Any]:
    """The info that a function returned: float32 scalars, made of other numbers if not `strict`.

    Raises:
      ValueError: it is no dict, a name does not suit a table, or it holds something else; one
        sentence.
    """
    if not isinstance(info, dict):
        raise ValueError(
            f"the info that {function} returns is a {type(info).__name__}: return a dict of "
            "float32 scalars, {} if there is nothing to log"
        )
    found = dict(info) if strict else {name: as_float32(value) for name, value in info.items()}
    for name, value in found.items():
        if not (isinstance(name, str) and name.strip() and name.isprintable()) or {*name} & {
            *",\"'"
        }:
            raise ValueError(
                f"the info of {function} has the name {name!r}, which is no name of a column: give "
                "a string without commas, quotes and line ends"
            )
        check_array(f"{name!r} in the info of {function}", value, (), jnp.float32)
    return found


def check_same_form(what: str, after: Any, before: Any) -> None:
    """Raises a ValueError unless two pytrees have equal structures, shapes and dtypes."""
    structures: list[Any] = [jax.tree.structure(tree) for tree in (after, before)]
    if structures[0] != structures[1]:
        raise ValueError(
            f"{what} has another structure than the state that it was given: {structures[0]} "
            f"instead of {structures[1]}"
        )
    leaves = (jax.tree_util.tree_leaves_with_path(tree) for tree in (after, before))
    for (path, new), (_, old) in zip(*leaves, strict=True):
        found, wanted = described(_typeof(new)), described(_typeof(old))
        if found != wanted:
            place = jax.tree_util.keystr(path)
            raise ValueError(f"{what} has {found} at {place or 'its root'}, but it was {wanted}")


def _typeof(value: Any) -> Any:
    return jax.typeof(value if isinstance(value, jax.Array) else jnp.asarray(value))


def described(value: Any) -> str:
    """dtype[shape]."""
    return f"{value.dtype.name}{list(value.shape)}"
