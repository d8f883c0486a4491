"""Hold the algorithms, one file each. Experiments find an algorithm by its name.

An algorithm imports only `core`, the schedules, the sets and numpy.
"""
