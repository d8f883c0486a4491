#!/bin/bash
# A run under PBS (Pro, OpenPBS), on two hosts with four ranks each:
#   qsub -v WORDS="experiment.toml privacy.epsilon=0.5" scripts/cluster/pbs.sh
# Never run: the #PBS lines, for no PBS was at hand. The commands below were, with PBS's variables set by hand.
# MPINODES: the checkout (default: where it was submitted). PYTHON, MPIRUN: see hosts.sh.
#PBS -N mpinodes
#PBS -l select=2:ncpus=4:mpiprocs=4
#PBS -l walltime=01:00:00
#PBS -j oe
cd "$PBS_O_WORKDIR" || exit 2
run=runs/${PBS_JOBID%%.*}

# A host stands there once for each of its ranks. WORDS are split on purpose; brackets in them are no patterns.
set -f
set -- $WORDS output.dir="$run"
# A job that is run again goes on where its last checkpoint was made.
[ -e "$run/experiment.toml" ] || rm -rf "$run" # nothing had begun
if [ -d "$run" ]; then set -- --resume "$run"; fi
exec "${MPINODES:-.}/scripts/cluster/hosts.sh" "$PBS_NODEFILE" "$@"
