"""Hold the constraint sets, one file each. Experiments find a set by its name.

A set imports only `core` and numpy.
"""
