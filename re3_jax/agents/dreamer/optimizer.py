"""Adam as Keras has it, after clipping by the global norm."""

import jax
import jax.numpy as jnp
import optax


def clipped_adam(
    learning_rate: float, eps: float, max_grad_norm: float
) -> optax.GradientTransformation:
    """Adam whose epsilon is added before the second moment's bias is corrected.

    Kingma and Ba (2015), end of section 2: alpha_t m / (sqrt(v) + eps) with
    alpha_t = alpha sqrt(1 - b2^t) / (1 - b1^t). optax and PyTorch correct the bias first, and eps
    weighs less in the first thousands of steps.
    """
    return optax.chain(
        optax.clip_by_global_norm(max_grad_norm),
        _scale_by_keras_adam(eps),
        optax.scale(-learning_rate),
    )


def _scale_by_keras_adam(eps: float, b1: float = 0.9, b2: float = 0.999):
    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return optax.ScaleByAdamState(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(gradient, state: optax.ScaleByAdamState, params=None):
        del params
        count = state.count + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, gradient)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, gradient)
        scale = jnp.sqrt(1 - b2**count) / (1 - b1**count)
        change = jax.tree.map(lambda m, v: scale * m / (jnp.sqrt(v) + eps), mu, nu)
        return change, optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformation(init, update)
