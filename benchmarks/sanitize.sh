#!/usr/bin/env bash
# The executables of native kernels under compute-sanitizer, memcheck and racecheck, after planted faults have shown
# that both tools see on this machine. Needs a GPU that compute-sanitizer supports and an nvcc.
#
#   bash benchmarks/sanitize.sh v1 v2 v4 v3:persistent-ctas=3 v5:persistent-ctas=3      # build/V of `artifact build`
#
# NAME=VALUE is a parameter of the executable: with three CTAs a persistent kernel goes from task to task.
# Prints what it ran and what was found; fails (1) where a tool is blind or a kernel is not clean, and (3, one error, before
# any of them runs) where a tool, an executable or a GPU is missing or does not work. Small shapes: both tools make a
# kernel some hundred times slower, and two heads of five query tiles go through every branch of a role.
set -u
cd "$(dirname "$0")/.."
. envs/ensure-venv.sh # die
[ "$#" -gt 0 ] || die 'no executable is named' 'where:    bash benchmarks/sanitize.sh' 'expected: names of native kernels' \
  'found:    none' 'next:     artifact build && bash benchmarks/sanitize.sh v1'
printf -v again ' %q' "$@"
again="bash benchmarks/sanitize.sh$again"

for tool in nvcc compute-sanitizer; do
  command -v "$tool" >/dev/null || die "$tool is not there" 'where:    PATH' "expected: $tool of the CUDA toolkit" \
    'found:    nothing of that name' "next:     PATH=/usr/local/cuda/bin:\$PATH $again    # where your toolkit is"
done
missing=
for backend in "$@"; do
  name=${backend%%:*}
  [ -f "build/$name" ] && [ -x "build/$name" ] || missing+=" $name"
done
[ -z "$missing" ] || die 'an executable is not there' "where:    $PWD/build" "expected: one for each of: $*" \
  "found:    none for:$missing" "next:     artifact build$missing && $again"

work=$(mktemp -d) || die 'no temporary folder can be made' "where:    ${TMPDIR:-/tmp}" 'expected: a folder that can be written' \
  "found:    exit code $? of mktemp" "next:     TMPDIR=/tmp $again"
trap 'rm -rf "$work"' EXIT
failed=0
seq=640 batch=1 heads=2

nvcc -arch=native -o "$work/fault" benchmarks/sanitizer_fault.cu || die 'the planted faults do not compile' \
  'where:    benchmarks/sanitizer_fault.cu' 'expected: exit code 0 of nvcc' "found:    exit code $?" 'next:     artifact doctor'
# The race is an error neither to CUDA nor to memcheck: with it a kernel is launched, and nothing is to be said of it.
answer=$("$work/fault" race)
[ "$answer" = 'no error' ] || die 'a small kernel does not run on this machine' 'where:    benchmarks/sanitizer_fault.cu, without compute-sanitizer' \
  'expected: no error' "found:    ${answer:-nothing}" 'next:     artifact doctor'
compute-sanitizer --tool memcheck "$work/fault" race >"$work/out" 2>&1
code=$?
grep -q 'ERROR SUMMARY: 0 errors' "$work/out" || die 'compute-sanitizer does not work on this machine' \
  "where:    $(command -v compute-sanitizer) --tool memcheck, a small kernel that runs without it" 'expected: ERROR SUMMARY: 0 errors' \
  "found:    exit code $code; $(grep -m1 -i error "$work/out" || tail -n 1 "$work/out")" "next:     use a GPU and a driver that it supports, then: $again"

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
