"""Hold the algorithms, one file for each algorithm. Experiments find an algorithm by its name.

Two files hold no algorithm, but code that several algorithms use. `dpsda` has the base class of DPSDA-C, DPSDA-PS and
DPCDA. `hidden_gradients` has the setting `gradient_at`, and a bound for messages that contain gradients at hidden
points, that is, points that do not follow from the messages. The file `admm` holds an algorithm, and the base classes
of all ADMM variants. The files of this package import only `mpinodes.core` and each other, and no other package of
mpinodes.
"""
