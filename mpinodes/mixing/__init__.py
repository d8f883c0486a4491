"""Hold the mixings, one file each. A mixing computes the weights with which an agent mixes the releases it receives.

The weight a_ij is the factor of agent j's release in the mix of agent i. Experiments find a mixing by its name. A
mixing imports only `core`, other mixings, the standard library and numpy.
"""
