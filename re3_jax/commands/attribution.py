"""From a profiler trace to "which part took how long".

XLA names every instruction. The compiled program's text says which `jax.named_scope` each
instruction came from, and the trace says how long it ran.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from jax.profiler import ProfileData

OTHER = "other"

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = .*?[\]})] ([\w\-]+)\((.*)")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CALLED = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")
_NAME = re.compile(r"%([\w.\-]+)")
_MODULE = re.compile(r"^HloModule ([\w.\-]+)")

_NOT_WORK = frozenset(
    {"while", "conditional", "call", "tuple", "get-tuple-element", "parameter", "constant"}
)
"""Opcodes that take no time of their own, or whose time is that of the instructions inside them."""


def scope_of_instructions(hlo_text: str, scopes: Sequence[str]) -> dict[str, str]:
    """Instruction name -> innermost of `scopes` that it came from, or `OTHER`.

    A fusion counts for the scope of its result or, if that has none, for the most common scope
    inside. XLA drops the origin of some instructions that it rewrites; they count for the
    most common scope among the instructions they read from and those that read them.

    Args:
      hlo_text: `compiled.as_text()`.
      scopes: names given to `jax.named_scope`.
    """
    scope_of: dict[str, str] = {}
    called: dict[str, str] = {}
    members: dict[str, list[str]] = defaultdict(list)
    neighbours: dict[str, set[str]] = defaultdict(set)
    computation = ""
    for line in hlo_text.splitlines():
        if header := _COMPUTATION.match(line):
            computation = header[1]
        instruction = _INSTRUCTION.match(line)
        if instruction is None or instruction[2] in _NOT_WORK:
            continue
        name = instruction[1]
        # A scope under a transformation reads vmap(env) or transpose(jvp(update)).
        words = re.findall(r"\w+", op_name[1]) if (op_name := _OP_NAME.search(line)) else []
        scope_of[name] = next((word for word in reversed(words) if word in scopes), OTHER)
        members[computation].append(name)
        if callee := _CALLED.search(line):
            called[name] = callee[1]
        for operand in _NAME.findall(instruction[3]):
            neighbours[name].add(operand)
            neighbours[operand].add(name)

    for name, computation in called.items():
        if scope_of[name] == OTHER:
            scope_of[name] = _commonest(scope_of[member] for member in members[computation])
    while found := {
        name: nearest
        for name, scope in scope_of.items()
        if scope == OTHER
        and (nearest := _commonest(scope_of.get(near, OTHER) for near in neighbours[name])) != OTHER
    }:
        scope_of |= found
    return scope_of


def milliseconds_by_scope(
    trace_folder: Path, hlo_text: str, scopes: Sequence[str]
) -> dict[str, float]:
    """Run time of one program's instructions, summed by scope.

    Instructions that ran in parallel each count in full.

    Args:
      trace_folder: the folder that `jax.profiler.trace` wrote to.
      hlo_text: `compiled.as_text()` of the program that was traced.
      scopes: names given to `jax.named_scope`.

    Raises:
      ValueError: if the trace has no instruction of this program.
    """
    module = _MODULE.match(hlo_text)
    scope_of = scope_of_instructions(hlo_text, scopes)
    total = dict.fromkeys((*scopes, OTHER), 0.0)
    traces = [ProfileData.from_file(str(path)) for path in trace_folder.rglob("*.xplane.pb")]
    lines = (line for trace in traces for plane in trace.planes for line in plane.lines)
    for event in (event for line in lines for event in line.events):
        stats = dict(event.stats)
        name = str(stats.get("hlo_op", ""))
        if name in scope_of and module and stats.get("hlo_module") == module[1]:
            total[scope_of[name]] += event.duration_ns / 1e6
    if not any(total.values()):
        raise ValueError(f"the trace in {trace_folder} has no instruction of this program")
    return total


def _commonest(scopes: Iterable[str]) -> str:
    counts = Counter(scope for scope in scopes if scope != OTHER)
    return counts.most_common(1)[0][0] if counts else OTHER
