"""The paper's figures and claims, and the documented names of the commands."""

from re3_jax.runs import early_stop  # Also sets OpenBLAS's threads, before NumPy is imported.

early_stop.begin()
