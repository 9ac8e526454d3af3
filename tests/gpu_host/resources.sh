#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Compiles the kernels for real cards (sm_80, sm_90 and PTX, warnings are errors) and compares what each kernel uses with
# gpu/resources.txt: a spill or more registers must be meant. Usage: resources.sh NVCC SOURCE_FOLDER [--write]
set -eu
nvcc="$1"
source="$2"
d="$(mktemp -d)"
trap 'rm -rf "$d"' EXIT
for arch in 80 90; do
  for part in attention products pass; do
    "$nvcc" -std=c++20 -x cu -I"$source" -fmad=false -gencode "arch=compute_$arch,code=[sm_$arch,compute_$arch]" -Xptxas -v \
      -Werror all-warnings -c "$source/gpu/$part.cpp" -o "$d/$part.o" >"$d/log" 2>&1 || { cat "$d/log"; exit 1; }
    # Names are parts of long ones: kernel<arguments> without the namespace.
    c++filt <"$d/log" | sed -e 's/spanscope::gpu:://g' | awk -v arch="sm_$arch" '
      /Compiling entry function/ { name = $0; sub(/.*function ./, "", name); sub(/\(.*/, "", name); sub(/^void /, "", name); gsub(/, /, ",", name) }
      /spill stores/ { stack = $1; stores = $5; loads = $9 }
      /Used .* registers/ { for (i = 1; i < NF; ++i) if ($i == "Used") registers = $(i + 1);
                            printf "%s %-52s registers %3d stack %d spilled %d\n", arch, name, registers, stack, stores + loads }' >>"$d/table"
  done
done
LC_ALL=C sort "$d/table" >"$d/sorted"
if [ "${3:-}" = --write ]; then
  "$nvcc" --version | sed -n 's/.*release/# nvcc/p' >"$source/gpu/resources.txt"
  cat "$d/sorted" >>"$source/gpu/resources.txt"
  exit 0
fi
# Other compilers count registers otherwise; a spill is a failure with any of them.
if [ "$("$nvcc" --version | sed -n 's/.*release/# nvcc/p')" != "$(head -n 1 "$source/gpu/resources.txt")" ]; then
  if grep -v 'spilled 0$' "$d/sorted"; then echo "kernels spill"; exit 1; fi
  echo "another compiler than the table's: only spills were looked for"
  exit 0
fi
grep -v '^#' "$source/gpu/resources.txt" | diff -u - "$d/sorted" && wc -l <"$d/sorted"
