#!/usr/bin/env bash
# A PostgreSQL database and an MLflow server on it, both of this user and on this machine alone: mlflow.sh FOLDER
# Needs PostgreSQL's programs on the PATH and `pip install 'fmnas[postgresql]'`. Ctrl-C stops both.
set -euo pipefail
folder=$(realpath -m "${1:?give a folder for the database and the artifacts}")

export MLFLOW_DISABLE_TELEMETRY=true
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false

if [ ! -d "$folder/database" ]; then
    mkdir -p "$folder"
    initdb -D "$folder/database" -U mlflow --auth=trust
fi
# Reached through a socket that only this user may open: there is no port, and no password to lose.
mkdir -p -m 700 "$folder/socket"
pg_ctl start -w -D "$folder/database" -l "$folder/postgresql.log" -o "-k $folder/socket -c listen_addresses="
trap 'pg_ctl stop -w -m fast -D "$folder/database"' EXIT
mlflow server --host 127.0.0.1 --port "${PORT:-5000}" --artifacts-destination "$folder/artifacts" \
    --backend-store-uri "postgresql+psycopg2://mlflow@/postgres?host=$folder/socket"
