"""Sums of bonuses, apt, rise and vcse on the command line: options, refusals, runs that resume."""

import csv
import json

import pytest

from re3_jax.commands import train
from re3_jax.runs import bonuses
from re3_jax.runs.build import make_bonus
from re3_jax.runs.config import flatten
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from tests.cli.refusal import DEBUG, DOORKEY, own_folder, refused  # noqa: F401
from tests.resume.compare import assert_same_run

CHEETAH = ("--env", "cheetah_run_sparse", *DEBUG)
PIXELS = ("--env", "pixels:bar", *DEBUG)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*DOORKEY, "--bonus", "re3+contrastive"), ["re3 and contrastive", "--re3.beta"]),
        ((*DOORKEY, "--bonus", "rnd+rnd"), ["rnd to itself"]),
        ((*DOORKEY, "--bonus", "re3+none"), ["none, which rewards nothing"]),
        ((*DOORKEY, "--bonus", "re3+"), ["--bonus re3+ is not known", "such as re3+rnd"]),
        ((*DOORKEY, "--bonus", "re3+foo"), ["--bonus re3+foo is not known"]),
        ((*DOORKEY, "--bonus", "rnd+icm", "--re3.beta", "1"), ["--re3.beta", "--bonus rnd+icm"]),
        ((*DOORKEY, "--bonus", "re3+rnd", "--re3.image-crop", "9"), ["not seen as pixels"]),
        ((*CHEETAH, "--bonus", "rnd+imagenet"), ["--bonus imagenet needs torchvision's"]),
        ((*DOORKEY, "--bonus", "rise", "--re3.beta", "1"), ["--re3.beta has no effect", "re3 or"]),
        ((*DOORKEY, "--bonus", "rise", "--rise.alpha", "1"), ["--rise.alpha must be from 0"]),
        ((*DOORKEY, "--bonus", "vcse", "--re3.last-neighbour", "4"), ["--re3.last-neighbour has"]),
        ((*DOORKEY, "--bonus", "vcse", "--vcse.k", "32"), ["of 32 states", "lower --vcse.k"]),
        (
            (*DOORKEY, "--bonus", "vcse", "--vcse.neighbours", "ring", "--vcse.k", "512"),
            ["raise --re3.ring-size or lower vcse.k"],
        ),
        (
            (
                *("--env", "gymnax:Pendulum-v1", "--preset", "debug", "--bonus", "vcse"),
                *("--vcse.neighbours", "ring", "--vcse.k", "200000"),
            ),
            ["raise --sac.replay-capacity or lower vcse.k"],
        ),
        ((*DOORKEY, "--bonus", "vcse", "--vcse.search-size", "99"), ["use --vcse.neighbours ring"]),
        (
            (
                *(*DOORKEY, "--bonus", "vcse", "--vcse.neighbours", "ring"),
                *("--vcse.search-size", "31"),
            ),
            ["--vcse.search-size 31 is less than one rollout of 32 states"],
        ),
        ((*DOORKEY, "--bonus", "vcse", "--pretrain", "512"), ["--bonus vcse", "--pretrain with"]),
        ((*DOORKEY, "--bonus", "vcse+rnd", "--pretrain", "512"), ["--bonus vcse", "--pretrain"]),
        (
            (*PIXELS, "--agent", "dreamer", "--bonus", "vcse"),
            ["--agent dreamer does not give", "a2c, rad"],
        ),
        ((*DOORKEY, "--bonus", "apt", "--re3.last-neighbour", "33"), ["lower --re3.last-neigh"]),
        ((*DOORKEY, "--bonus", "apt", "--re3.search-size", "9"), ["which searches the batch"]),
        (
            (*DOORKEY, "--bonus", "vcse", "--vcse.neighbours", "ring", "--re3.no-merge-copies"),
            ["has no effect with --vcse.neighbours ring", "use --vcse.neighbours minibatch"],
        ),
        (
            (*DOORKEY, "--bonus", "apt", "--learned.hidden-dim", "9"),
            ["has no effect with --bonus apt"],
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(capsys, words, said):
    sentence = refused(capsys, *words)
    for word in said:
        assert word in sentence


def test_each_part_of_a_sum_has_its_own_options():
    words = (*DOORKEY, "--bonus", "re3+rnd", "--re3.beta", "0.5", "--rnd.beta", "0.25")
    config = parse([*words, "--pretrain", "512", "--pretrain-reward", "weighted"])
    assert (config.bonus, config.re3.beta, config.rnd.beta) == ("re3+rnd", 0.5, 0.25)
    bonus = make_bonus(config)
    assert bonus.index_shape == (2,) and not bonus.in_order
    # An ensemble of RE3's encoders leaves the one of VCSE alone.
    both = parse([*DOORKEY, "--bonus", "re3+vcse", "--re3.ensemble-size", "2"])
    assert both.re3.ensemble_size == 2 and make_bonus(both).needs_value


@pytest.mark.parametrize("task", ["doorkey_8x8", "cheetah_run_sparse"])
@pytest.mark.parametrize("preset", ["recommended", "paper", "debug"])
def test_apt_is_a_name_for_options(task, preset):
    """The numbers of the Unsupervised RL Benchmark; every other option is that of contrastive."""
    apt, other = (flatten(resolve(task, bonus=name, preset=preset)) for name in APT)
    changed = {name: value for name, value in apt.items() if other[name] != value}
    stands_for = {
        "learned.neighbours": "minibatch", "re3.first_neighbour": 1, "re3.last_neighbour": 12,
        "re3.count_self": True, "re3.normalize": "running_mean", "re3.log1p": True,
    }  # fmt: skip
    assert changed.pop("bonus") == "apt"
    assert {name: apt[name] for name in stands_for} == stands_for
    assert changed.keys() <= stands_for.keys()


APT = ("apt", "contrastive")

WORDS = (
    *("--env", "minigrid:DoorKey-5x5", *DEBUG, "--seeds", "1"),
    *("--evaluation.episodes", "1", "--evaluation.every-env-frames", "512"),
)
A2C = ("--a2c.num-envs", "4", "--chunk-updates", "8")
ROLLOUTS_OF_512 = (
    *("--agent", "ppo", "--ppo.num-envs", "8", "--ppo.rollout-length", "64"),
    *("--chunk-updates", "1"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bonus", "columns", "more"),
    [
        ("apt+rise", ["apt_running_mean", "apt_contrastive_loss", "rise_beta"], A2C),
        ("vcse", ["vcse_n_v_mean"], ROLLOUTS_OF_512),
        (
            "vcse+rnd",
            ["vcse_n_v_mean", "rnd_loss", "rnd_beta"],
            (*A2C, "--vcse.neighbours", "ring"),
        ),
    ],
)
def test_a_run_resumes_exactly_and_is_inherited_from(bonus, columns, more, tmp_path):
    words = (*WORDS, "--bonus", bonus, *more)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    for folder, steps in ((whole, "1024"), (halves, "512")):
        assert train.main((*words, "--steps", steps, "--out", str(folder))) == 0
    assert train.main(("--resume", "--steps", "1024", "--out", str(halves))) == 0
    assert_same_run(halves, whole)
    with (whole / "train.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert all(float(row[column]) == float(row[column]) for row in rows for column in columns)
    assert json.loads((whole / "config.json").read_text())["config"]["bonus"] == bonus
    tuned = (*words, "--steps", "512", "--init", str(whole), "--out", str(tmp_path / "tuned"))
    assert train.main(tuned) == 0


def test_a_bonus_that_is_forgotten_to_be_returned_is_one_sentence(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from re3_jax.runs import bonuses\n"
        "mine = replace(bonuses.BONUSES['rnd'], name='forgotten', make=lambda *_: None)\n"
        "bonuses.register(mine)\n"
    )
    words = ["--env", "doorkey_6x6", "--preset", "debug", "--bonus", "forgotten"]
    out = tmp_path / "run"
    try:
        assert train.main([*words, "--plugin", str(file), "--out", str(out)]) == 2
    finally:
        del bonuses.BONUSES["forgotten"]
    said = capsys.readouterr().err
    assert "bonus is a NoneType: give an IntrinsicReward" in said and said.count("\n") == 1
    assert not out.exists()
