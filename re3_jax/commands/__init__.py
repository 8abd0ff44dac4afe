"""The processes of the command line: one module for each command of `re3-jax`."""

import re3_jax.runs  # noqa: F401 - sets OpenBLAS's threads before NumPy is imported
