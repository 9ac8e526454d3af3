#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds program and GPU module for every card that a package serves: compute capabilities 7.5 to 12.0 each with its own code,
# and the last one's PTX for what comes later. Both land in build/package/bin and belong together (core/device/gpu_abi.h).
# SPANSCOPE_ARCHITECTURES="75;80": others. CUDA 12.8 or later knows all of them; an older compiler's list is cut, and it says so.
set -eu
cd "$(dirname "$0")/.."
. packaging/common.sh
mkdir -p build
nvcc="${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
if ! "$nvcc" --version > /dev/null 2>&1; then
  echo "There is no CUDA compiler ($nvcc); set CUDACXX" >&2
  exit 1
fi
known=" $("$nvcc" --list-gpu-code | tr '\n' ' ') "
architectures=""
for number in $(echo "${SPANSCOPE_ARCHITECTURES:-75;80;86;89;90;100;120}" | tr ';' ' '); do
  case "$known" in
    *" sm_$number "*) architectures="$architectures${architectures:+;}$number-real"; last="$number" ;;
    *) echo "This CUDA compiler does not know sm_$number: left out" >&2 ;;
  esac
done
[ -n "$architectures" ] || exit 1
architectures="$architectures;$last-virtual"
say "Building for $architectures"
cmake -S . -B build/package -G Ninja -DCMAKE_BUILD_TYPE=Release -DSPANSCOPE_GUI=OFF -DSPANSCOPE_TESTS=OFF -DSPANSCOPE_CUDA=ON \
  -DCMAKE_CUDA_COMPILER="$nvcc" "-DCMAKE_CUDA_ARCHITECTURES=$architectures" > build/configure-package.log 2>&1 || {
  cat build/configure-package.log >&2
  exit 1
}
cmake --build build/package -j "$(jobs_count)" --target spanscope spanscope_cuda
ls -l build/package/bin/spanscope build/package/bin/libspanscope_cuda.so
build/package/bin/spanscope env
