"""Define the environment variables that limit BLAS to one thread; they must be set before numpy is imported."""

# The last bits of a matrix product may depend on the number of threads.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
