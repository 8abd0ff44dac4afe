"""PPO's update with `torch.nn`, `torch.distributions` and `torch.optim`, step by step.

CleanRL's order of operations: GAE with loops, epochs of minibatches, Adam on clipped gradients.
"""

import jax
import numpy as np
import torch
from torch.distributions import Categorical, Normal

from re3_jax.networks.conv_stack import ConvStack
from tests.torch_oracle.dreamer import gru_cell
from tests.torch_oracle.layers import convolve_all, encode, flat, images, linear, mlp
from tests.torch_oracle.weights import as_tensors


def tensor(array):
    return torch.tensor(np.asarray(array, np.float64))


def outputs(params, observation):
    """Policy and values [batch, value]."""
    if not isinstance(params.trunk, ConvStack):
        x = encode(params.trunk, observation)
    elif params.trunk.layers:
        scale = 255 if observation.dtype == np.uint8 else 1
        x = flat(convolve_all(params.trunk, images(observation) / scale))
    else:
        x = tensor(observation).flatten(1)
    for layer in params.body:
        x = torch.relu(linear(layer, x))
    return heads(params, x)


def heads(params, x):
    actor, critic = (mlp(head, x, torch.tanh) for head in (params.actor, params.critic))
    if params.log_std is None:
        return Categorical(logits=actor), critic
    return Normal(actor, params.log_std.exp().expand_as(actor)), critic


def log_probability(policy, action):
    if isinstance(policy, Categorical):
        return policy.log_prob(torch.tensor(np.asarray(action)))
    return policy.log_prob(tensor(action)).sum(1)


def entropy(policy):
    found = policy.entropy()
    return found if isinstance(policy, Categorical) else found.sum(1)


def advantages(reward, value, following, ends, discount, gae_lambda):
    """GAE, one lane and one step after the other."""
    steps, lanes = reward.shape
    found = np.zeros((steps, lanes))
    for lane in range(lanes):
        after = 0.0
        for t in reversed(range(steps)):
            delta = reward[t, lane] + discount * following[t, lane] - value[t, lane]
            after = delta + discount * gae_lambda * (0.0 if ends[t, lane] else after)
            found[t, lane] = after
    return found


class Scale:
    """Keeps every discounted sum that there was."""

    def __init__(self, lanes):
        self.sums, self.present = [], [0.0] * lanes

    def __call__(self, reward, ends, discount):
        for t, lane in np.ndindex(reward.shape):
            self.present[lane] = discount * self.present[lane] + float(reward[t, lane])
            self.sums.append(self.present[lane])
            if ends[t, lane]:
                self.present[lane] = 0.0
        return np.clip(reward / np.std(self.sums), -10, 10)


class PPO:
    """Learns from rollouts as `make_ppo` does, from the same parameters."""

    def __init__(self, params, config):
        self.params, self.config = as_tensors(params), config
        self.optimizer = torch.optim.Adam(jax.tree.leaves(self.params), 1.0, eps=config.adam_eps)
        self.task, self.bonus = Scale(config.num_envs), Scale(config.num_envs)
        self.observations = []

    def whitened(self, observation):
        if not self.config.normalize_observations or not self.observations:
            clipped = self.config.normalize_observations
            return np.clip(observation, -10, 10) if clipped else observation
        seen = np.concatenate(self.observations).astype(np.float64)
        return np.clip((observation - seen.mean(0)) / seen.std(0), -10, 10)

    def evaluate(self, observation):
        """Policy and values of observations with the axes of time and lanes first."""
        with torch.no_grad():
            flat = self.whitened(observation.reshape(-1, *observation.shape[2:]))
            policy, value = outputs(self.params, flat)
        return policy, value.numpy().reshape(*observation.shape[:2], -1)

    def of_rollout(self, rollout):
        """The policy and the values of its observations."""
        return self.evaluate(rollout.observation)

    def of_last(self, rollout):
        """Values of what the lanes show afterwards, and of the next observations."""
        last, final = rollout.last_observation[None], rollout.next_observation
        return self.evaluate(last)[1], self.evaluate(final)[1]

    def of_minibatch(self, rollout, observation, chosen):
        """Policy and values of one minibatch, and its steps."""
        return *outputs(self.params, observation[chosen]), chosen

    def estimates(self, rollout, value):
        """Advantages [time, lane] and returns [time, lane, value]."""
        config, done = self.config, rollout.terminated | rollout.truncated
        last, final = self.of_last(rollout)
        later = np.concatenate([value[1:], last])
        following = np.where(done, 0.0, later[..., 0])
        if config.bootstrap_truncation:
            is_cut = rollout.truncated & ~rollout.terminated
            following = np.where(is_cut, final[..., 0], following)
        reward, bonus = (np.asarray(x, np.float64) for x in (rollout.reward, rollout.bonus))
        if not config.intrinsic_value_head:
            reward = reward + bonus
        if config.scaled_rewards == "all":
            reward = self.task(reward, done, config.discount)
        given = value[..., 0], following, done, config.discount, config.gae_lambda
        task = advantages(reward, *given)
        if not config.intrinsic_value_head:
            return task, value + task[..., None]
        never = np.zeros_like(done)
        if config.scaled_rewards != "none":
            bonus = self.bonus(bonus, never, config.intrinsic_discount)
        given = value[..., 1], later[..., 1], never, config.intrinsic_discount, config.gae_lambda
        intrinsic = advantages(bonus, *given)
        both = config.extrinsic_coef * task + config.intrinsic_coef * intrinsic
        return both, value + np.stack([task, intrinsic], axis=-1)

    def update(self, rollout, order, agent_steps):
        """All epochs; means of the losses over the minibatches."""
        config = self.config
        policy, value = self.of_rollout(rollout)
        advantage, returns = self.estimates(rollout, value)
        steps = rollout.reward.size
        observation = self.whitened(
            rollout.observation.reshape(steps, *rollout.observation.shape[2:])
        )
        action = rollout.action.reshape(steps, *rollout.action.shape[2:])
        old = log_probability(policy, action)
        value, returns = (tensor(x.reshape(steps, -1)) for x in (value, returns))
        advantage = tensor(advantage.reshape(-1))
        share = 1.0 - agent_steps / config.anneal_agent_steps
        self.optimizer.param_groups[0]["lr"] = config.learning_rate * share
        infos = []
        for number, row in enumerate(np.array(order), 1):
            new, new_value, chosen = self.of_minibatch(rollout, observation, row)
            ratio = (log_probability(new, action[chosen]) - old[chosen]).exp()
            a = advantage[chosen]
            a = (a - a.mean()) / (a.std() + 1e-8)
            bounded = ratio.clamp(1 - config.clip_epsilon, 1 + config.clip_epsilon)
            policy_loss = torch.max(-a * ratio, -a * bounded).mean()
            error = (new_value - returns[chosen]) ** 2
            if config.clip_value_loss:
                change = (new_value - value[chosen]).clamp(
                    -config.clip_epsilon, config.clip_epsilon
                )
                error = torch.max(error, (value[chosen] + change - returns[chosen]) ** 2)
            value_loss = 0.5 * error.mean(0).sum()
            mean_entropy = entropy(new).mean()
            loss = policy_loss - config.entropy_coef * mean_entropy + config.value_coef * value_loss
            self.optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(
                jax.tree.leaves(self.params), config.max_grad_norm
            )
            self.optimizer.step()
            kl = (ratio - 1 - ratio.log()).mean()
            info = {
                "loss": loss,
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": mean_entropy,
                "gradient_norm": norm,
                "approx_kl": kl,
                "clip_fraction": ((ratio - 1).abs() > config.clip_epsilon).double().mean(),
            }
            infos.append({name: x.item() for name, x in info.items()})
            ends_epoch = number % config.num_minibatches == 0
            if config.target_kl is not None and ends_epoch and kl > config.target_kl:
                break
        self.observations.append(rollout.observation.reshape(steps, *rollout.observation.shape[2:]))
        explained = 1 - (returns - value)[:, 0].var() / returns[:, 0].var()
        return {name: np.mean([info[name] for info in infos]) for name in infos[0]} | {
            "explained_variance": explained.item(),
            "epochs": len(infos) / config.num_minibatches,
        }


class RecurrentPPO(PPO):
    """The same of vectors with a GRU, one lane and one step after the other."""

    def remembered(self, observation, hidden, begins):
        """Hidden states after each observation of one lane."""
        body, cell, found = self.params.body, gru_cell(self.params.gru), []
        for seen, is_first in zip(observation, begins, strict=True):
            hidden = torch.zeros_like(hidden) if is_first else hidden
            hidden = cell(torch.relu(mlp(body, tensor(seen)))[None], hidden[None])[0]
            found.append(hidden)
        return torch.stack(found)

    def of_lane(self, rollout, lane):
        done = rollout.terminated | rollout.truncated
        begins = np.concatenate([[False], done[:, lane]])
        shown = [*rollout.observation[:, lane], rollout.last_observation[lane]]
        return self.remembered(shown, tensor(rollout.first_memory.hidden[lane]), begins)

    def of_rollout(self, rollout):
        with torch.no_grad():
            lanes = range(rollout.reward.shape[1])
            hidden = torch.stack([self.of_lane(rollout, lane)[:-1] for lane in lanes], 1)
            policy, value = heads(self.params, hidden.flatten(0, 1))
        return policy, value.numpy().reshape(*rollout.reward.shape, -1)

    def of_last(self, rollout):
        last, final = [], []
        with torch.no_grad():
            for lane in range(rollout.reward.shape[1]):
                *hidden, after = self.of_lane(rollout, lane)
                last.append(after)
                seen = zip(rollout.next_observation[:, lane], hidden, strict=True)
                final.append(torch.cat([self.remembered([o], h, [False]) for o, h in seen]))
            values = [heads(self.params, torch.stack(x, -2))[1].numpy() for x in (last, final)]
        return values[0][None], values[1]

    def of_minibatch(self, rollout, observation, lanes):
        hidden = torch.stack([self.of_lane(rollout, lane)[:-1] for lane in lanes], 1)
        time, count = rollout.reward.shape
        steps = (count * np.arange(time)[:, None] + lanes).reshape(-1)
        return *heads(self.params, hidden.flatten(0, 1)), steps
