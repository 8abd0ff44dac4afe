"""One update of Dreamer V1 and its acting, as pure functions.

As danijar/dreamer orders it: the world model is fitted to a batch of sequences; from every state
on the way the actor imagines `horizon` steps ahead and is moved up the gradient of their
lambda-returns, through the model; the value is moved towards those returns. All three gradients
are taken at the same parameters.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from re3_jax import batch_split
from re3_jax.agents.base import Info, unit_action_dim
from re3_jax.agents.dreamer import images, imagination, losses, networks, policy
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import Layers, WorldModel
from re3_jax.agents.dreamer.optimizer import clipped_adam
from re3_jax.cpu import flat_random
from re3_jax.envs.base import EnvSpec
from re3_jax.inheritance import inherits
from re3_jax.networks import rssm
from re3_jax.networks.mlp import MLP
from re3_jax.networks.rssm import State
from re3_jax.replay.sequence_ring import Sequences


class SequenceBatch(NamedTuple):
    """What one update learns from; `action[:, t]`, `reward[:, t]` led to `frames[:, t]`.

    Attributes:
      frames: what was seen.
      action: that led to it, zero at the beginning of an episode.
      reward: that came with it, the bonus included.
      discount: 0 where the task ended with it, else 1.
    """

    frames: UInt8[Array, "batch time 64 64 channels"]
    action: Float[Array, "batch time action"]
    reward: Float[Array, "batch time"]
    discount: Float[Array, "batch time"]

    @classmethod
    def of(cls, drawn: Sequences) -> "SequenceBatch":
        """Sequences without what follows them."""
        length = drawn.reward.shape[1]
        return cls(drawn.frames[:, :length], drawn.action[:, :length], drawn.reward, drawn.discount)


@inherits("model", "actor", "value")
class DreamerState(NamedTuple):
    """All that Dreamer learns, and the state of an optimiser for each part."""

    model: WorldModel
    actor: MLP
    value: MLP
    model_opt_state: optax.OptState
    actor_opt_state: optax.OptState
    value_opt_state: optax.OptState


class Belief(NamedTuple):
    """What an acting lane remembers.

    Attributes:
      state: of the world model.
      action: taken last.
    """

    state: State
    action: Float[Array, "lane action"]


class Dreamer:
    """Dreamer V1 for one task."""

    def __init__(self, config: DreamerConfig, spec: EnvSpec):
        """Keeps `config` and the task's sizes, and makes the optimisers of model, actor and value.

        `init` draws the parameters.

        Raises:
          ValueError: if the task's actions are not vectors of real numbers from -1 to 1, or its
            observations not images of 64x64 bytes.
        """
        self.config, self.action_dim = config, unit_action_dim(spec, "dreamer")
        shape, side = spec.observation_shape, networks.IMAGE_SIZE
        if not spec.is_image or shape[:2] != (side, side):
            remedy = f"set image_size to {side}" if spec.is_image else "choose another agent"
            raise ValueError(
                f"dreamer sees images of {side}x{side} bytes, and observations of {spec.task} are "
                f"{spec.observation_dtype}{list(shape)}: {remedy}"
            )
        self.channels = spec.observation_shape[-1]
        self._model_optimizer, self._actor_optimizer, self._value_optimizer = (
            clipped_adam(rate, config.adam_eps, config.max_grad_norm)
            for rate in (
                config.model_learning_rate,
                config.actor_learning_rate,
                config.value_learning_rate,
            )
        )

    def init(self, key: PRNGKeyArray) -> DreamerState:
        """Fresh parameters."""
        model_key, actor_key, value_key = jax.random.split(key, 3)
        model = networks.init_model(model_key, self.config, self.action_dim, self.channels)
        actor = networks.init_head(actor_key, self.config, "actor", 2 * self.action_dim)
        value = networks.init_head(value_key, self.config, "value", 1)
        return DreamerState(
            model,
            actor,
            value,
            self._model_optimizer.init(model),
            self._actor_optimizer.init(actor),
            self._value_optimizer.init(value),
        )

    def begin(self, state: DreamerState, lanes: int) -> Belief:
        """What lanes remember at the beginning of an episode: nothing."""
        before = rssm.initial(state.model.dynamics, (lanes,))
        return Belief(before, jnp.zeros((lanes, self.action_dim)))

    def act(
        self,
        state: DreamerState,
        belief: Belief,
        frame: UInt8[Array, "lane 64 64 channels"],
        key: PRNGKeyArray,
        explore: bool,
    ) -> tuple[Belief, Float[Array, "lane action"]]:
        """Takes in a frame and chooses an action in [-1, 1].

        Exploring it is a sample with normal noise added, else the policy's mode.
        """
        state_key, action_key, noise_key = jax.random.split(key, 3)
        dynamics = state.model.dynamics
        embedding = networks.encode(self._cast(state.model.encoder), networks.preprocess(frame))
        deter = rssm.advance(dynamics, belief.state, belief.action)
        stoch = rssm.sample(state_key, rssm.posterior(dynamics, deter, embedding))
        now = State(deter, stoch)
        chosen = policy.distribution(self._cast(state.actor), rssm.features(now), self.config)
        if explore:
            action = policy.sample(action_key, chosen)
            noise = flat_random.normal(noise_key, action.shape)
            action = jnp.clip(action + self.config.exploration_noise * noise, -1.0, 1.0)
        else:
            action = policy.mode(action_key, chosen, self.config.mode_samples)
        return Belief(now, action), action

    def update(
        self, state: DreamerState, batch: SequenceBatch, key: PRNGKeyArray
    ) -> tuple[DreamerState, Info]:
        """One update of world model, actor and value."""
        model_key, imagine_key = jax.random.split(key)
        (model_loss, (posts, model_info)), model_gradient = jax.value_and_grad(
            self.model_loss, has_aux=True
        )(state.model, batch, model_key)
        # Both are constrained, or the devices exchange states at each step of the model.
        posts = batch_split.split(posts, axis=1)
        c, start = self.config, batch_split.split(self._starts(posts))
        noise = batch_split.split(
            imagination.draw_noise(
                imagine_key, c.horizon, len(start.stoch), self.action_dim, c.stoch
            ),
            axis=1,
        )
        learned = imagination.learn(c, state.actor, state.value, state.model, start, noise)

        def apply(optimizer, gradient, opt_state, params):
            change, opt_state = optimizer.update(gradient, opt_state)
            return optax.apply_updates(params, change), opt_state

        model, model_opt_state = apply(
            self._model_optimizer, model_gradient, state.model_opt_state, state.model
        )
        actor, actor_opt_state = apply(
            self._actor_optimizer, learned.actor_gradient, state.actor_opt_state, state.actor
        )
        value, value_opt_state = apply(
            self._value_optimizer, learned.value_gradient, state.value_opt_state, state.value
        )
        info = {
            **model_info,
            "model_loss": model_loss,
            "actor_loss": learned.actor_loss,
            "value_loss": learned.value_loss,
            "imagined_return_mean": learned.return_mean,
            "model_gradient_norm": optax.tree.norm(model_gradient),
            "actor_gradient_norm": optax.tree.norm(learned.actor_gradient),
            "value_gradient_norm": optax.tree.norm(learned.value_gradient),
        }
        state = DreamerState(model, actor, value, model_opt_state, actor_opt_state, value_opt_state)
        return state, info

    def model_loss(
        self, model: WorldModel, batch: SequenceBatch, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], tuple[State, Info]]:
        """Negative log-likelihoods of images, rewards and discounts, and the KL divergence.

        Returns:
          the loss; the posterior states [time, batch, ...], and its parts.
        """
        c = self.config
        size, time = batch.reward.shape
        frames = batch.frames.reshape(-1, *batch.frames.shape[2:])
        embedding = images.embed(model.encoder, frames, c.precision).reshape(size, time, -1)
        states, priors, posteriors = rssm.observe(
            model.dynamics, embedding.swapaxes(0, 1), batch.action.swapaxes(0, 1), key
        )
        features = rssm.features(states).swapaxes(0, 1)
        image_loss = images.image_loss(
            c.precision, model.decoder, features.reshape(size * time, -1), frames
        )
        predicted = networks.scalar(self._cast(model.reward), features)
        reward_loss = 0.5 * jnp.mean((predicted - batch.reward) ** 2)
        divergence = jnp.mean(rssm.kl_divergence(posteriors, priors))
        loss = image_loss + reward_loss + c.kl_scale * jnp.maximum(divergence, c.free_nats)
        info = {"image_loss": image_loss, "reward_loss": reward_loss, "kl": divergence}
        if model.discount is not None:
            logit = networks.scalar(self._cast(model.discount), features)
            discount_loss = jnp.mean(losses.bernoulli_loss(logit, c.discount * batch.discount))
            loss = loss + c.discount_scale * discount_loss
            info["discount_loss"] = discount_loss
        return loss, (states, info)

    def _cast(self, layers: Layers) -> Layers:
        return networks.cast(layers, self.config.precision)

    def _starts(self, states: State) -> State:
        """Where imagination begins: everywhere, or where the task has not ended yet."""
        if self.config.predict_discount:
            states = jax.tree.map(lambda leaf: leaf[:-1], states)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, leaf.shape[-1]), states)
        return jax.lax.stop_gradient(flat)
