"""Hold the algorithms, one file for each algorithm. Experiments find an algorithm by its name.

`admm` also has the base classes of all ADMM variants, `dpsda` has the base class of DPSDA-C, DPSDA-PS and DPCDA, and
`hidden_gradients` has what algorithms with gradients at hidden points share. Of mpinodes, the files of this package
import only `mpinodes.core` and each other.
"""
