#!/bin/bash
#SBATCH --job-name=heat
#SBATCH --ntasks=16
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300    # five minutes before the end, to this shell only

# Runs an MPI program that calls ckpt for as long as it takes, one allocation after the
# other. Set for the next lines: name of the job, store, checkpoints, command.
job=${JOB:-heat}
export CKPT_STORE=${CKPT_STORE:-$HOME/ckpt-store}
schedule=${SCHEDULE:---interval 10m --keep 2}
command=${COMMAND:-srun --mpi=pmi2 ./heat 4096 1000000}

pid=
stop() { [ -z "$pid" ] || kill -USR1 "$pid"; }   # a last checkpoint, then the program stops
trap stop USR1 TERM

# run starts a command and waits for its end, also if signals come in between.
run() {
  "$@" &
  pid=$!
  while wait "$pid"; status=$?; kill -0 "$pid" 2> /dev/null; do :; done
  wait "$pid"; status=$?                         # a signal may have ended the wait before it
  pid=
}

run ckpt restart "$job" --auto-restart           # in this allocation, ranks that die restart
if [ "$status" -eq 4 ]; then                     # no such job, or no checkpoint of it
  run ckpt launch --job "$job" $schedule --auto-restart -- $command
fi
if [ "$status" -eq 75 ]; then
  echo "$job continues in the next allocation"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
