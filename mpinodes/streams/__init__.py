"""Hold the data streams, one file each. A stream provides the loss of each agent in each round.

An experiment names its stream in `data.name`.
"""
