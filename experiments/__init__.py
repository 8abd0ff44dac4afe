"""Runs from the command line, presets, figures."""

import os

# Orthogonal weights are QR factorisations; those of several seeds at once, each with OpenBLAS's
# own threads, wait for one another for minutes. Read when NumPy and SciPy are first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
