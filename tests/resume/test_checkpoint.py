"""CheckpointStore: restores what was saved, and never a damaged checkpoint."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from orbax.checkpoint.path import step as names

from re3_jax.runs import checkpoint_path
from re3_jax.training import transfer
from re3_jax.training.checkpoint import KEEP, CheckpointStore
from tests.resume.conftest import ROOT

DAMAGE = {
    "emptied": lambda data: b"",
    "halved": lambda data: data[: len(data) // 2],
    "flipped": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 4]) + data[len(data) // 2 + 1 :]
    ),
    "removed": None,
}


def state(step: int):
    return {
        "array": jax.random.normal(jax.random.key(step), (2, 50, 8)),
        "keys": jax.random.split(jax.random.key(step), 2),
        "nested": (jnp.full(2, step, jnp.int32), ()),
        "nan": jnp.array([jnp.nan, jnp.inf, -0.0]),
    }


def assert_equal(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    store = CheckpointStore(folder)
    for step in (1, 2):
        store.save(step, state(step), {"step": step, "seconds": 0.1})
    store.close()
    return folder


def restore(folder: Path, template=None):
    said: list[str] = []
    store = CheckpointStore(folder)
    try:
        return store.restore(template or state(0), said.append), said
    finally:
        store.close()


def test_the_newest_checkpoint_is_restored(saved):
    found, said = restore(saved)
    assert_equal(found[0], state(2))
    assert found[1] == {"step": 2, "seconds": 0.1}
    assert said == []


@pytest.mark.parametrize(
    "name", ["a b", "a%20b", "a#b", "a{c}b", "a:b", "a'b", 'a"b', "a]b", "é", "a&b", "~", "a$b"]
)
def test_in_a_folder_of_a_name_that_a_run_may_have_it_is_restored(tmp_path, name):
    checkpoint_path.check(tmp_path / name)
    store = CheckpointStore(tmp_path / name)
    store.save(1, state(1), {"step": 1})
    store.close()
    found, said = restore(tmp_path / name)
    assert_equal(found[0], state(1))
    assert said == []


def test_what_orbax_reports_late_is_not_printed_and_all_else_is(tmp_path, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    for _ in range(2):
        CheckpointStore(tmp_path).close()
    others = [
        SimpleNamespace(exc_value=RuntimeError(text), object=of)
        for text, of in (("x", None), ("Event loop is closed", "a transport of the user's"))
    ]
    late = SimpleNamespace(exc_value=RuntimeError("Event loop is closed"), object=None)
    for one in (late, *others):
        sys.unraisablehook(one)
    assert reported == others


def test_without_checkpoints_nothing_is_restored(tmp_path):
    assert restore(tmp_path / "none") == (None, [])


def test_old_ones_are_dropped_and_a_step_is_never_overwritten(tmp_path):
    store = CheckpointStore(tmp_path)
    for step in range(KEEP + 2):
        store.save(step, state(step), {"step": step})
    store.save(KEEP + 1, state(99), {"step": 99})
    assert store.steps() == [2, 3, 4]
    store.close()
    assert restore(tmp_path)[0][1] == {"step": KEEP + 1}


@pytest.mark.parametrize("how", DAMAGE)
# What orbax still reads when the first array fails meets a closed loop.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_damage_to_any_file_is_detected(saved, tmp_path, how):
    """One of the two states is restored exactly, and the older one with a message."""
    passed_over = 0
    files = [p.relative_to(saved) for p in (saved / "2").rglob("*") if p.is_file()]
    for number, file in enumerate(files):
        folder = tmp_path / str(number)
        shutil.copytree(saved, folder)
        damage = DAMAGE[how]
        if damage is None:
            (folder / file).unlink()
        elif data := (folder / file).read_bytes():
            (folder / file).write_bytes(damage(data))
        (found, record), said = restore(folder)
        assert_equal(found, state(record["step"]))
        assert len(said) == (0 if record["step"] == 2 else 1)
        if said:
            assert "checkpoint 2 is damaged" in said[0]
        passed_over += len(said)
    assert passed_over >= 3


def test_step_of_a_damaged_checkpoint_can_be_saved_again(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "c")
    (tmp_path / "c" / "2" / "host" / "metadata").write_text("{}")
    store = CheckpointStore(tmp_path / "c")
    assert store.restore(state(0), lambda text: None)[1]["step"] == 1
    store.save(2, state(7), {"step": 7})
    assert (tmp_path / "c" / "broken-2" / "host" / "metadata").read_text() == "{}"
    assert store.restore(state(0), lambda text: None)[1]["step"] == 7
    store.close()


def test_damage_to_every_checkpoint_is_an_error(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "c")
    for step in ("1", "2"):
        (tmp_path / "c" / step / "host" / "metadata").write_text("{}")
    with pytest.raises(ValueError, match="every checkpoint.*2: another version of re3_jax wrote"):
        restore(tmp_path / "c")
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["1", "2"]


def test_a_table_of_another_dtype_comes_from_another_version(tmp_path):
    """As coverage's, which once said of each state whether it was visited, and not how often."""
    store = CheckpointStore(tmp_path)
    store.save(1, {"visited": jnp.ones((2, 3), bool)}, {})
    store.close()
    with pytest.raises(ValueError, match="every checkpoint.*1: another version of re3_jax wrote"):
        restore(tmp_path, {"visited": jnp.zeros((2, 3), jnp.int32)})


SAVER = """
import pathlib, sys, jax.numpy as jnp
from re3_jax.training.checkpoint import CheckpointStore
store = CheckpointStore(pathlib.Path(sys.argv[1]))
for step in range(1, 1_000_000):
    store.save(step, {"array": jnp.full((200, 5_000), step)}, {"step": step})
"""


def test_killed_while_saving(tmp_path):
    """An incomplete save after SIGKILL is neither taken for a checkpoint nor kept."""
    folder = tmp_path / "c"
    process = subprocess.Popen([sys.executable, "-c", SAVER, str(folder)], cwd=ROOT)

    def is_saving_another():
        found = [path.name for path in folder.glob("*")]
        whole = any(name.isdigit() and int(name) > 1 for name in found)
        return whole and any("orbax-checkpoint-tmp" in name for name in found)

    while not is_saving_another():
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    template = {"array": jnp.zeros((200, 5_000), jnp.int32)}
    found, said = restore(folder, template)
    assert said == []
    assert np.unique(found[0]["array"]).tolist() == [found[1]["step"]]
    store = CheckpointStore(folder)
    store.save(1_000_000, template, {"step": 0})
    store.close()
    assert not list(folder.glob("*.orbax-checkpoint-tmp*"))


class Parts(NamedTuple):
    """Fields of a train state that can be read separately, and one that cannot."""

    agent: Any
    intrinsic: Any
    lanes: Any


def parts() -> Parts:
    arrays = state(3)
    empty = optax.EmptyState()
    return Parts(
        {"params": (arrays["array"], empty), "opt_state": (empty, arrays["nested"])},
        (arrays["nan"],),
        {"keys": arrays["keys"]},
    )


def read_parts(folder: Path, names=("agent", "intrinsic")):
    store = CheckpointStore(folder)
    try:
        return store.read_parts(names)
    finally:
        store.close()


def test_parts_are_read_by_path_without_a_template(tmp_path):
    assert read_parts(tmp_path) is None
    store = CheckpointStore(tmp_path)
    for step in (1, 2):
        store.save(step, parts(), {"step": step})
    store.close()
    leaves, record = read_parts(tmp_path)
    assert record == {"step": 2}
    paths = jax.tree_util.tree_leaves_with_path(parts()._replace(lanes=()))
    assert leaves.keys() == {transfer.name_of(path) for path, _ in paths}
    for path, leaf in paths:
        assert leaves[transfer.name_of(path)].tobytes() == np.asarray(leaf).tobytes()
    assert read_parts(tmp_path, ("intrinsic",))[0].keys() == {"intrinsic/0"}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_damaged_parts_are_never_returned(tmp_path, damage):
    """Whatever happens to a file: reading returns what was saved or reports damage."""
    store = CheckpointStore(tmp_path)
    store.save(1, parts(), {"step": 1})
    store.close()
    good, _ = read_parts(tmp_path)
    files = sorted(p for p in (tmp_path / "1" / "state").rglob("*") if p.is_file())
    noticed = 0
    for path in files:
        whole = path.read_bytes()
        change = DAMAGE[damage]
        path.unlink() if change is None else path.write_bytes(change(whole))
        try:
            found, _ = read_parts(tmp_path)
        except ValueError as error:
            assert "checkpoint 1 is damaged" in str(error)
            noticed += 1
        else:
            assert {name: leaf.tobytes() for name, leaf in found.items()} == {
                name: leaf.tobytes() for name, leaf in good.items()
            }
        path.write_bytes(whole)
    assert noticed > 0


FORMAT = type(names.standard_name_format())


@pytest.mark.parametrize("gone", [1, 2])
def test_a_checkpoint_that_its_run_deletes_meanwhile_is_no_concern(saved, tmp_path, gone):
    """The process that trains deletes it between the listing and the reading."""
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved, folder)
    listing = FORMAT.find_all

    def listed_and_gone(*where):
        found = list(listing(*where))
        shutil.rmtree(folder / str(gone), ignore_errors=True)
        return iter(found)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FORMAT, "find_all", listed_and_gone)
        found, _ = restore(folder)
    assert_equal(found[0], state(3 - gone))
