#!/bin/bash
# A run under LSF, with four ranks a host:
#   WORDS="experiment.toml privacy.epsilon=0.5" bsub < scripts/cluster/lsf.sh
# Never run: the #BSUB lines, for no LSF was at hand. The commands below were, with LSF's variables set by hand.
# MPINODES: the checkout (default: where it was submitted). PYTHON, MPIRUN: see hosts.sh.
#BSUB -J mpinodes
#BSUB -n 8
#BSUB -R "span[ptile=4]"
#BSUB -W 1:00
#BSUB -o mpinodes-%J.out
cd "$LS_SUBCWD" || exit 2
run=runs/$LSB_JOBID

# A host stands there once for each of its ranks. WORDS are split on purpose; brackets in them are no patterns.
set -f
set -- $WORDS output.dir="$run"
# A job that is run again goes on where its last checkpoint was made.
[ -e "$run/experiment.toml" ] || rm -rf "$run" # nothing had begun
if [ -d "$run" ]; then set -- --resume "$run"; fi
exec "${MPINODES:-.}/scripts/cluster/hosts.sh" "$LSB_DJOB_HOSTFILE" "$@"
