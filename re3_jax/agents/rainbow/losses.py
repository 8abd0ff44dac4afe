"""Rainbow's targets and losses as pure functions of what the networks put out."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from re3_jax.distributions import batched_index

batched_index_of_atoms = jax.vmap(batched_index, in_axes=(2, None), out_axes=1)
"""(values [batch, actions, atoms], action [batch]) -> [batch, atoms]."""


def project(
    probability: Float[Array, "batch atoms"],
    place: Float[Array, "batch atoms"],
    support: Float[Array, " atoms"],
) -> Float[Array, "batch atoms"]:
    """Moves probability at any places to evenly spaced atoms (Bellemare et al., 2017, Eq. 7).

    Each place gives its probability to the two atoms around it, the nearer the more; what lies
    beyond the ends goes to the ends.
    """
    spacing = support[1] - support[0]
    clipped = jnp.clip(place, support[0], support[-1])
    distance = jnp.abs(clipped[:, None, :] - support[:, None]) / spacing
    return jnp.sum(jnp.clip(1 - distance, 0, 1) * probability[:, None, :], axis=2)


def mean(
    logits: Float[Array, "*batch atoms"], support: Float[Array, " atoms"] | None
) -> Float[Array, "*batch"]:
    """Expected return; without a support the one output is the expectation."""
    if support is None:
        return logits[..., 0]
    return jnp.sum(jax.nn.softmax(logits) * support, axis=-1)


def categorical_target(
    target_logits: Float[Array, "batch actions atoms"],
    action: Int[Array, " batch"],
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
    support: Float[Array, " atoms"],
) -> Float[Array, "batch atoms"]:
    """Distribution of r + gamma^n Z(o_{t+n}, a*), projected onto the support."""
    chosen = batched_index_of_atoms(target_logits, action)
    place = reward[:, None] + discount[:, None] * support
    return jax.lax.stop_gradient(project(jax.nn.softmax(chosen), place, support))


def categorical_loss(
    logits: Float[Array, "batch actions atoms"],
    action: Int[Array, " batch"],
    target: Float[Array, "batch atoms"],
) -> Float[Array, " batch"]:
    """Cross-entropy of the target and the distribution of a_t; also what priorities are of."""
    chosen = batched_index_of_atoms(logits, action)
    return -jnp.sum(target * jax.nn.log_softmax(chosen), axis=1)


def scalar_target(
    target_outputs: Float[Array, "batch actions 1"],
    action: Int[Array, " batch"],
    reward: Float[Array, " batch"],
    discount: Float[Array, " batch"],
) -> Float[Array, " batch"]:
    """The target r + gamma^n Q(o_{t+n}, a*)."""
    chosen = batched_index(target_outputs[..., 0], action)
    return jax.lax.stop_gradient(reward + discount * chosen)


def huber_loss(
    outputs: Float[Array, "batch actions 1"],
    action: Int[Array, " batch"],
    target: Float[Array, " batch"],
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Huber's loss of Q(o_t, a_t), quadratic below 1; and |error|, of which priorities are."""
    chosen = batched_index(outputs[..., 0], action)
    error = jnp.abs(chosen - target)
    inner = jnp.minimum(error, 1.0)
    return 0.5 * inner**2 + (error - inner), error
