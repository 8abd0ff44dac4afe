"""State-entropy exploration with random encoders (RE3; Seo et al., ICML 2021) in JAX.

Parts for your own training loop:

- `re3_jax.intrinsic`: `re3`, `none`, `chain` and the reward transforms.
- `re3_jax.knn`, `re3_jax.replay.latent_ring`, `re3_jax.state_entropy`: exact nearest neighbours
  in a ring of latents, and the entropy estimate from their distances.
- `re3_jax.random_encoder`, `re3_jax.initializers`, `re3_jax.running_stats`,
  `re3_jax.schedules`: the parts of the bonus.
- `re3_jax.envs.registry`, `re3_jax.agents`, `re3_jax.training`: tasks, agents and the loop.

`import re3_jax` imports none of them.
"""
