#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Installs what is missing, builds everything and runs every test; then builds parsers and session code with the address and
# undefined-behaviour sanitizers and runs their tests. --full: the whole tree with those, and with the thread sanitizer.
# SPANSCOPE_SMOLLM2=FILE names the real model; without it tests/get_smollm2.sh fetches it, if it can.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
. packaging/common.sh
full=""
for argument in "$@"; do
  case "$argument" in
    --full) full=yes ;;
    *) echo "usage: packaging/test.sh [--full]" >&2; exit 2 ;;
  esac
done
started=$(date +%s)
# With the reference data beside the repository nothing that needs it may be skipped.
must_have_all=""
[ ! -d ../shared/oracles ] || must_have_all=yes

install_packages $build_packages $test_packages
python3 -m pip --version > /dev/null 2>&1 || install_packages python3-pip

# run_tests PRESET CTEST-ARGUMENTS...: runs, then lists what was skipped.
run_tests() {
  preset="$1"
  shift
  failed=""
  ctest --preset "$preset" -j "$(jobs_count)" "$@" || failed=yes
  log="build/$preset/Testing/Temporary/LastTest.log"
  skipped="$(grep -h -o -E '(SKIPPED|\.\.\. skipped).*' "$log" | sort -u || true)"
  if [ -n "$skipped" ]; then
    say "Skipped (preset $preset)"
    echo "$skipped"
    if [ -n "$must_have_all" ] && echo "$skipped" | grep -q -i -E 'reference data|SMOLLM2|zstandard'; then
      echo "The reference data is here (../shared/oracles), so these must not be skipped." >&2
      failed=yes
    fi
  fi
  [ -z "$failed" ] || { echo "FAILED: tests of preset $preset" >&2; exit 1; }
}

build release "-DSPANSCOPE_GUI=ON"
if [ -z "${SPANSCOPE_SMOLLM2:-}" ]; then
  say "The real model"
  if model="$(tests/get_smollm2.sh)"; then
    export SPANSCOPE_SMOLLM2="$model"
    echo "$model"
  elif [ -n "$must_have_all" ]; then
    echo "The reference data is here, but the real model could not be had." >&2
    exit 1
  else
    echo "SKIPPED: the real model cannot be fetched; its tests are left out"
  fi
fi
say "Running every test"
run_tests release

if [ -n "$full" ]; then
  build asan-ubsan "-DSPANSCOPE_GUI=ON"
  say "Running every test with address and undefined-behaviour sanitizers"
  run_tests asan-ubsan
  build tsan "-DSPANSCOPE_GUI=ON"
  say "Running every test with the thread sanitizer"
  run_tests tsan
else
  # Everything that reads bytes from outside: files, conversations, templates, models.
  targets="" names=""
  for folder in unit/base unit/file unit/chat unit/text unit/span unit/model unit/record $(cd tests && ls -d format/*); do
    ls "tests/$folder"/*.cpp > /dev/null 2>&1 || continue
    targets="$targets $(echo "$folder" | tr / _)"
    names="$names${names:+|}$(echo "$folder" | tr / .)"
  done
  build asan-ubsan "-DSPANSCOPE_GUI=OFF" $targets
  say "Running the tests of parsers and session code with address and undefined-behaviour sanitizers"
  run_tests asan-ubsan -R "^($names)\$"
fi
say "All tests passed in $((($(date +%s) - started) / 60)) minutes"
