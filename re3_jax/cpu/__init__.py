"""Workarounds for XLA's backends, the CPU's above all, apart from the algorithms that use them.

Each module states what jaxlib 0.10.2 does, the replacement, and when to remove the module.
Constants tuned to a CPU's cores and caches stay beside these reasons. On every backend the results
equal those of the plain form up to rounding.
"""
