"""The paper's "Hyperparameters of RAD + RE3 used for DeepMind Control Suite experiments".

`paper` is the table and the text of the appendix to the letter; `released` is what the authors'
code runs, which made the published curves. They share every number of the table and differ in
what the random encoder sees, how the bonus is normalised, where a sparse reward begins, what
pre-training is rewarded with and, outside the main figure's tasks, in the number of seeds.
`recommended` is `released` with a renderer that works on this machine; `small` is the same program
for a machine without a GPU; `debug` takes seconds. Values that the paper does not state are those
of the released code (see `docs/deviations.md`).

The table's numbers for soft actor-critic are the defaults of `SACConfig`. The table does not give
`hidden_dim`, the bounds of the log standard deviation, `discount`, `actor_every` and
`updates_per_step`; these are the released code's.
"""

from dataclasses import replace
from functools import reduce
from operator import or_

from re3_jax.agents.sac.config import SACConfig
from re3_jax.envs.host import tasks
from re3_jax.runs.config import AgentName, PresetName, RunConfig
from re3_jax.runs.presets import dreamer, ppo, tables
from re3_jax.runs.presets.tables import Values, options

MAIN_TASKS = (
    "pendulum_swingup",
    "cartpole_swingup_sparse",
    "cheetah_run_sparse",
    "hopper_hop",
    "walker_run_sparse",
    "quadruped_run",
)
"""The tasks of the paper's figures, with five runs each; the authors' data has three of others."""

AGENT_STEPS_BETWEEN_EVALUATIONS = 5_000

ANY_TASK: Values = {
    **{"re3.beta": 0.05, "re3.rho": 1e-5, "rnd.beta": 0.05, "icm.beta": 0.1},
    # Not in the paper, and not searched: RE3's, and those of VCSE's authors for their SAC.
    **{"rise.beta": 0.05, "vcse.beta": 0.1, "vcse.k": 11},
}

TASKS: dict[str, Values] = {
    "cartpole_swingup_sparse": {"rnd.beta": 10.0},
    "cheetah_run_sparse": {"rnd.beta": 0.1, "icm.beta": 1.0},
    "pendulum_swingup": {"re3.beta": 0.25, "rnd.beta": 0.1},
    "walker_run_sparse": {"re3.rho": 2.5e-5},
    "quadruped_run": {"sac.initial_agent_steps": 10_000},
}
"""Tasks with a value of their own in the table; action repeats are in `ACTION_REPEAT`."""

SMALL_ACTION_REPEAT = {"cartpole": 8, "finger": 2}
"""Action repeat of `small` by domain, 4 elsewhere: the table of the RAD paper (Laskin et al.,
2020), but for walker's 2."""

PAPER_RE3: Values = {
    **options("re3", first_neighbour=3, last_neighbour=3, count_self=False, ring_size=100_000),
    **options("re3", normalize="running_std", log1p=False, latent_dim=50),
    "re3.image_input": "stacked_crop",
}
"""RE3 as in the paper: k = 3; "the same encoder architecture" as the agent's is taken to include
the same input."""

RELEASED_RE3 = PAPER_RE3 | {
    **options("re3", first_neighbour=4, last_neighbour=4, count_self=True),
    **options("re3", normalize="released_running_std", image_input="newest_frame"),
}

COMMON: Values = {
    "steps": 500_000,
    "checkpoint_seconds": 600.0,
    "video": True,
    **ANY_TASK,
    # Yarats et al. (2019), whose encoder the paper takes for ICM, initialise linear layers this
    # way. With PyTorch's initialisation the inverse model does not begin to learn within 1,000
    # updates.
    "icm.encoder_init": "orthogonal",
    "learned.shift_pad": 4,
    **options("evaluation", episodes=10, greedy=True),
}

GL: Values = {"dmc.renderer": "gl"}

PAPER = PAPER_RE3 | GL | {"dmc.sparse_threshold": "exclusive", "pretrain_reward": "bare"}

RELEASED = RELEASED_RE3 | GL

DRQ: Values = {
    **options("sac", augmentation="shift", num_augmentations=2, encoder_tau=0.01),
    **options("sac", actor_learning_rate=1e-3, critic_learning_rate=1e-3),
    "dmc.image_size": 84,
    "learned.augmentation": "shift",
}
"""DrQ as its authors released it (github.com/denisyarats/drq), with frames of 84x84 pixels."""

RELEASED_DRQ: Values = {"sac.num_augmentations": 2}
"""The DrQ switch of the released code: RAD's crop, twice; no published curve uses it."""

SMALL: Values = {
    "seeds": 1,
    **options("sac", torso="patches", crop_size=40, num_filters=16, hidden_dim=256, batch_size=64),
    **options("sac", actor_learning_rate=1e-3, critic_learning_rate=1e-3, updates_per_step=2),
    **options("sac", n_steps=3, frame_differences=True),
    **options("dmc", image_size=48, renderer="warp"),
    # The newest latents alone, found and searched apart from the frame itself: k = 3 as ever.
    **options("re3", "vcse", search_size=10_000),
    **options("re3", first_neighbour=3, last_neighbour=3, count_self=False),
    **options("re3", *tables.WITH_NETWORKS, torso="patches", num_filters=16, image_crop=40),
    **options(*tables.WITH_NETWORKS, "learned", hidden_dim=256),
    **options("evaluation", every_env_frames=25_000, episodes=2),
}
"""What one core learns in about an hour (`results/small_search`): one seed for each run, so that
runs of several seeds share a machine. The learning rate is that of the RAD paper, but for cheetah's
2e-4. With one update a step, pendulum_swingup and cartpole_swingup stayed at a small part of their
return, and so did cartpole_swingup with returns of one step."""

DEBUG: Values = {
    **tables.TINY,
    "checkpoint_seconds": 60.0,
    **options("sac", crop_size=32, num_filters=4, hidden_dim=32, batch_size=16),
    **options("sac", replay_capacity=200, initial_agent_steps=30),
    **options("dmc", image_size=36, action_repeat=20),
    "re3.ring_size": 200,
    **options("re3", *tables.WITH_NETWORKS, num_filters=4, image_crop=32),
}

FINE_TUNING_TEMPERATURE = 0.01
"""Initial temperature of RAD + RE3 + PT."""


def preset(task_id: str, name: PresetName, agent: AgentName) -> RunConfig:
    """Configuration of a task of DeepMind Control, such as `cheetah_run_sparse`.

    Raises:
      ValueError: there is no such task.
    """
    task = tasks.find(task_id)
    of_task: Values = {
        "seeds": 5 if name == "paper" or task_id in MAIN_TASKS else 3,
        "dmc.action_repeat": task.action_repeat,
        "evaluation.every_env_frames": AGENT_STEPS_BETWEEN_EVALUATIONS * task.action_repeat,
        **TASKS.get(task_id, {}),
    }
    chosen = [COMMON, {"paper": PAPER, "released": RELEASED}.get(name, RELEASED_RE3), of_task]
    if agent == "drq":
        # The released switch is not DrQ, so only the preset of the released code uses it.
        chosen.append(RELEASED_DRQ if name == "released" else DRQ)
    if agent == "dreamer":
        chosen.append(dreamer.on_dmc(name, task.action_repeat))
    elif name == "small":
        chosen.append(SMALL | _at_another_repeat(task, of_task))
    elif name == "debug":
        chosen.append(DEBUG)
    if agent == "ppo":
        chosen.append(ppo.on_dmc(name, reduce(or_, chosen)["dmc.action_repeat"]))
    return tables.run(*chosen)


def _at_another_repeat(task: tasks.Task, of_task: Values) -> Values:
    """Random actions for as many env frames as the paper's, and its beta at every env frame."""
    repeat = SMALL_ACTION_REPEAT.get(task.domain, 4)
    longer = repeat / task.action_repeat
    values = {"sac.initial_agent_steps": SACConfig.initial_agent_steps, **ANY_TASK, **of_task}
    return {
        "dmc.action_repeat": repeat,
        "sac.initial_agent_steps": round(values["sac.initial_agent_steps"] / longer),
        "re3.rho": 1 - (1 - values["re3.rho"]) ** longer,
    }


def fine_tuned(_task_id: str, config: RunConfig) -> RunConfig:
    """`config` for a run that starts from a pre-trained one."""
    return replace(config, sac=replace(config.sac, init_temperature=FINE_TUNING_TEMPERATURE))
