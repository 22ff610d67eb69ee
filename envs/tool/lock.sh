#!/usr/bin/env bash
# Resolve the environments of the tool again: envs/tool (what run.sh installs), envs/dev (what test.sh
# installs) and envs/cuda (the CUDA toolkit as wheels, for a machine without one). One lock serves
# Python 3.10 and newer; it names no host.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
resolve() {
  uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links "$@"
}
resolve pyproject.toml envs/tool/requirements.in --output-file envs/tool/requirements.lock
resolve pyproject.toml envs/tool/requirements.in --extra env --extra test \
  --constraint envs/tool/requirements.lock --output-file envs/dev/requirements.lock
resolve --no-deps envs/cuda/requirements.in --output-file envs/cuda/requirements.lock
