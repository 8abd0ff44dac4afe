"""SAC's hyperparameters: the paper's DMC tables; the released code where they are silent."""

import math
from dataclasses import dataclass
from typing import Literal

from re3_jax import checks
from re3_jax.networks.conv_stack import Torso

Augmentation = Literal["crop", "shift", "none"]


@dataclass(frozen=True)
class SACConfig:
    """Soft actor-critic from pixels: RAD (one random crop) or DrQ (two random shifts).

    Options of images have no effect on flat observations.

    Attributes:
      augmentation: `crop` cuts a random square out of each stack (RAD), `shift` pads by
        repeating the border and cuts the original size out of it (DrQ), `none` leaves it whole.
      num_augmentations: augmented copies of a batch: DrQ's K targets, averaged, and its M
        critic losses, summed, K = M.
      crop_size: side of the square that `crop` cuts out, in pixels.
      shift_pad: the largest displacement of `shift`, in pixels.
      torso: the convolutions, see `conv_stack.colour`.
      num_filters: filters of each of them.
      frame_differences: whether the first convolution's weights are those of the newest frame and
        of the differences between each frame and the next, instead of each frame's. The networks
        can represent the same functions, but begin and learn differently.
      latent_dim: length of the encoding of an image.
      hidden_dim: width of the two hidden layers of the actor and of each Q function.
      log_std_min: lower bound of the policy's log standard deviation before the tanh.
      log_std_max: its upper bound.
      init_temperature: alpha at the start.
      discount: gamma.
      n_steps: rewards summed before the value is bootstrapped; 1 in the paper. The bonus of the
        first step stands for those of all. Flat observations allow 1 only.
      actor_learning_rate: Adam's step size for the actor.
      critic_learning_rate: for the critic, the shared convolutions included.
      temperature_learning_rate: for log(alpha).
      actor_every: critic updates per update of actor and temperature.
      target_every: critic updates per update of the target critic.
      critic_tau: the target Q functions move by this part of the way each time.
      encoder_tau: the target encoder likewise.
      batch_size: transitions per update.
      batch_shards: number of devices among which these are divided; programs then run inside
        `shard_map` (see `batch_split`).
      replay_capacity: transitions kept per seed, in agent steps.
      initial_agent_steps: agent steps with uniformly random actions, before the first update.
      update_every: steps of all lanes from one round of updates to the next.
      updates_per_step: critic updates in a round.
      num_envs: lanes stepped in parallel.

    Raises:
      ValueError: if a value is out of range; the sentence says which and what is allowed.
    """

    augmentation: Augmentation = "crop"
    num_augmentations: int = 1
    crop_size: int = 84
    shift_pad: int = 4
    torso: Torso = "rad"
    num_filters: int = 32
    frame_differences: bool = False
    latent_dim: int = 50
    hidden_dim: int = 1024
    log_std_min: float = -10.0
    log_std_max: float = 2.0
    init_temperature: float = 0.1
    discount: float = 0.99
    n_steps: int = 1
    actor_learning_rate: float = 2e-4
    critic_learning_rate: float = 2e-4
    temperature_learning_rate: float = 1e-3
    actor_every: int = 2
    target_every: int = 2
    critic_tau: float = 0.01
    encoder_tau: float = 0.05
    batch_size: int = 512
    batch_shards: int = 1
    replay_capacity: int = 100_000
    initial_agent_steps: int = 1000
    update_every: int = 1
    updates_per_step: int = 1
    num_envs: int = 1

    def __post_init__(self) -> None:
        """Validates the fields."""
        checks.switches(self)
        checks.one_of(self, augmentation=Augmentation, torso=Torso)
        sizes = "num_augmentations", "crop_size", "shift_pad", "num_filters", "latent_dim"
        periods = "hidden_dim", "actor_every", "target_every", "batch_size", "replay_capacity"
        loop = (
            "batch_shards",
            "n_steps",
            "initial_agent_steps",
            "update_every",
            "updates_per_step",
            "num_envs",
        )
        checks.at_least(self, 1, *sizes, *periods, *loop)
        rates = "actor_learning_rate", "critic_learning_rate", "temperature_learning_rate"
        checks.positive(self, "init_temperature", *rates)
        checks.share(self, "discount")
        checks.positive_share(self, "critic_tau", "encoder_tau")
        if not -math.inf < self.log_std_min < self.log_std_max < math.inf:
            raise ValueError(
                f"log_std_min ({self.log_std_min}) must be finite and below log_std_max "
                f"({self.log_std_max})"
            )
        checks.evenly_divided(self, "batch_size", "batch_shards")
        if self.augmentation == "none" and self.num_augmentations > 1:
            raise ValueError(
                "num_augmentations above 1 would repeat the same images: choose augmentation "
                "crop or shift, or set num_augmentations to 1"
            )
