"""Hold the constraint sets 𝒳, to which decisions are projected, one file each. Experiments find a set by its name.

A set imports only `core`, other sets, numpy and scipy.
"""
