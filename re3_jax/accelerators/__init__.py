"""Compiles programs for accelerators that this machine does not have, and says what they take.

XLA compiles for a description of a device: `targets` has the descriptions, `hlo` reads a compiled
program's instructions, `cost` adds up their operations and bytes and divides by the device's peaks.
Nothing is executed: every number is an estimate, and no time is a measurement.
"""
