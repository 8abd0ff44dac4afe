"""Scatters of a compiled program whose result depends on the order in which a GPU writes.

A GPU writes the updates of a scatter in any order, with atomic operations where two may meet. The
order does not matter if no two meet (`unique_indices`), or if combining is exact in any order:
integer sums, minima and maxima. It matters for sums of floats, which round, and for assignments,
of which the last one stays. XLA's option against them sorts the updates and sums those that meet
before it scatters, so that the program's text then says `unique_indices=true`.

What cuDNN and cuBLAS do inside a convolution or a product is not in the text; the same option makes
XLA choose their deterministic algorithms.
"""

from re3_jax.accelerators.hlo import Instruction, Program

ORDER_FREE = {"maximum", "minimum", "and", "or", "xor"}
"""Opcodes of combiners that are exact in any order, whatever the dtype."""

SUMS = {"add", "multiply"}
"""Opcodes of combiners that are exact in any order between integers."""


def unordered_scatters(program: Program) -> list[Instruction]:
    """The scatters, in fusions too, that may not give the same numbers twice."""
    return [
        instruction
        for computation in program.computations.values()
        for instruction in computation.values()
        if instruction.opcode == "scatter"
        and "unique_indices=true" not in instruction.rest
        and not _is_exact(program, instruction)
    ]


def _is_exact(program: Program, scatter: Instruction) -> bool:
    combiner = program.computations[scatter.called[0]]
    (root,) = (instruction for instruction in combiner.values() if instruction.is_root)
    if root.opcode in SUMS:
        # Sums of floating-point and complex numbers round.
        return not any(shape.dtype.startswith(("f", "bf", "c")) for shape in root.shapes)
    return root.opcode in ORDER_FREE
