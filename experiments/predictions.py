"""Dreamer's predictions as a video: what came, what the world model foresaw, and the error."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from re3_jax.agents.dreamer import prediction
from re3_jax.agents.dreamer.agent import SequenceBatch
from re3_jax.cpu import compilation
from re3_jax.replay import sequence_ring

if TYPE_CHECKING:
    from experiments.config import RunConfig

VIDEO = "predictions.mp4"
"""Name of the video in a run folder."""

SEQUENCES = 6


def frames(config: "RunConfig", state: Any) -> list[np.ndarray]:
    """Frames of the video for the first seed; none before an episode is stored.

    Args:
      config: of a run of Dreamer.
      state: of all seeds.
    """
    if not bool(jax.vmap(sequence_ring.can_sample)(state.replay)[0]):
        return []
    length = config.dreamer.sequence_length

    # Mapped over seeds, because a slice of the replay would be a copy of it.
    @jax.jit
    @jax.vmap
    def draw(key, replay):
        return SequenceBatch.of(sequence_ring.sample(key, replay, SEQUENCES, length))

    drawn = draw(
        jax.vmap(lambda key: jax.random.fold_in(key, 0))(state.evaluation_key), state.replay
    )
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[0], drawn)
    model = jax.tree.map(lambda leaf: np.asarray(leaf[0]), state.agent.model)
    context = min(prediction.CONTEXT, length - 1)
    predicted = compilation.jit(prediction.open_loop, static_argnums=3)(
        model, batch, jax.random.key(0), context
    )
    return list(np.asarray(prediction.comparison(batch, predicted)))
