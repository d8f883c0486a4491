#!/bin/bash
# A run under Slurm whose processes mpirun starts, where srun lacks the --mpi= that your MPI needs (srun --mpi=list):
#   sbatch -n 8 scripts/cluster/slurm-mpirun.sh experiment.toml privacy.epsilon=0.5
# PYTHON: the one that mpinodes is installed for (default: python). MPIRUN: that of its MPI, with what else it is to be
# told (default: mpirun). Both MPIs take hosts from Slurm; Open MPI needs --oversubscribe for more ranks than cores.
#SBATCH --job-name=mpinodes
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# USR1 and --requeue: see slurm-srun.sh.
python=${PYTHON:-python}
run=runs/$SLURM_JOB_ID

# A requeued job goes on where its last checkpoint was made.
[ -e "$run/experiment.toml" ] || rm -rf "$run" # nothing had begun
if [ -d "$run" ]; then set -- --resume "$run"; else set -- "$@" output.dir="$run"; fi

# Words of MPIRUN are split on purpose.
${MPIRUN:-mpirun} -n "$SLURM_NTASKS" "$python" -m mpinodes.run "$@" &
mpirun=$!
trap 'kill -USR1 $mpirun' USR1 # both MPIs' mpirun hand it to every rank
wait $mpirun
code=$?
while [ $code -gt 128 ] && kill -0 $mpirun 2> /dev/null; do
  wait $mpirun
  code=$?
done
if [ $code -eq 5 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
