"""What every test process needs before anything else is imported, and a fixture that many share."""

import sys

import pytest

# PyTorch with CUDA brings Triton, whose LLVM ends a process that already has Mesa's, which draws
# where there is no GPU. Nothing here compiles with it.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def quick_compilation(request):
    """Programs of a module whose tests run them a few times and do not depend on rounding.

    Half of the time that such tests take is LLVM's optimisation of programs that run for less. Once
    slow tests run too, as in `make test-all`, they are optimised as users' programs are.
    """
    import jax

    quick = request.config.getoption("markexpr") == "not slow"
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
