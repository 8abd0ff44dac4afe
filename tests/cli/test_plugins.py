"""`--plugin`: a bad file ends in one sentence, a changed one is refused, a moved one is not."""

import dataclasses
import hashlib
import json
import os
import re
import shutil
import sys

import pytest

import re3_jax
from re3_jax.commands import evaluate, look, train
from re3_jax.runs import bonuses, plugins, run_folder
from re3_jax.runs.config import config_class
from re3_jax.runs.errors import UsageError
from re3_jax.runs.resolve import resolve
from tests.cli.plugin_runs import ROOT, command


@pytest.mark.slow
def test_a_run_does_not_resume_with_another_plugin(tmp_path):
    """The same file name with other contents."""
    file, out = tmp_path / "mine.py", str(tmp_path / "run")
    file.write_text((ROOT / "examples/plugin_suite.py").read_text())
    options = ("--preset", "debug", "--steps", "256", "--seeds", "1")
    done = command("--env", "corridor:10", *options, "--plugin", str(file), "--out", out)
    assert done.returncode == 0, done.stderr
    file.write_text(file.read_text().replace("4 * length", "5 * length"))
    done = command("--resume", "--steps", "512", "--out", out)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"--plugin {file} is not the file that the run in {out} was started" in done.stderr


@pytest.mark.slow
def test_a_moved_plugin_is_the_same_plugin(tmp_path):
    file, moved, out = tmp_path / "mine.py", tmp_path / "moved.py", str(tmp_path / "run")
    file.write_text((ROOT / "examples/plugin_suite.py").read_text())
    options = ("--preset", "debug", "--steps", "256", "--seeds", "1")
    done = command("--env", "corridor:10", *options, "--plugin", str(file), "--out", out)
    assert done.returncode == 0, done.stderr
    file.rename(moved)
    longer = ("--resume", "--steps", "512", "--out", out)
    done = command(*longer)
    missing = f"{out} was trained with the plugin {file}, which is not there"
    assert done.returncode == 2 and missing in done.stderr
    other = tmp_path / "other.py"
    other.write_text(moved.read_text() + "OTHER = 1\n")
    done = command(*longer, "--plugin", str(other))
    assert done.returncode == 2 and f"--plugin {other} is not the file that" in done.stderr
    done = command(*longer, "--plugin", str(moved))
    assert done.returncode == 0, done.stderr


BONUS_FILE = ("--plugin", "examples/plugin_bonus.py")


@pytest.mark.slow
def test_help_lists_a_plugins_options():
    done = command(*BONUS_FILE, "--bonus", "episodic_count", "--help")
    assert done.returncode == 0 and "episodic_count" in done.stdout
    assert "--episodic-count.beta" in done.stdout


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--bonus", "count"), "--bonus count is not known: choose from none, re3, .*episodic_"),
        pytest.param(
            ("--episodic-count.beta", "1"),
            "no effect with --bonus re3: .* --bonus episodic_count",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("--bonus", "episodic_count", "--rnd.beta", "1"),
            "no effect with --bonus episodic_count",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_error_sentences_name_a_plugins_options(argv, words):
    done = command("--env", "doorkey_6x6", *BONUS_FILE, *argv)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert re.search(words, done.stderr), done.stderr


OWN = """
from dataclasses import dataclass, replace
from re3_jax.runs import bonuses
@dataclass(frozen=True)
class MineConfig:
    beta: float = 0.5
bonuses.register(replace(bonuses.BONUSES['rnd'], {}))
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is not a file: name a Python file"),
        ("raise SystemExit(3)", "cannot be imported (SystemExit: 3): fix the file"),
        ("import no_such_package", "imports no_such_package, which is not installed"),
        (
            "from re3_jax.runs import bonuses\nbonuses.register(bonuses.BONUSES['re3'])",
            "there is a bonus re3 already: choose another name",
        ),
        (
            "from dataclasses import dataclass, replace\n"
            "from re3_jax.runs import bonuses\n"
            "@dataclass(frozen=True)\n"
            "class MineConfig:\n"
            "    widths: tuple[int, ...] = (64, 64)\n"
            "own = replace(bonuses.BONUSES['rnd'], name='mine', config=MineConfig)\n"
            "bonuses.register(own)",
            "MineConfig.widths cannot be an option, because it is annotated tuple[int, ...]",
        ),
        (OWN.format("name='mine', config=MineConfig"), "the group rnd of mine is another's"),
        (
            OWN.format("name='mine', config=MineConfig, groups=('seeds',)"),
            "the group seeds of mine is another's: choose another name",
        ),
        (
            OWN.format("name='mine', config=MineConfig, groups=('title',)"),
            "the group title of mine is another's: choose another name",
        ),
        (
            OWN.format("name='mine', config=MineConfig, groups=()"),
            "mine has a config without a group: name it, as in groups=('mine',)",
        ),
        (
            OWN.format("name='mine', config=MineConfig, groups=('my-count',)"),
            "the group 'my-count' of mine is no name of a field in Python",
        ),
        (OWN.format("name='a+b'"), "a+b has a +, which adds bonuses: choose another name"),
        (
            "from re3_jax.runs import bonuses\nbonuses.register('mine')",
            "cannot be imported (ValueError: a value of type str cannot be registered as a bonus: "
            "give Bonus(name=..., ...), as in docs/extending.md): fix the file",
        ),
        (
            OWN.format("name='mine', inherits=('rnd.latent',)"),
            "(ValueError: unknown option in inherits of mine 'rnd.latent'; did you mean ",
        ),
    ],
)
def test_a_bad_file_is_one_sentence(text, words, tmp_path, capsys):
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    argv = ["--env", "doorkey_6x6", "--plugin", str(file), "--out", str(tmp_path / "run")]
    assert train.main(argv) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_file_that_failed_can_be_mended(tmp_path, capsys):
    """In the same process, as in a notebook: nothing of the first attempt is left."""
    text = (ROOT / "examples/plugin_bonus.py").read_text().replace("episodic_count", "mended_count")
    file, helper = tmp_path / "mended.py", tmp_path / "mended_helper.py"
    file.write_text(f"import mended_helper\n{text}\nmended_helper.go()\n")
    helper.write_text("")
    with pytest.raises(UsageError, match="cannot be imported .AttributeError: module 'mended_help"):
        plugins.load(str(file))
    assert "mended_count" not in bonuses.BONUSES and "mended_helper" not in sys.modules
    helper.write_text("def go():\n    pass\n")
    plugins.load(str(file))
    # Other tests of this process count the bonuses.
    assert bonuses.BONUSES.pop("mended_count").name == "mended_count"


def test_a_mended_file_has_its_options_of_now(tmp_path, monkeypatch):
    """Two bonuses share a group; an attempt that failed had asked for the options already."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    text = """
from dataclasses import dataclass
from re3_jax.intrinsic import none
from re3_jax.runs.bonuses import Bonus, register
from re3_jax.intrinsic.weight import WeightConfig

@dataclass(frozen=True)
class TwiceConfig(WeightConfig):
    beta: float = BETA

for name, unused in (("first_of_two", ()), ("second_of_two", ("twice.UNUSED",))):
    register(Bonus(name, make=lambda config, re3: none(), groups=("twice",),
                   config=TwiceConfig, unused=unused))
"""
    file = tmp_path / "twice.py"
    try:
        file.write_text(text.replace("BETA", "0.1").replace("UNUSED", "roh"))
        with pytest.raises(UsageError, match="second_of_two .twice.roh.; did you mean twice.rho"):
            plugins.load(str(file))
        failed = file.stat()
        file.write_text(text.replace("BETA", "0.5").replace("UNUSED", "rho"))
        # Of one length and one second, all that bytecode knows of a file.
        os.utime(file, ns=(failed.st_atime_ns, failed.st_mtime_ns))
        plugins.load(str(file))
        assert config_class()().twice.beta == 0.5
    finally:
        for name in ("first_of_two", "second_of_two"):
            bonuses.BONUSES.pop(name, None)


def test_a_plugin_that_changed_after_its_import_is_refused(tmp_path):
    """Its registrations of before would train under the new file's digest."""
    file = tmp_path / "mine.py"
    file.write_text("first = 1\n")
    plugins.load(str(file))
    plugins.load(str(file))
    file.write_text("second = 2\n")
    with pytest.raises(UsageError, match="has changed since this process imported it: put it back"):
        plugins.load(str(file))
    file.write_text("first = 1\n")
    plugins.load(str(file))


def write(folder, **texts):
    """Python files by name; two underscores are a slash."""
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "mine.py"


def test_what_a_plugin_imports_from_its_folder_is_a_part_of_it(tmp_path):
    """Directly or not, also within functions; not what is installed or only lies there."""
    texts = {
        "mine": "import numpy\nfrom first import x\ndef later():\n    import kit.deep as d\n",
        "first": "import second, mine\nx = 1\n",
        "second": "y = 2\n",
        "kit__init": "",
        "kit__deep": "from . import beside\nfrom .other import z\n",
        "kit__beside": "",
        "kit__other": "z = 3\n",
        "unused": "",
        "re3_jax": "",
        "numpy_like": "",
    }
    file = write(tmp_path, **texts)
    (tmp_path / "kit" / "init.py").rename(tmp_path / "kit" / "__init__.py")
    whole = plugins.digest(file)
    assert plugins.digest(shutil.copytree(tmp_path, tmp_path / "moved") / "mine.py") == whole
    changed = set()
    for path in [*tmp_path.glob("*.py"), *tmp_path.glob("kit/*.py")]:
        text = path.read_text()
        path.write_text(text + "# changed")
        if plugins.digest(file) != whole:
            changed.add(path.relative_to(tmp_path).as_posix())
        path.write_text(text)
    of_kit = {f"kit/{name}.py" for name in ("__init__", "deep", "beside", "other")}
    assert changed == {"mine.py", "first.py", "second.py"} | of_kit


def test_a_file_that_another_module_of_its_name_hides_is_refused(tmp_path):
    """The second plugin would run with the first one's helper, under the digest of its own."""
    files = [
        write(tmp_path / name, mine="import helper_of_two\n", helper_of_two=f"x = '{name}'\n")
        for name in ("first", "second")
    ]
    plugins.load(str(files[0]))
    with pytest.raises(UsageError, match="imports helper_of_two, which is .* give that file anoth"):
        plugins.load(str(files[1]))


def test_the_digest_of_the_file_alone_is_accepted(tmp_path):
    """As earlier versions recorded it, also of plugins that import others."""
    file = write(tmp_path, mine="import other\n", other="")
    alone = hashlib.sha256(file.read_bytes()).hexdigest()
    assert plugins.digest(file) != alone
    assert plugins.is_of(file, alone) and plugins.is_of(file, plugins.digest(file))
    assert not plugins.is_of(file, None) and not plugins.is_of(file, "0" * 64)


def test_a_plugin_without_others_has_the_digest_of_its_file(tmp_path):
    file = write(tmp_path, mine="import os\n", other="")
    assert plugins.digest(file) == hashlib.sha256(b"import os\n").hexdigest()


@pytest.mark.slow
def test_a_file_that_a_plugin_imports_may_not_change_either(tmp_path, capsys):
    text = (ROOT / "examples/plugin_suite.py").read_text()
    text = text.replace("import jax\n", "import jax\nimport lengths\n", 1)
    text = text.replace("4 * length", "lengths.PER_STEP * length")
    file, out = write(tmp_path, mine=text, lengths="PER_STEP = 4\n"), tmp_path / "run"
    options = ("--preset", "debug", "--steps", "256", "--seeds", "1")
    done = command("--env", "corridor:10", *options, "--plugin", str(file), "--out", str(out))
    assert done.returncode == 0, done.stderr
    recorded = json.loads((out / "config.json").read_text())["plugin_sha256"]
    assert recorded == plugins.digest(file)
    write(tmp_path, lengths="PER_STEP = 5\n")
    words = f"--plugin {file} is not the file that the run in {out} was started with, or another"
    assert train.main(["--resume", "--steps", "512", "--out", str(out)]) == 2
    assert words in capsys.readouterr().err
    assert evaluate.main(["--run", str(out)]) == 2
    assert words in capsys.readouterr().err
    with pytest.raises(UsageError, match="that it imports, has changed: put that file back"):
        re3_jax.load(out)


def test_what_no_file_registered_is_asked_for(tmp_path, capsys):
    """A program registered it by itself, and another process opens the run."""
    run_folder.write_config(tmp_path, resolve("doorkey_6x6", preset="debug"))
    path = tmp_path / "config.json"
    whole = json.loads(path.read_text())
    whole["config"]["bonus"] = "mine+re3"
    del whole["config_sha256"]
    path.write_text(json.dumps(whole))
    assert evaluate.main(["--run", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "with the bonus mine, which nothing here registers: resume it with --plugin FILE" in said


@pytest.mark.parametrize(
    ("command", "words", "then"),
    [
        (evaluate, ["--run"], "has no checkpoint to evaluate"),
        (look, [], "has no checkpoint"),
    ],
)
def test_a_command_that_opens_a_run_is_told_where_its_plugin_is(
    command, words, then, tmp_path, capsys
):
    file = write(tmp_path / "own", mine=f"# of this test alone, {then}")
    config = dataclasses.replace(resolve("doorkey_6x6", preset="debug"), plugin=str(file))
    (tmp_path / "run").mkdir()
    run_folder.write_config(tmp_path / "run", config)
    moved = file.rename(tmp_path / "moved.py")
    words = [*words, str(tmp_path / "run")]
    assert command.main(words) == 2
    assert f"the plugin {file}, which is not there, and no file" in capsys.readouterr().err
    other = write(tmp_path / "other", mine="# of another test")
    assert command.main([*words, "--plugin", str(other)]) == 2
    assert f"--plugin {other} is not the file that the run in" in capsys.readouterr().err
    assert command.main([*words, "--plugin", str(moved)]) == 2
    assert then in capsys.readouterr().err


def test_a_file_may_be_named_where_none_was(tmp_path):
    config = resolve("doorkey_6x6", preset="debug")
    run_folder.write_config(tmp_path, config)
    file = write(tmp_path / "own", mine="")
    named = dataclasses.replace(config, plugin=str(file), out=str(tmp_path), resume=True)
    assert run_folder.claim(named) == tmp_path
    run_folder.write_config(tmp_path, named)
    whole = json.loads((tmp_path / "config.json").read_text())
    assert whole["plugin_sha256"] == plugins.digest(file)


@pytest.mark.slow
def test_a_resumed_command_knows_the_options_of_the_runs_plugin(tmp_path):
    """Its group of options is there before the other words are read."""
    done = command(
        *("--env", "doorkey_6x6", *BONUS_FILE, "--bonus", "episodic_count", "--preset", "debug"),
        *("--steps", "256", "--out", str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr
    done = command("--resume", "--episodic-count.beta", "3", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--episodic-count.beta is 3.0, but the run in" in done.stderr


def test_the_plugin_is_found_among_the_words():
    assert plugins.named_in(["--seeds", "2", "--plugin", "a.py"]) == "a.py"
    assert plugins.named_in(["--plugin=b.py", "--seeds", "2"]) == "b.py"
    assert plugins.named_in(["--seeds", "2", "--plugin"]) is None
    assert plugins.named_in([]) is None
    with pytest.raises(UsageError, match="--plugin is given 2 times: name one file, which may"):
        plugins.named_in(["--plugin", "a.py", "--plugin=b.py"])
