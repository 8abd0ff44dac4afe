"""What a run is: its configuration, presets, parts, session, folder and pictures."""

import os

# Orthogonal weights are QR factorisations. Several seeds factorise at once, and OpenBLAS's threads
# then wait for one another for minutes. NumPy and SciPy read this when they are first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
