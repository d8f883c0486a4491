"""Hold the step schedules, one file each. A schedule defines the step size alpha(t) of each round t = 1, 2, ...

An experiment names its schedule in `step.kind`. The only package of mpinodes that a schedule imports is `core`.
"""
