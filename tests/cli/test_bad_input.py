"""Every mistake ends in one sentence with the remedy and exit code 2; nothing is written."""

import pytest

from experiments.figures import curves
from re3_jax.commands import evaluate
from re3_jax.envs.host import gl
from re3_jax.runs import machine
from tests.cli.refusal import DEBUG, DOORKEY, own_folder, refused  # noqa: F401

CHEETAH = ("--env", "cheetah_run_sparse", *DEBUG)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), ["--env", "doorkey_6x6"]),
        (("--env", "dorkey_6x6"), ["dorkey_6x6", "doorkey_6x6", "doorkey_8x8"]),
        (("--env", "procgen:coinrun"), ["procgen", "minigrid", "dmc"]),
        (("--env", "minigrid:DoorKey-4x4"), ["from 5 to 128"]),
        (("--env", "gymnax:CartPol-v1"), ["CartPole-v1"]),
        (("--env", "gymnax:Pendulum-v1", "--agent", "a2c", *DEBUG), ["--agent a2c", "discrete"]),
        ((*CHEETAH, "--agent", "a2c"), ["--agent a2c", "continuous", "--agent rad"]),
        ((*DOORKEY, "--agent", "rad"), ["--agent rad", "discrete", "--agent a2c"]),
        (("--env", "gymnax:CartPole-v1", "--agent", "rad", *DEBUG), ["rad", "discrete"]),
        (("--env", "gymnax:Pendulum-v1", "--agent", "drq", *DEBUG), ["drq shifts images", "rad"]),
        (
            ("--env", "doorkey_6x6", "--preset", "small"),
            ["--preset small", "DeepMind Control", "released"],
        ),
        (("--env", "cheeta_run_sparse"), ["cheeta_run_sparse", "cheetah_run_sparse"]),
        (("--env", "dmc:cheetah_hop"), ["cheetah_hop", "cheetah_run"]),
        ((*DOORKEY, "--sac.batch-size", "64"), ["--sac.batch-size", "--agent a2c", "rad or drq"]),
        ((*DOORKEY, "--dmc.image-size", "64"), ["--dmc.image-size", "doorkey_6x6", "pixels"]),
        ((*DOORKEY, "--video"), ["--video", "doorkey_6x6", "pixels"]),
        ((*CHEETAH, "--a2c.num-envs", "4"), ["--a2c.num-envs", "--agent rad", "--agent a2c"]),
        ((*CHEETAH, "--re3.ring-size", "100"), ["--re3.ring-size", "--sac.replay-capacity"]),
        ((*CHEETAH, "--bonus", "none", "--re3.beta", "1"), ["--re3.beta", "--bonus none"]),
        ((*CHEETAH, "--sac.batch-size", "0"), ["--sac.batch-size", "at least 1"]),
        ((*CHEETAH, "--sac.discount", "2"), ["--sac.discount", "from 0 to 1"]),
        ((*CHEETAH, "--sac.critic-tau", "0"), ["--sac.critic-tau", "above 0"]),
        ((*CHEETAH, "--sac.augmentation", "cutout"), ["--sac.augmentation", "crop, shift, none"]),
        (
            (*CHEETAH, "--sac.crop-size", "37"),
            ["37x37", "36x36", "--sac.crop-size", "--dmc.image-size"],
        ),
        ((*CHEETAH, "--sac.crop-size", "9"), ["--sac.crop-size 9", "rad (4)", "15"]),
        (
            (*CHEETAH, "--sac.crop-size", "3", "--sac.torso", "patches"),
            ["convolutions of --sac.torso patches (1)", "at least 4"],
        ),
        ((*CHEETAH, "--sac.torso", "resnet"), ["--sac.torso resnet", "rad, patches"]),
        ((*CHEETAH, "--dmc.action-repeat", "0"), ["--dmc.action-repeat", "at least 1"]),
        ((*CHEETAH, "--dmc.action-repeat", "1001"), ["--dmc.action-repeat", "at most 1000"]),
        ((*CHEETAH, "--dmc.renderer", "vulkan"), ["--dmc.renderer vulkan", "auto, gl", "warp"]),
        (
            ("--env", "dmc:finger_turn_hard", *DEBUG, "--dmc.renderer", "warp"),
            ["warp cannot draw the target of finger_turn_hard", "--dmc.renderer gl"],
        ),
        ((*CHEETAH, "--dmc.workers", "0"), ["--dmc.workers", "at least 1"]),
        (
            ("--env", "hopper_hop", *DEBUG, "--dmc.sparse-threshold", "inclusive"),
            ["--dmc.sparse-threshold", "no effect on hopper_hop"],
        ),
        (
            (*CHEETAH, "--dmc.engine", "envpool", "--dmc.renderer", "gl")
            + ("--dmc.step-timeout-seconds", "5"),
            ["--dmc.step-timeout-seconds", "no effect", "--dmc.engine dm_control"],
        ),
        (
            (*CHEETAH, "--dmc.engine", "envpool", "--dmc.renderer", "warp"),
            ["--dmc.renderer", "--dmc.engine", "envpool"],
        ),
        (
            (*CHEETAH, "--re3.image-input", "newest_frame", "--re3.image-crop", "30"),
            ["--re3.image-crop", "no effect", "--re3.image-input stacked_crop"],
        ),
        ((*CHEETAH, "--steps", "19"), ["--steps 19", "1 lanes x 1 steps x 20 frames", "20"]),
        ((*CHEETAH, "--evaluation.every-env-frames", "8"), ["every-env-frames 8", "at least 20"]),
        (("--env", "doorkey_6x6", "--agent", "a3c"), ["--agent a3c", "a2c"]),
        (("--env", "doorkey_6x6", "--bonus", "rnd2"), ["--bonus rnd2", "none, re3"]),
        (("--env", "doorkey_6x6", "--preset", "fast"), ["--preset fast", "paper, released"]),
        ((*DOORKEY, "--stepz", "3"), ["--stepz", "--steps"]),
        ((*DOORKEY, "--a2c.learning-rat=3"), ["--a2c.learning-rat", "--a2c.learning-rate"]),
        ((*DOORKEY, "400000"), ["'400000'", "--name value"]),
        ((*DOORKEY, "--steps"), ["--steps", "VALUE"]),
        ((*DOORKEY, "--steps", "--seeds", "1"), ["--steps", "VALUE"]),
        ((*DOORKEY, "--out="), ["--out", "empty"]),
        ((*DOORKEY, "--resume=yes"), ["--resume", "no value"]),
        ((*DOORKEY, "--steps", "many"), ["--steps", "whole number", "'many'"]),
        ((*DOORKEY, "--steps", "1.5"), ["--steps", "whole number"]),
        ((*DOORKEY, "--steps", "0"), ["--steps 0", "not positive"]),
        ((*DOORKEY, "--steps", "-5"), ["--steps -5", "not positive"]),
        ((*DOORKEY, "--steps", "31"), ["--steps 31", "one update", "at least 32"]),
        ((*DOORKEY, "--steps", "3000000000"), ["--steps", "32-bit"]),
        ((*DOORKEY, "--steps", "2147483647"), ["--steps", "32-bit", "at most 2147482624"]),
        ((*DOORKEY, "--chunk-updates", "99999999"), ["--chunk-updates", "at most 67108863"]),
        ((*DOORKEY, "--seeds", "five"), ["--seeds", "whole number"]),
        ((*DOORKEY, "--seeds", "0"), ["--seeds 0", "not positive"]),
        ((*DOORKEY, "--seed", "-1"), ["--seed -1", "negative"]),
        ((*DOORKEY, "--seed", "2147483647"), ["--seed", "too large"]),
        ((*DOORKEY, "--chunk-updates", "0"), ["--chunk-updates 0", "not positive"]),
        ((*DOORKEY, "--a2c.learning-rate", "0"), ["--a2c.learning-rate", "above 0"]),
        ((*DOORKEY, "--a2c.learning-rate", "nan"), ["--a2c.learning-rate", "finite"]),
        ((*DOORKEY, "--a2c.learning-rate", "fast"), ["--a2c.learning-rate", "a number"]),
        ((*DOORKEY, "--a2c.discount", "1.01"), ["--a2c.discount", "from 0 to 1"]),
        ((*DOORKEY, "--a2c.num-envs", "0"), ["--a2c.num-envs", "at least 1"]),
        (
            (*DOORKEY, "--a2c.num-envs", "1", "--a2c.rollout-length", "1"),
            ["at least 2 rewards", "or the exact variant"],
        ),
        ((*DOORKEY, "--a2c.bonus-target", "value"), ["--a2c.bonus-target", "reward, advantage"]),
        ((*DOORKEY, "--re3.first-neighbour", "0"), ["--re3.first-neighbour", "at least 1"]),
        (
            (*DOORKEY, "--re3.first-neighbour", "9"),
            ["--re3.first-neighbour (9)", "--re3.last-neighbour (5)"],
        ),
        (
            (*DOORKEY, "--re3.last-neighbour", "513"),
            ["rank 513", "--re3.ring-size", "--re3.last-neighbour"],
        ),
        ((*DOORKEY, "--re3.ring-size", "31"), ["--re3.ring-size 31", "at least 32"]),
        (
            (
                *("--env", "gymnax:Pendulum-v1", *DEBUG, "--sac.num-envs", "8"),
                *("--re3.no-count-self", "--re3.search-size", "5"),
                *("--re3.first-neighbour", "3", "--re3.last-neighbour", "3"),
            ),
            ["--re3.search-size 5 is less than one step of 8 lanes", "at least 8"],
        ),
        (
            (
                *DOORKEY,
                "--re3.no-count-self",
                *("--re3.last-neighbour", "4", "--re3.search-size", "31"),
            ),
            ["--re3.search-size 31", "at least 32"],
        ),
        ((*DOORKEY, "--re3.last-neighbour", "1"), ["--re3.last-neighbour", "distance 0"]),
        ((*DOORKEY, "--re3.beta", "-1"), ["--re3.beta", "at least 0"]),
        ((*DOORKEY, "--re3.beta", "1e39"), ["--re3.beta", "32-bit"]),
        ((*DOORKEY, "--a2c.learning-rate", "1e300"), ["--a2c.learning-rate", "32-bit"]),
        ((*DOORKEY, "--evaluation.episodes", "2000000"), ["--evaluation.episodes", "1000000"]),
        ((*DOORKEY, "--re3.rho", "1.5"), ["--re3.rho", "below 1"]),
        ((*DOORKEY, "--bonus", "none", "--re3.beta", "1"), ["--re3.beta", "--bonus none"]),
        ((*DOORKEY, "--bonus", "rnd", "--re3.beta", "1"), ["--re3.beta", "--bonus rnd", "atc"]),
        ((*DOORKEY, "--rnd.beta", "1"), ["--rnd.beta", "--bonus re3", "--bonus rnd"]),
        ((*DOORKEY, "--bonus", "rnd", "--rnd.beta", "-1"), ["--rnd.beta", "-1"]),
        ((*DOORKEY, "--bonus", "rnd", "--rnd.learning-rate", "0"), ["--rnd.learning-rate", "abo"]),
        ((*DOORKEY, "--bonus", "icm", "--icm.forward-weight", "-1"), ["--icm.forward-weight"]),
        ((*DOORKEY, "--bonus", "icm", "--rnd.beta", "1"), ["--rnd.beta", "--bonus icm"]),
        ((*DOORKEY, "--bonus", "icm", "--icm.image-crop", "9"), ["--icm.image-crop", "pixels"]),
        ((*DOORKEY, "--re3.num-filters", "9"), ["--re3.num-filters", "doorkey_6x6", "pixels"]),
        ((*DOORKEY, "--re3.latent-dim", "9"), ["--re3.latent-dim", "64 numbers"]),
        (
            (*DOORKEY, "--bonus", "contrastive", "--learned.augmentation", "crop"),
            ["--learned.augmentation", "pixels"],
        ),
        (
            (*DOORKEY, "--agent", "ppo", "--ppo.intrinsic-coef", "2"),
            ["--ppo.intrinsic-coef", "use --ppo.intrinsic-value-head"],
        ),
        (
            (*DOORKEY, "--agent", "rainbow", "--rainbow.epsilon", "0.2"),
            ["--rainbow.epsilon", "use --rainbow.no-noisy"],
        ),
        (
            (*DOORKEY, "--agent", "rainbow", "--rainbow.no-noisy", "--rainbow.noise", "0.2"),
            ["--rainbow.noise", "use --rainbow.noisy"],
        ),
        (
            (*CHEETAH, "--sac.shift-pad", "2"),
            ["--sac.shift-pad", "with --sac.augmentation crop", "use --sac.augmentation shift"],
        ),
        (
            ("--env", "gymnax:Pendulum-v1", *DEBUG, "--sac.num-filters", "9"),
            ["--sac.num-filters", "not seen as pixels"],
        ),
        ((*DOORKEY, "--learned.learning-rate", "1"), ["--bonus contrastive or inverse_dynamics"]),
        (
            (*DOORKEY, "--bonus", "inverse_dynamics", "--learned.momentum", "1"),
            ["--learned.momentum", "--bonus inverse_dynamics", "--bonus contrastive"],
        ),
        (
            (*DOORKEY, "--bonus", "contrastive", "--learned.hidden-dim", "9"),
            ["--learned.hidden-dim", "--bonus inverse_dynamics"],
        ),
        (
            (*DOORKEY, "--bonus", "contrastive", "--learned.momentum", "2"),
            ["--learned.momentum", "at most 1"],
        ),
        (
            (
                *(*DOORKEY, "--bonus", "contrastive", "--learned.neighbours", "minibatch"),
                *("--re3.ring-size", "64"),
            ),
            ["--re3.ring-size", "searches the batch", "--learned.neighbours ring"],
        ),
        (
            (
                *(*DOORKEY, "--bonus", "contrastive", "--learned.neighbours", "minibatch"),
                *("--re3.last-neighbour", "33"),
            ),
            ["32 states", "rank 33", "--re3.last-neighbour", "--a2c.num-envs"],
        ),
        (
            (*DOORKEY, "--bonus", "contrastive", "--re3.ensemble-size", "2"),
            ["ensemble", "--re3.ensemble-size"],
        ),
        (
            ("--env", "gymnax:CartPole-v1", *DEBUG, "--bonus", "contrastive"),
            ["contrastive", "images", "inverse_dynamics"],
        ),
        ((*DOORKEY, "--bonus", "contrastive", "--re3.ring-size", "31"), ["ring-size 31", "32"]),
        (
            (
                "--env",
                "hopper_hop",
                "--agent",
                "drq",
                *DEBUG,
                "--bonus",
                "contrastive",
                *("--learned.augmentation", "crop", "--re3.image-crop", "36"),
            ),
            ["no room for random crops", "--re3.image-crop"],
        ),
        ((*CHEETAH, "--bonus", "imagenet"), ["--bonus imagenet", "ResNet-50", "--bonus.weights"]),
        ((*CHEETAH, "--bonus", "atc"), ["--bonus atc", "params.pkl", "--bonus.weights"]),
        (
            (*CHEETAH, "--bonus", "imagenet", "--bonus.weights", "nowhere.pth"),
            ["there is no file", "nowhere.pth: the bonus imagenet needs", "ResNet-50"],
        ),
        (
            (
                "--env",
                "gymnax:CartPole-v1",
                "--agent",
                "rainbow",
                "--rainbow.no-prioritized",
                "--rainbow.anneal-agent-steps",
                "500",
            ),
            ["--rainbow.anneal-agent-steps has no effect", "--rainbow.prioritized"],
        ),
        (
            (*DOORKEY, "--bonus", "none", "--a2c.bonus-target", "reward"),
            ["--a2c.bonus-target has no effect with --bonus none", "a bonus such as --bonus re3"],
        ),
        ((*CHEETAH, "--bonus.weights", "a.pth"), ["--bonus.weights", "--bonus re3", "imagenet"]),
        (
            (*CHEETAH, "--bonus", "imagenet", "--bonus.atc-output", "code"),
            ["--bonus.atc-output", "--bonus imagenet", "--bonus atc"],
        ),
        (
            (*CHEETAH, "--bonus", "imagenet", "--re3.latent-dim", "9"),
            ["--re3.latent-dim", "--bonus.weights"],
        ),
        ((*DOORKEY, "--bonus", "none", "--pretrain", "64"), ["--pretrain", "none", "--bonus re3"]),
        ((*DOORKEY, "--pretrain-reward", "bare"), ["--pretrain-reward", "without --pretrain"]),
        (
            (*DOORKEY, "--pretrain", "64", "--pretrain-reward", "bare", "--re3.beta", "1"),
            ["--re3.beta", "no effect", "--pretrain-reward weighted"],
        ),
        ((*DOORKEY, "--pretrain", "0"), ["--pretrain 0", "not positive"]),
        ((*DOORKEY, "--pretrain", "9" * 20), ["--pretrain", "too large"]),
        ((*DOORKEY, "--pretrain", "31"), ["--pretrain 31", "at least 32"]),
        ((*DOORKEY, "--pretrain", "2147483647"), ["--pretrain", "32-bit"]),
        ((*DOORKEY, "--pretrain", "64", "--steps", "96"), ["--steps", "--pretrain 64"]),
        ((*DOORKEY, "--evaluation.episodes", "0"), ["--evaluation.episodes", "positive"]),
        ((*DOORKEY, "--evaluation.episodes", "9" * 20), ["--evaluation.episodes", "too large"]),
        ((*DOORKEY, "--re3.ring-size", "9" * 20), ["--re3.ring-size", "too large"]),
        # More than a float holds.
        ((*DOORKEY, "--seeds", "9" * 400), ["--seeds", "32-bit, at most 2147483647"]),
        (
            (*DOORKEY, "--re3.ring-size", "536870913"),
            ["536870912", "--re3.ring-size", "set --re3.no-merge-copies"],
        ),
        (
            (*DOORKEY, "--bonus", "rnd", "--rnd.hidden-dim", "2147483647"),
            ["--rnd.hidden-dim", "at most 268435456"],
        ),
        (
            (*DOORKEY, "--bonus", "contrastive", "--learned.shift-pad", "7"),
            ["7x7", "--learned.shift-pad"],
        ),
        (
            (*CHEETAH, "--bonus", "contrastive", "--learned.shift-pad", "2"),
            ["--learned.shift-pad", "--learned.augmentation shift"],
        ),
        ((*CHEETAH, "--sac.batch-size", "1"), ["at least 2 rewards per batch"]),
        (
            (*CHEETAH, "--bonus", "contrastive", "--learned.augmentation", "shift")
            + ("--learned.shift-pad", "60"),
            ["shift of up to 60 pixels", "nothing"],
        ),
        (("--env", "gymnax:DeepSea-bsuite-46341"), ["DeepSea-bsuite-46341", "46340"]),
        (
            (*DOORKEY, "--re3.ring-shards", "2"),
            ["merges copies", "set --re3.no-merge-copies or"],
        ),
        (
            (*DOORKEY, "--re3.no-merge-copies", "--re3.ring-shards", "7"),
            ["512 latents", "--re3.ring-shards 7", "set it to 4"],
        ),
        ((*DOORKEY, "--re3.ring-shards", "0"), ["--re3.ring-shards", "at least 1"]),
        ((*DOORKEY, "--bonus", "rnd", "--re3.ring-shards", "2"), ["no effect with --bonus rnd"]),
        (
            (*DOORKEY, "--bonus", "contrastive", "--learned.neighbours", "minibatch")
            + ("--re3.ring-shards", "2"),
            ["searches the batch alone", "--learned.neighbours ring"],
        ),
        ((*DOORKEY, "--sac.batch-shards", "2"), ["no effect with --agent a2c", "rad or drq"]),
        (
            (*("--env", "cheetah_run_sparse", "--preset", "small"), "--sac.batch-shards", "6"),
            ["batch-size of 64", "--sac.batch-shards to 2"],
        ),
        (
            (*("--env", "cheetah_run_sparse", "--agent", "dreamer"), "--dreamer.batch-shards", "3"),
            ["batch-size of 16", "--dreamer.batch-shards to 1"],
        ),
        ((*DOORKEY, "--evaluation.every-env-frames", "8"), ["one update", "at least 32"]),
    ],
)
def test_option_is_refused(capsys, argv, words):
    sentence = refused(capsys, *argv)
    for word in words:
        assert word in sentence


def test_state_that_cannot_fit(capsys, monkeypatch):
    monkeypatch.setattr(machine, "free_bytes", lambda devices: 100_000)
    assert "--seeds" in refused(capsys, *DOORKEY)


def test_evaluation_of_a_folder_without_a_run(capsys, tmp_path):
    assert evaluate.main(["--run", str(tmp_path)]) == 2
    assert "no config.json" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--every", "3"], ["--strip", "a.png", "--every", "0"]])
def test_a_strip_without_frames_is_refused_before_anything_is_played(capsys, tmp_path, words):
    assert evaluate.main(["--run", str(tmp_path), *words]) == 2
    assert "give at least 1, and --strip" in capsys.readouterr().err


def test_curves_of_a_folder_without_a_run(capsys, tmp_path):
    assert curves.main([f"a={tmp_path}", "--out", "a.png"]) == 2
    assert "eval.csv" in capsys.readouterr().err


def test_missing_gl_names_the_command_that_installs_it(capsys, monkeypatch):
    monkeypatch.setattr(gl, "probe", lambda: None)
    sentence = refused(capsys, *CHEETAH, "--dmc.renderer", "gl")
    assert "apt-get install" in sentence and "--dmc.renderer warp" in sentence


def test_too_little_memory_is_refused_before_the_folder_is_made(capsys, monkeypatch):
    monkeypatch.setattr(machine, "free_bytes", lambda devices: 2_000_000)
    sentence = refused(capsys, *CHEETAH, "--dmc.renderer", "warp", "--out", "out")
    assert "GiB are free" in sentence and ("would fit" in sentence or "lower" in sentence)


@pytest.mark.parametrize(
    "words",
    [
        [*CHEETAH, "--seeds", "100000"],
        [*CHEETAH, "--seeds", "700", "--re3.ring-shards", "2"],
        "--env minigrid:DoorKey-5x5 --re3.no-merge-copies --re3.ring-shards 2000".split(),
    ],
)
def test_more_devices_than_jax_makes_at_once_are_refused(capsys, monkeypatch, words):
    monkeypatch.setattr(machine, "has_accelerator", lambda: False)
    # JAX, which this process has used, refuses to be divided.
    monkeypatch.setattr(machine.jax.config, "update", lambda *setting: None)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    sentence = refused(capsys, *words)
    assert "1000 are the most: lower --seeds" in sentence


@pytest.mark.parametrize("error", [RuntimeError("no such platform"), AssertionError()])
def test_a_backend_that_is_not_here_is_refused(capsys, monkeypatch, error):
    def devices():
        raise error

    monkeypatch.setattr("jax.local_devices", devices)
    assert "or set JAX_PLATFORMS=cpu" in refused(capsys, *DOORKEY)
