#!/bin/bash
# A run over several hosts without a batch system. ssh reaches them without a password; Python, mpinodes and the
# working directory lie at the same path on all (MODULE=mpinodes.doctor in the environment says what differs):
#   scripts/cluster/hosts.sh hosts.txt experiment.toml privacy.epsilon=0.5
# hosts.txt has a host a line, once for each of its ranks; the last rank is the logger, whose host keeps the run.
# PYTHON: the one that mpinodes is installed for (default: python). MPIRUN: that of its MPI, with what else it is to be
# told (default: mpirun).
file=$1
shift
mpirun=${MPIRUN:-mpirun}
hosts=$(awk 'NF && !ranks[$1]++ { order[++n] = $1 }
             END { for (i = 1; i <= n; i++) printf("%s%s:%d", (i > 1) ? "," : "", order[i], ranks[order[i]]) }' "$file")
case $($mpirun --version) in # words of $mpirun are split on purpose
  *HYDRA*) flag=-hosts ;;    # MPICH
  *) flag=--host ;;          # Open MPI
esac
exec $mpirun $flag "$hosts" -n "$(grep -c . "$file")" "${PYTHON:-python}" -m "${MODULE:-mpinodes.run}" "$@"
