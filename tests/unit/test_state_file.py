"""A bonus whose state a loop keeps itself is saved and restored bit for bit."""

import dataclasses
import zipfile

import jax
import numpy as np
import pytest

from re3_jax.interop import state_file
from re3_jax.intrinsic import from_config
from tests.numpy_bonuses import CASES, ENTROPY, LANES, batch_of, program, start, steps
from tests.prediction_tasks import TASKS


def bits(leaf):
    is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
    return str(leaf.dtype), array.shape, array.tobytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_numbers_that_numpy_does_not_know_are_kept(dtype, tmp_path):
    state = {"a": jax.numpy.array([1.5, -0.25, 3.0], dtype), "b": jax.numpy.array(2.0, dtype)}
    state_file.save(tmp_path / "state.npz", state)
    again = state_file.restore(tmp_path / "state.npz", jax.tree.map(jax.numpy.zeros_like, state))
    bits_alone = jax.tree.map(lambda leaf: np.zeros(leaf.shape, f"u{leaf.itemsize}"), state)
    with pytest.raises(ValueError, match="does not hold a state of this bonus"):
        state_file.restore(tmp_path / "state.npz", bits_alone)
    assert [bits(leaf) for leaf in jax.tree.leaves(again)] == [
        bits(leaf) for leaf in jax.tree.leaves(state)
    ]


def test_leaves_may_have_the_names_of_numpys_own_arguments(tmp_path):
    state = {"file": np.arange(3), "allow_pickle": np.float32(2), "compressed": np.eye(2)}
    state_file.save(tmp_path / "state.npz", state)
    again = state_file.restore(tmp_path / "state.npz", jax.tree.map(np.zeros_like, state))
    assert all(np.array_equal(again[name], state[name]) for name in state)
    # Any NumPy reads the file.
    with np.load(tmp_path / "state.npz") as arrays:
        assert sorted(arrays.files) == sorted(state)


def test_pythons_numbers_may_stand_beside_arrays(tmp_path):
    state_file.save(tmp_path / "state.npz", {"step": 3, "best": 0.5, "a": np.arange(2)})
    again = state_file.restore(
        tmp_path / "state.npz", {"step": 0, "best": 0.0, "a": np.zeros(2, int)}
    )
    assert (int(again["step"]), float(again["best"]), again["a"].tolist()) == (3, 0.5, [0, 1])


def test_archives_of_others_and_those_that_zip_cannot_read_are_refused(tmp_path):
    path, like = tmp_path / "model.zip", {"a": np.arange(9)}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "{}")
    with pytest.raises(ValueError, match="not an .npz file that save wrote"):
        state_file.restore(path, like)
    state_file.save(path, like)
    content = bytearray(path.read_bytes())
    # The lowest of the flags says that the file is encrypted.
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot read the state of a bonus .* is encrypted"):
        state_file.restore(path, like)


def test_a_restored_state_can_be_donated_and_restored_again(tmp_path):
    bonus, spec = from_config(ENTROPY), TASKS["vectors"]
    like = bonus.init(jax.random.key(0), spec, LANES)
    state_file.save(tmp_path / "state.npz", like)
    observe = jax.jit(bonus.observe, donate_argnums=0)
    for _ in range(2):
        _, index = observe(state_file.restore(tmp_path / "state.npz", like), steps("vectors", 1))
        assert index.tolist() == list(range(LANES))


def test_two_leaves_of_one_path_are_refused(tmp_path):
    for state in ({"a": {"b": np.zeros(2)}, "a/b": np.ones(2)}, {"x.npy": np.zeros(2)}):
        with pytest.raises(ValueError, match="rename one"):
            state_file.save(tmp_path / "state.npz", state)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_loop_of_functions_gets_its_state_back(name, task, tmp_path):
    state, stream = start(name, task)
    for number in (1, 2):
        state, _ = program(name, "observe")(state, steps(task, number))
    saved = {"bonus": state, "stream": stream, "env_frames": np.int64(8)}
    state_file.save(tmp_path / "state.npz", saved)
    other, other_stream = start(name, task, seed=6)
    like = {"bonus": other, "stream": other_stream, "env_frames": np.int64(0)}
    again = state_file.restore(tmp_path / "state.npz", like)
    assert jax.tree.structure(again) == jax.tree.structure(saved)
    for ours, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(saved), strict=True):
        assert isinstance(ours, jax.Array) == isinstance(theirs, jax.Array)
        assert bits(ours) == bits(theirs)
    assert bits(like["stream"]) != bits(again["stream"])
    following, index = program(name, "observe")(again["bonus"], steps(task, 3))
    expected, expected_index = program(name, "observe")(state, steps(task, 3))
    np.testing.assert_array_equal(index, expected_index)
    for ours, theirs in zip(jax.tree.leaves(following), jax.tree.leaves(expected), strict=True):
        assert bits(ours) == bits(theirs)


def test_a_restored_bonus_has_the_weight_that_it_was_made_with(tmp_path):
    """beta_0 and rho are options: the state of one weight goes on with another."""
    light, heavy = (
        from_config(dataclasses.replace(ENTROPY, beta=beta, rho=0.0)) for beta in (0.5, 2.0)
    )
    spec, step = TASKS["vectors"], steps("vectors", 1)
    state, index = light.observe(light.init(jax.random.key(0), spec, LANES), step)
    state_file.save(tmp_path / "state.npz", state)
    like = heavy.init(jax.random.key(1), spec, LANES)
    again = state_file.restore(tmp_path / "state.npz", like)
    batch = batch_of(step, index, 0)
    (before, _, _), (after, _, _) = light.reward(state, batch), heavy.reward(again, batch)
    assert np.asarray(before).any()
    np.testing.assert_allclose(after, 4 * before, rtol=1e-6)
