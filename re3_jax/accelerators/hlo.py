"""Reads the text of a compiled program: XLA's optimised HLO, one instruction a line."""

import math
import re
from dataclasses import dataclass
from functools import cached_property

DTYPE_BITS = {"pred": 8, "token": 0, "opaque": 0}
"""Bits of the dtypes whose names do not say how many they have."""

ARRAY = re.compile(r"(?<![\w%.-])([a-z]\w*)\[([\d,<=]*)\](?:\{([^}]*)\})?")
INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.-]+) (?:\(.*\) -> .* )?\{$")
CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
)


@dataclass(frozen=True)
class Shape:
    """An array of a program.

    Attributes:
      dtype: XLA's name of it, such as f32.
      dims: its logical dimensions.
      layout: what stands between braces: order of the dimensions, tiles and memory space.
    """

    dtype: str
    dims: tuple[int, ...]
    layout: str = ""

    @property
    def num_bytes(self) -> int:
        """Bytes in memory, with the padding of the first tile."""
        return math.prod(self._padded) * _bits(self.dtype) // 8

    @property
    def is_on_chip(self) -> bool:
        """Whether the compiler keeps it in a memory on the chip (of a TPU)."""
        return "S(" in self.layout

    @property
    def _padded(self) -> tuple[int, ...]:
        tile = re.search(r"T\(([\d,]+)\)", self.layout)
        order = self.layout.partition(":")[0]
        if not tile or not order:
            return self.dims
        sides = [int(side) for side in tile[1].split(",")]
        minor_first = [self.dims[int(axis)] for axis in order.split(",")]
        padded = [
            -(-n // side) * side for n, side in zip(minor_first, reversed(sides), strict=False)
        ]
        return *padded, *minor_first[len(padded) :]


@dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
      name: unique in the program.
      opcode: XLA's name of the operation.
      shapes: of its result, one for each array of a tuple.
      operands: names of the instructions that it reads.
      rest: the line after the opcode: operands and attributes.
      is_root: whether the computation returns it.
    """

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    rest: str
    is_root: bool

    @cached_property
    def called(self) -> tuple[str, ...]:
        """Names of the computations that it calls."""
        branches = re.search(r"branch_computations=\{([^}]*)\}", self.rest)
        listed = re.findall(r"[\w.-]+", branches[1]) if branches else []
        return *CALLED.findall(self.rest), *listed

    def attribute(self, name: str) -> str:
        """The value of an attribute up to the next comma outside brackets; "" without it."""
        found = re.search(rf"\b{name}=(\{{[^}}]*\}}|[^,\s]*)", self.rest)
        return found[1].strip("{}") if found else ""

    @property
    def parameter_number(self) -> int:
        """Which parameter of its computation a `parameter` instruction is, counted from 0."""
        return int(self.rest.partition(")")[0])


Computation = dict[str, Instruction]
"""Instructions by name, operands before what reads them."""


@dataclass(frozen=True)
class Program:
    """A compiled program.

    Attributes:
      computations: by name.
      entry: name of the one that runs.
    """

    computations: dict[str, Computation]
    entry: str

    def trips(self, loop: Instruction) -> int | None:
        """How often the body of a `while` runs; None where the text does not say."""
        known = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.rest)
        if known:
            return int(known[1])
        # `lax.scan` counts from 0 while its counter is less than a constant.
        pending, text = [loop.attribute("condition").strip("%")], []
        while pending:
            for instruction in self.computations.get(pending.pop(), {}).values():
                text.append(instruction)
                pending.extend(instruction.called)
        bounds = [int(c.rest.partition(")")[0]) for c in text if _is_int32_constant(c)]
        compares = [c for c in text if c.opcode == "compare" and "direction=LT" in c.rest]
        return max(bounds[0], 1) if len(bounds) == 1 == len(compares) else None


def _is_int32_constant(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" and re.match(r"\d+\)", instruction.rest) is not None


def parse(text: str) -> Program:
    """The instructions of `jax.stages.Compiled.as_text()`.

    Raises:
      ValueError: the text has no computation that runs.
    """
    computations: dict[str, Computation] = {}
    entry, inside = "", None
    for line in text.splitlines():
        if begins := COMPUTATION.match(line):
            inside = computations[begins[2]] = {}
            entry = begins[2] if begins[1] else entry
        elif inside is not None and (found := INSTRUCTION.match(line)):
            root, name, shapes, opcode, rest = found.groups()
            operands = tuple(re.findall(r"%([\w.-]+)", _arguments(rest)))
            inside[name] = Instruction(
                name, opcode, parse_shapes(shapes), operands, rest, bool(root)
            )
    if not entry:
        raise ValueError("this is not the text of a compiled program: it has no ENTRY")
    return Program(computations, entry)


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """The arrays of a result, a tuple's in order."""
    return tuple(
        Shape(dtype, tuple(int(n.strip("<=")) for n in dims.split(",") if n), layout)
        for dtype, dims, layout in ARRAY.findall(text)
    )


def _bits(dtype: str) -> int:
    number = re.search(r"\d+", dtype)
    return DTYPE_BITS.get(dtype, int(number[0]) if number else 8)


def _arguments(rest: str) -> str:
    """What stands between the parentheses of an instruction."""
    depth = 1
    for place, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[:place]
    return rest
