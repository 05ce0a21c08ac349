#!/usr/bin/env bash
#SBATCH --job-name=fmnas
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
#
# sbatch docs/cluster/slurm.sh CONFIG RUN_DIRECTORY
# Three minutes before its time is over the job stops the driver and requeues itself. Requeued, also by Slurm after a
# node has failed, or submitted again with the same run directory, it continues. The directory is on a file system that
# outlives the job and has flock; .venv, with fmnas, on one that every node sees. Without --gpus-per-node workers train
# on CPUs.
# --exclusive, because `ray symmetric-run` ends by stopping all of this user's Ray processes on its nodes.
set -euo pipefail
config=$1
directory=$2
source .venv/bin/activate

export RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(openssl rand -hex 32) # srun passes the environment on; no list of processes shows it
export RAY_AUTH_TOKEN
export RAY_health_check_initial_delay_ms=0
export RAY_health_check_period_ms=2000
export RAY_health_check_timeout_ms=5000
export RAY_health_check_failure_threshold=3
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300 # seconds that the nodes may take to start

read -r ip _ < <(getent ahostsv4 "$SLURMD_NODENAME") # the head's: the node of this script
address=$ip:$((20000 + SLURM_JOB_ID % 10000))
if [ -e "$directory/journal.jsonl" ]; then
    command=(fmnas resume "$directory" --address "$address")
else
    command=(fmnas run "$config" --address "$address" --out "$directory" -o workers.cpus=4
        -o workers.gpus=$((${SLURM_GPUS_ON_NODE:-0} > 0)))
fi

requeue() {
    # SIGTERM lets running trials finish for workers.grace_seconds.
    if pid=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' "$directory/driver.json") && kill -TERM "$pid"; then
        while kill -0 "$pid" 2>/dev/null; do sleep 1; done
    fi
    scontrol requeue "$SLURM_JOB_ID"
}
trap requeue USR1

code=$(mktemp) # the exit code of fmnas, once it has ended
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" ray symmetric-run --address "$address" \
    --min-nodes "$SLURM_JOB_NUM_NODES" --num-cpus="$SLURM_CPUS_PER_TASK" \
    -- bash -c '"$@"; echo "$?" >"$0"' "$code" "${command[@]}" &
# Not `wait`: on the other nodes `ray start --block` stays when the head has ended. Slurm ends them after this script.
while kill -0 "$!" 2>/dev/null && [ ! -s "$code" ]; do sleep 2; done
exit "$(cat "$code")"
