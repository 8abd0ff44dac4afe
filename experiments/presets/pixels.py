"""Small tasks in pixels on the device: not in the paper; numbers with which they take minutes."""

from dataclasses import replace

from experiments.config import AgentName, BonusName, EvaluationConfig, PresetName, RunConfig
from experiments.presets import dmc, dreamer
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.dreamer.networks import IMAGE_SIZE
from re3_jax.intrinsic.icm import ICMConfig
from re3_jax.intrinsic.learned_encoder import LearnedEncoderConfig
from re3_jax.intrinsic.rnd import RNDConfig

DEFAULT_BONUS: BonusName = "re3"

DREAMER = DreamerConfig(
    deter=32,
    stoch=8,
    hidden=32,
    conv_depth=4,
    head_units=32,
    batch_size=8,
    sequence_length=8,
    horizon=6,
    discount=0.9,
    free_nats=0.5,
    model_learning_rate=2e-3,
    actor_learning_rate=4e-4,
    value_learning_rate=1e-3,
    mode_samples=20,
    replay_capacity=4_000,
    prefill_env_frames=480,
    env_frames_per_burst=24,
    updates_per_burst=6,
    num_envs=2,
)


def default_agent(task_id: str) -> AgentName:
    """The one that sees images on the device."""
    del task_id
    return "dreamer"


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of any task here; debug has the tiny numbers of DeepMind Control's."""
    del task_id, agent
    re3 = replace(dmc.PAPER_RE3 if name == "paper" else dmc.RELEASED_RE3, latent_dim=10)
    config = RunConfig(
        seeds=5,
        steps=2_400,
        video=True,
        dreamer=DREAMER,
        # More than the frames of one sequence, as the paper's 53 is.
        re3=replace(
            dreamer.of_frames(re3), first_neighbour=11, last_neighbour=11, image_crop=IMAGE_SIZE
        ),
        rnd=RNDConfig(image_crop=IMAGE_SIZE),
        icm=ICMConfig(image_crop=IMAGE_SIZE),
        learned=LearnedEncoderConfig(augmentation="shift"),
        evaluation=EvaluationConfig(every_env_frames=240, episodes=20, greedy=True),
    )
    if name != "debug":
        return config
    tiny = dreamer.shrink_to_seconds(config)
    tiny_dreamer = replace(tiny.dreamer, prefill_env_frames=200, num_envs=2)
    evaluation = replace(tiny.evaluation, every_env_frames=400)
    return replace(tiny, steps=800, dreamer=tiny_dreamer, evaluation=evaluation)
