#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What takes long: every fuzz target for a while, the whole tree under sanitizers, and a soak of recordings that are killed.
# SECONDS_PER_TARGET (default 1800) and SOAK_ROUNDS (default 200) shorten or lengthen it. Whatever fuzzing finds lies in
# build/fuzz/found; its corpus is kept in build/fuzz/corpus between runs.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
# shellcheck source=packaging/common.sh
. packaging/common.sh
# shellcheck disable=SC2086
install_packages $build_packages $test_packages clang libclang-rt-14-dev

say "Fuzzing"
cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ -DSPANSCOPE_FUZZ=ON \
  -DSPANSCOPE_GUI=OFF -DSPANSCOPE_SANITIZE=fuzzer-no-link,address,undefined > build/configure-fuzz.log
targets="$(cd tests/fuzz && for f in *_fuzz.cpp; do echo "${f%_fuzz.cpp}"; done)"
# shellcheck disable=SC2046
cmake --build build/fuzz -j "$(jobs_count)" --target fuzz_seeds $(echo "$targets" | sed 's/^/fuzz_/')
build/fuzz/bin/fuzz_seeds build/fuzz/corpus
mkdir -p build/fuzz/found
for name in $targets; do
  say "fuzz_$name"
  build/fuzz/bin/"fuzz_$name" "build/fuzz/corpus/$name" -max_total_time="${SECONDS_PER_TARGET:-1800}" -max_len=4096 \
    -artifact_prefix="build/fuzz/found/$name-" -print_final_stats=1 2> "build/fuzz/$name.log" || {
    tail -n 40 "build/fuzz/$name.log"
    exit 1
  }
  grep stat::number_of_executed_units "build/fuzz/$name.log"
done

packaging/test.sh --full

say "Soak: recordings that are killed at random moments stay readable"
session=build/soak.span
round=0
while [ "$round" -lt "${SOAK_ROUNDS:-200}" ]; do
  round=$((round + 1))
  build/release/bin/spanscope record --quiet --model resources/demo/relay-dense.gguf --chat resources/demo/demo64.json \
    -o "$session" --force &
  recorder=$!
  sleep "$(awk -v seed="$round" 'BEGIN { srand(seed); printf "%.2f", rand() * 4 }')"
  kill -9 "$recorder" 2> /dev/null || true
  wait "$recorder" 2> /dev/null || true
  status=0
  build/release/bin/spanscope verify "$session" > build/soak.log || status=$?
  # 0: it had finished; 3: unfinished; 1 only when not even the header was on disk.
  if [ "$status" != 0 ] && [ "$status" != 3 ] && [ "$(stat -c %s "$session" 2> /dev/null || echo 0)" -gt 4096 ]; then
    cat build/soak.log
    echo "round $round: verify gave $status"
    exit 1
  fi
done
echo "$round rounds"
