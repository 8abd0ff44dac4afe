"""Whether two samples come from one distribution."""

import numpy as np
from scipy.stats import chi2_contingency


def p_value(first: np.ndarray, second: np.ndarray) -> tuple[float, int]:
    """Two-sample chi-square test of a joint distribution of whole numbers.

    Args:
      first: [sample, variable].
      second: the same of the other sample.

    Returns:
      The p-value, and the number of outcomes it is about. One outcome that is all of both samples
      has the p-value 1.
    """
    both = np.concatenate([first, second])
    outcomes, index = np.unique(both, axis=0, return_inverse=True)
    index = index.reshape(-1)
    table = np.stack(
        [
            np.bincount(index[: len(first)], minlength=len(outcomes)),
            np.bincount(index[len(first) :], minlength=len(outcomes)),
        ]
    )
    # Rare outcomes are pooled: the test's chi-square law needs a few counts in each.
    rare = table.sum(0) < 25
    pooled = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], axis=1)
    pooled = pooled[:, pooled.sum(0) > 0]
    if pooled.shape[1] == 1:
        return 1.0, 1
    return float(chi2_contingency(pooled).pvalue), pooled.shape[1]
