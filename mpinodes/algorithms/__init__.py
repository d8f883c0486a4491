"""Hold the algorithms, one file for each algorithm. Experiments find an algorithm by its name.

Some files hold code that several algorithms use, for example:

- `admm` holds the base classes of all ADMM variants, and the algorithm ADMM.
- `dpsda` holds the base class of DPSDA-C, DPSDA-PS and DPCDA.
- `hidden_gradients` holds the setting `gradient_at`, and a bound on how far a changed sample moves later messages.

The files of this package import only `mpinodes.core` and each other, and no other package of mpinodes.
"""
