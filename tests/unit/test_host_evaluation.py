"""Evaluation in host lanes, with a policy that only inspects its arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from re3_jax.training.host_evaluation import evaluate_lanes, lane_seeds, lanes_of_a_seed
from tests.probe_host_env import EPISODE, DotLanes

EPISODES = 2


class LosingLanes(DotLanes):
    """The process of a lane is lost in its fourth step, after it moved to the right end."""

    lost_lane = 1

    def is_lost(self):
        return self.calls == 4

    def receive(self):
        step = super().receive()
        self.calls = getattr(self, "calls", 0) + 1
        self.lost = (np.arange(self.num_lanes) == self.lost_lane) & self.is_lost()
        self.steps[self.lost] = 0
        self.position[self.lost] = 0.0
        return step._replace(frame=self._frame(), truncated=step.truncated | self.lost)


def newest_frame(memory, frame, begins):
    """What is remembered is the newest frame."""
    return frame


def evaluate(
    act,
    seeds,
    lanes=DotLanes,
    film=None,
    episodes=EPISODES,
    lanes_of_a_seed=EPISODES,
    see=newest_frame,
    env_frames=0,
):
    return evaluate_lanes(
        lanes(len(seeds) * lanes_of_a_seed),
        begin=lambda frame: frame,
        act=act,
        see=see,
        seeds=seeds,
        env_frames=env_frames,
        episodes=episodes,
        sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]),
        film=film,
    )


def test_policy_may_read_its_arguments_late():
    """A dispatched program must see its arguments as they were when it was called.

    Whether a CPU device reads NumPy's memory itself depends on the address, hence the repeats.
    """
    for num_seeds in 4 * (1, 2, 3, 8):
        given = []

        def act(memory, key, agent_steps, given=given):
            given.append((memory, agent_steps))
            return memory, jnp.zeros((*memory.shape[:2], 1))

        stats = evaluate(act, np.arange(num_seeds))
        np.testing.assert_array_equal(stats.length_mean, EPISODE)
        seen = np.stack([agent_steps for _, agent_steps in given])
        np.testing.assert_array_equal(seen, np.arange(EPISODE)[:, None].repeat(num_seeds, 1))
        # Nothing moves without an action, so the lanes show one frame until their episodes end.
        for observation, _ in given:
            np.testing.assert_array_equal(observation, given[0][0])


def test_actions_beyond_their_bounds_are_executed_within_them():
    sent, lanes = [], DotLanes(EPISODES)
    lanes.send = lambda action: (sent.append(action), DotLanes.send(lanes, action))[1]
    evaluate(
        lambda memory, *_: (memory, jnp.full((*memory.shape[:2], 1), 3.0)), [0], lambda _: lanes
    )
    np.testing.assert_array_equal(sent, np.ones((EPISODE, EPISODES, 1)))


def test_an_episode_that_was_cut_by_a_lost_process_is_played_anew():
    """Its few steps are no episode: their return would count as one of a whole."""

    def act(memory, key, agent_steps):
        return memory, jnp.ones((*memory.shape[:2], 1))

    whole, cut = (evaluate(act, np.arange(1), lanes) for lanes in (DotLanes, LosingLanes))
    np.testing.assert_array_equal(cut.length_mean, EPISODE)
    assert cut.episodes == EPISODES
    # From the left end it takes four steps to the right one, which then pays 1 in each.
    first = 2 * whole.return_mean[0] - returns_of_lane_1(act)
    again = 0.25 + 0.5 + 0.75 + (EPISODE - 3)
    assert 2 * cut.return_mean[0] - first == pytest.approx(again)


def test_a_recorded_frame_keeps_no_other_lane_in_memory():
    def act(memory, key, agent_steps):
        return memory, jnp.zeros((*memory.shape[:2], 1))

    frames = []
    evaluate(act, np.arange(3), film=frames)
    assert len(frames) == EPISODE
    for frame in frames:
        kept = frame
        while kept.base is not None:
            kept = kept.base
        assert kept.nbytes <= frame.nbytes


class FirstLostLanes(LosingLanes):
    """The same of the lane that is filmed."""

    lost_lane = 0


def test_a_film_shows_the_episode_that_is_played_anew_from_its_beginning():
    def act(memory, key, agent_steps):
        return memory, jnp.ones((*memory.shape[:2], 1))

    frames = []
    evaluate(act, np.arange(1), FirstLostLanes, film=frames)
    assert len(frames) == EPISODE


@pytest.mark.parametrize("lanes_of_a_seed", [1, 3, 5])
def test_rounds_of_few_lanes_play_the_same_episodes_as_many_lanes_side_by_side(lanes_of_a_seed):
    def act(memory, key, agent_steps):
        """Moves right where the dot is in the left half, so returns depend on beginnings."""
        return memory, memory[..., :8, :].any((-3, -2, -1))[..., None].astype(float)

    films = [], []
    seeds = np.array([3, 8])
    together = evaluate(act, seeds, film=films[0], episodes=7, lanes_of_a_seed=7)
    rounds = evaluate(act, seeds, film=films[1], episodes=7, lanes_of_a_seed=lanes_of_a_seed)
    jax.tree.map(np.testing.assert_array_equal, rounds, together)
    np.testing.assert_array_equal(*films)
    assert together.return_std.min() > 0 and (together.episodes == 7).all()


def test_every_round_has_noise_of_its_own():
    seen = []

    def act(memory, key, agent_steps):
        seen.append(int(agent_steps[0]))
        return memory, jnp.zeros((*memory.shape[:2], 1))

    evaluate(act, np.arange(1), episodes=3, lanes_of_a_seed=1)
    assert seen == list(range(3 * EPISODE))


@pytest.mark.parametrize(
    "seeds, episodes, lanes", [(1, 64, 64), (5, 10, 10), (5, 100, 12), (99, 3, 1)]
)
def test_lanes_are_few_enough_and_as_evenly_used_as_they_can_be(seeds, episodes, lanes):
    assert lanes_of_a_seed(seeds, episodes) == lanes


class BrokenLanes(LosingLanes):
    """It is lost in every fourth step, so that no episode ends."""

    def is_lost(self):
        return self.calls % 4 == 0


def test_a_process_that_is_lost_again_and_again_does_not_keep_the_evaluation_for_ever():
    def act(memory, key, agent_steps):
        assert agent_steps[0] < 100
        return memory, jnp.zeros((*memory.shape[:2], 1))

    cut = evaluate(act, np.arange(1), BrokenLanes)
    assert cut.length_mean[0] == (EPISODE + 4) / 2


def returns_of_lane_1(act):
    """The return of the lane that is lost, where it is not."""
    lanes = DotLanes(EPISODES)
    seeds = lane_seeds(np.arange(1), 0, EPISODES)
    lanes.reset(seeds)
    total = 0.0
    for _ in range(EPISODE):
        lanes.send(np.ones((EPISODES, 1)))
        total += lanes.receive().reward[1]
    return total


def test_a_lost_life_begins_no_episode_of_an_evaluation():
    class MortalLanes(DotLanes):
        def receive(self):
            return super().receive()._replace(task_ended=np.ones(self.num_lanes, bool))

    begun = []

    def see(memory, frame, begins):
        begun.append(np.asarray(begins).any())
        return frame

    def act(memory, key, agent_steps):
        return memory, jnp.zeros((*memory.shape[:2], 1))

    stats = evaluate(act, np.arange(1), MortalLanes, see=see)
    assert stats.length_mean[0] == EPISODE and begun == (EPISODE - 1) * [False]


def test_every_evaluation_has_noise_of_its_own():
    drawn = set()

    def act(memory, key, agent_steps):
        drawn.add(np.asarray(jax.random.key_data(key)).tobytes())
        return memory, jnp.zeros((*memory.shape[:2], 1))

    for env_frames in (0, 1000):
        evaluate(act, np.arange(1), env_frames=env_frames)
    assert len(drawn) == 2
