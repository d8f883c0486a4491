"""Hold the algorithms, one file for each algorithm. Experiments find an algorithm by its name.

Three files also hold code that several algorithms use. `admm` has the base classes of all ADMM variants. `dpsda` has
the base class of DPSDA-C, DPSDA-PS and DPCDA. `hidden_gradients` has the setting `gradient_at`, and a bound for
gradients that are taken at hidden points. The files of this package import only `mpinodes.core` and each other, and no
other package of mpinodes.
"""
