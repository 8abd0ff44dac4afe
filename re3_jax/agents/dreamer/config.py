"""Dreamer's hyperparameters: the defaults of danijar/dreamer, which the authors used."""

from dataclasses import dataclass
from typing import Literal

from re3_jax import checks

HeadOrder = Literal["layer_norm_then_tanh", "tanh_then_layer_norm"]
"""What follows the linear layer of RE3's encoder: the paper's order, or the released one."""

Precision = Literal["float32", "bfloat16"]

SequenceNeighbours = Literal["stored_minibatch", "ring"]
"""Where RE3 seeks neighbours: in the batch of sequences, or among all frames stored."""


@dataclass(frozen=True)
class DreamerConfig:
    """World model, actor, value, and the loop that trains them.

    Attributes:
      deter: length of the deterministic part of a state.
      stoch: length of the stochastic part.
      hidden: width of the model's layers.
      conv_depth: filters of the encoder's first convolution; the others have 2, 4 and 8 times as
        many.
      head_units: width of the layers of reward, value, actor and discount.
      batch_size: sequences per update.
      batch_shards: number of devices among which these are divided; programs then run inside
        `shard_map` (see `batch_split`).
      sequence_length: steps of each.
      horizon: imagined steps.
      discount: gamma; where it is predicted, what is predicted while the task goes on.
      predict_discount: whether a head predicts where the task ends. As in danijar/dreamer, no
        sequence has the last frame of an episode, so the head is never shown that a task ends.
      td_lambda: of the lambda-returns.
      free_nats: the mean KL divergence counts as at least this.
      kl_scale: weight of the KL divergence.
      discount_scale: weight of the predicted discount's loss.
      model_learning_rate: Adam's step size for the world model.
      value_learning_rate: for the value.
      actor_learning_rate: for the actor.
      adam_eps: added to the root of Adam's second moment, without its bias correction (Keras).
      max_grad_norm: gradients of each of the three are clipped to this global norm.
      init_std: standard deviation of an untrained actor, before tanh.
      mean_scale: the actor's mean is mean_scale * tanh(m / mean_scale).
      min_std: least standard deviation of the actor.
      exploration_noise: standard deviation of what is added to actions in training.
      mode_samples: samples of which the most probable is the actor's mode.
      precision: of what is computed inside encoder, decoder and heads. Parameters, the recurrent
        state, distributions and losses are float32 in any case.
      replay_capacity: frames kept per seed, first ones of episodes included.
      prefill_env_frames: env frames of random actions before the first update.
      env_frames_per_burst: env frames from one burst of updates to the next.
      updates_per_burst: updates of a burst.
      num_envs: lanes stepped in parallel.
      head_order: what follows the linear layer of RE3's random encoder: the paper's order, or
        that of the authors' code.
      neighbours: where RE3 seeks them: among the frames of the batch, as the paper and its code
        do, or among all that are stored.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    deter: int = 200
    stoch: int = 30
    hidden: int = 200
    conv_depth: int = 32
    head_units: int = 400
    batch_size: int = 50
    batch_shards: int = 1
    sequence_length: int = 50
    horizon: int = 15
    discount: float = 0.99
    predict_discount: bool = False
    td_lambda: float = 0.95
    free_nats: float = 3.0
    kl_scale: float = 1.0
    discount_scale: float = 10.0
    model_learning_rate: float = 6e-4
    value_learning_rate: float = 8e-5
    actor_learning_rate: float = 8e-5
    adam_eps: float = 1e-7
    max_grad_norm: float = 100.0
    init_std: float = 5.0
    mean_scale: float = 5.0
    min_std: float = 1e-4
    exploration_noise: float = 0.3
    mode_samples: int = 100
    precision: Precision = "float32"
    replay_capacity: int = 500_000
    prefill_env_frames: int = 5_000
    env_frames_per_burst: int = 1_000
    updates_per_burst: int = 100
    num_envs: int = 1
    head_order: HeadOrder = "tanh_then_layer_norm"
    neighbours: SequenceNeighbours = "stored_minibatch"

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        sizes = "deter", "stoch", "hidden", "conv_depth", "head_units", "batch_size", "mode_samples"
        loop = "prefill_env_frames", "env_frames_per_burst", "updates_per_burst", "num_envs"
        checks.at_least(self, 1, *sizes, "batch_shards", "replay_capacity", *loop)
        checks.evenly_divided(self, "batch_size", "batch_shards")
        # The last imagined step only bootstraps; of one observed step nothing may be left.
        checks.at_least(self, 2, "sequence_length", "horizon")
        rates = "model_learning_rate", "value_learning_rate", "actor_learning_rate"
        checks.positive(self, *rates, "adam_eps", "max_grad_norm")
        checks.positive(self, "init_std", "mean_scale", "min_std")
        checks.share(self, "discount", "td_lambda")
        checks.not_negative(self, "free_nats", "kl_scale", "discount_scale", "exploration_noise")
        checks.one_of(
            self, precision=Precision, head_order=HeadOrder, neighbours=SequenceNeighbours
        )
