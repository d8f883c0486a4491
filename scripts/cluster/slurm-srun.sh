#!/bin/bash
# A run under Slurm whose processes srun starts. Words after the file go to mpinodes.run:
#   sbatch -n 8 scripts/cluster/slurm-srun.sh experiment.toml privacy.epsilon=0.5
# PYTHON: the one that mpinodes is installed for (default: python). PMI: pmi2 for MPICH (default), pmix for Open MPI;
# with the wrong one MPI does not start, or each process believes it is alone, and says so.
#SBATCH --job-name=mpinodes
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# USR1 comes 120 to 180 s before the time is up, to this script alone (B:), which hands it on; a run ends by it, and its
# record holds the rounds before. After a node failed, or scontrol requeue, the job begins anew in another directory, for
# a run never overwrites one.
python=${PYTHON:-python}
run=runs/$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}

# MPICH names its shared memory after Slurm's job and step: what the attempt before left there when it was killed would
# make this one hang as it starts.
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  srun --mpi=none --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    sh -c '"$0" -m mpinodes.doctor --leftovers | xargs -rd "\n" rm -r' "$python"
fi

# -K1: where a rank is killed srun ends the others, instead of waiting for them till the time is up.
srun -K1 --mpi="${PMI:-pmi2}" "$python" -m mpinodes.run "$@" output.dir="$run" &
srun=$!
trap 'kill -USR1 $srun' USR1 # srun hands it to every rank
wait $srun
code=$?
while [ $code -gt 128 ] && kill -0 $srun 2> /dev/null; do # the shell's wait ends with the signal, not with srun
  wait $srun
  code=$?
done
exit $code
