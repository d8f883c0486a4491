"""Hold the mixings, one file each. Experiments find a mixing by its name.

A mixing imports only `core`, the standard library and numpy.
"""
