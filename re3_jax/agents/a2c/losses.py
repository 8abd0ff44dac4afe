"""The A2C objective of torch-ac, in one forward pass over a rollout."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from re3_jax.agents.a2c.config import A2CConfig
from re3_jax.agents.rollout import Rollout, next_values
from re3_jax.distributions import Categorical
from re3_jax.returns import generalized_advantage


def a2c_loss(
    params, network, rollout: Rollout, config: A2CConfig
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Policy gradient, entropy and value terms, averaged over the rollout.

    L = -mean(log pi(a|o) A) - c_H mean(H) + c_V mean((V - R)^2), with A from GAE and
    R = V + A, neither differentiated and A not normalised. One update follows each rollout,
    so the values inside A are those of this very forward pass.

    `config.bonus_target` puts the bonus into the reward (Algorithm 2: GAE carries it through
    time) or, as the released code, onto A and R after GAE on the task reward alone.
    """
    num_steps, num_envs = rollout.reward.shape
    everything = jnp.concatenate([rollout.observation, rollout.last_observation[None]])
    logits, value = network.apply(params, everything.reshape(-1, *everything.shape[2:]))
    policy = Categorical(logits.reshape(num_steps + 1, num_envs, -1)[:-1])
    value = value.reshape(num_steps + 1, num_envs)

    fixed_value = jax.lax.stop_gradient(value)
    final_value = None
    if config.bootstrap_truncation:
        final = rollout.next_observation.reshape(-1, *everything.shape[2:])
        final_value = network.apply(jax.lax.stop_gradient(params), final, method="value")
        final_value = final_value.reshape(num_steps, num_envs)
    next_value = next_values(rollout, fixed_value, final_value)

    into_reward = config.bonus_target == "reward"
    reward = rollout.reward + rollout.bonus if into_reward else rollout.reward
    advantage = generalized_advantage(
        reward, fixed_value[:-1], next_value, rollout.done, config.discount, config.gae_lambda
    )
    if not into_reward:
        advantage = advantage + rollout.bonus
    target = fixed_value[:-1] + advantage

    policy_loss = -jnp.mean(policy.log_probability(rollout.action) * advantage)
    entropy = jnp.mean(policy.entropy())
    value_loss = jnp.mean(jnp.square(value[:-1] - target))
    loss = policy_loss - config.entropy_coef * entropy + config.value_coef * value_loss
    return loss, {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "value_mean": jnp.mean(value[:-1]),
        "advantage_mean": jnp.mean(advantage),
    }
