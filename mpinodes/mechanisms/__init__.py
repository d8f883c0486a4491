"""Hold the noise mechanisms, one file each, and the arithmetic of their noise.

Experiments find a mechanism by its name.
"""
