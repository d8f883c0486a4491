"""Hold the algorithms, one file for each algorithm. Experiments find an algorithm by its name.

The file of an algorithm imports only `mpinodes.core`, the step schedules, the constraint sets and numpy.
"""
