"""The presets of DeepMind Control equal the paper's table."""

import dataclasses

import pytest

from re3_jax.envs.host import dmc
from re3_jax.runs import machine
from re3_jax.runs.config import flatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from re3_jax.runs.validate import check_memory, validate_for_task

MAIN = (
    "hopper_hop",
    "quadruped_run",
    "cartpole_swingup_sparse",
    "pendulum_swingup",
    "walker_run_sparse",
    "cheetah_run_sparse",
)
APPENDIX = (
    "acrobot_swingup",
    "ball_in_cup_catch",
    "cartpole_balance",
    "cartpole_swingup",
    "finger_spin",
    "hopper_stand",
    "reacher_hard",
    "walker_run",
    "walker_walk",
)

TABLE = {
    # the paper's words: (option, value otherwise, {task: value})
    "Augmentation": ("sac.augmentation", "crop", {}),
    "Observation rendering": ("dmc.image_size", 100, {}),
    "Observation downsampling": ("sac.crop_size", 84, {}),
    "Replay buffer size": ("sac.replay_capacity", 100_000, {}),
    "Initial steps": ("sac.initial_agent_steps", 1_000, {"quadruped_run": 10_000}),
    "Stacked frames": ("dmc.frame_stack", 3, {}),
    "Action repeat": ("dmc.action_repeat", 2, {"quadruped_run": 4}),
    "Learning rate (actor)": ("sac.actor_learning_rate", 0.0002, {}),
    "Learning rate (critic)": ("sac.critic_learning_rate", 0.0002, {}),
    "Learning rate (alpha)": ("sac.temperature_learning_rate", 0.001, {}),
    "Batch size": ("sac.batch_size", 512, {}),
    "Q function EMA tau": ("sac.critic_tau", 0.01, {}),
    "Encoder EMA tau": ("sac.encoder_tau", 0.05, {}),
    "Critic target update freq": ("sac.target_every", 2, {}),
    "Number of filters": ("sac.num_filters", 32, {}),
    "Latent dimension": ("sac.latent_dim", 50, {}),
    "Initial temperature": ("sac.init_temperature", 0.1, {}),
    "beta_0": ("re3.beta", 0.05, {"pendulum_swingup": 0.25}),
    "rho": ("re3.rho", 0.00001, {"walker_run_sparse": 0.000025}),
}


@pytest.mark.parametrize("preset", ["paper", "released", "recommended"])
@pytest.mark.parametrize("row", TABLE)
def test_table(row, preset):
    option, otherwise, exceptions = TABLE[row]
    for task in (*MAIN, *APPENDIX):
        found = flatten(resolve(task, preset=preset))[option]
        assert found == exceptions.get(task, otherwise), task


@pytest.mark.parametrize(
    ("option", "paper", "released"),
    [
        ("agent", "rad", "rad"),
        ("bonus", "re3", "re3"),
        ("steps", 500_000, 500_000),
        ("dmc.sparse_threshold", "exclusive", "inclusive"),
        ("dmc.renderer", "gl", "gl"),
        ("dmc.engine", "dm_control", "dm_control"),
        ("re3.first_neighbour", 3, 4),
        ("re3.last_neighbour", 3, 4),
        ("re3.count_self", False, True),
        ("re3.normalize", "running_std", "released_running_std"),
        ("re3.log1p", False, False),
        ("re3.image_input", "stacked_crop", "newest_frame"),
        ("re3.image_crop", 84, 84),
        ("re3.num_filters", 32, 32),
        ("re3.latent_dim", 50, 50),
        ("re3.encoder_init", "torch", "torch"),
        ("re3.ring_size", 100_000, 100_000),
        ("sac.hidden_dim", 1024, 1024),
        ("sac.discount", 0.99, 0.99),
        ("sac.actor_every", 2, 2),
        ("sac.log_std_min", -10.0, -10.0),
        ("sac.log_std_max", 2.0, 2.0),
        ("sac.num_augmentations", 1, 1),
        ("evaluation.every_env_frames", 10_000, 10_000),
        ("evaluation.episodes", 10, 10),
        ("evaluation.greedy", True, True),
    ],
)
def test_what_the_table_leaves_to_the_text_and_the_code(option, paper, released):
    assert flatten(resolve("cheetah_run_sparse", preset="paper"))[option] == paper
    assert flatten(resolve("cheetah_run_sparse", preset="released"))[option] == released


def test_runs_of_the_paper_and_of_the_authors_data():
    for task in (*MAIN, *APPENDIX):
        assert resolve(task, preset="paper").seed_numbers == [1, 2, 3, 4, 5]
        released = [1, 2, 3, 4, 5] if task in MAIN else [1, 2, 3]
        assert resolve(task, preset="released").seed_numbers == released


def test_recommended_is_released_with_whatever_draws():
    recommended = flatten(resolve("cheetah_run_sparse"))
    released = flatten(resolve("cheetah_run_sparse", preset="released"))
    changed = {name for name in released if recommended[name] != released[name]}
    assert changed == {"preset", "dmc.renderer"}
    assert recommended["dmc.renderer"] == "auto"


def test_drq_of_its_authors_and_the_switch_of_the_released_code():
    drq = {
        "dmc.image_size": 84,
        "sac.augmentation": "shift",
        "sac.shift_pad": 4,
        "sac.num_augmentations": 2,
        "sac.actor_learning_rate": 1e-3,
        "sac.critic_learning_rate": 1e-3,
        "sac.temperature_learning_rate": 1e-3,
        "sac.critic_tau": 0.01,
        "sac.encoder_tau": 0.01,
        "learned.augmentation": "shift",
    }
    rad, released = (
        flatten(resolve("hopper_hop", agent, preset="released")) for agent in ("rad", "drq")
    )
    assert {n for n in rad if rad[n] != released[n]} == {"agent", "sac.num_augmentations"}
    assert released["sac.num_augmentations"] == 2
    for preset in ("paper", "recommended"):
        rad, config = (
            flatten(resolve("hopper_hop", agent, preset=preset)) for agent in ("rad", "drq")
        )
        for name, value in drq.items():
            assert config[name] == value
        assert {n for n in rad if rad[n] != config[n]} <= {"agent", *drq}


def test_small_repeats_actions_as_the_rad_paper_does_but_for_walker():
    repeats = {"cartpole_swingup": 8, "finger_spin": 2, "walker_walk": 4, "hopper_hop": 4}
    for task, repeat in repeats.items():
        assert resolve(task, preset="small").dmc.action_repeat == repeat


@pytest.mark.parametrize("task", ["cartpole_swingup_sparse", "walker_run_sparse", "quadruped_run"])
def test_small_has_the_papers_beta_and_random_actions_at_every_env_frame(task):
    small, paper = (resolve(task, preset=preset) for preset in ("small", "paper"))
    for env_frames in (0, 8_000, 500_000):
        small_beta, paper_beta = (
            c.re3.beta * (1 - c.re3.rho) ** (env_frames / c.dmc.action_repeat)
            for c in (small, paper)
        )
        assert small_beta == pytest.approx(paper_beta, rel=1e-9)
    small_frames, paper_frames = (
        c.sac.initial_agent_steps * c.dmc.action_repeat for c in (small, paper)
    )
    assert small_frames == paper_frames


@pytest.mark.parametrize(("accelerator", "preset"), [(False, "small"), (True, "recommended")])
def test_without_an_accelerator_small_is_the_default(monkeypatch, accelerator, preset):
    monkeypatch.setattr(machine, "has_accelerator", lambda: accelerator)
    assert parse(["--env", "cheetah_run_sparse"]).preset == preset
    assert parse(["--env", "cheetah_run_sparse", "--preset", "paper"]).preset == "paper"
    assert parse(["--env", "doorkey_6x6"]).preset == "recommended"


@pytest.mark.parametrize("preset", ["paper", "released", "recommended", "small", "debug"])
@pytest.mark.parametrize("agent", ["rad", "drq"])
@pytest.mark.parametrize("task", ["cartpole_swingup", "quadruped_run", "dmc:fish_swim"])
def test_every_preset_can_be_run_and_evaluates_at_chunk_ends(task, agent, preset):
    config = parse(["--env", task, "--agent", agent, "--preset", preset])
    spec = dmc.spec(task.removeprefix("dmc:"), config.dmc)
    validate_for_task(config, spec)
    per_chunk = config.choose_chunk_updates(spec.action_repeat)
    assert per_chunk <= 250
    frames = per_chunk * config.frames_per_update(spec.action_repeat)
    assert frames == per_chunk * spec.action_repeat
    assert config.evaluation.every_env_frames % frames == 0
    assert config.re3.ring_size == config.sac.replay_capacity
    # The agent learns, and not only from random actions.
    assert config.sac.initial_agent_steps * spec.action_repeat < config.steps


def test_the_ring_of_latents_follows_the_replay():
    config = parse(["--env", "cheetah_run_sparse", "--sac.replay-capacity", "40000"])
    assert config.re3.ring_size == config.sac.replay_capacity == 40_000


def test_too_little_memory_says_what_fits():
    config = resolve("cheetah_run_sparse")
    # A frame of 3 x 100 x 100 bytes fills a row of 235 tiles of 128.
    frame, gib = 235 * 128, 2**30
    # 500 episodes have one frame more than they have steps.
    needed = config.seeds * (100_000 * (frame + 200 + 40) + 200 * frame + 50_000_000)
    check_memory(needed, needed, config)
    with pytest.raises(UsageError) as refusal:
        check_memory(needed, 8 * gib, config)
    said = str(refusal.value)
    assert "5 seeds takes 14.4 GiB and 8.0 GiB are free" in said
    assert "--seeds 2 would fit" in said
    capacity = int(said.split("--sac.replay-capacity ")[1].split()[0])
    assert capacity % 1000 == 0
    smaller = needed - config.seeds * (100_000 - capacity) * frame
    assert smaller <= 8 * gib < smaller + config.seeds * 2_000 * (frame + 300)


def test_far_too_little_memory_names_what_to_lower():
    config = dataclasses.replace(resolve("cheetah_run_sparse"), seeds=1)
    with pytest.raises(UsageError, match="lower --dmc.image-size and --sac.replay-capacity"):
        check_memory(3 * 10**9, 10**6, config)


@pytest.mark.parametrize("preset", ["recommended", "paper", "released", "debug"])
def test_states_take_soft_actor_critic_without_images(preset):
    for task in ("brax:halfcheetah", "gymnax:Pendulum-v1"):
        config = resolve(task, preset=preset)
        assert (config.agent, config.sac.augmentation) == ("rad", "none")
        assert config.re3.ring_size == config.sac.replay_capacity
        assert config.evaluation.every_env_frames % config.frames_per_update(1) == 0
    assert resolve("gymnax:CartPole-v1", preset=preset).agent == "a2c"
