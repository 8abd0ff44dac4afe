"""What an update reports: the agent's numbers and the bonus's, side by side."""

import jax.numpy as jnp
import pytest

from re3_jax.agents.base import reported


def test_both_are_reported_and_neither_replaces_the_other():
    one, two = {"loss": jnp.float32(1)}, {"beta": jnp.float32(2)}
    assert reported(one, two) == {**one, **two}
    with pytest.raises(ValueError, match="the bonus reports loss, as the agent does"):
        reported(one, {**two, "loss": jnp.float32(3)})
