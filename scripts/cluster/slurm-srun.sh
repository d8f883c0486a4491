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
# USR1 comes 120 to 180 s before the time is up, to this script alone (B:), which hands it on; by it the run makes a
# checkpoint and ends with 5, and the job is queued again, to go on. With checkpoint.every= among
# the words it goes on after a node failed, too, or was taken away.
python=${PYTHON:-python}
run=runs/$SLURM_JOB_ID

# MPICH names its shared memory after Slurm's job and step: what the attempt before left there when it was killed would
# make this one hang as it starts. fuser (of psmisc) tells what another job of yours still uses.
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  srun --mpi=none --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    sh -c 'for f in /dev/shm/mpich_shm_*; do [ -O "$f" ] && ! fuser -s "$f" 2> /dev/null && rm "$f"; done; true'
fi

# A requeued job goes on where its last checkpoint was made.
[ -e "$run/experiment.toml" ] || rm -rf "$run" # nothing had begun
if [ -d "$run" ]; then set -- --resume "$run"; else set -- "$@" output.dir="$run"; fi

# -K1: where a rank is killed srun ends the others, instead of waiting for them till the time is up.
srun -K1 --mpi="${PMI:-pmi2}" "$python" -m mpinodes.run "$@" &
srun=$!
trap 'kill -USR1 $srun' USR1 # srun hands it to every rank
wait $srun
code=$?
while [ $code -gt 128 ] && kill -0 $srun 2> /dev/null; do # the shell's wait ends with the signal, not with srun
  wait $srun
  code=$?
done
if [ $code -eq 5 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
