"""A plugin with a planted fault: RE3 whose encoder gives every observation the same latent.

    python -m experiments.train --plugin experiments/figures/constant_latents.py \
        --bonus constant_latents

`FIG=bonus_faults` draws what its diagnostics look like.
"""

import jax.numpy as jnp

from re3_jax.intrinsic.re3 import encoder_from
from re3_jax.intrinsic.state_entropy import state_entropy
from re3_jax.runs import bonuses


def _make(run, re3):
    encoder = encoder_from(re3)

    def encode(state, observation):
        return jnp.zeros_like(encoder.encode(state, observation))

    return state_entropy(re3, encoder._replace(encode=encode))


bonuses.register(
    bonuses.Bonus(name="constant_latents", groups=("re3",), make=_make, is_entropy=True)
)
