"""What every test process needs before anything else is imported."""

import sys

# PyTorch with CUDA brings Triton, whose LLVM ends a process that already has Mesa's, which draws
# where there is no GPU. Nothing here compiles with it.
sys.modules.setdefault("triton", None)  # type: ignore[arg-type]
