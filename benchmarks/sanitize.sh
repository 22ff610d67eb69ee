#!/usr/bin/env bash
# The executables of native kernels under compute-sanitizer, memcheck and racecheck, after planted faults have shown
# that both tools see on this machine. Needs a GPU that compute-sanitizer supports and an nvcc.
#
#   bash benchmarks/sanitize.sh v1 v2 v4 v3:persistent-ctas=3 v5:persistent-ctas=3      # build/V of `artifact build`
#
# NAME=VALUE is a parameter of the executable: with three CTAs a persistent kernel goes from task to task.
# Prints what it ran and what was found; fails where a tool is blind or a kernel is not clean. Small shapes: both tools make a
# kernel some hundred times slower, and two heads of five query tiles go through every branch of a role.
set -u
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
seq=640 batch=1 heads=2

nvcc -arch=native -o "$work/fault" benchmarks/sanitizer_fault.cu || exit 3
expect() {  # tool, pattern, arguments of fault
  local found
  found=$(compute-sanitizer --tool "$1" "$work/fault" ${3:-} 2>&1 | grep -m1 -E "$2")
  echo "planted, $1: ${found:-NOT FOUND}"
  [ -n "$found" ] || failed=1
}
expect memcheck "Invalid __global__ write"
expect racecheck "RACECHECK SUMMARY: [1-9]" race

for backend in "$@"; do
  name=${backend%%:*}
  parameter=()
  [ "$name" = "$backend" ] || parameter=(--parameter "${backend#*:}")
  for tool in memcheck racecheck; do
    CHOREO_DISABLE_TIMING=1 compute-sanitizer --tool "$tool" "build/$name" --seq "$seq" --batch "$batch" --heads "$heads" \
      "${parameter[@]}" >"$work/out" 2>&1
    code=$?
    summary=$(grep -E "SUMMARY" "$work/out")
    gates=$(grep -E "^ *gates" "$work/out")
    echo "$backend S=$seq $tool: exit $code; ${summary:-no summary}; ${gates:-no gates}"
    case "$code $summary" in
    "0 "*" 0 errors" | "0 "*" 0 hazards displayed (0 errors, 0 warnings)") ;;
    *)
      failed=1
      tail -20 "$work/out"
      ;;
    esac
  done
done
exit "$failed"
