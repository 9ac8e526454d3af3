#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What takes long: every fuzz target for a while, the whole tree under sanitizers, every bit of small session files, and a soak of
# recordings that are killed. SECONDS_PER_TARGET (default 1800) and SOAK_ROUNDS (default 100) shorten or lengthen it. Whatever fuzzing finds lies in
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
# A small quarantine: zstd's contexts are large, and with the default of 256 MB every execution touches new pages (measured:
# thirty times fewer executions a second). What was freed long ago is found less often for it.
export ASAN_OPTIONS=quarantine_size_mb=4:malloc_context_size=4:allocator_release_to_os_interval_ms=-1
for name in $targets; do
  say "fuzz_$name"
  build/fuzz/bin/"fuzz_$name" "build/fuzz/corpus/$name" -max_total_time="${SECONDS_PER_TARGET:-1800}" -max_len=4096 \
    -artifact_prefix="build/fuzz/found/$name-" -print_final_stats=1 2> "build/fuzz/$name.log" || {
    tail -n 40 "build/fuzz/$name.log"
    exit 1
  }
  grep stat::number_of_executed_units "build/fuzz/$name.log"
done

unset ASAN_OPTIONS
packaging/test.sh --full

say "Session files: every bit, every byte, a hundred killed writers"
# What the tests of every change sample is done in full here (SPANSCOPE_EXHAUSTIVE).
for name in format_session format_content; do
  SPANSCOPE_EXHAUSTIVE=1 build/release/bin/$name
done

say "Soak: recordings that are killed at random moments lose nothing that was closed"
SPANSCOPE_TEST_BIN=build/release/bin SPANSCOPE_KILL_ROUNDS="${SOAK_ROUNDS:-100}" python3 -B tests/cli/interrupted_recording_test.py
