#!/usr/bin/env bash
# One Ray node: `node.sh head`, or `node.sh worker HEAD_ADDRESS`. Run it on every machine, in the environment that has fmnas.
set -euo pipefail

export RAY_USAGE_STATS_ENABLED=0
# Only who has this token may use the cluster; the same on every node, and where fmnas runs.
: "${RAY_AUTH_TOKEN:?set RAY_AUTH_TOKEN, e.g. once to: openssl rand -hex 32}"
export RAY_AUTH_MODE=token

case "${1:-}" in
    head)
        # A node that does not answer is given up after some 15 s instead of a minute.
        export RAY_health_check_initial_delay_ms=0
        export RAY_health_check_period_ms=2000
        export RAY_health_check_timeout_ms=5000
        export RAY_health_check_failure_threshold=3
        # The dashboard and `ray job submit`, for this machine alone (elsewhere: ssh -L 8265:127.0.0.1:8265 HEAD); it
        # needs fmnas[cluster], and without it only the cluster starts.
        exec ray start --head --port=6379 --num-cpus=0 --dashboard-host=127.0.0.1 --block
        ;;
    worker)
        : "${2:?give the address of the head}"
        exec ray start --address="$2:6379" --block
        ;;
    *)
        echo "usage: $0 head | worker HEAD_ADDRESS" >&2
        exit 2
        ;;
esac
