"""Hold the mixings, one file each. A mixing computes the weights with which an agent averages the messages it receives.

The weight a_ij is the factor of agent j's message in the weighted sum of agent i. Experiments choose a mixing by its
name. A mixing imports only `core`, other mixings, the standard library and numpy.
"""
