#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The GPU core on a card, in less than six minutes: builds for that card, runs the host layer's cases on it (the small ones under
# compute-sanitizer too), records and compares with the CPU, and prints speeds beside the card's limits. --keep writes the output
# to tests/gpu_results.md. Without a card or a CUDA compiler it says so and exits with 77.
# SPANSCOPE_SMOLLM2=FILE: a real model to be timed as well.
set -eu
cd "$(dirname "$0")/.."
. packaging/common.sh
started=$(date +%s)
keep=""
case "${1:-}" in
  "") ;;
  --keep) keep=yes ;;
  *) echo "usage: tests/gpu_device.sh [--keep]" >&2; exit 2 ;;
esac
skip() { echo "SKIPPED: $*"; exit 77; }
command -v nvidia-smi > /dev/null || skip "no NVIDIA driver is installed (nvidia-smi)"
card="$(nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader -i 0 2> /dev/null)" || skip "nvidia-smi finds no card"
name="${card%,*}"
capability="$(echo "${card##*,}" | tr -d ' .')"
PATH="$PATH:/usr/local/cuda/bin"
nvcc="${CUDACXX:-$(command -v nvcc)}" || skip "there is no CUDA compiler (nvcc)"
folder=build/gpu_device
mkdir -p "$folder"
failures=""
seconds() { echo $(($(date +%s) - started)); }
# part NAME SECONDS COMMAND...: runs with a limit; what fails is named at the end.
part() {
  what="$1" limit="$2"
  shift 2
  say "$what"
  status=0
  timeout "$limit" "$@" || status=$?
  case "$status" in
    0) ;;
    124) echo "stopped after $limit s: no result"; failures="$failures; $what: too slow" ;;
    *) echo "FAILED with $status"; failures="$failures; $what" ;;
  esac
  echo "($(seconds) s since the beginning)"
}

say "Building for $name (sm_$capability)"
cmake -S . -B "$folder" -DCMAKE_BUILD_TYPE=Release -DSPANSCOPE_GUI=OFF -DSPANSCOPE_CUDA=ON -DSPANSCOPE_GPU_DEVICE_TESTS=ON \
  "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCMAKE_CUDA_ARCHITECTURES=$capability" > "$folder/configure.log" 2>&1 || { cat "$folder/configure.log" >&2; exit 1; }
cmake --build "$folder" -j "$(jobs_count)" --target spanscope spanscope_cuda gpu_device_model gpu_device_products gpu_device_attention \
  gpu_device_bench > "$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log" >&2; exit 1; }
echo "($(seconds) s since the beginning)"
bin="$folder/bin"

run_all() {
  printf '# Results on a card\n\n%s, %s, commit %s. Made by `tests/gpu_device.sh`.\n\n```\n' "$name" "$(date +%F)" "$(git rev-parse --short HEAD 2> /dev/null || echo unknown)"
  part "Environment" 20 "$bin/spanscope" env
  part "Parity: products" 60 "$bin/gpu_device_products"
  part "Parity: attention" 90 "$bin/gpu_device_attention"
  part "Parity: models" 60 "$bin/gpu_device_model"
  part "Recordings against the CPU" 60 env "SPANSCOPE_TEST_BIN=$PWD/$bin" "SPANSCOPE_TEST_SOURCE=$PWD" \
    "SPANSCOPE_TEST_ORACLES=${SPANSCOPE_ORACLES:-$PWD/../shared/oracles}" "SPANSCOPE_TEST_GPU_MODULE=$PWD/$bin/libspanscope_cuda.so" \
    "SPANSCOPE_TEST_GPU_NAME=$name" python3 -B tests/cli/device_test.py Device.test_a_recording_is_the_cpus Device.test_logits_of_a_reference_model
  if command -v compute-sanitizer > /dev/null; then
    part "compute-sanitizer memcheck: products" 40 compute-sanitizer --error-exitcode 9 "$bin/gpu_device_products"
    part "compute-sanitizer racecheck: decode" 40 compute-sanitizer --tool racecheck --error-exitcode 9 "$bin/gpu_device_attention" "decode in exact mode"
  else
    echo "compute-sanitizer is not installed: not run"
  fi
  part "Kernels: time, FLOP and bytes beside the card's limits" 60 "$bin/gpu_device_bench"
  if python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
    part "torch's scaled_dot_product_attention, the same shapes" 40 python3 tests/gpu_device/torch_attention.py
  else
    echo "torch with CUDA is not installed: no comparison"
  fi
  part "Whole model, recording off and on: relay-dense at 1k and 8k" 40 "$bin/spanscope" --device cuda model bench resources/demo/relay-dense.gguf -p 1024,8192 -n 32 -r 3
  part "Whole model: 512 tokens at the end of 32k" 40 "$bin/spanscope" --device cuda model bench resources/demo/relay-dense.gguf -p 512 -d 32256 -n 16 -r 1
  part "Whole model: 512 tokens at the end of 128k" 60 "$bin/spanscope" --device cuda model bench resources/demo/relay-dense.gguf -p 512 -d 130560 -n 16 -r 1
  if [ -n "${SPANSCOPE_SMOLLM2:-}" ]; then
    part "Whole model: SmolLM2 135M" 40 "$bin/spanscope" --device cuda model bench "$SPANSCOPE_SMOLLM2" -p 1024,8192 -n 32 -r 2
  fi
  printf '```\n'
  [ -z "$failures" ] || printf '\nNot as it should be: %s\n' "${failures#; }"
  printf '\n%s s in all.\n' "$(seconds)"
  [ -z "$failures" ]
}
status=0
run_all > "$folder/results.md" 2>&1 || status=1
cat "$folder/results.md"
[ -z "$keep" ] || cp "$folder/results.md" tests/gpu_results.md
exit "$status"
