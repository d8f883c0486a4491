"""Hold the noise mechanisms, one file each, and the arithmetic of their noise in `backends`.

A mechanism adds noise to each message. Experiments find a mechanism by its name.
"""
