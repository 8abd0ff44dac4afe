"""How long the paper's runs take here, from committed measurements: why many did not run."""

from experiments.reproduction.results import Results
from re3_jax.runs.resolve import resolve

MEASURED = "benchmarks/results"
SECONDS_PER_DAY = 86_400

RAINBOW_UPDATES = 12_500_000
"""Of 200 million env frames, as in Rainbow's papers: one for every four agent steps of four frames.

The paper does not state the length of its runs."""


def rad(results: Results, task: str = "hopper_hop") -> str:
    """Of one run of RAD + RE3, 500,000 env frames."""
    config = resolve(task, "rad", preset="released")
    updates = config.steps // config.dmc.action_repeat - config.sac.initial_agent_steps
    seconds = None
    if measured := results.json(f"{MEASURED}/sac_update.json"):
        seconds = measured["sizes"]["released"]["ms"]["re3_jax"]["mean"] / 1e3
    return _words("run of RAD + RE3", seconds, updates)


def dreamer(results: Results, task: str = "finger_spin") -> str:
    """Of one run of Dreamer + RE3, 500,000 env frames."""
    config = resolve(task, "dreamer", preset="released")
    every, prefill = config.dreamer.env_frames_per_burst, config.dreamer.prefill_env_frames
    bursts = config.steps // every - (prefill - 1) // every
    seconds = None
    if measured := results.json(f"{MEASURED}/dreamer_update.json"):
        seconds = measured["of_one_update"]["re3_jax+re3"]["seconds"]
    return _words("run of Dreamer + RE3", seconds, bursts * config.dreamer.updates_per_burst)


def rainbow(results: Results) -> str:
    """Of one run of Rainbow + RE3, 200 million env frames."""
    seconds = None
    if measured := results.json(f"{MEASURED}/rainbow_update.json"):
        seconds = measured["of_one_update"]["re3_jax+re3 100000"]["ms"] / 1e3
    return _words("run of Rainbow + RE3, 200 million frames,", seconds, RAINBOW_UPDATES)


def _words(run: str, seconds: float | None, updates: int) -> str:
    if seconds is None:
        return f"no committed time of an update of one {run} at the paper's size"
    days = seconds * updates / SECONDS_PER_DAY
    return (
        f"at the paper's size one {run} takes {days:.1f} days on two CPU cores, for its updates "
        "alone"
    )
