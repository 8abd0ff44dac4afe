"""The paper's "Hyperparameters of Dreamer + RE3 used for DeepMind Control Suite experiments".

Values that the table leaves out are danijar/dreamer's, which are the defaults of `DreamerConfig`:
the authors changed nothing else. `paper` and `released` share every number; they differ in the
order of the random encoder's last layers, in how the bonus is normalised, in where a sparse reward
begins, in what pre-training is rewarded with, and in the number of evaluation episodes, of which
the authors play one.
"""

from re3_jax.agents.dreamer.networks import IMAGE_SIZE
from re3_jax.runs.config import PresetName
from re3_jax.runs.presets import tables
from re3_jax.runs.presets.tables import Values, options

STEPS = 500_000

OF_FRAMES: Values = {
    # RE3 among the frames of a batch: k = 53 counting the frame itself, beta 0.1 throughout.
    **options("re3", first_neighbour=53, last_neighbour=53, count_self=True),
    **options("re3", encoder_init="xavier", beta=0.1, rho=0.0),
    # The encoders of other bonuses see whole images.
    **options("re3", *tables.WITH_NETWORKS, image_crop=IMAGE_SIZE),
    "learned.augmentation": "shift",
}

COMMON: Values = {
    "steps": STEPS,
    **OF_FRAMES,
    **options("dmc", image_size=IMAGE_SIZE, frame_stack=1),
    **options("evaluation", every_env_frames=10_000, episodes=10, greedy=True),
}

PAPER: Values = {"dreamer.head_order": "layer_norm_then_tanh"}

RELEASED: Values = {"evaluation.episodes": 1}

SMALL: Values = {
    "seeds": 1,
    "steps": 150_000,
    **options("dreamer", conv_depth=8, head_units=200, batch_size=16, sequence_length=16),
    "dreamer.updates_per_burst": 50,
    "dmc.renderer": "warp",
    # More neighbours than one sequence has frames, as with the paper's 53.
    **options("re3", first_neighbour=18, last_neighbour=18),
    **options("evaluation", every_env_frames=10_000, episodes=4),
}
"""Options of `small`: Dreamer at a size that one CPU core trains in half an hour."""

DEBUG: Values = {
    **tables.TINY,
    "checkpoint_seconds": 60.0,
    **options("dreamer", deter=16, stoch=4, hidden=16, conv_depth=2, head_units=16),
    **options("dreamer", batch_size=4, sequence_length=6, horizon=3, mode_samples=5),
    **options("dreamer", prefill_env_frames=1_000, env_frames_per_burst=200),
    **options("dreamer", replay_capacity=200, updates_per_burst=2),
    "dmc.action_repeat": 20,
    **options("re3", first_neighbour=5, last_neighbour=5, latent_dim=8),
    **options("re3", *tables.WITH_NETWORKS, num_filters=4),
}


def on_dmc(name: PresetName, action_repeat: int) -> Values:
    """Options of Dreamer on a task of DeepMind Control that override RAD's."""
    own = {"paper": PAPER, "released": RELEASED, "small": SMALL, "debug": DEBUG}.get(name, {})
    # All frames of a run of the paper's length, including the first frame of each episode; up to
    # eight devices can divide so many.
    capacity = -(-(STEPS // action_repeat + STEPS // 1_000 + 1) // 8) * 8
    return COMMON | {"dreamer.replay_capacity": capacity} | own
