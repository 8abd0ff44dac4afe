"""RE3: state entropy in the space of a random encoder that is never trained.

Equation 3: r_i = log(1 + ||y_i - y_i^{k-NN}||), with y = f_theta(o). The neighbours are the latents
of the newest `ring_size` observations, including those of the batch itself, because `observe`
writes them before `reward` runs. On MiniGrid the distance is a mean over neighbours of several
ranks (paper, Appendix "Details on MiniGrid Experiments").
"""

from functools import partial

from jaxtyping import Array

from re3_jax import checks, random_encoder
from re3_jax.intrinsic import encoder_config
from re3_jax.intrinsic.base import IntrinsicReward
from re3_jax.intrinsic.encoder_config import EncoderConfig
from re3_jax.intrinsic.re3_config import Normalization, RE3Config
from re3_jax.intrinsic.state_entropy import Encoder, never_trained, scaled, state_entropy
from re3_jax.random_encoder import EncoderParams

__all__ = ["Normalization", "RE3Config", "encoder_from", "encoder_of", "from_config", "re3"]


def encoder_of(config: EncoderConfig, ensemble_size: int = 1) -> Encoder:
    """The random encoder, or ensemble of random encoders, for `config`."""

    def encode(params: EncoderParams, observation: Array) -> Array:
        random_encoder.refuse_scaled_images(params, observation)
        return encoder_config.encode(params, observation, config)

    return Encoder(
        init=partial(encoder_config.init, config=config, ensemble_size=ensemble_size),
        encode=encode,
        latent_dim=lambda spec: random_encoder.latent_dim_of(spec, config.latent_dim),
        update=never_trained,
        visible=partial(
            random_encoder.visible, image_input=config.image_input, image_crop=config.image_crop
        ),
    )


def encoder_from(config: RE3Config) -> Encoder:
    """RE3's encoder, with as many members as `config` says."""
    return encoder_of(config, config.ensemble_size)


def re3(config: RE3Config) -> IntrinsicReward:
    """The bare mean distance to the neighbours of ranks first..last, in latent units.

    If the ring holds fewer neighbours, it is the mean over those that exist, and 0 for the very
    first observation (see `knn.mean_distance`).

    Raises:
      ValueError: if the options are of another class.
    """
    checks.made_with(RE3Config, config, "re3")
    return state_entropy(config, encoder_from(config), "ring")


def from_config(config: RE3Config) -> IntrinsicReward:
    """The complete bonus: distance, normalisation, log(1 + .), beta_t.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import numpy as np
      >>> from re3_jax.envs.base import Discrete, EnvSpec
      >>> from re3_jax.intrinsic import IntrinsicBatch, RE3Config, Step, from_config
      >>> spec = EnvSpec("plane", (2,), np.dtype(np.float32), Discrete(4), max_agent_steps=100)
      >>> bonus = from_config(RE3Config(ring_size=100, beta=1.0))
      >>> state = bonus.init(jax.random.key(0), spec)
      >>> place = jnp.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [9.0, 9.0]])
      >>> state, index = bonus.observe(state, Step(place))
      >>> action, agent_steps = jnp.zeros(4, jnp.int32), jnp.int32(0)
      >>> batch = IntrinsicBatch(place, action, place, index, agent_steps)
      >>> reward, state, info = bonus.reward(state, batch)
      >>> int(jnp.argmax(reward))  # the place that is far from the others
      3
    """
    return scaled(config, re3(config))
