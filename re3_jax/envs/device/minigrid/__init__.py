"""MiniGrid on the device, exactly as in Farama's `minigrid` 3.x.

An observation is the agent's 7x7 view, uint8 [7, 7, 3], indexed [column, row, channel] as
Farama's `image`: the agent stands at [3, 6] and faces row 0; the channels are object, colour
and door state. Actions: 0 left, 1 right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done (does
nothing). Completing the mission ends the episode with reward 1 - 0.9 t / T, t the agent step and T
the time limit; lava ends it with 0.

Empty and DoorKey have no grid: their state is a few packed words (`closed_form`). The other tasks
share one world of cells (`world`, `actions`, `view`) and differ in their layouts alone.
"""

from re3_jax.envs.device.minigrid.tasks import (
    TASKS,
    canonical,
    is_task,
    make,
    missions,
    places,
    short_name,
)

__all__ = ["TASKS", "canonical", "is_task", "make", "missions", "places", "short_name"]
