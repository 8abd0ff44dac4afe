"""What every test process needs before its first import of JAX or PyTorch."""

import ctypes
import gc
import os
import sys
from importlib.metadata import version

import psutil

# PyTorch with CUDA imports Triton, whose LLVM crashes a process that has already loaded Mesa's,
# which renders on machines without a GPU. No test compiles with Triton.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]

FASTER_TO_COMPILE = (
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)

ALLOCATIONS = 1_000_000
"""Objects that Python makes before it looks for garbage among them; its own number is 700."""

MUCH_MEMORY = 3 * 2**30
"""Bytes of a process of tests, of which `make test` has two, beyond which it forgets programs."""


def pytest_configure(config):
    """Compiles without LLVM's optimisations, in the processes that tests start too.

    Most tests run a program a few times, and its optimisation takes longer than that. When slow
    tests run too, as in `make test-all`, programs are optimised as users' programs are.

    XLA's fusion emitters also take longer than they save here: without them a single operation
    compiled in 0.4 of the time, whole programs in 0.6 to 0.8. Nor is a program divided among
    threads for LLVM, because the other test worker has the other core.

    Programs are kept between sessions where runs keep theirs, which shortens the next one.
    """
    if config.getoption("markexpr") == "not slow":
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "true"
        if version("jaxlib").startswith("0.10."):
            # XLA ends a process that names a flag which its version does not know.
            flags = os.environ.get("XLA_FLAGS", ""), *FASTER_TO_COMPILE
            os.environ["XLA_FLAGS"] = " ".join(flags).strip()
    gc.set_threshold(ALLOCATIONS)
    # Two workers share two cores. PyTorch's threads spin while they wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import jax

    from re3_jax.runs import machine

    machine.keep_compiled_programs()
    if folder := jax.config.jax_compilation_cache_dir:
        # For the processes that tests start.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def pytest_runtest_teardown(item, nextitem):
    """Takes what a module leaves out of Python's garbage collections.

    JAX keeps what it has traced, and every full collection goes through all of it again. Within a
    module few collections pay: with Python's own number three modules took 23 s instead of 16 s of
    CPU time, and the largest use of memory was the same.

    What was taken out is never freed, and JAX keeps its programs: a process grew to 7 GB. A large
    one forgets the programs, and looks at everything again.
    """
    if nextitem is None or nextitem.path != item.path:
        if psutil.Process().memory_info().rss > MUCH_MEMORY:
            _forget_programs()
        gc.collect()
        gc.freeze()


def _forget_programs() -> None:
    gc.unfreeze()
    sys.modules["jax"].clear_caches()
    gc.collect()
    # glibc, with the settings of the Makefile, returns no memory unless it is told to.
    if return_memory := getattr(ctypes.CDLL(None), "malloc_trim", None):
        return_memory(0)
