#!/bin/bash
#SBATCH --job-name=night
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120    # two minutes before the end, to this shell only

# Runs a job of ckpt for as long as it takes, one allocation after the other.
# Set for the next lines: name of the job, store, application, checkpoints.
job=${JOB:-night}
export CKPT_STORE=${CKPT_STORE:-$HOME/ckpt-store}
app=${APP:-bt.A.16}
schedule=${SCHEDULE:---interval 10m --keep 2}

pid=
stop() { [ -z "$pid" ] || kill -TERM "$pid"; }   # ckpt takes a last checkpoint and ends
trap stop USR1 TERM

# run starts a command and waits for its end, also if signals come in between.
run() {
  "$@" &
  pid=$!
  while wait "$pid"; status=$?; kill -0 "$pid" 2> /dev/null; do :; done
  wait "$pid"; status=$?                         # a signal may have ended the wait before it
  pid=
}

run ckpt restart "$job" --auto-restart
if [ "$status" -eq 4 ]; then                     # no such job, or no checkpoint of it
  run ckpt launch "$app" --job "$job" $schedule --auto-restart
fi

case $status in
0)   echo "$job is complete" ;;
75)  echo "$job continues in the next allocation"
     scontrol requeue "$SLURM_JOB_ID" ;;
6)   echo "$job waits for space in $CKPT_STORE: free some, then submit again" >&2 ;;
5)   echo "$job failed and was not restarted: see ckpt status $job" >&2 ;;
3)   echo "$job: a checkpoint is damaged: see ckpt verify $job" >&2 ;;
*)   echo "$job: status $status, see above" >&2 ;;
esac
exit "$status"
