"""Hold the step schedules, one file each. A schedule gives the step alpha(t) of each round t = 1, 2, ...

Experiments find a schedule by its name. Of mpinodes, a schedule imports only `core`.
"""
