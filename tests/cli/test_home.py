"""The user's folder: `~` in options, and a user who has none."""

from types import SimpleNamespace

from re3_jax.runs import machine
from re3_jax.runs.errors import Parser
from re3_jax.runs.options import parse


def test_a_tilde_is_the_users_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/mine")
    for words in (["--out=~/x"], ["--out", "~/x"]):
        assert parse(["--env", "doorkey_6x6", "--preset", "debug", *words]).out == "/mine/x"
    parser = Parser("program")
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--out")
    words = parser.parse_args(["~/a", "b~/c", "--out=~/x=y"])
    assert (words.runs, words.out) == (["/mine/a", "b~/c"], "/mine/x=y")
    words, others = parser.parse_known_args(["--out=~/x", "--more", "~/y"])
    assert (words.out, words.runs, others) == ("/mine/x", ["/mine/y"], ["--more"])


def test_a_user_without_a_home_compiles_without_a_cache(monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    told = []
    config = SimpleNamespace(update=lambda name, value: told.append(name))
    monkeypatch.setattr(machine, "jax", SimpleNamespace(config=config))
    for name in ("JAX_COMPILATION_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine.Path, "home", home)
    machine.keep_compiled_programs()
    assert told == ["jax_persistent_cache_min_compile_time_secs"]
