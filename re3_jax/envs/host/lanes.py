"""Lanes of a DeepMind Control task in parallel worker processes (io)."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable

import numpy as np

from re3_jax.envs.base import EnvSpec, LaneStep
from re3_jax.envs.host import dmc, tasks
from re3_jax.envs.host.config import DMCConfig
from re3_jax.envs.host.lost import Lost, LostWorkers
from re3_jax.envs.host.worker import RESET, STEP, Setup, layout
from re3_jax.envs.host.worker_process import Patience, WorkerProcess, environment, usable_cores

START_TIMEOUT_SECONDS = 1800.0
"""Time limit for a worker to load its task and draw its first frame (kernels compile)."""

MAX_LOSSES_IN_A_ROW = 3
"""Workers lost in a row, without a step between them, before the run gives up."""


class DMCLanes:
    """`HostEnv` of dm_control in worker processes.

    A worker that dies or hangs is replaced: the episodes of its lanes are truncated with reward 0,
    and new ones begin from seeds that derive from the lanes' own seeds.
    """

    can_restore = True

    def __init__(
        self,
        task_id: str,
        config: DMCConfig,
        num_lanes: int,
        renderer: str,
        report: Callable[[str], None],
    ):
        """Starts the workers and waits until each has drawn a frame.

        Args:
          task_id: name of the task.
          config: how to step and draw it.
          num_lanes: episodes stepped together.
          renderer: the result of `renderer.choose(config)`.
          report: called with a sentence when a worker was replaced or a simulation diverged.

        Raises:
          ValueError: if the task is unknown or the renderer cannot draw it.
          LostWorkers: if a worker does not start.
        """
        self.spec: EnvSpec = dmc.spec(task_id, config)
        self.num_lanes = num_lanes
        self._report = report
        self._timeout = config.step_timeout_seconds
        action_dim = tasks.find(task_id).action_dim
        dtype = layout(config.image_size, action_dim)
        count = min(num_lanes, config.workers or usable_cores())
        environments = [environment(renderer, number, count) for number in range(count)]
        memory_fd = os.memfd_create("re3_jax-lanes")
        os.ftruncate(memory_fd, num_lanes * dtype.itemsize)
        self._shared = np.ndarray(
            (num_lanes,), dtype, buffer=mmap.mmap(memory_fd, num_lanes * dtype.itemsize)
        )
        self._seed = np.zeros(num_lanes, np.uint32)
        self._restarts = np.zeros(num_lanes, np.int32)
        self._cut = np.zeros(num_lanes, np.bool_)
        self.lost = self._cut.copy()
        self._frame = np.zeros_like(self._shared["frame"])
        self._losses = 0
        self._is_stepping = False
        self._workers = [
            WorkerProcess(
                Setup(
                    task_id,
                    config,
                    renderer,
                    action_dim,
                    num_lanes,
                    tuple(int(lane) for lane in lanes),
                    threading.current_thread() is threading.main_thread(),
                ),
                memory_fd,
                of_worker,
            )
            for of_worker, lanes in zip(
                environments, np.array_split(np.arange(num_lanes), count), strict=True
            )
        ]
        self._close = weakref.finalize(self, _end, self._workers, memory_fd)
        try:
            for worker in self._workers:
                worker.start()
            for worker in self._workers:
                worker.wait("ready", Patience(START_TIMEOUT_SECONDS))
        except Lost as lost:
            self.close()
            raise LostWorkers(
                f"a worker for {task_id} {lost}: {sys.executable} -m re3_jax.commands.doctor says "
                "what works on this machine"
            ) from None
        except BaseException:
            self.close()
            raise

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        """Starts a new episode in every lane, lane i from `seeds[i]`; returns the first frames.

        If a `send` has had no `receive`, waits for its step and drops it.

        Raises:
          LostWorkers: if too many are lost in a row.
        """
        if self._is_stepping:
            self.receive()
        self._seed[:] = [int(seed) % 2**32 for seed in np.asarray(seeds)]
        self._restarts[:] = 0
        self._cut[:] = False
        self._shared["command"] = RESET
        self._shared["seed"] = self._seed
        self._run_all()
        for worker in self._workers:
            try:
                worker.wait("done", Patience(self._timeout))
            except Lost as lost:
                self._replace(worker, lost)
        self._cut[:] = False
        self._losses = 0
        self._is_stepping = False
        self._frame[:] = self._shared["frame"]
        return self._frame.copy()

    def send(self, action: np.ndarray) -> None:
        """Starts one step with `action` [lane, action], within [-1, 1]; returns at once."""
        self._shared["action"] = action
        self._shared["command"] = STEP
        self._begin_instead(np.flatnonzero(self._cut))
        self._run_all()

    def receive(self) -> LaneStep:
        """Waits for the step that `send` started.

        Raises:
          RuntimeError: if nothing was sent.
          LostWorkers: if too many are lost in a row.
        """
        if not self._is_stepping:
            raise RuntimeError("receive was called without a send before it")
        patience = Patience(self._timeout)
        lost_workers = []
        for worker in self._workers:
            try:
                worker.wait("done", patience)
            except Lost as lost:
                lost_workers.append((worker, lost))
        for worker, why in lost_workers:
            self._replace(worker, why)
        if not lost_workers:
            self._losses = 0
        self._is_stepping = False
        return self._collect()

    def _collect(self) -> LaneStep:
        cut, shared = self._cut.copy(), self._shared
        self.lost = cut
        stepped = ~cut
        for lane in np.flatnonzero(stepped & shared["diverged"]):
            self._report(f"lane {lane}: the simulation diverged, its episode was cut")
        terminated = stepped & shared["terminated"]
        step = LaneStep(
            frame=shared["frame"].copy(),
            reward=np.where(cut, np.float32(0), shared["reward"]),
            terminated=terminated,
            truncated=cut | shared["truncated"],
            final_frame=np.where(cut[:, None, None, None], self._frame, shared["final_frame"]),
            task_ended=terminated,
        )
        self._frame[:] = step.frame
        self._cut[:] = False
        return step

    def get_state(self) -> dict[str, np.ndarray]:
        """The complete state of the lanes, as arrays with the leading axis `lane`.

        Raises:
          LostWorkers: if too many are lost in a row.
        """
        for worker in self._workers:
            worker.send("get_state")
        states: list[dict[str, np.ndarray]] = []
        for worker in self._workers:
            while (found := self._state_of(worker)) is None:
                worker.send("get_state")
            states += found
        return {
            **{name: np.stack([state[name] for state in states]) for name in states[0]},
            "frame": self._frame.copy(),
            "seed": self._seed.copy(),
            "restarts": self._restarts.copy(),
            "cut": self._cut.copy(),
        }

    def _state_of(self, worker: WorkerProcess) -> list[dict[str, np.ndarray]] | None:
        """The states of a worker's lanes; None if it was lost, and is replaced."""
        try:
            return worker.wait("state", Patience(self._timeout))
        except Lost as lost:
            self._replace(worker, lost)
            return None

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Restores the lanes to the state that `get_state` returned, bit for bit.

        Raises:
          ValueError: if the state is of another number of lanes.
          LostWorkers: if a worker is lost meanwhile.
        """
        if len(state["seed"]) != self.num_lanes:
            raise ValueError(
                f"the state is of {len(state['seed'])} lanes, but there are {self.num_lanes}"
            )
        own = {"frame": self._frame, "seed": self._seed}
        own |= {"restarts": self._restarts, "cut": self._cut}
        for name, array in own.items():
            array[...] = state[name]
        rest = {name: np.asarray(value) for name, value in state.items() if name not in own}
        for worker in self._workers:
            lanes = [{name: rest[name][lane] for name in rest} for lane in worker.lanes]
            worker.send("set_state", lanes)
        for worker in self._workers:
            try:
                worker.wait("done", Patience(self._timeout))
            except Lost as lost:
                raise LostWorkers(
                    f"a worker {lost} while its lanes were restored: try again"
                ) from None

    def close(self) -> None:
        """Ends the workers; a second call does nothing."""
        self._close()

    def _run_all(self) -> None:
        self._is_stepping = True
        for worker in self._workers:
            worker.send("run")

    def _begin_instead(self, lanes: Iterable[int]) -> None:
        """Requests new episodes, with seeds that derive from the lanes' own."""
        for lane in lanes:
            sequence = np.random.SeedSequence([self._seed[lane], self._restarts[lane]])
            self._shared["seed"][lane] = sequence.generate_state(1)[0]
            self._shared["command"][lane] = RESET

    def _replace(self, worker: WorkerProcess, lost: Lost) -> None:
        """Restarts a lost worker; its lanes begin new episodes."""
        lanes = list(worker.lanes)
        while True:
            self._losses += 1
            if self._losses > MAX_LOSSES_IN_A_ROW:
                self.close()
                raise LostWorkers(
                    f"{self._losses} workers were lost in a row; the last one {lost}: "
                    "go on from the newest checkpoint with --resume"
                ) from None
            self._report(
                f"the worker of lanes {lanes[0]} to {lanes[-1]} {lost}; "
                "its episodes are cut and a new worker takes over"
            )
            self._restarts[lanes] += 1
            self._cut[lanes] = True
            self._begin_instead(lanes)
            try:
                worker.start()
                worker.wait("ready", Patience(START_TIMEOUT_SECONDS))
                worker.send("run")
                worker.wait("done", Patience(self._timeout))
            except Lost as again:
                lost = again
            else:
                return


def _end(workers: list[WorkerProcess], memory_fd: int) -> None:
    for worker in workers:
        worker.stop()
    os.close(memory_fd)
