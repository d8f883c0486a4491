"""Define the topologies: which agent sends to which agent in each round.

An edge (j, i) means that agent j sends to agent i. The edges of a round depend only on the round (and on the settings),
and are the same on every rank. A topology comes from a graph file in `topologies/`, from a graph file of the user, from
a class of this package, or from a class of the user. An experiment names a class of this package by the name of its
file.
"""
