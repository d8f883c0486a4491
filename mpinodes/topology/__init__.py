"""Define the topologies: which agent sends to which agent in each round.

An edge (j, i) means that agent j sends to agent i. A topology is a pure function of the round, equal on every rank. A
topology comes from a graph file in `topologies/`, from a graph file of the user, or from a class that generates the
graph. Each class has a file in this package, and experiments name the class by the name of this file.
"""
