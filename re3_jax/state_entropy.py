"""The particle estimate of state entropy: Eq. 1 and Eq. 2 of the RE3 paper (Singh et al., 2003)."""

import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float

from re3_jax import knn
from re3_jax.replay import latent_ring


def particle_entropy(samples: Float[Array, "samples dim"], k: int) -> Float[Array, ""]:
    """Differential entropy in nats of the density that `samples` were drawn from (Eq. 1).

    mean_i log( N d_i^q pi^(q/2) / (k Gamma(q/2 + 1)) ) + log k - digamma(k), where d_i is the
    Euclidean distance of sample i to its k-th nearest among the others, N the number of samples
    and q their dimension.

    If k or more other samples coincide with a sample, its distance is 0 and the estimate is -inf:
    a density with such repetitions has no finite entropy.

    Example:
      >>> import jax
      >>> from re3_jax.state_entropy import particle_entropy
      >>> samples = 2.0 * jax.random.uniform(jax.random.key(0), (2000, 2))
      >>> print(f"{particle_entropy(samples, k=3):.1f} nats, where log 4 = 1.4 is exact")
      1.4 nats, where log 4 = 1.4 is exact

    Raises:
      ValueError: if k is not in 1..N-1.
    """
    count, dim = samples.shape
    log_ball = 0.5 * dim * jnp.log(jnp.pi) - gammaln(0.5 * dim + 1)
    bias_correction = jnp.log(k) - digamma(k)
    return (
        dim * mean_log_distance(samples, k) + jnp.log(count) + log_ball - jnp.log(k)
    ) + bias_correction


def mean_log_distance(samples: Float[Array, "samples dim"], k: int) -> Float[Array, ""]:
    """Mean log distance of each sample to its k-th nearest among the others (Eq. 2).

    Multiplied by the dimension, it equals the entropy of Eq. 1 up to a constant that depends on N,
    k and the dimension. It is -inf if k or more other samples coincide with a sample.

    Raises:
      ValueError: if k is not in 1..N-1.
    """
    count, dim = samples.shape
    if not 1 <= k < count:
        raise ValueError(
            f"neighbour {k} among {count} samples does not exist: "
            "choose k between 1 and the number of samples less one"
        )
    ring, own_row = latent_ring.add(latent_ring.init(count, dim), samples)
    return jnp.mean(jnp.log(knn.kth_distance(samples, ring, k=k, exclude=own_row)))
