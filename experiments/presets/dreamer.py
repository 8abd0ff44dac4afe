"""The paper's "Hyperparameters of Dreamer + RE3 used for DeepMind Control Suite experiments".

What that table leaves out is danijar/dreamer's, which are the defaults of `DreamerConfig`: the
authors changed nothing else. `paper` and `released` share every number; they differ in the order of
the random encoder's last layers, in how the bonus is normalised, in where a sparse reward begins,
and in the episodes of an evaluation, of which the authors play one.
"""

from dataclasses import replace

from experiments.config import EvaluationConfig, PresetName, RunConfig
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import IMAGE_SIZE
from re3_jax.intrinsic.re3_config import RE3Config

STEPS = 500_000

SMALL_STEPS = 60_000

DREAMER = DreamerConfig()


def on_dmc(config: RunConfig, name: PresetName) -> RunConfig:
    """`config`, which is that of RAD on a task of DeepMind Control, for Dreamer."""
    repeat = config.dmc.action_repeat
    config = replace(
        config,
        steps=STEPS,
        dreamer=replace(
            DREAMER,
            # All frames of a run, and the first ones of its episodes.
            replay_capacity=STEPS // repeat + STEPS // 1_000 + 1,
            head_order="layer_norm_then_tanh" if name == "paper" else "tanh_then_layer_norm",
        ),
        dmc=replace(config.dmc, image_size=IMAGE_SIZE, frame_stack=1),
        # The encoders of other bonuses see whole images.
        re3=replace(of_frames(config.re3), image_crop=IMAGE_SIZE),
        rnd=replace(config.rnd, image_crop=IMAGE_SIZE),
        icm=replace(config.icm, image_crop=IMAGE_SIZE),
        learned=replace(config.learned, augmentation="shift"),
        evaluation=EvaluationConfig(
            every_env_frames=10_000, episodes=1 if name == "released" else 10, greedy=True
        ),
    )
    if name == "small":
        return _shrink(config, repeat)
    return shrink_to_seconds(config) if name == "debug" else config


def of_frames(re3: RE3Config) -> RE3Config:
    """RE3 among the frames of a batch: k = 53 with the frame itself, beta 0.1 throughout."""
    return replace(
        re3,
        first_neighbour=53,
        last_neighbour=53,
        count_self=True,
        encoder_init="xavier",
        beta=0.1,
        rho=0.0,
    )


def _shrink(config: RunConfig, repeat: int) -> RunConfig:
    """The same program at a size that two CPU cores can train."""
    return replace(
        config,
        seeds=1,
        steps=SMALL_STEPS,
        dreamer=replace(
            config.dreamer,
            conv_depth=16,
            head_units=200,
            batch_size=16,
            sequence_length=32,
            updates_per_burst=50,
            replay_capacity=SMALL_STEPS // repeat + SMALL_STEPS // 1_000 + 1,
        ),
        dmc=replace(config.dmc, renderer="warp"),
        # More than the frames of one sequence, as 53 is.
        re3=replace(config.re3, first_neighbour=35, last_neighbour=35),
        evaluation=replace(config.evaluation, every_env_frames=5_000, episodes=5),
    )


def shrink_to_seconds(config: RunConfig) -> RunConfig:
    """The same program with tiny numbers, for tests and first tries."""
    return replace(
        config,
        seeds=2,
        steps=2_000,
        checkpoint_seconds=60.0,
        tensorboard=False,
        video=False,
        dreamer=replace(
            config.dreamer,
            deter=16,
            stoch=4,
            hidden=16,
            conv_depth=2,
            head_units=16,
            batch_size=4,
            sequence_length=6,
            horizon=3,
            mode_samples=5,
            replay_capacity=200,
            prefill_env_frames=1_000,
            env_frames_per_burst=200,
            updates_per_burst=2,
        ),
        dmc=replace(config.dmc, action_repeat=20),
        re3=replace(config.re3, first_neighbour=5, last_neighbour=5, latent_dim=8, num_filters=4),
        rnd=replace(config.rnd, hidden_dim=32, num_filters=4),
        icm=replace(config.icm, hidden_dim=32, num_filters=4),
        learned=replace(config.learned, hidden_dim=32),
        evaluation=replace(config.evaluation, every_env_frames=1_000, episodes=2),
    )
