"""Define which agent sends to which in each round: a pure function of the round, equal on every rank.

An edge (j, i) means that j sends to i. A topology is a file in `topologies/`, a file of the user, or a class that
generates the graph. Each class has a file in this package, and experiments name it by the name of that file.
"""
