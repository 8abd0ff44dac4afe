"""Floating-point operations of the programs of a run, by XLA's cost analysis.

XLA counts each program as it is lowered for a GPU, before optimisation: every convolution and
product is there, at two operations for each multiply-add, and every elementwise operation at one.
The compiled program of a CPU has 14% fewer for RAD's update, because `re3_jax.cpu` computes
gradients of convolutions in loops, and XLA counts the body of a loop once. Lowered for a GPU, only
the search for neighbours has loops: its product is counted over all rows at once, and added; the
parts of the search that an update's count has already are 0.1% of it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from re3_jax.agents.base import Learner
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.knn.inputs import Rows
from re3_jax.knn.plan import make_plan
from re3_jax.knn.scores import score_groups
from re3_jax.runs import bonuses, build
from re3_jax.runs.config import RunConfig, flatten
from re3_jax.training.host_functions import SeedFunctions

PLATFORM = "cuda"
"""What programs are lowered for; no such device is needed."""


class Programs(NamedTuple):
    """Operations of one call of each program of the host loop, for one seed.

    Attributes:
      act: the policy chooses the actions of all lanes.
      act_randomly: random actions for all lanes.
      learn: an update, the mean over the learner's phases.
      store: a step of all lanes enters the replay, and its latents the ring.
      search_per_row: search of a batch's neighbours, for each row of the ring; 0 without.
    """

    act: float
    act_randomly: float
    learn: float
    store: float
    search_per_row: float


class Totals(NamedTuple):
    """Operations of a whole run of one seed, evaluations left out.

    Attributes:
      of_all: those of the searches included.
      of_searches: 0 without neighbours.
      updates: their number.
    """

    of_all: float
    of_searches: float
    updates: int


def counted(function: Callable[..., Any], *arguments: Any) -> float:
    """Operations of one call, by XLA's cost analysis of the program lowered for `PLATFORM`.

    Args:
      function: what JAX can compile; the body of a loop in it counts once.
      arguments: arrays, or their shapes and dtypes.
    """
    # Only the backend of a CPU analyses what is not compiled.
    with jax.default_device(jax.devices("cpu")[0]):
        lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=(PLATFORM,))
    analysis: Any = lowered.cost_analysis()
    return float(analysis["flops"])


def of_programs(config: RunConfig, spec: EnvSpec, learner: Learner) -> Programs:
    """Counts the programs that the host loop maps over seeds; nothing is computed or allocated."""
    one, lanes, shaped = SeedFunctions(learner), learner.num_lanes, jax.ShapeDtypeStruct
    frame = shaped((lanes, *spec.frame_shape), np.uint8)
    reward, flag = shaped((lanes,), np.float32), shaped((lanes,), np.bool_)
    state = jax.eval_shape(one.init, shaped((), np.int32), frame)
    _, action = jax.eval_shape(one.act, state)
    phases = [counted(partial(one.learn, phase), state) for phase in learner.phases]
    return Programs(
        act=counted(one.act, state),
        act_randomly=counted(one.act_randomly, state),
        learn=float(np.mean(phases)),
        store=counted(one.store, state, action, LaneStep(frame, reward, flag, flag, frame, flag)),
        search_per_row=_of_search(config),
    )


def latents_searched(config: RunConfig) -> int:
    """Rows of the ring in which SAC's bonus searches neighbours; 0 if it searches none."""
    if not bonuses.keeps_latents(flatten(config)):
        return 0
    return config.re3.search_size or config.sac.replay_capacity


def _of_search(config: RunConfig) -> float:
    capacity = latents_searched(config)
    if not capacity:
        return 0.0
    dim, wanted = config.re3.latent_dim, config.re3.last_neighbour + (not config.re3.count_self)
    plan = make_plan(config.sac.batch_size, capacity, dim, wanted)
    in_one_block = plan._replace(block=plan.main_rows, fits_cache=True)
    shaped: Any = partial(jax.ShapeDtypeStruct, dtype=np.float32)
    number: Any = np.int32(capacity)
    rows = Rows(shaped((capacity, dim)), shaped((capacity,)), None, None, number)
    search = partial(score_groups, plan=in_one_block, centre=None)
    return counted(search, shaped((plan.tile, dim)), rows, number) * plan.num_tiles / capacity


def of_run(config: RunConfig, spec: EnvSpec) -> tuple[Programs, Totals]:
    """Counts a run of `config.steps` env frames: each program, and all calls together.

    Raises:
      ValueError: the agent cannot learn the task, or its options contradict each other.
    """
    learner = build.make_learner(config, spec)
    assert isinstance(learner, Learner)
    programs, lanes = of_programs(config, spec, learner), learner.num_lanes
    steps = np.arange(0, config.steps // spec.action_repeat, lanes)
    updates = np.array([learner.updates_due(step - lanes, step) for step in steps])
    search = programs.search_per_row * float(
        np.sum(updates * np.minimum(steps, latents_searched(config)))
    )
    is_random = steps < learner.random_agent_steps
    total = search + programs.learn * int(updates.sum()) + programs.store * len(steps)
    total += float(np.where(is_random, programs.act_randomly, programs.act).sum())
    return programs, Totals(total, search, int(updates.sum()))
