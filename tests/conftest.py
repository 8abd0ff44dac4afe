"""Imports that every test process needs first, and a fixture that many tests share."""

import sys

import pytest

# PyTorch with CUDA imports Triton, whose LLVM crashes a process that has already loaded Mesa's,
# which renders on machines without a GPU. No test compiles with Triton.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def quick_compilation(request):
    """For modules whose tests run their programs a few times and do not depend on rounding.

    LLVM's optimisation takes half of such tests' time, more than their programs run. When slow
    tests run too, as in `make test-all`, programs are optimised as users' programs are.
    """
    import jax

    quick = request.config.getoption("markexpr") == "not slow"
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
