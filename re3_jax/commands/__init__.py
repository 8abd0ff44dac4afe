"""The processes of the command line: train, evaluate, doctor, profile, compile, compare, report, watch."""

import re3_jax.runs  # noqa: F401 - sets OpenBLAS's threads before NumPy is imported
