"""Forms that XLA's CPU backend needs, kept apart from the algorithms that use them.

Each module names what jaxlib 0.10.2 does on a CPU, what stands in its place, and when the module
can go. Constants that are tuned to a CPU's cores and caches stay beside these reasons. Results are
those of the plain form to rounding, on every backend.
"""
