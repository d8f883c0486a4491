"""Hold the environment variables that give BLAS one thread; they must be set before numpy is imported."""

# A matrix product may differ in its last bits between one thread and two.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "BLIS")}
