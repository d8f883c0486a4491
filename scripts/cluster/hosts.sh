#!/bin/bash
# A run over several hosts without a batch system. ssh reaches them without a password; Python, mpinodes and the
# working directory lie at the same path on all (MODULE=mpinodes.doctor in the environment says what differs):
#   scripts/cluster/hosts.sh hosts.txt experiment.toml privacy.epsilon=0.5
# hosts.txt has a host a line, once for each of its ranks; the last rank is the logger, whose host keeps the run.
# PYTHON: the one that mpinodes is installed for (default: python). MPIRUN: that of its MPI (default: mpirun).
hosts=$1
shift
ranks=$(grep -c . "$hosts")

# Words of MPIRUN are split on purpose.
exec ${MPIRUN:-mpirun} -hostfile "$hosts" -n "$ranks" "${PYTHON:-python}" -m "${MODULE:-mpinodes.run}" "$@"
