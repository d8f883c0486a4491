"""Hold the step schedules, one file each. Experiments find a schedule by its name.

A schedule imports only `core`.
"""
