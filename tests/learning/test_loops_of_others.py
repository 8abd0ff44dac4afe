"""The examples that add RE3 to loops of other libraries."""

import re
import warnings
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
from jax.dlpack import from_dlpack

from examples import cleanrl_ppo, purejaxrl_ppo, torch_dqn
from re3_jax.intrinsic import Step, none, rnd, sum_of

FOLDER = Path(__file__).parents[2] / "examples"
PAGE = FOLDER.parent / "docs" / "your_own_loop.md"
LOOPS = ("brax_ppo", "cleanrl_ppo", "purejaxrl_ppo", "sb3_ppo", "torch_dqn")
LIMIT = -200.0
"""Return on MountainCar of an episode that does not reach the hill."""


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of PyTorch only get into each other's way with networks of this size."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def brax_ppo():
    """Imported when it is needed: brax takes seconds, and every worker collects all tests."""
    with warnings.catch_warnings():
        # brax warns that it is unmaintained, and that so is what it imports.
        warnings.simplefilter("ignore")
        from examples import brax_ppo
    return brax_ppo


@pytest.fixture
def sb3_ppo():
    pytest.importorskip("stable_baselines3", reason="needs the package stable-baselines3")
    from examples import sb3_ppo

    return sb3_ppo


@pytest.mark.parametrize("name", LOOPS)
def test_re3_takes_3_to_13_lines(name):
    marked = (FOLDER / f"{name}.py").read_text().count("# RE3\n")
    assert 3 <= marked <= 13


def test_the_page_quotes_the_marked_lines_of_the_examples():
    page = PAGE.read_text()
    quoted = [line.strip() for line in page.splitlines() if line.endswith("  # RE3")]
    examples = [(FOLDER / f"{name}.py").read_text().splitlines() for name in LOOPS]
    marked = [line.strip() for lines in examples for line in lines if line.endswith("  # RE3")]
    assert sorted(quoted) == sorted(marked)


def test_the_script_of_the_page_trains_and_its_bonus_is_restored(sb3_ppo, monkeypatch, tmp_path):
    page, learn = PAGE.read_text(), sb3_ppo.PPO.learn
    script, restoring = (
        re.search(rf"^```{language}\n([^`]*{word}.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
        for language, word in (("python", "verbose"), ("", "PPO.load"))
    )
    steps = 2 * 64 * 16
    monkeypatch.setattr(sb3_ppo.PPO, "learn", lambda model, _: learn(model, steps))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(script, names)
    trained = names["model"]
    assert trained.num_timesteps == trained.rollout_buffer.bonus.agent_steps == steps
    trained.save("model")
    exec(restoring, names)
    assert names["model"] is not trained
    observations = np.random.default_rng(0).uniform(-1, 1, (64, 16, 2))
    ours, theirs = (
        model.rollout_buffer.bonus.reward_rollout(Step(observations))[0]
        for model in (names["model"], trained)
    )
    assert ours.any()
    np.testing.assert_array_equal(ours, theirs)


def spied(bonus, totals):
    """The bonus; `totals` sums the observations that it saw and the rewards that it paid."""

    def count(name, value):
        jax.debug.callback(lambda leaf: totals.update({name: totals.get(name, 0.0) + leaf}), value)

    def observe(state, step):
        count("seen", np.float32(len(step.observation)))
        return bonus.observe(state, step)

    def reward(state, batch):
        paid, state, info = bonus.reward(state, batch)
        count("paid", paid.sum())
        return paid, state, info

    return bonus._replace(observe=observe, reward=reward)


def test_stable_baselines3_learns_from_the_bonus(sb3_ppo, monkeypatch):
    """PPO's buffer holds rewards with the bonus before it computes advantages."""
    totals, added, bonus_buffer = {}, [], sb3_ppo.BonusBuffer

    class Watched(sb3_ppo.BonusBuffer):
        def compute_returns_and_advantage(self, last_values, dones):
            before = self.rewards.astype(np.float64)
            super().compute_returns_and_advantage(last_values, dones)
            added.append((self.rewards - before).sum())
            after, advantages = self.rewards.copy(), self.advantages.copy()
            super(bonus_buffer, self).compute_returns_and_advantage(last_values, dones)
            np.testing.assert_array_equal(self.rewards, after)
            np.testing.assert_array_equal(self.advantages, advantages)

    monkeypatch.setattr(sb3_ppo, "BonusBuffer", Watched)
    assert sb3_ppo.train(spied(sb3_ppo.RE3, totals), 0, 4) <= 0.0
    jax.effects_barrier()
    assert totals["seen"] == 4 * sb3_ppo.ROLLOUT * sb3_ppo.NUM_ENVS
    assert len(added) == 4
    np.testing.assert_allclose(sum(added), totals["paid"], rtol=1e-4)


def test_a_ppo_in_one_file_is_paid_for_every_step():
    totals = {}
    # Two episodes of every lane.
    assert cleanrl_ppo.train(spied(cleanrl_ppo.RE3, totals), 0, 7) == LIMIT
    jax.effects_barrier()
    assert totals["seen"] == 7 * cleanrl_ppo.ROLLOUT * cleanrl_ppo.NUM_ENVS
    assert totals["paid"] > 0


def test_a_jitted_ppo_is_paid_for_every_step():
    totals = {}
    train = partial(purejaxrl_ppo.train, bonus=spied(purejaxrl_ppo.RE3, totals), num_updates=2)
    assert np.isfinite(jax.jit(train)(jax.random.key(0)))
    jax.effects_barrier()
    assert totals["seen"] == 2 * purejaxrl_ppo.ROLLOUT * purejaxrl_ppo.NUM_ENVS
    assert totals["paid"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_brax_trains_on_the_bonus_and_reports_both_parts(brax_ppo, agent):
    rooms, steps = brax_ppo.TwoRooms(), 16 * brax_ppo.ROLLOUT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = brax_ppo.train(rooms, brax_ppo.RE3, 0, steps, agent)
    task, paid = (metrics[f"eval/episode_{name}"] for name in ("task_reward", "intrinsic_reward"))
    np.testing.assert_allclose(metrics["eval/episode_reward"], task + paid, rtol=1e-5)
    assert paid > 0 and brax_ppo.task_return(metrics) == task


def rewards_of_batches(monkeypatch, to_jax, to_torch):
    """What the DQN learned from, batch by batch, with these conversions."""
    batches = []
    learn = torch_dqn.learn

    def watched(network, target, optimizer, batch):
        batches.append(batch["reward"].clone())
        learn(network, target, optimizer, batch)

    monkeypatch.setattr(torch_dqn, "learn", watched)
    monkeypatch.setattr(torch_dqn, "from_dlpack", to_jax)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "from_dlpack", to_torch)
        assert torch_dqn.train(torch_dqn.RE3, 0, 210) == LIMIT
    monkeypatch.setattr(torch_dqn, "learn", learn)
    return torch.stack(batches)


def test_pytorch_and_jax_share_the_memory(monkeypatch):
    """No tensor and no array is copied, and rewards are those of copies."""
    to_torch = torch.from_dlpack

    def shared_with_jax(tensor):
        array = from_dlpack(tensor)
        assert array.unsafe_buffer_pointer() == tensor.data_ptr()
        return array

    def shared_with_torch(array):
        tensor = to_torch(array)
        assert tensor.data_ptr() == array.unsafe_buffer_pointer()
        return tensor

    def copied_to_jax(tensor):
        return jax.numpy.array(tensor.numpy(), copy=True)

    def copied_to_torch(array):
        return torch.tensor(np.array(array))

    shared = rewards_of_batches(monkeypatch, shared_with_jax, shared_with_torch)
    copied = rewards_of_batches(monkeypatch, copied_to_jax, copied_to_torch)
    assert len(shared) == 210 - torch_dqn.FIRST_STEPS
    # The task pays -1; the bonus of a copy is 0.
    assert (shared >= -1.0).all() and (shared > -1.0).float().mean() > 0.5
    torch.testing.assert_close(shared, copied, rtol=0, atol=0)


def test_the_dqn_takes_a_sum_with_a_bonus_that_learns():
    """Its replay keeps one index for each part, and its batches train the predictor."""
    told = []
    predictor = rnd.from_config(rnd.RNDConfig(hidden_dim=16, latent_dim=8, learning_rate=0.01))

    def update(state, batch, key):
        state, info = predictor.update(state, batch, key)
        jax.debug.callback(told.append, info["rnd_loss"])
        return state, info

    parts = {"re3": torch_dqn.RE3, "rnd": predictor._replace(update=update)}
    assert torch_dqn.train(sum_of(parts), 0, 210) == LIMIT
    jax.effects_barrier()
    assert len(told) == 210 - torch_dqn.FIRST_STEPS
    assert np.mean(told[-20:]) < 0.5 * np.mean(told[:20])


@pytest.mark.slow
@pytest.mark.learning
def test_a_jitted_ppo_finds_the_hill_with_re3():
    keys, found = jax.random.split(jax.random.key(1), 8), {}
    for name, bonus in (("none", none()), ("re3", purejaxrl_ppo.RE3)):
        train = partial(purejaxrl_ppo.train, bonus=bonus, num_updates=purejaxrl_ppo.NUM_UPDATES)
        found[name] = int((jax.jit(jax.vmap(train))(keys) > LIMIT).sum())
    # Chance decides about single seeds.
    assert found["re3"] >= 6 and found["none"] <= 2, found


@pytest.mark.slow
@pytest.mark.learning
def test_brax_finds_the_way_around_the_wall_with_re3(brax_ppo):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            brax_ppo.task_return(brax_ppo.train(brax_ppo.TwoRooms(), bonus, 0, brax_ppo.NUM_STEPS))
            for bonus in (None, brax_ppo.RE3)
        ]
    assert found[0] == 0.0 and found[1] > 1.0, found


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("name", ["sb3_ppo", "cleanrl_ppo", "torch_dqn"])
def test_a_loop_on_the_host_finds_the_hill_with_re3(name, request):
    examples = {"cleanrl_ppo": cleanrl_ppo, "torch_dqn": torch_dqn}
    example = examples[name] if name in examples else request.getfixturevalue(name)
    length = example.NUM_STEPS if example is torch_dqn else example.NUM_UPDATES
    # Chance decides about single seeds.
    assert any(example.train(example.RE3, seed, length) > LIMIT for seed in range(3))
