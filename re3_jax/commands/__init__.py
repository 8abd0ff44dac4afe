"""The processes of the command line: one module for each command of `re3-jax`."""

from re3_jax.runs import early_stop  # Also sets OpenBLAS's threads, before NumPy is imported.

early_stop.begin()
