"""Options of RE3 that no preset sets take effect from the command line."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.runs import build, machine
from re3_jax.runs.build import device_program, refused_by_parts
from re3_jax.runs.errors import UsageError
from re3_jax.runs.options import parse
from tests.probe_envs import countdown

OPTIONS = (
    *("--env", "gymnax:CartPole-v1", "--preset", "debug", "--chunk-updates", "1"),
    *("--a2c.num-envs", "2", "--a2c.rollout-length", "4"),
    *("--re3.ring-size", "64", "--re3.normalize", "none"),
    *("--re3.no-log1p", "--re3.ensemble-size", "2"),
)
BATCH = 8


@pytest.fixture(scope="module")
def two_updates():
    """The configuration, and the metrics, weights and RE3 state after each of two updates."""
    config = parse(list(OPTIONS))
    program = device_program(config, countdown())
    state = program.init(jnp.arange(1, 1 + config.seeds, dtype=jnp.int32))
    seen = []
    for _ in range(2):
        state, metrics = program.train(state)
        seen.append(jax.device_get((metrics, state.agent, state.intrinsic[0])))
    return config, seen


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
def test_seeds_are_divided_among_the_fewest_devices_that_use_all_cores(cores, monkeypatch):
    monkeypatch.setattr(build.machine, "usable_cores", lambda: cores)
    for seeds in range(1, 65):
        fewest = min(n for n in range(min(cores, seeds), seeds + 1) if seeds % n == 0)
        assert build.side_by_side(seeds) == fewest
    # A prime has no other divisor than itself, and so many devices take minutes to make.
    assert build.side_by_side(2**31 - 1) == 1


@pytest.mark.parametrize("has_accelerator", [True, False])
def test_a_cpu_that_does_not_do_the_work_is_divided_no_further(has_accelerator, monkeypatch):
    set_to = []
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(machine, "has_accelerator", lambda: has_accelerator)
    monkeypatch.setattr(jax.config, "update", lambda name, count: set_to.append(count))
    machine.use_cpu_devices(1000)
    with contextlib.nullcontext() if has_accelerator else pytest.raises(UsageError, match="1000"):
        machine.use_cpu_devices(2000)
    # A run that is only read never needs more.
    build.fitted(parse(["--env", "cheetah_run_sparse", "--preset", "debug", "--seeds", "3000"]))
    assert set_to == [1000, 1000, 1000]


def test_ensemble_has_a_ring_for_each_member(two_updates):
    config, seen = two_updates
    for i, (metrics, agent, bonus) in enumerate(seen):
        ring, written = bonus.ring, (i + 1) * BATCH
        assert ring.latents.shape == (config.seeds, 2, 64, config.re3.latent_dim)
        assert (ring.num_valid == written).all()
        first, second = ring.latents[:, 0, :written], ring.latents[:, 1, :written]
        assert (np.abs(first - second).max(axis=(1, 2)) > 1e-3).all()
        assert (metrics["intrinsic_reward_mean"] > 0).all()
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((metrics["loss"], agent)))


def test_without_log1p_the_bonus_is_beta_times_the_distance(two_updates):
    """beta times the mean distance over members, and over ranks per member, by NumPy."""
    config, ((metrics, _, bonus), _) = two_updates
    assert config.re3.log1p is False
    latents = bonus.ring.latents[:, :, :BATCH].astype(np.float64)
    distances = np.sort(np.linalg.norm(latents[..., None, :] - latents[:, :, None], axis=-1))
    ranks = slice(config.re3.first_neighbour - 1, config.re3.last_neighbour)
    expected = config.re3.beta * distances[..., ranks].mean(axis=(1, 2, 3))
    np.testing.assert_allclose(metrics["intrinsic_reward_mean"], expected, rtol=1e-4)


def test_diagnostics_are_those_of_the_batch(two_updates):
    """Both lanes count down alike, so each latent of the first update occurs twice."""
    config, ((metrics, _, bonus), _) = two_updates
    np.testing.assert_array_equal(metrics["duplicate_share"], [1.0] * config.seeds)
    np.testing.assert_array_equal(metrics["nearest_distance_p95"], [0.0] * config.seeds)
    np.testing.assert_allclose(metrics["beta"], [config.re3.beta] * config.seeds, rtol=1e-6)
    assert "running_std" not in metrics and "state_coverage" not in metrics
    latents = bonus.ring.latents[:, :, :BATCH].astype(np.float64)
    distances = np.sort(np.linalg.norm(latents[..., None, :] - latents[:, :, None], axis=-1))
    ranks = slice(config.re3.first_neighbour - 1, config.re3.last_neighbour)
    rewards = config.re3.beta * distances[..., ranks].mean(axis=(1, 3))
    for suffix, quantile in (("p05", 0.05), ("p50", 0.5), ("p95", 0.95)):
        np.testing.assert_allclose(
            metrics[f"intrinsic_reward_{suffix}"],
            np.quantile(rewards, quantile, axis=-1),
            rtol=1e-4,
        )


def test_what_jax_raises_keeps_its_traceback():
    """Only this package's sentences, and those of a plugin, are written for users."""
    config = parse(list(OPTIONS))
    with pytest.raises(TypeError, match="shapes"), refused_by_parts(config):
        jax.eval_shape(lambda: jnp.zeros(3) + jnp.zeros(4))
    with pytest.raises(ValueError, match="Incompatible shapes") as caught, refused_by_parts(config):
        jax.eval_shape(lambda: jnp.zeros((2, 3)) + jnp.zeros((4, 3, 7)))
    assert not isinstance(caught.value, UsageError)
    code = compile("raise ValueError('my_beta is too large: lower it')", "mine.py", "exec")
    with (
        pytest.raises(UsageError, match=r"too large: lower it \(mine.py, line 1\)"),
        refused_by_parts(config),
    ):
        exec(code, {})  # noqa: S102
