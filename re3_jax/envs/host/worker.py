"""The process that steps and draws some lanes (io).

Started as `python -m re3_jax.envs.host.worker CONNECTION MEMORY`, both inherited file
descriptors: a socket for messages, and memory shared with the parent for actions and frames.
Nothing here may import JAX: it would cost every worker a second and hundreds of megabytes.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

from re3_jax.envs.host import renderer
from re3_jax.envs.host.config import DMCConfig
from re3_jax.envs.host.dmc import Lane

STEP, RESET = 0, 1
"""Values of a lane's `command`."""

_PR_SET_PDEATHSIG = 1


class Setup(NamedTuple):
    """The first message to a worker.

    Attributes:
      task_id: name of the task.
      config: how to step and draw it.
      renderer: the result of `renderer.choose(config)` on this machine.
      action_dim: length of an action.
      num_lanes: lanes of all workers together, which share the memory.
      lanes: numbers of this worker's lanes.
      die_with_parent: whether the kernel may end the worker with the thread that started it.
    """

    task_id: str
    config: DMCConfig
    renderer: str
    action_dim: int
    num_lanes: int
    lanes: tuple[int, ...]
    die_with_parent: bool


def layout(image_size: int, action_dim: int) -> np.dtype:
    """The record of one lane in the memory that parent and worker share."""
    frame = (np.uint8, (image_size, image_size, 3))
    fields = [
        ("command", np.uint8),
        ("seed", np.uint32),
        ("action", np.float32, (action_dim,)),
        ("reward", np.float32),
        ("terminated", np.bool_),
        ("truncated", np.bool_),
        ("diverged", np.bool_),
        ("frame", *frame),
        ("final_frame", *frame),
    ]
    return np.dtype(fields)


def main() -> None:
    """Serves until the parent closes the connection."""
    # Ctrl-C and a scheduler's SIGTERM reach the whole job; the parent decides what they mean
    # and still needs the lanes' state for its checkpoint.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = Connection(int(sys.argv[1]))
    memory_fd = int(sys.argv[2])
    try:
        setup = Setup(*connection.recv())
        if setup.die_with_parent and sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _serve(connection, memory_fd, setup)
    except (EOFError, ConnectionError):
        pass
    except Exception as error:
        traceback.print_exc()
        connection.send(("failed", type(error).__name__, str(error)))


def _serve(connection: Connection, memory_fd: int, setup: Setup) -> None:
    _silence()
    dtype = layout(setup.config.image_size, setup.action_dim)
    memory = mmap.mmap(memory_fd, setup.num_lanes * dtype.itemsize)
    shared = np.ndarray((setup.num_lanes,), dtype, buffer=memory)
    lanes = [Lane(setup.task_id, setup.config) for _ in setup.lanes]
    drawing = renderer.make(setup.renderer, lanes, setup.config.image_size)
    # The first frame makes contexts and kernels: draw it before the time limit of a step applies.
    drawing.draw(range(len(lanes)))
    connection.send(("ready",))
    while True:
        command, *rest = connection.recv()
        if command == "run":
            _run(shared, setup.lanes, lanes, drawing)
            connection.send(("done",))
        elif command == "get_state":
            connection.send(("state", [lane.get_state() for lane in lanes]))
        elif command == "set_state":
            for lane, state in zip(lanes, rest[0], strict=True):
                lane.set_state(state)
            connection.send(("done",))


def _run(
    shared: np.ndarray,
    numbers: tuple[int, ...],
    lanes: list[Lane],
    drawing: renderer.Renderer,
) -> None:
    ended = []
    for index, (number, lane) in enumerate(zip(numbers, lanes, strict=True)):
        if shared["command"][number] == RESET:
            lane.begin(int(shared["seed"][number]))
            continue
        outcome = lane.advance(shared["action"][number])
        for name, value in outcome._asdict().items():
            shared[name][number] = value
        if outcome.terminated or outcome.truncated:
            ended.append(index)
    frames = drawing.draw(range(len(lanes)))
    shared["final_frame"][list(numbers)] = frames
    shared["frame"][list(numbers)] = frames
    for index in ended:
        lanes[index].begin_next()
    if ended:
        shared["frame"][[numbers[index] for index in ended]] = drawing.draw(ended)


def _silence() -> None:
    # dm_control passes MuJoCo's warnings on to absl; serious ones arrive as exceptions.
    from absl import logging

    logging.set_verbosity(logging.ERROR)


if __name__ == "__main__":
    main()
