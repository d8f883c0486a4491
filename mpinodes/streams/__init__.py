"""Hold the streams of losses, one file each. A stream yields the loss of each agent in each round.

Experiments find a stream by its name (`data.name`).
"""
