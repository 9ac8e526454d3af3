#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Compares what each kernel of the built module uses (registers, stack, spills, shared memory) with gpu/resources.txt: a spill,
# or more of anything, must be meant. What the module's compilation said lies beside its objects (gpu/compile.sh); the shared
# memory that launches ask for comes from SIZES, a program (support/shared_sizes.cpp). Architectures that the table does not
# have are looked at for new spills only, and so is everything when another compiler than the table's made the module.
# Usage: resources.sh NVCC SOURCE_FOLDER OBJECT_FOLDER SIZES [--write]
set -eu
export LC_ALL=C
nvcc="$1" source="$2" objects="$3" sizes="$4"
table="$source/gpu/resources.txt"
d="$(mktemp -d)"
trap 'rm -rf "$d"' EXIT
find "$objects" -name '*.log' -exec cat {} + > "$d/log"
# Names are parts of long ones: kernel<arguments> without the namespace.
c++filt < "$d/log" | sed -e 's/spanscope::gpu:://g' | awk '
  /Compiling entry function/ { name = $0; sub(/.*function ./, "", name); arch = name; sub(/\(.*/, "", name); sub(/^void /, "", name)
                               gsub(/, /, ",", name); sub(/.*for ./, "", arch); sub(/[^a-z_0-9].*/, "", arch) }
  /spill stores/ { stack = $1; stores = $5; loads = $9 }
  /Used .* registers/ { static = 0
                        for (i = 1; i < NF; ++i) { if ($i == "Used") registers = $(i + 1); if ($(i + 2) ~ /^smem/ && $(i + 1) == "bytes") static = $i }
                        printf "%s %-52s registers %3d stack %d spilled %d static %d\n", arch, name, registers, stack, stores + loads, static }' |
  sort -u > "$d/found"
if ! [ -s "$d/found" ]; then
  echo "no kernel was found in $objects: build spanscope_cuda first" >&2
  exit 1
fi
"$sizes" | sort > "$d/sizes"
release="$("$nvcc" --version | sed -n 's/.*release/# nvcc/p')"
if [ "${5:-}" = --write ]; then
  { echo "$release"; cat "$d/found" "$d/sizes"; } > "$table"
  exit 0
fi
# Spills that the table does not have of that kernel on any architecture.
awk '{ match($0, / registers/); name = substr($0, 1, RSTART); sub(/^[^ ]+ +/, "", name); sub(/ +$/, "", name) }
     /spilled [1-9]/ { if (NR == FNR) meant[name] = 1; else if (!(name in meant)) print }' "$table" "$d/found" > "$d/spills"
if [ -s "$d/spills" ]; then
  cat "$d/spills"
  echo "kernels spill that do not in $table" >&2
  exit 1
fi
if [ "$release" != "$(head -n 1 "$table")" ]; then
  echo "nvcc is another than the table's ($(head -n 1 "$table")): spills and shared memory were looked at, registers were not"
  grep '^launch' "$table" | diff -u - "$d/sizes"
  exit 0
fi
cut -d' ' -f1 "$d/found" | sort -u > "$d/archs"
grep -v '^#' "$table" | awk 'NR == FNR { built[$1] = 1; next } $1 == "launch" || $1 in built' "$d/archs" - > "$d/expected"
cut -d' ' -f1 "$table" | sort -u > "$d/known"
awk 'NR == FNR { known[$1] = 1; next } $1 in known' "$d/known" "$d/found" | cat - "$d/sizes" > "$d/compared"
diff -u "$d/expected" "$d/compared"
wc -l < "$d/compared"
