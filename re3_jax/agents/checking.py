"""What an agent returns, checked while its functions are traced: nothing is left in the program."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from re3_jax.agents.base import (
    Acting,
    Info,
    Learner,
    LearnerState,
    OnPolicyLearner,
    Phase,
    reported,
)
from re3_jax.agents.rollout import Rollout
from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.forms import as_int32, check_array, check_same_form, check_tuple, checked_info

AnyLearner = TypeVar("AnyLearner", bound=Learner | OnPolicyLearner)


def validated(learner: AnyLearner) -> AnyLearner:
    """The learner, whose functions raise a ValueError while they are traced if a result is bad.

    Its state and what acting lanes carry must keep structure, shapes and dtypes; actions are of the
    task's space, and every value of an info a float32 scalar. Infos of whole numbers become
    float32, and an `updates_due` that answers yes or no counts as 1 or 0.

    Raises:
      ValueError: it is no learner, lacks a function or a phase, or learns what no state has.
    """
    if isinstance(learner, OnPolicyLearner):
        _check_functions(learner, "init", "learn", "forget", "observed")
        return learner._replace(
            acting=_acting(learner.acting, learner.spec),
            init=_beginning(learner.init),
            learn=_changing("learn", learner.learn),
            forget=_forgetting(learner.forget),
        )
    if not isinstance(learner, Learner):
        raise ValueError(
            f"make of the agent returns a {type(learner).__name__}: return a Learner or an "
            "OnPolicyLearner of re3_jax.agents.base"
        )
    _check_functions(learner, "init", "restart", "store", "updates_due")
    phases = learner.phases
    if not isinstance(phases, tuple) or not phases or not all(map(callable, phases)):
        raise ValueError("phases of the agent are no functions in a tuple: give at least one")
    if unknown := set(learner.learns) - set(LearnerState._fields):
        raise ValueError(
            f"learns of the agent has {', '.join(sorted(unknown))}: choose from "
            f"{', '.join(LearnerState._fields)}"
        )
    # A phase that comes several times in the cycle is compiled once.
    checked = {phase: _changing("a phase", phase) for phase in phases}
    return learner._replace(
        acting=_acting(learner.acting, learner.spec),
        init=_beginning(learner.init),
        restart=_keeping("restart", learner.restart),
        store=_keeping("store", learner.store),
        updates_due=_counting(learner.updates_due),
        phases=_alike(tuple(checked[phase] for phase in phases)),
    )


def check_learner(learner: Learner | OnPolicyLearner) -> dict[str, jax.ShapeDtypeStruct]:
    """Traces all functions of an agent of your own; nothing is compiled or run.

    Args:
      learner: made for a task, with a bonus.

    Returns:
      What it logs: the forms of its info.

    Raises:
      ValueError: what one of its functions returns does not fit; one sentence says what would.
    """
    whole, spec, lanes = validated(learner), learner.spec, learner.num_lanes

    def trace(key: Any) -> Info:
        frame = jnp.zeros((lanes, *spec.frame_shape), spec.observation_dtype)
        state = whole.init(key, frame)
        memory, action = whole.acting.act(state.agent, state.memory, key, False)
        memory, action = whole.acting.act(state.agent, memory, key, True)
        memory = whole.acting.see(memory, frame, jnp.zeros(lanes, bool))
        state, steps = state._replace(memory=memory), jnp.int32(0)
        number = None if spec.num_states is None else jnp.zeros(lanes, jnp.int32)
        step = jax.tree.map(jnp.asarray, LaneStep.zeros(np.zeros(frame.shape, frame.dtype)))
        step = step._replace(state_number=number)
        if isinstance(whole, OnPolicyLearner):
            whole.forget(state)
            return whole.learn(state, _rollout(whole, state, action, step), steps, key)[1]
        state = whole.restart(whole.store(state, action, step), frame)
        whole.updates_due(steps, steps + lanes)
        infos = [phase(state, steps, key)[1] for phase in whole.phases]
        return infos[0]

    return jax.eval_shape(trace, jax.random.key(0))


def _rollout(learner: OnPolicyLearner, state: LearnerState, action: Any, step: LaneStep) -> Rollout:
    """A rollout in which nothing happens."""
    observation = learner.observed(state.memory)
    of_step = observation, action, step.reward, step.terminated, observation, step.state_number
    seen, acted, reward, flags, following, number = jax.tree.map(
        lambda leaf: jnp.repeat(leaf[None], learner.rollout_length, axis=0), of_step
    )
    return Rollout(
        observation=seen,
        action=acted,
        reward=reward,
        bonus=reward,
        terminated=flags,
        truncated=flags,
        next_observation=following,
        last_observation=observation,
        state_number=number,
        first_memory=state.memory,
    )


def _check_functions(learner: Any, *names: str) -> None:
    if not isinstance(learner.acting, Acting):
        raise ValueError(
            f"acting of the agent is a {type(learner.acting).__name__}: give an Acting of "
            "re3_jax.agents.base"
        )
    of_acting = ((name, getattr(learner.acting, name)) for name in Acting._fields)
    for name, function in (*of_acting, *((name, getattr(learner, name)) for name in names)):
        if not callable(function):
            raise ValueError(f"{name} of the agent is a {type(function).__name__}: give a function")


def _acting(acting: Acting, spec: EnvSpec) -> Acting:
    space = spec.action_space

    def act(agent: Any, memory: Any, key: Any, explore: bool):
        returned = acting.act(agent, memory, key, explore)
        after, action = check_tuple("act of the agent", returned, "memory, action")
        check_same_form("the memory that act of the agent returns", after, memory)
        form = (jnp.shape(action) or (1,))[0], *space.shape
        check_array("the actions that act of the agent returns", action, form, space.dtype)
        return after, action

    def see(memory: Any, frame: Any, begins: Any):
        after = acting.see(memory, frame, begins)
        check_same_form("the memory that see of the agent returns", after, memory)
        return after

    return Acting(acting.begin, act, see)


def _beginning(init: Any) -> Any:
    def checked(key: Any, frame: Any) -> LearnerState:
        return _state("init", init(key, frame))

    return checked


def _state(function: str, state: Any) -> LearnerState:
    if not isinstance(state, LearnerState):
        raise ValueError(
            f"{function} of the agent returns a {type(state).__name__} for its state: return a "
            "LearnerState of re3_jax.agents.base"
        )
    return state


def _keeping(name: str, function: Any) -> Any:
    """A function of a state whose result has the state's form."""

    def checked(state: LearnerState, *arguments: Any) -> LearnerState:
        after = _state(name, function(state, *arguments))
        check_same_form(f"the state that {name} of the agent returns", after, state)
        return after

    return checked


def _changing(name: str, function: Any) -> Any:
    """The same of a function that also returns an info."""

    def checked(state: LearnerState, *arguments: Any) -> tuple[LearnerState, Info]:
        returned = function(state, *arguments)
        after, info = check_tuple(f"{name} of the agent", returned, "state, info")
        check_same_form(f"the state that {name} of the agent returns", _state(name, after), state)
        return after, reported(checked_info(f"{name} of the agent", info), {})

    return checked


def _forgetting(forget: Any) -> Any:
    def checked(state: LearnerState) -> tuple[Any, Any]:
        kept: tuple[Any, Any] = check_tuple("forget of the agent", forget(state), "agent, bonus")
        check_same_form("what forget of the agent returns", kept, (state.agent, state.intrinsic))
        return kept

    return checked


def _alike(phases: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Phases that refuse to report other names than the first of them that is traced."""
    names: list[set[str]] = []

    def naming(phase: Phase) -> Phase:
        def checked(*arguments: Any) -> tuple[LearnerState, Info]:
            after, info = phase(*arguments)
            names.append(set(info))
            if names[0] != names[-1]:
                other = ", ".join(sorted(names[0] ^ names[-1]))
                raise ValueError(
                    f"phases of the agent report different names ({other}): report the same in "
                    "each, NaN where there is nothing new"
                )
            return after, info

        return checked

    of_phase = {phase: naming(phase) for phase in phases}
    return tuple(of_phase[phase] for phase in phases)


def _counting(updates_due: Any) -> Any:
    def checked(before: Any, after: Any) -> Any:
        number = updates_due(before, after)
        # Asked by the host in every step.
        if isinstance(number, int | np.integer | np.bool_):
            return int(number)
        number = as_int32(number)
        check_array("what updates_due of the agent returns", number, (), jnp.int32)
        return number

    return checked
