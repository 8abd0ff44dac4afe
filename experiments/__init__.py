"""The paper's figures and claims, and the documented names of the commands."""

import re3_jax.runs  # noqa: F401 - sets OpenBLAS's threads before NumPy is imported
