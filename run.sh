#!/usr/bin/env bash
# Make the environment from the hashed lock on first use, then `artifact run ARGS`.
#
#   bash run.sh --workload cpu-demo        the whole pipeline on a CPU
#   bash run.sh --gpu 0                    the published suite on GPU 0
#
# ARTIFACT_VENV=DIR puts the environment elsewhere (a read-only tree); PYTHON=P names its interpreter.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$root/envs/ensure-venv.sh"
venv=${ARTIFACT_VENV:-$root/.venv}
ensure_venv "$venv" "$root/envs/tool/requirements.lock" --only-binary :all:
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
exec "$venv/bin/artifact" run --root "$root" "$@"
