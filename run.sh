#!/usr/bin/env bash
# Make the environment from the hashed lock on first use, then `artifact run ARGS`.
#
#   bash run.sh --workload cpu-demo        the whole pipeline on a CPU
#   bash run.sh --gpu 0                    the published suite on GPU 0
#
# ARTIFACT_VENV=DIR puts the environment elsewhere (a read-only tree); PYTHON=P names its interpreter.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
missing=
for needed in envs/ensure-venv.sh envs/tool/requirements.lock pyproject.toml artifact manifests/artifact.toml manifests/lock.json; do
  [ -e "$root/$needed" ] || missing+=" $needed"
done
if [ -n "$missing" ]; then
  printf '%s\n' 'error: run.sh is not in the tree of its artifact' "  where:    $root" "  expected: beside it:$missing" \
    '  cause:    it was downloaded by itself, or the tree is not whole' \
    '  next:     download the whole artifact (.tar.gz or .zip), unpack it, and there: bash run.sh ARGS' >&2
  exit 3
fi
. "$root/envs/ensure-venv.sh"
venv=${ARTIFACT_VENV:-$root/.venv}
ensure_venv "$venv" "$root/envs/tool/requirements.lock" --only-binary :all:
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
exec "$venv/bin/artifact" run --root "$root" "$@"
