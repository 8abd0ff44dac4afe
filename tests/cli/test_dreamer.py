"""`AGENT=dreamer` on the command line."""

import json

import jax
import pytest

from re3_jax.commands import profile, train
from re3_jax.runs.build import make_bonus, task_spec
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.validate import check_memory, validate_for_task


def config_of(task, *more, preset="recommended"):
    config = parse(["--env", task, "--agent", "dreamer", "--preset", preset, *more])
    validate_for_task(config, task_spec(config))
    return config


@pytest.mark.parametrize("preset", ["recommended", "paper", "released"])
def test_the_papers_table(preset):
    """Its five rows, and "different from the original paper of Hafner et al."."""
    config = config_of("cheetah_run_sparse", preset=preset)
    dreamer, re3 = config.dreamer, config.re3
    # "Initial episodes 5", of 1,000 env frames.
    assert dreamer.prefill_env_frames == 5_000
    assert (re3.latent_dim, re3.beta, re3.rho) == (50, 0.1, 0.0)
    assert (re3.first_neighbour, re3.last_neighbour, re3.count_self) == (53, 53, True)
    # "We got rid of log"; "dividing it by a running estimate of the standard deviation".
    assert (re3.log1p, "running_std" in re3.normalize) == (False, True)
    paper_order = "layer_norm_then_tanh"
    assert (dreamer.head_order == paper_order) == (preset == "paper")
    assert (dreamer.batch_size, dreamer.sequence_length, dreamer.horizon) == (50, 50, 15)
    assert (dreamer.env_frames_per_burst, dreamer.updates_per_burst) == (1_000, 100)
    assert (config.dmc.image_size, config.dmc.frame_stack, config.dmc.action_repeat) == (64, 1, 2)
    assert config.evaluation.episodes == (1 if preset == "released" else 10)
    assert config.evaluation.every_env_frames == 10_000
    # The replay keeps every frame of the run.
    frames = config.steps // 2 + config.steps // 1_000
    assert dreamer.replay_capacity > frames
    assert config_of("quadruped_run", preset=preset).dmc.action_repeat == 4


def test_a_longer_run_of_small_still_keeps_every_frame():
    config = config_of("cheetah_run_sparse", "--steps", "500000", preset="small")
    frames = config.steps // config.dmc.action_repeat + config.steps // 1_000
    assert config.dreamer.replay_capacity > frames


def test_small_seeks_neighbours_beyond_a_frames_own_sequence():
    config = config_of("finger_spin", preset="small")
    dreamer, re3 = config.dreamer, config.re3
    assert re3.count_self
    assert dreamer.sequence_length < re3.first_neighbour == re3.last_neighbour


def test_the_ring_of_latents_is_as_large_as_the_replay():
    words = ("--dreamer.neighbours", "ring", "--dreamer.replay-capacity", "70000")
    config = config_of("cheetah_run_sparse", *words, "--re3.last-neighbour", "3000")
    assert config.re3.ring_size == 70_000
    bonus, spec = make_bonus(config), task_spec(config)
    state = jax.eval_shape(lambda key: bonus.init(key, spec), jax.random.key(0))
    assert state.bonus.ring.latents.shape == (70_000, 50)


def test_pixel_tasks_default_to_dreamer_and_re3():
    config = parse(["--env", "pixels:bar"])
    assert (config.agent, config.bonus, config.dreamer.num_envs) == ("dreamer", "re3", 2)


def test_encoders_of_the_small_task_see_pixels():
    words = ["--env", "pixels:bar", "--bonus", "rnd", "--rnd.image-crop", "40"]
    assert parse(words).rnd.image_crop == 40


CHEETAH = "cheetah_run_sparse"


@pytest.mark.parametrize(
    ("task", "more", "words"),
    [
        ("doorkey_6x6", (), "--agent dreamer cannot act .* discrete.* --agent a2c"),
        ("brax:halfcheetah", (), "dreamer learns from images, .* --agent rad"),
        ("pixels:foo", (), "unknown pixels task 'foo'"),
        (
            CHEETAH,
            ("--bonus", "contrastive", "--dreamer.neighbours", "ring"),
            "--dreamer.neighbours has no effect with --bonus contrastive",
        ),
        (CHEETAH, ("--dmc.image-size", "84"), "64x64 pixels: leave --dmc.image-size at 64"),
        (CHEETAH, ("--dmc.frame-stack", "3"), "one frame at a time: leave --dmc.frame-stack at 1"),
        (CHEETAH, ("--re3.ring-size", "9"), "no effect .* set --dreamer.replay-capacity"),
        (CHEETAH, ("--re3.search-size", "9"), "no effect .* or use --dreamer.neighbours ring"),
        (CHEETAH, ("--re3.num-filters", "9"), "--re3.num-filters has no effect"),
        (
            CHEETAH,
            ("--bonus", "none", "--dreamer.neighbours", "ring"),
            "--dreamer.neighbours has no effect with --bonus none",
        ),
        (
            CHEETAH,
            ("--bonus", "atc", "--bonus.weights", "params.pkl"),
            "atc encodes stacks of 3 frames, but --agent dreamer .* one frame at a time: choose",
        ),
        (CHEETAH, ("--dreamer.neighbours", "all"), "choose from stored_minibatch, ring"),
        (CHEETAH, ("--dreamer.horizon", "1"), "--dreamer.horizon must be at least 2"),
        (CHEETAH, ("--dreamer.td-lambda", "2"), "--dreamer.td-lambda must be from 0 to 1"),
        (CHEETAH, ("--dreamer.head-order", "tanh"), "--dreamer.head-order tanh .*tanh_then"),
        (CHEETAH, ("--sac.batch-size", "9"), "no effect with --agent dreamer.*--agent rad or drq"),
        (
            CHEETAH,
            ("--re3.last-neighbour", "2501"),
            "2500 states has no neighbour of rank 2501: lower --re3.last-neighbour",
        ),
    ],
)
def test_bad_input_is_one_sentence(task, more, words):
    with pytest.raises(UsageError, match=words):
        config_of(task, *more)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--dreamer.sequence-length", "51", "lower --dreamer.sequence-length"),
        ("--dreamer.replay-capacity", "50", "raise --dreamer.replay-capacity to 101 or more"),
        ("--dreamer.prefill-env-frames", "999", "raise --dreamer.prefill-env-frames to 1000"),
    ],
)
def test_a_replay_without_a_sequence_costs_nothing(option, value, words, tmp_path, capsys):
    """Episodes of `debug` have 50 agent steps of 20 frames."""
    argv = ["--env", CHEETAH, "--agent", "dreamer", "--preset", "debug", option, value]
    assert train.main([*argv, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_memory_names_a_replay_that_fits():
    config = config_of(CHEETAH, "--seeds", "1")
    with pytest.raises(UsageError, match=r"--dreamer.replay-capacity \d+000 would fit"):
        check_memory(4 * 2**30, 3 * 2**30, config)


def test_a_profile_says_what_to_do_instead(capsys, tmp_path):
    argv = ["--env", CHEETAH, "--agent", "dreamer", "--preset", "debug", "--out", str(tmp_path)]
    assert profile.main(argv) == 2
    assert "BENCH=dreamer_update" in capsys.readouterr().err


@pytest.mark.slow
def test_pre_trained_and_fine_tuned(tmp_path, capsys):
    """The second run starts from the first one's world model, actor, value and random encoder."""
    words = ["--env", "pixels:bar", "--preset", "debug", "--seeds", "1"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert train.main([*words, "--pretrain", "400", "--out", str(first)]) == 0
    more = ["--init", str(first), "--steps", "400", "--out", str(second)]
    assert train.main([*words, *more]) == 0
    assert json.loads((second / "summary.json").read_text())["complete"]
    capsys.readouterr()
    changed = ["--dreamer.deter", "17", "--out", str(tmp_path / "third")]
    assert train.main([*words, *more[:4], *changed]) == 2
    assert "--dreamer.deter is 17" in capsys.readouterr().err
