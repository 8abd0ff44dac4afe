"""What the world model expects to see: a few frames are shown, the rest is imagined."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, UInt8

from re3_jax import compilation
from re3_jax.agents.dreamer import networks
from re3_jax.agents.dreamer.agent import SequenceBatch
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import WorldModel
from re3_jax.networks import rssm
from re3_jax.networks.rssm import State
from re3_jax.replay import sequence_ring
from re3_jax.replay.sequence_ring import SequenceReplay

CONTEXT = 5
"""Frames that are shown, as in danijar/dreamer."""

FORESEEN = 6
"""Sequences in a video."""


def of_first_seed(
    config: DreamerConfig, replay: SequenceReplay, model: WorldModel, key: Key[Array, " seed"]
) -> list[np.ndarray]:
    """Frames of a video of the truth, the prediction and the error; none before a whole episode.

    Args:
      config: the agent's options.
      replay: replays of all seeds.
      model: world models of all seeds.
      key: a key of each seed, which draws the sequences.
    """
    if not bool(jax.vmap(sequence_ring.can_sample)(replay)[0]):
        return []
    length = config.sequence_length

    # Mapped over seeds, because slicing the replay would copy it.
    @jax.jit
    @jax.vmap
    def draw(key, replay):
        key = jax.random.fold_in(key, 0)
        return SequenceBatch.of(sequence_ring.sample(key, replay, FORESEEN, length))

    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[0], draw(key, replay))
    first = jax.tree.map(lambda leaf: np.asarray(leaf[0]), model)
    context = min(CONTEXT, length - 1)
    predict = compilation.jit(open_loop, static_argnums=3)
    predicted = predict(first, batch, jax.random.key(0), context)
    return list(np.asarray(comparison(batch, predicted)))


def open_loop(
    model: WorldModel, batch: SequenceBatch, key: PRNGKeyArray, context: int = CONTEXT
) -> Float[Array, "batch time 64 64 channels"]:
    """Images in [-0.5, 0.5]: of the first `context` frames as seen, of the others as foreseen.

    What is foreseen follows from the actions that were taken, without a look at what came.
    """
    size, time = batch.reward.shape
    observe_key, imagine_key = jax.random.split(key)
    seen = networks.preprocess(batch.frames[:, :context])
    embedding = networks.encode(model.encoder, seen.reshape(-1, *seen.shape[2:]))
    embedding = embedding.reshape(size, context, -1).swapaxes(0, 1)
    action = batch.action.swapaxes(0, 1)
    states, _, _ = rssm.observe(model.dynamics, embedding, action[:context], observe_key)

    def step(state: State, inputs):
        action, key = inputs
        deter = rssm.advance(model.dynamics, state, action)
        state = State(deter, rssm.sample(key, rssm.prior(model.dynamics, deter)))
        return state, state

    keys = jax.random.split(imagine_key, time - context)
    newest = jax.tree.map(lambda leaf: leaf[-1], states)
    _, foreseen = jax.lax.scan(step, newest, (action[context:], keys))
    features = jnp.concatenate([rssm.features(states), rssm.features(foreseen)])
    decoded = networks.decode(model.decoder, features.reshape(time * size, -1))
    return decoded.reshape(time, size, *decoded.shape[1:]).swapaxes(0, 1)


def comparison(
    batch: SequenceBatch, predicted: Float[Array, "batch time 64 64 channels"]
) -> UInt8[Array, "time 192 width channels"]:
    """A video of all sequences side by side: what came, what was predicted, and the error.

    An error of nought is grey, as in danijar/dreamer.
    """
    truth = networks.preprocess(batch.frames) + 0.5
    predicted = jnp.clip(predicted + 0.5, 0.0, 1.0)
    error = (predicted - truth + 1) / 2
    rows = jnp.concatenate([truth, predicted, error], axis=2)
    side_by_side = jnp.concatenate(list(rows), axis=2)
    return jnp.round(255 * side_by_side).astype(jnp.uint8)
