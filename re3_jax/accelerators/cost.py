"""What a compiled program takes: operations, bytes moved, copies, and the least time (roofline).

The time is the larger of operations / peak and bytes / bandwidth (Williams et al., 2009). It leaves
out how long a device takes to start an instruction, which dominates where they are small: beside it
stands their number. A loop counts as often as the program's text says, once where it does not; of
the branches of a condition, the dearest counts.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from re3_jax.accelerators.hlo import Computation, Instruction, Program, Shape, parse
from re3_jax.accelerators.targets import Target

FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota"),
    *("partition-id", "replica-id", "opt-barrier"),
}
"""Opcodes that move nothing."""

COLLECTIVES = (
    *("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-permute"),
    *("collective-broadcast", "ragged-all-to-all", "send", "recv"),
)

OF_KERNEL = re.compile(r'serialized_metadata = "[^"]*operations_per_number\\22: \\22(\d+)')
"""What the `metadata` of a Pallas kernel states: its operations for each number of its result."""

SLICES = ("dynamic-slice", "gather", "slice")


class Cost(NamedTuple):
    """What one call takes on one device.

    Attributes:
      operations: floating-point operations of matrix products and convolutions.
      bytes_accessed: read from and written to the device's memory.
      instructions: executed, each at least one kernel of a GPU.
      collectives: executed exchanges between devices.
    """

    operations: float = 0.0
    bytes_accessed: float = 0.0
    instructions: float = 0.0
    collectives: float = 0.0

    def plus(self, other: "Cost", times: float = 1.0) -> "Cost":
        """Adds `times` the other cost to this one."""
        return Cost(*(a + times * b for a, b in zip(self, other, strict=True)))

    def seconds(self, target: Target) -> float:
        """The least time on a device (roofline)."""
        return max(
            self.operations / target.operations_per_second,
            self.bytes_accessed / target.bytes_per_second,
        )


class Executed(NamedTuple):
    """An instruction of a program.

    Attributes:
      instruction: as the text has it.
      times: how often one call of the program executes it.
      cost: of one execution.
    """

    instruction: Instruction
    times: float
    cost: Cost


class Report(NamedTuple):
    """A compiled program on one device of its target; sizes in bytes.

    Attributes:
      arguments: what is passed to it, padded as the device stores it.
      temporaries: memory that it needs beside arguments and results.
      largest_copy: the largest array that it copies in the device's memory.
      cost: what a call takes.
    """

    arguments: int
    temporaries: int
    largest_copy: int
    cost: Cost


def report(compiled: Any) -> Report:
    """Reports what a `jax.stages.Compiled` takes on one device."""
    memory, counted = compiled.memory_analysis(), Counter(parse(compiled.as_text()))
    return Report(
        arguments=memory.argument_size_in_bytes,
        temporaries=memory.temp_size_in_bytes,
        largest_copy=counted.largest_copy,
        cost=counted.total,
    )


@dataclass(frozen=True)
class Counter:
    """Adds up the instructions of a program.

    Attributes:
      program: the compiled program.
      unstated_trips: how often a loop runs of which the text does not say it.
    """

    program: Program
    unstated_trips: int = 1

    @cached_property
    def total(self) -> Cost:
        """The cost of one call of the program: the sum over its executed instructions."""
        return _sum(self.executed)

    @cached_property
    def executed(self) -> list[Executed]:
        """The instructions that move something, in the order of the program's text."""
        return self._executed(self.program.entry, 1.0)

    @property
    def largest_copy(self) -> int:
        """Bytes of the largest array that is copied within the device's memory."""
        copies = [
            shape.num_bytes
            for computation in self.program.computations.values()
            for instruction in computation.values()
            if instruction.opcode in ("copy", "copy-start")
            and not any(shape.is_on_chip for shape in instruction.shapes)
            for shape in instruction.shapes[:1]
        ]
        return max(copies, default=0)

    def _executed(self, name: str, times: float) -> list[Executed]:
        computation = self.program.computations[name]
        found: list[Executed] = []
        for it in computation.values():
            opcode = it.opcode.removesuffix("-start")
            if opcode in FREE or opcode.endswith(("-done", "-update")):
                continue
            if opcode == "while":
                trips = self.program.trips(it)
                trips = self.unstated_trips if trips is None else trips
                found += self._executed(it.attribute("body").strip("%"), times * trips)
            elif opcode == "conditional":
                branches = [self._executed(called, times) for called in it.called]
                found += max(branches, key=lambda executed: _sum(executed).bytes_accessed)
            elif opcode in ("call", "async"):
                found += self._executed(it.called[0], times)
            else:
                found.append(Executed(it, times, self._instruction(computation, it)))
        return found

    def _instruction(self, computation: Computation, it: Instruction) -> Cost:
        opcode = it.opcode.removesuffix("-start")
        return Cost(
            operations=self._operations(computation, it),
            bytes_accessed=self._read(computation, it) + self._written(computation, it),
            instructions=1,
            collectives=opcode in COLLECTIVES,
        )

    def _operations(self, computation: Computation, it: Instruction) -> float:
        if it.opcode == "fusion":
            inner = self.program.computations[it.called[0]]
            return sum(self._operations(inner, instruction) for instruction in inner.values())
        operands = [computation[name].shapes[0] for name in it.operands if name in computation]
        if it.opcode == "convolution" or "__cudnn$conv" in it.rest:
            return _convolution(it, operands)
        if it.opcode == "dot" or "__cublas$" in it.rest:
            return _product(it, operands)
        if stated := OF_KERNEL.search(it.rest):
            return float(stated[1]) * math.prod(it.shapes[0].dims)
        return 0.0

    def _read(self, computation: Computation, it: Instruction) -> int:
        if it.opcode == "fusion":
            inner = self.program.computations[it.called[0]]
            parameters = [i for i in inner.values() if i.opcode == "parameter"]
            return sum(self._read_of(inner, parameter) for parameter in parameters)
        return sum(
            _bytes(computation[name].shapes, it, place)
            for place, name in enumerate(it.operands)
            if name in computation
        )

    def _read_of(self, computation: Computation, value: Instruction) -> int:
        """Bytes of a value that a fusion reads: all, or what it slices."""
        read, whole = 0, sum(_in_memory(shape) for shape in value.shapes)
        for user in computation.values():
            for place, name in enumerate(user.operands):
                if name != value.name:
                    continue
                if user.opcode == "bitcast":
                    read += self._read_of(computation, user)
                elif user.opcode == "fusion":
                    inner = self.program.computations[user.called[0]]
                    for i in inner.values():
                        if i.opcode == "parameter" and i.parameter_number == place:
                            read += self._read_of(inner, i)
                elif user.opcode not in ("tuple",):
                    read += _bytes(value.shapes, user, place)
        return min(read, whole)

    def _written(self, computation: Computation, it: Instruction) -> int:
        if it.opcode == "fusion":
            inner = self.program.computations[it.called[0]]
            root = next(i for i in inner.values() if i.is_root)
            return self._written_by_root(inner, root)
        return self._written_by_root(computation, it)

    def _written_by_root(self, computation: Computation, root: Instruction) -> int:
        if root.opcode in ("tuple", "bitcast"):
            parts = [computation[name] for name in root.operands]
            return sum(self._written_by_root(computation, part) for part in parts)
        if root.opcode == "fusion":
            return self._written(computation, root)
        if root.opcode in ("dynamic-update-slice", "scatter"):
            place = 1 if root.opcode == "dynamic-update-slice" else -1
            return sum(_in_memory(shape) for shape in computation[root.operands[place]].shapes)
        return sum(_in_memory(shape) for shape in _results(root))


def _sum(executed: Iterable[Executed]) -> Cost:
    total = Cost()
    for _, times, cost in executed:
        total = total.plus(cost, times)
    return total


def _results(it: Instruction) -> tuple[Shape, ...]:
    """The arrays that an instruction makes.

    An instruction that starts an operation returns its operands and a context, too, which are left
    out. A copy's result stands before the operand, that of others behind; an `all-reduce` returns
    nothing else.
    """
    count = len(it.operands)
    if it.opcode == "copy-start":
        return it.shapes[:1]
    if it.opcode.endswith("-start") and len(it.shapes) > count:
        return it.shapes[count : 2 * count]
    return it.shapes


def _in_memory(shape: Shape) -> int:
    return 0 if shape.is_on_chip else shape.num_bytes


def _bytes(shapes: tuple[Shape, ...], user: Instruction, place: int) -> int:
    """Bytes that `user` reads from memory for its operand number `place`."""
    whole = sum(_in_memory(shape) for shape in shapes)
    if place == 0 and user.opcode in ("dynamic-update-slice", "scatter"):
        return 0
    if place == 0 and user.opcode.removesuffix("-start") in SLICES:
        return min(whole, _results(user)[0].num_bytes)
    return whole


def _convolution(it: Instruction, operands: list[Shape]) -> float:
    """Twice the multiply-adds of pixels that exist: neither padding nor what dilation puts in."""
    labels = re.match(r"(\w+)_(\w+)->(\w+)", it.attribute("dim_labels"))
    if labels is None or len(operands) < 2:
        return 0.0
    if "__cudnn$conv" in it.rest:
        return _of_cudnn(it, operands, labels[2])
    images, kernel, out = operands[0].dims, operands[1].dims, it.shapes[0].dims
    products = math.prod((kernel[labels[2].index("i")], *(out[labels[3].index(n)] for n in "bf")))
    for axis, name in enumerate(n for n in labels[2] if n.isdigit()):
        sides = (images[labels[1].index(name)], out[labels[3].index(name)])
        products *= _pairs(*sides, kernel[labels[2].index(name)], it, axis)
    return 2.0 * products


def _pairs(image: int, out: int, kernel: int, it: Instruction, axis: int) -> int:
    """Along an axis, how often a place of the kernel meets a pixel, over all places of the result.

    A backward pass is a convolution with more padding and dilation than pixels.
    """
    window = re.search(r"window={([^}]*)}", it.rest)
    given = dict(re.findall(r"(\w+)=([\d_x-]+)", window[1] if window else ""))

    def of(name: str) -> int:
        return int(given[name].split("x")[axis]) if name in given else 1

    before = int(given["pad"].split("x")[axis].partition("_")[0]) if "pad" in given else 0
    stride, between, apart = of("stride"), of("lhs_dilate"), of("rhs_dilate")
    places = (o * stride + k * apart - before for o in range(out) for k in range(kernel))
    return sum(0 <= at <= (image - 1) * between and at % between == 0 for at in places)


def _of_cudnn(it: Instruction, operands: list[Shape], labels: str) -> float:
    """Operations of a call of cuDNN, taken to be without padding; its name tells the direction."""
    kernel, out = operands[1], it.shapes[0]
    if "convBackwardInput" in it.rest:
        out = operands[0]
    elif "convBackwardFilter" in it.rest:
        kernel, out = it.shapes[0], operands[1]
    features = kernel.dims[labels.index("o")]
    return 2.0 * math.prod(out.dims) * math.prod(kernel.dims) / features


def _product(it: Instruction, operands: list[Shape]) -> float:
    axes = re.search(r'lhs_contracting_dim\w*"?[=:][\[{]([\d,"]*)[\]}]', it.rest)
    if axes is None or not operands:
        return 0.0
    contracted = math.prod(operands[0].dims[int(n)] for n in re.findall(r"\d+", axes[1]))
    return 2.0 * math.prod(it.shapes[0].dims) * contracted
