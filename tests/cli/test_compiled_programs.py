"""Programs are kept between processes only where there is a folder for them."""

import jax
import pytest

from re3_jax.runs import machine


@pytest.fixture
def no_cache(monkeypatch):
    """JAX without a cache, as in a new process; what the test sets is undone."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_are_kept_in_the_users_cache_folder(no_cache, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine.keep_compiled_programs()
    (folder,) = (tmp_path / "re3_jax" / "xla").iterdir()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    (folder / "jit_one-cache").write_bytes(bytes(3))
    (folder / "jit_other-cache").write_bytes(bytes(4))
    assert machine.kept_programs() == (folder, 7)


def test_without_a_folder_nothing_is_kept_and_nothing_said(no_cache, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    machine.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir is None
    assert machine.kept_programs() is None
