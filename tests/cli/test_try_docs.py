"""`make try-docs` finds the documented commands, and all its exceptions apply."""

import re
from pathlib import Path

import pytest

from tests import try_docs
from tests.cli.documented import config_of, variables

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Of the pages, with commands that go on in the next line in one."""
    pages = [try_docs.page_text(page, ROOT) for page in try_docs.PAGES]
    return [re.sub(r"\\\n *", "", text) for text in pages]


def test_commands_are_found_in_blocks_and_sentences():
    page = r"""
    make run ENV=doorkey_6x6     # a comment
    or ENV=cheetah_run_sparse: pixels
Say `make bench
BENCH=knn` or `--an.option`, or `make run`.
```
make docs                    the documentation
make figure FIG=dmc \
    ARGS="--state"
pip install '.[gymnax]'
```
"""
    assert list(try_docs.commands_of(page)) == [
        "make run ENV=doorkey_6x6",
        "make docs",
        'make figure FIG=dmc ARGS="--state"',
        "pip install '.[gymnax]'",
        "make bench BENCH=knn",
        "make run ENV=cheetah_run_sparse",
    ]


def test_runs_become_debug_runs_and_the_rest_of_a_command_stays():
    short = try_docs.shortened
    asked = 'make run ENV=doorkey_8x8 PRESET=paper STEPS=9 ARGS="--a2c.gamma 1"'
    assert short(asked) == 'make run ENV=doorkey_8x8 ARGS="--a2c.gamma 1" PRESET=debug'
    assert short("make docs") == "make docs"
    assert short("make bench BENCH=knn") == 'make bench BENCH=knn ARGS="--rounds 1"'
    assert short("make test").startswith("make test TESTS=")


def test_every_exception_applies_to_a_command_or_a_program():
    """No row of the tables refers to a command that the pages no longer have."""
    found = [run for _, _, run, _ in try_docs.tries(ROOT, "")]
    assert len(found) > 40
    for words in try_docs.REFUSED:
        assert any(words in run for run in found)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for key in try_docs.SHORT:
        target, _, name = key.partition(" ")
        folder = {"bench": "benchmarks", "figure": "experiments/figures"}.get(target, "")
        assert target in targets
        assert not name or (ROOT / folder / f"{name}.py").is_file()


def test_commands_that_are_not_run_or_bare_are_on_a_page(texts):
    commands = [command for text in texts for command in try_docs.commands_of(text)]
    for words in try_docs.NOT_RUN:
        assert any(words in command for command in commands), words
    for words in try_docs.BARE:
        assert any(f"`{words}`" in text for text in texts), words


def test_options_of_documented_runs_are_known_and_have_an_effect(texts):
    """As they are on the page: `make try-docs` leaves out what it shortens."""
    (names,) = re.findall("^OF_run := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    # A plugin would stay in this process, help is no run, and other runs and weights are not here.
    left_out = "--plugin", "--help", "RESUME=", *try_docs.REFUSED
    commands = {command for text in texts for command in try_docs.commands_of(text)}
    commands = {command for command in commands if command.startswith(("make run", "make profile"))}
    commands = {command for command in commands if not any(words in command for words in left_out)}
    assert len(commands) > 30
    for command in commands:
        assert variables(command).keys() <= {*names.split()}, command
        config_of(command)
