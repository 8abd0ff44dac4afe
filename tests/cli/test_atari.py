"""Atari on the command line."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.envs.host import atari_games
from re3_jax.envs.registry import canonical
from re3_jax.runs import suites
from re3_jax.runs.config import RunConfig
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from re3_jax.runs.resolve import resolve
from re3_jax.runs.session import Session
from re3_jax.runs.validate import validate_for_task
from tests.resume.compare import leaves

pytest.importorskip("envpool_assets", reason="envpool is not installed")


@pytest.mark.parametrize(
    ("game", "beta", "contrastive_beta", "latent_dim"),
    [
        ("asterix", 0.01, 0.0001, 50),
        ("beam_rider", 0.01, 0.0001, 50),
        ("seaquest", 0.001, 0.001, 50),
        ("montezuma_revenge", 0.0001, 0.0001, 150),
        ("atari:frostbite", 0.0001, 0.0001, 50),
    ],
)
def test_the_papers_table(game, beta, contrastive_beta, latent_dim):
    """Appendix, "Details on Atari experiments"."""
    config = resolve(game)
    assert (config.agent, config.bonus) == ("rainbow", "re3")
    assert (config.re3.beta, config.re3.rho, config.re3.latent_dim) == (beta, 0.0, latent_dim)
    assert (config.re3.log1p, config.re3.normalize) == (True, "none")
    assert resolve(game, bonus="contrastive").re3.beta == contrastive_beta
    assert config.seeds == 3


@pytest.mark.parametrize("preset", ["recommended", "paper", "released"])
def test_kaixhins_game(preset):
    config = resolve("seaquest", preset=preset)
    assert config.rainbow == RunConfig().rainbow
    assert (config.atari.frame_stack, config.atari.sticky_actions) == (4, 0.0)
    assert (config.atari.life_ends, config.atari.max_no_ops) == (True, 30)
    # 50 million agent steps; evaluated every 100,000 of them.
    assert config.steps == 4 * config.rainbow.anneal_agent_steps == 200_000_000
    assert config.evaluation.every_env_frames == 400_000


def test_data_efficient_rainbow():
    """Van Hasselt et al. (2019), as Kaixhin's README has it."""
    rainbow = resolve("seaquest", preset="data_efficient").rainbow
    assert (rainbow.torso, rainbow.hidden_dim, rainbow.n_steps) == ("data_efficient", 256, 20)
    assert (rainbow.learning_rate, rainbow.target_every) == (1e-4, 2000)
    assert (rainbow.replay_capacity, rainbow.initial_agent_steps) == (100_000, 1_600)
    assert (rainbow.agent_steps_per_update, rainbow.anneal_agent_steps) == (1, 100_000)


def test_searches_are_bounded_where_a_million_latents_are_kept():
    config = resolve("seaquest")
    assert (config.re3.ring_size, config.re3.search_size) == (1_000_000, 100_000)
    words = ["--env", "seaquest", "--rainbow.replay-capacity", "50000"]
    assert parse(words).re3.search_size is None
    assert parse([*words, "--re3.search-size", "20000"]).re3.search_size == 20_000
    with pytest.raises(UsageError, match="search-size must be at most --rainbow.replay-capacity"):
        parse([*words, "--re3.search-size", "60000"])


def test_every_game_has_a_name():
    for game in atari_games.GAMES:
        assert canonical(f"atari:{game}") == f"atari:{game}"
        assert resolve(f"atari:{game}").agent == "rainbow"
    assert canonical("atari:MontezumaRevenge") == canonical("montezuma_revenge")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--env atari:pongg", "unknown Atari game .pongg.; did you mean pong"),
        ("--env seaquest --preset small", "--preset small is for tasks of DeepMind Control"),
        ("--env doorkey_6x6 --preset data_efficient", "--preset data_efficient is for Atari games"),
        ("--env seaquest --dmc.image-size 64", "--dmc.image-size has no effect on seaquest"),
        ("--env doorkey_6x6 --atari.max-no-ops 3", "--atari.max-no-ops has no effect on doorkey"),
        ("--env seaquest --atari.max-no-ops 0", "--atari.max-no-ops must be at least 1"),
        ("--env seaquest --re3.num-filters 8", "--re3.num-filters has no effect on seaquest"),
        ("--env seaquest --agent a2c", "no convolutions for the images of 84x84 pixels .* ppo"),
        ("--env seaquest --agent rad", "whose actions are discrete: use --agent rainbow"),
        ("--env cheetah_run_sparse --agent rainbow", "whose actions are continuous"),
    ],
)
def test_impossible_requests_end_in_one_sentence(words, sentence):
    from re3_jax.runs.build import task_spec

    with pytest.raises(UsageError, match=sentence):
        config = parse(words.split())
        validate_for_task(config, task_spec(config))


RESTORED = "agent/", "intrinsic/", "counters/", "key", "evaluation_key"
"""Parts of the state that do not belong to an episode."""


def resumed_leaves(monkeypatch) -> dict[str, np.ndarray]:
    """Path -> array of the state that a run goes on from, filled when one resumes."""
    found, resume = {}, Session.resume

    def watched(session, state, record):
        resume(session, state, record)
        for path, leaf in jax.tree_util.tree_leaves_with_path(session.state):
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            found[name] = np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    monkeypatch.setattr(Session, "resume", watched)
    return found


@pytest.mark.slow
def test_a_stopped_run_resumes(tmp_path, capsys, monkeypatch):
    """Networks, replay and latents are restored; the log says that new games begin."""
    from re3_jax.commands.train import main

    folder = tmp_path / "run"
    words = ["--env", "atari:pong", "--preset", "debug", "--seeds", "1", "--out", str(folder)]
    words += ["--evaluation.every-env-frames", "100000", "--bonus", "re3"]
    assert main([*words, "--steps", "1000"]) == 0
    first = json.loads((folder / "summary.json").read_text())
    assert first["env_frames"] == 1000 and first["complete"]
    expected = atari_games.human_normalised("pong", first["final_return_mean"])
    assert first["human_normalised_return"] == pytest.approx(expected)
    capsys.readouterr()
    before, after = leaves(folder), resumed_leaves(monkeypatch)
    assert main(["--out", str(folder), "--resume", "--steps", "2000"]) == 0
    assert "new episodes begin, everything else resumes exactly" in capsys.readouterr().out
    assert json.loads((folder / "summary.json").read_text())["env_frames"] == 2000
    assert before["counters/updates"][0] > 0
    restored = [name for name in before if name.startswith(RESTORED)]
    for part in ("opt_state", "ring"):
        assert any(part in name for name in restored)
    for name in restored:
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)


def test_two_suites_may_have_one_preset(monkeypatch):
    other = dataclasses.replace(suites.SUITES["minigrid"], name="other", own_presets=("small",))
    monkeypatch.setitem(suites.SUITES, "other", other)
    assert resolve("cheetah_run_sparse", preset="small").preset == "small"
    sentence = "is for tasks of DeepMind Control and MiniGrid tasks, which seaquest is not one of"
    with pytest.raises(UsageError, match=sentence):
        resolve("seaquest", preset="small")
