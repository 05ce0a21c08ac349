#!/usr/bin/env bash
#SBATCH --job-name=fmnas
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#
# sbatch docs/cluster/slurm.sh CONFIG RUN_DIRECTORY
# Submitted again with the same run directory, it goes on where it stopped. The directory lies on a file system that
# outlives the job and knows flock; .venv, with fmnas, on one that every node sees.
set -euo pipefail
config=$1
directory=$2
source .venv/bin/activate

export RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(openssl rand -hex 32)
export RAY_AUTH_TOKEN
export RAY_health_check_initial_delay_ms=0
export RAY_health_check_period_ms=2000
export RAY_health_check_timeout_ms=5000
export RAY_health_check_failure_threshold=3

head=$(hostname)
port=$((20000 + SLURM_JOB_ID % 10000))
# srun passes the environment on, the token with it; nobody sees it in a list of processes.
ray start --head --node-ip-address="$head" --port="$port" --num-cpus="$SLURM_CPUS_PER_TASK" --include-dashboard=false
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$head" \
        --cpus-per-task="$SLURM_CPUS_PER_TASK" \
        ray start --address="$head:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi

# Two minutes before the end Slurm sends SIGTERM: fmnas lets running trials finish for workers.grace_seconds and leaves.
if [ -e "$directory/journal.jsonl" ]; then
    fmnas resume "$directory" --address "$head:$port" &
else
    fmnas run "$config" --address "$head:$port" --out "$directory" \
        -o workers.cpus=4 -o workers.gpus=1 -o workers.grace_seconds=60 &
fi
driver=$!
trap 'kill -TERM "$driver"' TERM
code=0
wait "$driver" || code=$?
while kill -0 "$driver" 2>/dev/null; do
    code=0
    wait "$driver" || code=$?
done
ray stop
exit "$code"
