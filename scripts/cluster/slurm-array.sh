#!/bin/bash
# The same experiment for many seeds, each a job of its own with a run directory of its own:
#   sbatch --array=0-9 -n 8 scripts/cluster/slurm-array.sh experiment.toml
# (repeats=10 runs ten seeds one after the other in one job, and puts them together.)
# PYTHON, PMI, USR1 and --requeue: see slurm-srun.sh.
#SBATCH --job-name=mpinodes
#SBATCH --array=0-9
#SBATCH --ntasks=8
#SBATCH --cpus-per-task=1
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%A-%a.out
python=${PYTHON:-python}
seed=$SLURM_ARRAY_TASK_ID
run=runs/$SLURM_ARRAY_JOB_ID/seed-$seed

if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then # see slurm-srun.sh
  srun --mpi=none --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    sh -c 'for f in /dev/shm/mpich_shm_*; do [ -O "$f" ] && ! fuser -s "$f" 2> /dev/null && rm "$f"; done; true'
fi

# A requeued job goes on where its last checkpoint was made.
[ -e "$run/experiment.toml" ] || rm -rf "$run" # nothing had begun
if [ -d "$run" ]; then set -- --resume "$run"; else set -- "$@" seed="$seed" output.dir="$run"; fi

srun -K1 --mpi="${PMI:-pmi2}" "$python" -m mpinodes.run "$@" &
srun=$!
trap 'kill -USR1 $srun' USR1
wait $srun
code=$?
while [ $code -gt 128 ] && kill -0 $srun 2> /dev/null; do # see slurm-srun.sh
  wait $srun
  code=$?
done
if [ $code -eq 5 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
