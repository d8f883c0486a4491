"""Hold the constraint sets 𝒳, one file each. An algorithm can project points onto the set.

An experiment names its set in `problem.set`. A set imports only `core`, other sets, numpy and scipy.
"""
