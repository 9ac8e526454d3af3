#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs a compilation and keeps what the assembler says of each kernel (registers, spills) beside the object, as OBJECT.log:
# tests/gpu_host/resources.sh compares it with gpu/resources.txt, so that nothing is compiled twice. Other lines are shown.
# Usage: compile.sh COMPILER ARGUMENTS...
object=""
before=""
for argument in "$@"; do
  [ "$before" != -o ] || object="$argument"
  before="$argument"
done
[ -n "$object" ] || exec "$@"
"$@" > "$object.log" 2>&1
status=$?
grep -v -E '^ptxas info|bytes stack frame, .* bytes spill|^$' "$object.log" >&2
exit "$status"
