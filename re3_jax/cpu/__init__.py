"""Workarounds for XLA's CPU backend, kept apart from the algorithms that use them.

Each module states what jaxlib 0.10.2 does on a CPU, the replacement, and when to remove the module.
Constants tuned to a CPU's cores and caches stay beside these reasons. On every backend the results
equal those of the plain form up to rounding.
"""
