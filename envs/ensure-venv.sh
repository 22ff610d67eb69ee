# Sourced by run.sh, test.sh and benchmarks/sanitize.sh (for `die`): one function that makes a virtual environment from a hashed lock.
#
# ensure_venv DIR LOCK [PIP OPTION...]: DIR holds exactly what LOCK pins and this tree, installed in place. It is made
# anew when the lock, the Python or the place of the tree changed, or when making it was interrupted
# (the stamp is written last). Two callers at once wait for each other. Exits with 3 if it cannot be made.

die() {  # die WHAT [LINE...]: the error layout of the `artifact` command, exit code 3
  printf 'error: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 3
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
    [ -n "$candidate" ] || continue
    if "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
      "$candidate" -I -c 'import sys; print(sys.executable)'
      return
    fi
    if [ "$candidate" = "${PYTHON:-}" ]; then
      die 'the interpreter that $PYTHON names cannot be used' "found:    $PYTHON" 'expected: Python 3.10 or newer'
    fi
  done
  die 'there is no Python 3.10 or newer' 'expected: python3 on PATH, or PYTHON=/path/to/python' \
    'next:     install it, for instance: apt-get install python3 python3-venv'
}

ensure_venv() {
  local venv=$1 lock=$2 python want log
  shift 2
  [ -f "$lock" ] || die 'the lock of the environment is missing' "where:    $lock" 'next:     unpack or check out the artifact again'
  python=$(find_python) || exit $?
  want="$(sha256sum < "$lock" | cut -d' ' -f1) $(sha256sum < "$root/pyproject.toml" | cut -d' ' -f1) $("$python" -I -c 'import sys; print(sys.version.split()[0])') $root"
  if [ -f "$venv/stamp" ] && [ "$(cat "$venv/stamp")" = "$want" ]; then return; fi
  mkdir -p "$(dirname "$venv")" 2>/dev/null || true
  if ! : 2>/dev/null > "$venv.lock"; then
    die 'the environment cannot be made here' "where:    $venv" 'cause:    the directory cannot be written' \
      'next:     name another place: ARTIFACT_VENV=DIR bash run.sh ...'
  fi
  exec 9> "$venv.lock"
  flock 9
  if [ -f "$venv/stamp" ] && [ "$(cat "$venv/stamp")" = "$want" ]; then exec 9>&-; return; fi
  printf 'making %s from %s\n' "${venv#"$root"/}" "${lock#"$root"/}" >&2
  log="$venv.log"
  rm -rf "$venv"
  if ! "$python" -I -m venv "$venv" > "$log" 2>&1; then
    tail -n 5 "$log" >&2
    die 'the virtual environment could not be made' "where:    $venv" "log:      $log" \
      'next:     install the venv module, for instance: apt-get install python3-venv'
  fi
  # flock's descriptor is closed for the children: a server that pip might leave must not hold it.
  if ! "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input \
      --require-hashes "$@" -r "$lock" > "$log" 2>&1 9>&-; then
    tail -n 15 "$log" >&2
    die 'the locked packages could not be installed' "where:    $lock" "log:      $log" \
      'cause:    no package index is reachable, or a package is not what the lock pins' \
      'next:     see the log, then run the same command again'
  fi
  if ! "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --no-index \
      --no-deps --no-build-isolation --editable "$root" > "$log" 2>&1 9>&-; then
    tail -n 15 "$log" >&2
    die 'this tree could not be installed in place' "where:    $root" "log:      $log"
  fi
  # Compiled once here, so that the commands start fast also where PYTHONDONTWRITEBYTECODE is set.
  "$venv/bin/python" -I -m compileall -q "$root/artifact" >/dev/null 2>&1 9>&- || true
  rm -f "$log"
  printf '%s\n' "$want" > "$venv/stamp"
  exec 9>&-
}
