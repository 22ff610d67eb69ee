#!/usr/bin/env bash
# Install what the tests need, then run every check of this repository. Arguments go to pytest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cd "$root"
. envs/ensure-venv.sh

# The tests use real tools. Where they are missing and can be installed, they are; where they cannot,
# the tests that need them are skipped and say so.
need=()
have() { command -v "$1" >/dev/null 2>&1; }
have unzip || need+=(unzip)
have b3sum || need+=(b3sum)
have openssl || need+=(openssl)
have git || need+=(git)
have gcc || need+=(gcc libc6-dev)
have g++ || need+=(g++)
have chromium || need+=(chromium fonts-dejavu-core)
if [ ${#need[@]} -gt 0 ]; then
  if have apt-get && [ "$(id -u)" = 0 ]; then
    printf 'installing %s\n' "${need[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${need[@]}"; } > /dev/null 2>&1 ||
      printf 'warning: could not install %s; the tests that need them are skipped\n' "${need[*]}" >&2
  else
    printf 'warning: not here and not installed (not root, or no apt-get): %s\n' "${need[*]}" >&2
  fi
fi

venv=${ARTIFACT_TEST_VENV:-$root/build/test-venv}
# The one source distribution is pinned like every wheel; it is built here.
ensure_venv "$venv" "$root/envs/dev/requirements.lock" --only-binary :all: --no-binary reuse
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP
export PATH="$venv/bin:$PATH"
# A machine that lacks a part of the CUDA toolkit gets the pinned wheels; what it has comes before them.
if ! python -I -c 'from artifact.build import toolchain as t, headers; t.find_companion("cuobjdump", t.find_nvcc()) or exit(1); headers.find_headers()' 2> /dev/null; then
  printf 'installing the wheels of envs/cuda/requirements.lock\n' >&2
  python -I -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps --only-binary :all: \
    -r envs/cuda/requirements.lock ||
    printf 'warning: could not install them; the tests that need a CUDA toolkit are skipped\n' >&2
fi

step() { printf '== %s\n' "$*" >&2; "$@"; }
step ruff check .
step ruff format --check .
step mypy
step python licenses/lint.py --quiet
step artifact verify
step python -m pytest -n 2 --dist worksteal -q "$@"
