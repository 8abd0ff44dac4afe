"""Weights of every bonus, and the rows "+ PT", as in the paper's tables."""

from pathlib import Path

import pytest

from re3_jax.runs.config import flatten
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from tests.cli.test_dmc_presets import APPENDIX, MAIN

PRESETS = ("recommended", "paper", "released")

MINIGRID = {
    # "Intrinsic reward weight beta in ... experiments": one column per task
    "A2C + RE3 + PT": {"empty_16x16": 0.1, "doorkey_6x6": 0.05, "doorkey_8x8": 0.05},
    "A2C + RE3": {"empty_16x16": 0.1, "doorkey_6x6": 0.005, "doorkey_8x8": 0.01},
    "A2C + ICM": {"empty_16x16": 0.00001, "doorkey_6x6": 0.0001, "doorkey_8x8": 0.001},
    "A2C + RND": {"empty_16x16": 0.00005, "doorkey_6x6": 0.0001, "doorkey_8x8": 0.00005},
}

DMC = {
    # the table's words: (option, otherwise, {task: value})
    "Intrinsic reward scale (RND)": (
        "rnd.beta",
        0.05,
        {"cartpole_swingup_sparse": 10.0, "pendulum_swingup": 0.1, "cheetah_run_sparse": 0.1},
    ),
    "Intrinsic reward scale (ICM)": ("icm.beta", 0.1, {"cheetah_run_sparse": 1.0}),
}


# `recommended` has the weights of a search: tests/cli/test_minigrid_figure.py.
@pytest.mark.parametrize("preset", ["paper", "released"])
@pytest.mark.parametrize("row", MINIGRID)
def test_minigrid(row, preset):
    group = {"RE3": "re3", "ICM": "icm", "RND": "rnd"}[row.split(" + ")[1]]
    for task, beta in MINIGRID[row].items():
        config = resolve(task, "a2c", group, preset, fine_tunes=row.endswith("PT"))
        assert config.bonus == group
        assert flatten(config)[f"{group}.beta"] == beta
        assert flatten(config)[f"{group}.rho"] == 0


@pytest.mark.parametrize("preset", PRESETS)
def test_heads_on_minigrid_are_as_wide_as_the_agents(preset):
    """ "The actor and critic MLPs both contain two fully-connected layers with dimension 64"."""
    config = resolve("doorkey_8x8", preset=preset)
    assert config.rnd.hidden_dim == config.icm.hidden_dim == config.a2c.hidden_dim == 64


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("row", DMC)
def test_dmc(row, preset):
    option, otherwise, exceptions = DMC[row]
    for task in (*MAIN, *APPENDIX):
        found = flatten(resolve(task, preset=preset))
        assert found[option] == exceptions.get(task, otherwise), task
        # Only RE3's scale decays: the table has one number for the others.
        assert found["rnd.rho"] == found["icm.rho"] == 0


@pytest.mark.parametrize("preset", [*PRESETS, "small", "debug"])
def test_initial_temperature(preset):
    """ "0.1 RAD + RE3; 0.01 RAD + RE3 + PT"; nothing else differs."""
    online = flatten(resolve("hopper_hop", preset=preset))
    tuned = flatten(resolve("hopper_hop", preset=preset, fine_tunes=True))
    assert (online["sac.init_temperature"], tuned["sac.init_temperature"]) == (0.1, 0.01)
    assert {name for name in online if online[name] != tuned[name]} == {"sac.init_temperature"}


@pytest.mark.parametrize("preset", [*PRESETS, "recommended"])
@pytest.mark.parametrize("agent", ["ppo", "rainbow"])
def test_weights_of_a_fine_tuned_a2c_are_no_other_agents(agent, preset):
    """The table has "A2C + RE3 + PT", and only A2C's were searched."""
    for task in ("empty_16x16", "doorkey_8x8"):
        online, tuned = (resolve(task, agent, preset=preset, fine_tunes=is_so) for is_so in (0, 1))
        assert flatten(online) == flatten(tuned)


def test_the_weight_of_a_fine_tuned_sum_is_that_of_its_part():
    alone, summed, re3 = (
        resolve("doorkey_8x8", bonus=bonus, preset="recommended", fine_tunes=True).re3.beta
        for bonus in ("contrastive", "contrastive+rnd", "re3+rnd")
    )
    assert alone == summed != re3


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("agent", ["rad", "drq"])
def test_encoders_of_the_baselines_see_what_the_agents_does(agent, preset):
    """ "We use the same encoder architecture"; ICM's loss is 0.2 forward + 0.8 inverse."""
    config = resolve("cheetah_run_sparse", agent, preset=preset)
    for bonus in (config.rnd, config.icm):
        assert (bonus.image_input, bonus.image_crop) == ("stacked_crop", 84)
        assert (bonus.num_filters, bonus.latent_dim, bonus.hidden_dim) == (32, 50, 1024)
    assert (config.icm.forward_weight, config.icm.inverse_weight) == (0.2, 0.8)
    assert (config.rnd.encoder_init, config.icm.encoder_init) == ("torch", "orthogonal")
    assert config.learned.augmentation == config.sac.augmentation
    assert config.learned.neighbours == "ring"


def test_given_values_override_the_rows():
    words = "--env doorkey_8x8 --init runs/x --re3.beta 0.2".split()
    assert parse(words).re3.beta == 0.2
    words = "--env hopper_stand --init runs/x --sac.init-temperature 0.3".split()
    assert parse(words).sac.init_temperature == 0.3
    paper = "--env doorkey_8x8 --preset paper --init runs/x".split()
    assert parse(paper).re3.beta == 0.05
    assert parse([*paper, "--bonus", "rnd"]).rnd.beta == 5e-5


def test_pretrain_sets_the_length_of_the_run():
    config = parse("--env empty_16x16 --pretrain 100000".split())
    assert (config.pretrain, config.steps) == (100_000, 100_000)
    assert config.re3.beta == 0.1
    assert parse("--env empty_16x16 --pretrain 7000 --steps 7000".split()).steps == 7000
    assert parse("--env empty_16x16".split()).pretrain is None


def test_the_papers_text_pre_trains_on_the_bare_bonus():
    for task in ("hopper_hop", "empty_16x16"):
        found = {name: resolve(task, preset=name).pretrain_reward for name in (*PRESETS, "debug")}
        assert found.pop("paper") == "bare"
        assert set(found.values()) == {"weighted"}


def test_weights_are_an_option_of_the_bonus():
    words = "--env cheetah_run_sparse --bonus atc --bonus.weights params.pkl".split()
    config = parse([*words, "--bonus.atc-output", "features"])
    # A run is read from other folders, too.
    assert config.pretrained.weights == str(Path("params.pkl").resolve())
    assert config.pretrained.atc_output == "features"


def helped(words, capsys):
    with pytest.raises(SystemExit) as end:
        parse([*words.split(), "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_shows_the_options_of_the_runs_agent_and_bonuses_and_no_others(capsys):
    text = helped("--env doorkey_8x8 --bonus rnd+contrastive", capsys)
    for option in ("--a2c.num-envs", "--rnd.beta", "--learned.neighbours", "--re3.ring-size"):
        assert option in text
    for option in ("--ppo.", "--icm.", "--bonus.weights", "--dmc.", "--atari."):
        assert option not in text
    assert "--bonus.weights" in helped("--env cheetah_run_sparse --bonus atc", capsys)
    assert "--pretrain " in text and "--pretrain-reward" in text and "--init" in text
