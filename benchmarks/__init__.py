"""Benchmarks: each module prints one JSON object with the hardware it ran on."""
