"""No program of the loops copies a replay: it is written and passed on in place.

The compiled programs show it: a copy is temporary memory as large as the ring of frames.
"""

import dataclasses
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import SingleDeviceSharding

from re3_jax import augment
from re3_jax.accelerators import targets
from re3_jax.accelerators.cost import report
from re3_jax.accelerators.targets import TARGETS
from re3_jax.agents.dreamer import learner as dreamer
from re3_jax.agents.dreamer.config import DreamerConfig
from re3_jax.agents.rainbow import learner as rainbow
from re3_jax.agents.rainbow.config import RainbowConfig
from re3_jax.agents.sac import learner as sac
from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.device import bar
from re3_jax.intrinsic.re3 import RE3Config, from_config
from re3_jax.training.host_loop import HostProgram
from re3_jax.training.off_policy import make_off_policy_program
from tests.probe_envs import corridor
from tests.probe_host_env import GREY_SIZE, SIZE, grey_spec, spec

CAPACITY = 40_000
DREAMER = DreamerConfig(
    deter=8, stoch=3, hidden=8, conv_depth=2, head_units=8, batch_size=2, sequence_length=4,
    horizon=2, mode_samples=2, replay_capacity=CAPACITY, prefill_env_frames=40,
)  # fmt: skip
RAINBOW = RainbowConfig(
    torso="data_efficient", hidden_dim=8, num_atoms=3, n_steps=2, batch_size=4, num_envs=2,
    replay_capacity=CAPACITY, initial_agent_steps=30,
)  # fmt: skip
SAC = SACConfig(
    augmentation="none", num_filters=4, hidden_dim=8, latent_dim=4, batch_size=4,
    replay_capacity=CAPACITY, initial_agent_steps=10,
)  # fmt: skip


def re3(size):
    return from_config(
        RE3Config(
            ring_size=CAPACITY,
            latent_dim=4,
            num_filters=4,
            image_crop=size,
            image_input="stacked_crop",
        )
    )


def assert_in_place(lowered, replay, returns_it=True):
    frames = replay.frames.array
    ring = frames.size * frames.dtype.itemsize
    memory = lowered.compile().memory_analysis()
    if returns_it:
        assert memory.alias_size_in_bytes >= ring
    else:
        assert memory.output_size_in_bytes < ring / 4
    assert memory.temp_size_in_bytes < ring / 4


HOST = {
    "sac": lambda: sac.make_learner(SAC, spec(), re3(SIZE - 1)),
    "rainbow": lambda: rainbow.make_learner(RAINBOW, grey_spec(), re3(GREY_SIZE)),
    "dreamer": lambda: dreamer.make_learner(DREAMER, spec(stack=1, size=64), re3(64)),
}


@pytest.mark.parametrize(
    ("agent", "seeds"),
    [
        pytest.param(agent, seeds, marks=() if (agent, seeds) == ("sac", 1) else pytest.mark.slow)
        for agent in HOST
        for seeds in (1, 2)
    ],
)
def test_on_the_host(agent, seeds):
    """Learning reads the replay, or writes its priorities; storing writes to it."""
    program = HostProgram(
        HOST[agent](), lambda lanes: None, seeds=range(seeds), chunk_agent_steps=1,
        eval_episodes=1, eval_greedy=True,
    )  # fmt: skip
    state, programs = program.abstract_state(seeds), program.programs
    learns_in_place = "replay" in program.learner.learns
    assert_in_place(programs.learn[0].lower(state), state.replay, learns_in_place)
    _, action = jax.eval_shape(programs.act, state)
    step = jax.eval_shape(lambda: program.on_device(program._zero_step()))
    assert_in_place(programs.store.lower(state, action, step), state.replay)


TARGETS_TESTED = [
    pytest.param(target, agent, marks=() if agent == "sac" else pytest.mark.slow)
    for target in ("h100", "v5e")
    for agent in HOST
]


@pytest.mark.parametrize(("target", "agent"), TARGETS_TESTED)
def test_on_an_accelerator(target, agent):
    """Storing and sampling move frames, not the ring, on devices that are not here, too."""
    if (missing := targets.missing_compiler(TARGETS[target])) is not None:
        pytest.skip(f"no compiler for {target}: {missing} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        devices = targets.devices(TARGETS[target])[:1]
    program = HostProgram(
        HOST[agent](), lambda lanes: None, seeds=[1], chunk_agent_steps=1,
        eval_episodes=1, eval_greedy=True, devices=devices,
    )  # fmt: skip
    ring = program.abstract_state(1).replay.frames.array
    for lowered in program.lowered(1).values():
        found = report(lowered.compile())
        assert max(found.largest_copy, found.temporaries) < ring.size
        assert found.cost.collectives == 0


@pytest.mark.parametrize("target", ["h100", "v5e", "v6e"])
def test_a_crop_does_not_read_the_batch_for_each_image(target):
    if (missing := targets.missing_compiler(TARGETS[target])) is not None:
        pytest.skip(f"no compiler for {target}: {missing} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = SingleDeviceSharding(targets.devices(TARGETS[target])[0])
    images = jax.ShapeDtypeStruct((256, 100, 100, 9), jnp.uint8, sharding=here)
    offsets = jax.ShapeDtypeStruct((256, 2), jnp.int32, sharding=here)
    crop = jax.jit(partial(augment.crop_at, size=(84, 84)))
    found = report(crop.lower(images, offsets).compile())
    assert found.cost.bytes_accessed < 6 * images.size


DEVICE = {
    "rainbow": lambda: (
        corridor(60),
        rainbow.make_learner(dataclasses.replace(RAINBOW, torso="mlp"), corridor(60).spec, re3(1)),
    ),
    "dreamer": lambda: (bar.make(12), dreamer.make_learner(DREAMER, bar.make(12).spec, re3(64))),
}


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("agent", DEVICE)
def test_on_the_device(agent, seeds):
    """A chunk of steps, updates and all."""
    env, learner = DEVICE[agent]()
    program = make_off_policy_program(
        env, learner, chunk_steps=3, eval_episodes=1, eval_greedy=True
    )
    state = jax.eval_shape(program.init, jax.ShapeDtypeStruct((seeds,), jnp.int32))
    assert_in_place(program.train.lower(state), state.replay)
