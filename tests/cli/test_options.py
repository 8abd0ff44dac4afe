"""Command line and presets resolve to the values of the paper's table."""

import dataclasses

import pytest

from re3_jax.runs.config import RunConfig, flatten, from_dict, unflatten
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from re3_jax.runs.run_folder import claim, write_config
from re3_jax.runs.validate import check_memory, validate

TABLE = {
    # task: (beta, evaluation frequency, env frames of a run here)
    "empty_16x16": (0.1, 6_400, 400_000),
    "doorkey_6x6": (0.005, 12_800, 600_000),
    "doorkey_8x8": (0.01, 64_000, 2_400_000),
}
SEARCHED = {"empty_16x16": 0.1, "doorkey_6x6": 0.01, "doorkey_8x8": 0.005}


@pytest.mark.parametrize("task", TABLE)
@pytest.mark.parametrize("preset", ["recommended", "paper", "released"])
def test_rows_that_differ_between_tasks(task, preset):
    config = resolve(task, preset=preset)
    beta, frequency, steps = TABLE[task]
    assert config.re3.beta == (SEARCHED[task] if preset == "recommended" else beta)
    assert config.evaluation.every_env_frames == frequency
    assert config.steps == steps


@pytest.mark.parametrize(
    ("option", "paper", "released"),
    [
        ("agent", "a2c", "a2c"),
        ("bonus", "re3", "re3"),
        ("seeds", 5, 5),
        ("re3.ring_size", 10_000, 10_000),
        ("evaluation.episodes", 100, 100),
        ("evaluation.greedy", False, False),
        ("re3.first_neighbour", 2, 1),
        ("re3.last_neighbour", 3, 5),
        ("re3.count_self", True, True),
        ("re3.normalize", "none", "released_running_std"),
        ("re3.log1p", True, True),
        ("re3.encoder_init", "torch", "torch"),
        ("re3.rho", 0.0, 0.0),
        ("a2c.num_envs", 16, 16),
        ("a2c.rollout_length", 5, 8),
        ("a2c.discount", 0.99, 0.99),
        ("a2c.gae_lambda", 0.95, 0.95),
        ("a2c.entropy_coef", 0.01, 0.01),
        ("a2c.value_coef", 0.5, 0.5),
        ("a2c.max_grad_norm", 0.5, 0.5),
        ("a2c.rmsprop_eps", 0.01, 1e-8),
        ("a2c.rmsprop_decay", 0.99, 0.99),
        ("a2c.learning_rate", 1e-3, 1e-3),
        ("a2c.bonus_target", "reward", "advantage"),
        ("a2c.bootstrap_truncation", False, False),
    ],
)
def test_table(option, paper, released):
    assert flatten(resolve("doorkey_6x6", preset="paper"))[option] == paper
    assert flatten(resolve("doorkey_6x6", preset="released"))[option] == released


def test_other_sizes_take_the_nearest_row():
    for preset, betas in {"paper": (0.005, 0.01), "recommended": (0.01, 0.005)}.items():
        assert resolve("minigrid:DoorKey-5x5", preset=preset).re3.beta == betas[0]
        assert resolve("minigrid:DoorKey-16x16", preset=preset).re3.beta == betas[1]
        assert resolve("MiniGrid-Empty-8x8-v0", preset=preset).re3.beta == 0.1


def test_options_override_the_preset():
    config = parse(
        "--env doorkey_8x8 --preset paper --seeds 3 --steps=1_000 --bonus re3 --loggers none "
        "--a2c.learning_rate 0.01 --re3.no-count-self --evaluation.greedy".split()
    )
    expected = resolve("doorkey_8x8", preset="paper")
    expected = dataclasses.replace(
        expected,
        seeds=3,
        steps=1_000,
        loggers="none",
        a2c=dataclasses.replace(expected.a2c, learning_rate=0.01),
        re3=dataclasses.replace(expected.re3, count_self=False),
        evaluation=dataclasses.replace(expected.evaluation, greedy=True),
    )
    assert config == expected


def test_config_survives_its_two_written_forms():
    config = parse(["--env", "empty_16x16", "--chunk-updates", "7", "--out", "x"])
    assert from_dict(dataclasses.asdict(config)) == config
    assert unflatten(flatten(config)) == config


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--k", "k of RE3 is --re3.first-neighbour and --re3.last-neighbour"),
        ("--beta", "did you mean --re3.beta or "),
        ("--ppo.gamma", "did you mean --ppo.discount or "),
        ("--rainbow.lr", "did you mean --rainbow.learning-rate or "),
        ("--a2c.ent-coef", "did you mean --a2c.entropy-coef or "),
        ("--a2c.clip-epsilon", "did you mean --ppo.clip-epsilon"),
        ("--total-timesteps", "did you mean --steps?"),
        ("--timesteps", "did you mean --steps?"),
        ("--ppo.num-steps", "did you mean --ppo.rollout-length or "),
        ("--re3.latent_dims", "did you mean --re3.latent-dim"),
    ],
)
def test_an_unknown_option_is_told_what_it_may_mean(option, hint):
    with pytest.raises(UsageError, match=f"there is no option {option.replace('_', '-')}: {hint}"):
        parse(["--env", "doorkey_6x6", option, "3"])


def test_help_shows_resolved_defaults(capsys):
    with pytest.raises(SystemExit) as end:
        parse(["--env", "doorkey_8x8", "--preset", "paper", "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for default in ("2400000", "64000", "0.01", "doorkey_8x8"):
        assert f"(default: {default})" in " ".join(text.replace("│", "").split())


def test_the_last_seed_is_the_largest_number_of_32_bits():
    last = dataclasses.replace(resolve("doorkey_6x6"), seed=2**31 - 2, seeds=2)
    validate(last)
    with pytest.raises(UsageError, match="seeds end at 2147483647"):
        validate(dataclasses.replace(last, seeds=3))


@pytest.mark.parametrize("task", TABLE)
@pytest.mark.parametrize("preset", ["recommended", "paper", "released", "debug"])
@pytest.mark.parametrize("seeds", [1, 5, 10, 1000])
def test_evaluations_fall_on_chunk_ends(task, preset, seeds):
    config: RunConfig = dataclasses.replace(resolve(task, preset=preset), seeds=seeds)
    updates = config.choose_chunk_updates(1)
    assert updates >= 1
    assert config.evaluation.every_env_frames % (updates * config.frames_per_update(1)) == 0


def test_recommended_is_released_with_searched_weights_and_the_bonus_where_algorithm_2_has_it():
    recommended = flatten(resolve("doorkey_8x8"))
    released = flatten(resolve("doorkey_8x8", preset="released"))
    changed = {name for name in released if recommended[name] != released[name]}
    assert changed == {"preset", "a2c.bonus_target", "re3.beta", "rnd.beta", "icm.beta"}
    assert recommended["a2c.bonus_target"] == "reward"


def test_chunk_when_evaluations_cannot_fall_on_chunk_ends():
    config = parse(
        ["--env", "doorkey_6x6", "--seeds", "1", "--evaluation.every-env-frames", "1000"]
    )
    assert config.choose_chunk_updates(1) == 7


def test_a_search_in_all_of_the_ring_is_resumed_as_it_was_asked_for(tmp_path):
    """Only the preset's own bound gives way to a smaller ring."""
    ring = ("--re3.ring-size", "20000", "--re3.search-size", "20000")
    ranks = ("--re3.no-count-self", "--re3.first-neighbour", "1", "--re3.last-neighbour", "3")
    out = ("--out", str(tmp_path))
    started = parse(["--env", "doorkey_6x6", *ring, *ranks, *out])
    claim(started)
    resumed = parse(["--resume", *out])
    assert started.re3.search_size == resumed.re3.search_size == 20_000
    assert claim(resumed) == tmp_path


def test_none_is_no_folder_to_resume(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="there is no run of this kind under runs/ to resume"):
        parse(["--resume", "--out", "None"])


def test_help_shows_the_values_of_the_run_that_is_resumed(tmp_path, capsys):
    write_config(
        tmp_path, parse(["--env", "doorkey_6x6", "--a2c.num-envs", "3", "--out", str(tmp_path)])
    )
    with pytest.raises(SystemExit) as end:
        parse(["--resume", "--out", str(tmp_path), "--help"])
    assert end.value.code == 0
    assert 'processes"). (default: 3)' in " ".join(capsys.readouterr().out.replace("│", "").split())


def test_a_contrastive_encoder_crops_the_newest_frame_too():
    """Under `crop` alone: its squares are its augmentation."""
    words = ["--env", "cheetah_run_sparse", "--bonus", "contrastive", "--re3.image-crop", "30"]
    words += ["--re3.image-input", "newest_frame", "--learned.augmentation"]
    assert parse([*words, "crop"]).re3.image_crop == 30
    with pytest.raises(UsageError, match="--re3.image-crop has no effect with --re3.image-input"):
        parse([*words, "shift"])


@pytest.mark.parametrize(("bonus", "ring"), [("re3", "--re3.ring-size or "), ("rnd", "")])
def test_memory_names_a_ring_where_there_is_one(bonus, ring):
    config = parse(["--env", "doorkey_6x6", "--bonus", bonus])
    with pytest.raises(UsageError, match=f"lower --seeds, {ring}--a2c.num-envs"):
        check_memory(2, 1, config)
