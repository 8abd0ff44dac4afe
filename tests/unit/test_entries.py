"""Entries of plugins: what could not be built is refused when it is registered."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from re3_jax.envs import registry
from re3_jax.envs.base import Box, Discrete
from re3_jax.envs.host.config import DMCConfig
from re3_jax.runs import entries, suites
from re3_jax.runs.agents import AGENTS, Agent, OwnBonus
from re3_jax.runs.bonuses import BONUSES, Bonus
from re3_jax.runs.errors import UsageError
from re3_jax.runs.resolve import resolve
from re3_jax.runs.suites import SUITES, HostSuite, Suite
from re3_jax.runs.validate import validate

EVERY = [*AGENTS.values(), *BONUSES.values(), *SUITES.values()]


@dataclass(frozen=True)
class Inner:
    """A group in a group."""

    rate: float = 0.1


@dataclass(frozen=True)
class Options:
    """Those that an agent without rollouts needs, and one more; nothing is checked."""

    num_envs: int = 1
    batch_size: int = 8
    replay_capacity: int = 64
    hidden_dim: int = 4
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Lacking:
    """No size of a replay, and lanes that are no number."""

    num_envs: int | None = None
    batch_size: int = 8


@dataclass(frozen=True)
class Empty:
    """A group without an option."""


class Plain:
    """No dataclass."""

    num_envs: int = 1


def unused(*_):
    """A function of an entry; nothing is built here."""


# Without their types, because most tests give an attribute a wrong one.
AGENT: Any = Agent("mine", "mine", Options, unused, Box)
BONUS: Any = Bonus("mine", unused)
HOST: Any = HostSuite("mine", "mine:a", Options, unused, unused)
SUITE: Any = Suite("mine", "tasks", "a2c", unused)


def own(**given):
    return replace(AGENT, bonuses={"re3": OwnBonus(unused, **given)})


@pytest.mark.parametrize("entry", EVERY, ids=lambda entry: f"{type(entry).__name__}-{entry.name}")
def test_every_entry_passes(entry):
    entries.check(entry)


@pytest.mark.parametrize(
    "entry",
    [
        replace(AGENT, networks=("hidden_dim", "inner.rate")),
        replace(AGENTS["ppo"], name="mine"),
        own(options=("hidden_dim",), neighbours="hidden_dim", unused=("re3.torso",)),
        replace(BONUS, config=Empty, groups=("mine", "re3"), inherits=("re3.latent_dim",)),
        replace(BONUSES["rnd"], name="mine"),
        replace(BONUS, make=dict),
    ],
)
def test_whole_entries_pass(entry):
    entries.check(entry)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (replace(AGENT, config=Plain), "the config of mine is no dataclass: give a class that is"),
        (replace(AGENT, config=Options()), "the config of mine is no dataclass"),
        (replace(AGENT, config=None), "the config of mine is no dataclass"),
        (
            replace(AGENT, actions="discrete"),
            "actions of mine is 'discrete': give the class Box or",
        ),
        (replace(AGENT, actions=[Box]), "actions of mine is [<class "),
        (replace(AGENT, actions=Discrete(2)), "actions of mine is Discrete(num_actions=2): give"),
        (replace(AGENT, actions=Box | None), "Box | None: give the class Box or Discrete, or Box"),
        (
            replace(AGENT, config=Lacking),
            "Lacking of mine lacks num_envs: int and replay_capacity: int, which an agent with "
            "on_policy=False has",
        ),
        (replace(AGENT, on_policy=True), "Options of mine lacks rollout_length: int, which an ag"),
        (
            replace(AGENT, networks=("hiden_dim",)),
            "unknown option in networks of mine 'hiden_dim'; did you mean hidden_dim?",
        ),
        (
            replace(AGENT, first_update="xyz"),
            "unknown option in first_update of mine 'xyz'; known: batch_size, hidden_dim, inner.ra",
        ),
        (replace(AGENT, span="n"), "unknown option in span of mine 'n'"),
        (replace(AGENT, sequence="n"), "unknown option in sequence of mine 'n'"),
        (replace(AGENT, of_images=("n",)), "unknown option in of_images of mine 'n'"),
        (replace(AGENT, of_bonuses=("n",)), "unknown option in of_bonuses of mine 'n'"),
        (replace(AGENT, networks=("inner",)), "unknown option in networks of mine 'inner'"),
        (replace(AGENT, with_other={"n": ("hidden_dim", 4)}), "in with_other of mine 'n'"),
        (replace(AGENT, with_other={"hidden_dim": ("n", 4)}), "in with_other of mine 'n'"),
        (
            replace(AGENT, networks="hidden_dim"),
            "networks of mine is the string 'hidden_dim': make it a tuple, as in networks=('hidden",
        ),
        (replace(AGENT, make=lambda spec: None), "let it take (its options, task, bonus)"),
        (own(options=("n",)), "unknown option in options of re3 of mine 'n'"),
        (own(networks=("n",)), "unknown option in networks of re3 of mine 'n'"),
        (own(neighbours="n"), "unknown option in neighbours of re3 of mine 'n'"),
        (own(unused=("re3.torsos",)), "in unused of re3 of mine 're3.torsos'; did you mean re3.to"),
        (own(options="n"), "options of re3 of mine is the string 'n': make it a tuple"),
        (replace(BONUS, config=Plain, groups=("mine",)), "the config of mine is no dataclass"),
        (replace(BONUS, groups="re3"), "groups of mine is the string 're3': make it a tuple"),
        (replace(BONUS, groups=("nogroup",)), "the group 'nogroup' of mine has no options: give"),
        (replace(BONUS, groups=("seeds",)), "the group 'seeds' of mine has no options"),
        (
            replace(BONUS, config=Empty, groups=("mine", "other")),
            "the group 'other' of mine has no options",
        ),
        (
            replace(BONUS, inherits=("latent_dims",)),
            "unknown option in inherits of mine 'latent_dims'; did you mean ",
        ),
        (
            replace(BONUS, inherits=("zzz",)),
            "unknown option in inherits of mine 'zzz'; give GROUP.NAME, such as re3.latent_dim",
        ),
        (replace(BONUS, unused=("re3.n",)), "unknown option in unused of mine 're3.n'"),
        (replace(BONUS, of_minibatch=("re3.n",)), "option in of_minibatch of mine 're3.n'"),
        (replace(BONUS, neighbours="re3.n"), "unknown option in neighbours of mine 're3.n'"),
        (replace(BONUS, search_size="re3.n"), "unknown option in search_size of mine 're3.n'"),
        (replace(BONUS, rank="re3.n"), "unknown option in rank of mine 're3.n'"),
        (replace(BONUS, values={"re3.n": 1}), "unknown option in values of mine 're3.n'"),
        (
            replace(BONUS, make=lambda run: None),
            "make of mine cannot be called with 2 arguments: let it take (run's options, options",
        ),
        (replace(BONUS, make=None), "make of mine cannot be called with 2 arguments"),
        (
            replace(SUITE, preset=lambda task: None),
            "preset of mine cannot be called with 3",
        ),
        (
            replace(SUITE, host=replace(HOST, group="dmc", config=DMCConfig)),
            "the group dmc of mine is another suite's",
        ),
        (
            replace(SUITE, host=replace(HOST, config=Plain)),
            "the config of mine is no dataclass",
        ),
        (
            replace(SUITE, host=replace(HOST, config=None)),
            "the config of mine is no dataclass",
        ),
    ],
)
def test_what_could_not_be_built_is_refused(entry, words):
    with pytest.raises(ValueError) as error:
        entries.check(entry)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("register", "given", "words"),
    [
        (BONUSES.register, "mine", "of type str cannot be registered as a bonus: give Bonus("),
        (BONUSES.register, AGENT, "of type Agent cannot be registered as a bonus: give Bonus("),
        (AGENTS.register, Agent, "of type type cannot be registered as an agent: give Agent("),
        (suites.register, "mine", "of type str cannot be registered as a suite: give Suite("),
        (BONUSES.register, replace(BONUS, groups=("n",)), "the group 'n' of mine has no options"),
    ],
)
def test_what_is_no_entry_is_not_registered(register, given, words):
    with pytest.raises(ValueError) as error:
        register(given)
    assert words in str(error.value)
    assert "mine" not in {*AGENTS, *BONUSES, *SUITES}


@pytest.mark.parametrize(("agent", "sizes"), [(AGENT, 3), (AGENTS["a2c"], 2)])
def test_sizes_of_agents_are_positive(agent, sizes, monkeypatch):
    """Also of an agent whose config checks nothing."""
    monkeypatch.setitem(AGENTS, "of_test_entries", replace(agent, name="of_test_entries"))
    config = resolve("doorkey_6x6", agent="of_test_entries", preset="debug")
    options = vars(config.of_agent)
    assert len(agent.sizes) == sizes
    for name in agent.sizes:
        # Of a config that checks itself, one that does not.
        unchecked = object.__new__(type(config.of_agent))
        vars(unchecked).update(options, **{name: 0})
        with pytest.raises(UsageError) as error:
            validate(replace(config, **{agent.group: unchecked}))
        option = f"--{agent.group}.{name}".replace("_", "-")
        assert str(error.value) == f"{option} 0 is not positive: give a number above 0"


@pytest.mark.parametrize("function", ["preset", "with_learned_encoder", "fine_tuned"])
def test_a_suite_that_returns_no_configuration_is_refused(function, monkeypatch):
    suite: Any = SUITES["minigrid"]
    monkeypatch.setitem(SUITES, "minigrid", replace(suite, **{function: unused}))
    words = f"{function} of the suite minigrid returns a NoneType: return a .*RunConfig"
    with pytest.raises(UsageError, match=words):
        resolve("doorkey_6x6", bonus="contrastive", fine_tunes=True)


def test_a_factory_that_returns_no_environment_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "SUITES", dict(registry.SUITES))
    factories: Any = {"none": unused, "other": SimpleNamespace}
    registry.register("mine", factories)
    for task, kind in (("mine:none", "NoneType"), ("mine:other", "SimpleNamespace")):
        words = f"registered for {task} returns a {kind}: return a .*DeviceEnv"
        with pytest.raises(ValueError, match=words):
            registry.make(task)
