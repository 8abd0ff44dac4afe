"""Forty-eight faults for `planted_faults`: a text, its replacement, and tests that catch it."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault to plant: in `file`, `right` becomes `wrong`; `tests` should catch it."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


FAULTS = [
    # Replays
    Fault(
        "frame ring: a frame's age is one too large",
        "re3_jax/replay/frame_ring.py",
        "age=write(replay.age, replay.newest_age),",
        "age=write(replay.age, replay.newest_age + 1),",
        "tests/property/test_frame_ring.py",
    ),
    Fault(
        "frame ring: the newest transition is never sampled",
        "re3_jax/replay/frame_ring.py",
        "back = ends[lane] - 1 - drawn",
        "back = ends[lane] - drawn",
        "tests/property/test_frame_ring.py",
    ),
    Fault(
        "frame ring: sampling looks at the first lane only",
        "re3_jax/replay/frame_ring.py",
        'lane = jnp.searchsorted(ends[:-1], drawn, side="right").astype(jnp.int32)',
        "lane = jnp.zeros_like(drawn)",
        "tests/property/test_frame_ring.py",
    ),
    Fault(
        "frame ring: several steps reach into the next episode",
        "re3_jax/replay/frame_ring.py",
        "goes_on &= (k <= back) & (replay.age[after] == age + k)",
        "goes_on &= k <= back",
        "tests/property/test_frame_ring.py",
    ),
    Fault(
        "frame stack: an acting stack crosses into the next episode",
        "re3_jax/replay/frame_stack.py",
        "return jnp.where(begins, self.first(frame), self.push(stack, frame))",
        "return self.push(stack, frame)",
        "tests/property/test_frame_stack.py",
    ),
    Fault(
        "frame stack: gathered stacks begin one frame late",
        "re3_jax/replay/frame_stack.py",
        "inside = (back <= age)",
        "inside = (back < age)",
        "tests/property/test_frame_stack.py",
    ),
    Fault(
        "transition ring: the cursor moves by one whatever is written",
        "re3_jax/replay/transition_ring.py",
        "cursor=(ring.cursor + batch_size) % capacity,",
        "cursor=(ring.cursor + 1) % capacity,",
        "tests/property/test_transition_ring.py",
    ),
    Fault(
        "sequence ring: the last start of an episode is sampled, too",
        "re3_jax/replay/sequence_ring.py",
        "latest = replay.lengths[lane, episode] - length",
        "latest = replay.lengths[lane, episode] - length + 1",
        "tests/property/test_sequence_ring.py",
    ),
    Fault(
        "prioritised: time limits are forgotten",
        "re3_jax/replay/prioritized.py",
        "truncated=replay.truncated.at[row].set(truncated & ~terminated),",
        "truncated=replay.truncated,",
        "tests/property/test_prioritized.py",
    ),
    Fault(
        "prioritised: rewards are not discounted",
        "re3_jax/replay/prioritized.py",
        "factor = jnp.where(ends_before, 0.0, gamma ** jnp.arange(n))",
        "factor = jnp.where(ends_before, 0.0, 1.0)",
        "tests/property/test_prioritized.py",
    ),
    Fault(
        "prioritised: importance weights with the wrong sign",
        "re3_jax/replay/prioritized.py",
        "** -beta",
        "** beta",
        "tests/property/test_prioritized.py",
    ),
    Fault(
        "sum tree: inner nodes keep their old sums",
        "re3_jax/replay/sum_tree.py",
        'levels.append(above.at[node].set(sums, mode="drop"))',
        "levels.append(above)",
        "tests/property/test_sum_tree.py",
    ),
    Fault(
        "latent ring: the number of valid rows is not bounded",
        "re3_jax/replay/latent_ring.py",
        "num_valid=jnp.minimum(ring.num_valid + batch_size, capacity),",
        "num_valid=ring.num_valid + batch_size,",
        "tests/property/test_latent_ring.py",
    ),
    Fault(
        "distinct ring: overwritten copies are not counted down",
        "re3_jax/replay/distinct_ring.py",
        'copies = copies.at[_only(overwritten >= 0, overwritten, capacity)].add(-1, mode="drop")',
        "",
        "tests/property/test_distinct_ring.py",
    ),
    # k-NN and state entropy
    Fault(
        "k-NN: the mean leaves out the nearest rank that counts",
        "re3_jax/knn/exact.py",
        "counted = (rank >= start) & (rank <= available[:, None])",
        "counted = (rank > start) & (rank <= available[:, None])",
        "tests/parity/test_knn.py",
    ),
    Fault(
        "k-NN: squared distances are returned",
        "re3_jax/knn/exact.py",
        "distance = jnp.sqrt(jnp.where(counted, squared, 0.0))",
        "distance = jnp.where(counted, squared, 0.0)",
        "tests/parity/test_knn.py",
    ),
    Fault(
        "state entropy: an observation is its own neighbour",
        "re3_jax/intrinsic/stored_latents.py",
        "exclude=None if config.count_self else own_row,",
        "exclude=None,",
        "tests/parity/test_re3.py tests/unit/test_re3.py tests/property/test_re3.py",
    ),
    Fault(
        "state entropy: the bonus of another transition",
        "re3_jax/intrinsic/stored_latents.py",
        "row = _row_at(ring, place)\n",
        "row = _row_at(ring, place[::-1])\n",
        "tests/parity/test_re3.py tests/unit/test_re3.py",
    ),
    Fault(
        "copies: no tolerance for rounding",
        "re3_jax/fingerprint.py",
        "COPY_TOLERANCE = 1e-4",
        "COPY_TOLERANCE = 0.0",
        "tests/property/test_copies.py",
    ),
    # Transforms and schedules
    Fault(
        "transforms: log(r) in place of log(1 + r)",
        "re3_jax/intrinsic/transforms.py",
        "jnp.log1p(reward))",
        "jnp.log(reward + 1e-6))",
        "tests/unit/test_transforms.py",
    ),
    Fault(
        "running statistics: the batches' means do not count as variance",
        "re3_jax/running_stats.py",
        "(batch.variance - stats.variance + between)",
        "(batch.variance - stats.variance)",
        "tests/property/test_running_stats.py tests/unit/test_running_stats.py",
    ),
    Fault(
        "schedules: beta does not decay",
        "re3_jax/schedules.py",
        "jnp.exp(steps.astype(jnp.float32) * self.log_keep) * self.beta",
        "jnp.exp(0.0 * self.log_keep) * self.beta",
        "tests/unit/test_schedules.py",
    ),
    Fault(
        "chain: transforms from right to left",
        "re3_jax/intrinsic/base.py",
        "for transform, transform_state in zip(transforms, state.transforms, strict=True):",
        "for transform, transform_state in list(zip(transforms, state.transforms))[::-1]:",
        "tests/unit/test_re3.py tests/unit/test_transforms.py tests/parity/test_re3.py",
    ),
    # Other bonuses
    Fault(
        "rewarding: the bonus learns before it rewards",
        "re3_jax/intrinsic/rewarding.py",
        "        reward, state, info = bonus.reward(state, batch)\n"
        "        if minibatches is None:\n"
        "            state, trained = bonus.update(state, batch, key)\n",
        "        if minibatches is None:\n"
        "            state, trained = bonus.update(state, batch, key)\n"
        "        reward, state, info = bonus.reward(state, batch)\n"
        "        if minibatches is None:\n"
        "            pass\n",
        "tests/unit/test_prediction_error.py",
    ),
    Fault(
        "rollouts: an episodic bonus sees all steps at once",
        "re3_jax/intrinsic/base.py",
        "    if bonus.observe_rollout is not None:\n",
        "    if False:\n",
        "tests/unit/test_episodic_bonus.py",
    ),
    Fault(
        "ICM: the forward model predicts the features it is given",
        "re3_jax/intrinsic/icm.py",
        "jnp.square(next_features - predicted_features)",
        "jnp.square(features - predicted_features)",
        "tests/parity/test_icm.py",
    ),
    Fault(
        "contrastive: the key encoder does not follow",
        "re3_jax/intrinsic/contrastive.py",
        "return ContrastiveState(params, key_encoder, opt_state),",
        "return ContrastiveState(params, state.key_encoder, opt_state),",
        "tests/parity/test_contrastive.py",
    ),
    # Agents
    Fault(
        "A2C: gradients flow into the advantage",
        "re3_jax/agents/a2c/losses.py",
        "fixed_value = jax.lax.stop_gradient(value)",
        "fixed_value = value",
        "tests/parity/test_a2c.py",
    ),
    Fault(
        "A2C and PPO: a time limit is bootstrapped from the next episode",
        "re3_jax/agents/rollout.py",
        "ended = self.terminated | self.truncated",
        "ended = self.terminated",
        "tests/parity/test_a2c.py tests/parity/test_ppo.py",
    ),
    Fault(
        "PPO: the objective takes the larger of both products",
        "re3_jax/agents/ppo/losses.py",
        "-jnp.mean(jnp.minimum(ratio * advantage",
        "-jnp.mean(jnp.maximum(ratio * advantage",
        "tests/parity/test_ppo.py",
    ),
    Fault(
        "PPO: the GRU forgets nothing inside a rollout",
        "re3_jax/agents/ppo/networks.py",
        "jnp.where(begins[:, None], 0.0, hidden)",
        "hidden",
        "tests/parity/test_ppo.py tests/unit/test_ppo_memory.py",
    ),
    Fault(
        "PPO on the host: a rollout begins without what the lanes carry",
        "re3_jax/training/host_rollout.py",
        "stored._replace(first=state.memory, taken",
        "stored._replace(taken",
        "tests/unit/test_on_policy_host_loop.py",
    ),
    Fault(
        "PPO: the returns of the bonus end with the episode",
        "re3_jax/agents/ppo/advantages.py",
        "never = jnp.zeros_like(rollout.done)",
        "never = rollout.done",
        "tests/parity/test_ppo.py tests/unit/test_ppo.py",
    ),
    Fault(
        "PPO: sums of rewards go on with the next episode",
        "re3_jax/agents/ppo/reward_scale.py",
        "jnp.where(ends | ~jnp.isfinite(total), 0.0, total)",
        "jnp.where(~jnp.isfinite(total), 0.0, total)",
        "tests/parity/test_ppo.py tests/unit/test_ppo.py",
    ),
    Fault(
        "SAC: entropy with the wrong sign in the target",
        "re3_jax/agents/sac/losses.py",
        "value = (q - alpha * log_probability)",
        "value = (q + alpha * log_probability)",
        "tests/parity/test_sac.py",
    ),
    Fault(
        "SAC: the temperature moves the wrong way",
        "re3_jax/agents/sac/losses.py",
        "jnp.exp(log_alpha) * (action_dim - log_probability)",
        "jnp.exp(log_alpha) * (log_probability - action_dim)",
        "tests/parity/test_sac.py",
    ),
    Fault(
        "SAC: the learner drops the bonus",
        "re3_jax/agents/sac/agent.py",
        "batch.reward + batch.bonuses,",
        "batch.reward,",
        "tests/parity/test_sac.py tests/property/test_sac.py",
    ),
    Fault(
        "Rainbow: what lies beyond the support is lost",
        "re3_jax/agents/rainbow/losses.py",
        "clipped = jnp.clip(place, support[0], support[-1])",
        "clipped = place",
        "tests/parity/test_rainbow.py tests/parity/test_rlax.py",
    ),
    Fault(
        "Rainbow: the target network chooses the action",
        "re3_jax/agents/rainbow/agent.py",
        "choosing = networks.outputs(state.online, batch.next_observation, online_noise, config)",
        "choosing = outputs",
        "tests/parity/test_rainbow.py",
    ),
    Fault(
        "Rainbow: new priorities are not written",
        "re3_jax/agents/rainbow/learner.py",
        "replay = prioritized.update_priorities(replay, drawn.slot, priority)",
        "pass",
        "tests/learning/test_rainbow.py tests/unit/test_prioritized_host_loop.py",
    ),
    Fault(
        "Dreamer: lambda-returns are bootstrapped one step late",
        "re3_jax/agents/dreamer/losses.py",
        "following = jnp.concatenate([value[1:], bootstrap[None]])",
        "following = value",
        "tests/parity/test_dreamer.py",
    ),
    Fault(
        "Dreamer: a belief outlives its episode",
        "re3_jax/agents/dreamer/learner.py",
        "jnp.where(begins[:, None], 0.0, leaf)",
        "leaf",
        "tests/unit/test_dreamer_host_loop.py",
    ),
    # Loops
    Fault(
        "off-policy loop: learning before the first transitions",
        "re3_jax/agents/sac/learner.py",
        "(after >= config.initial_agent_steps) & ",
        "(after >= 0) & ",
        "tests/unit/test_off_policy.py",
    ),
    Fault(
        "off-policy loop: every update of a step draws the same batch",
        "re3_jax/training/off_policy.py",
        "phases, jax.random.fold_in(key, number))",
        "phases, key)",
        "tests/unit/test_off_policy.py",
    ),
    Fault(
        "evaluation: episodes after the first count, too",
        "re3_jax/training/evaluate.py",
        "returns + jnp.where(counts, timestep.reward, 0.0),",
        "returns + timestep.reward,",
        "tests/unit/test_on_policy.py tests/unit/test_off_policy.py",
    ),
    Fault(
        "pre-training: the task's reward is stored",
        "re3_jax/agents/reward_free.py",
        "step._replace(reward=jnp.zeros_like(step.reward))",
        "step",
        "tests/unit/test_reward_free.py",
    ),
    Fault(
        "checkpoints: a wrong digest is accepted",
        "re3_jax/training/checkpoint.py",
        'if digests.of_leaves(self._all_rows(small)) != sealed["digests"]:',
        "if False:",
        "tests/resume/test_checkpoint.py",
    ),
    Fault(
        "fine-tuning: the optimiser is inherited",
        "re3_jax/training/transfer.py",
        "        if key.name not in fields:\n            return False\n",
        "",
        "tests/unit/test_transfer.py",
    ),
]
