"""Equality of arrays, which a number does not share with an array of that number."""

from functools import partial

import numpy as np

equal_arrays = partial(np.testing.assert_array_equal, strict=True)
"""NumPy's, for which shapes and dtypes must agree, too."""
