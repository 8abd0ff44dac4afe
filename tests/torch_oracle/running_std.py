"""The running standard deviation of the released code, in double precision."""

import numpy as np


class ReleasedStd:
    """The authors' recursion, written from its description.

    `torch.var` divides by n - 1; `tf.math.reduce_variance`, in their Dreamer, by n (ddof 0).
    """

    def __init__(self, ddof=1):
        self.mean, self.variance, self.count, self.ddof = 0.0, 1.0, 1e-4, ddof

    def __call__(self, batch):
        """Takes a batch in; the standard deviation after it."""
        n, batch = len(batch), np.asarray(batch, np.float64)
        delta, total = np.mean(batch) - self.mean, self.count + n
        self.mean = self.mean + delta + n / total
        squares = self.variance * self.count + np.var(batch, ddof=self.ddof) * n
        self.variance = (squares + delta**2 * self.count * n / total) / total
        self.count = total
        return float(np.sqrt(self.variance))
