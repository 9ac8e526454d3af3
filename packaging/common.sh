# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=sh disable=SC2034,SC2086  # the lists are used by the scripts that source this, word by word
# What demo.sh and test.sh share: packages, configure, build. Sourced by them with the repository as working folder.

# Libraries and tools that the build needs, from Debian 12's own packages.
build_packages="build-essential cmake ninja-build pkg-config ccache qt6-base-dev qt6-svg-dev libgl1-mesa-dev
  libqcustomplot-dev libhwy-dev libdnnl-dev ocl-icd-opencl-dev opencl-headers libzstd-dev libxxhash-dev catch2
  nlohmann-json3-dev libutf8proc-dev libpcre2-dev libfmt-dev libcli11-dev libssl-dev fonts-dejavu-core python3"
# What the tests run beside it: an X server without a screen, zstd's own check, foreign readers of the session file.
test_packages="xvfb xauth zstd python3-zstandard python3-numpy ca-certificates"

say() { printf '\n== %s\n' "$*"; }

# install_packages NAME...: installs those that are missing and says which; does and prints nothing when all are there.
install_packages() {
  if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    echo "This is not Debian: no packages are installed. The names there are: $*"
    return 0
  fi
  missing=""
  for package in "$@"; do
    case "$(dpkg-query -W -f '${Status}' "$package" 2> /dev/null)" in
      *" installed") ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -n "$missing" ] || return 0
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    as_root=sudo
    if ! command -v sudo > /dev/null; then
      echo "These packages are missing:$missing" >&2
      echo "Install them as root:  apt-get install --no-install-recommends$missing" >&2
      return 1
    fi
  fi
  say "Installing from Debian's packages:$missing"
  # A third party's broken package list must not stop Debian's own packages.
  $as_root apt-get update -qq || echo "apt-get update had problems; going on with the lists that are there" >&2
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > build/apt.log 2>&1 || {
    tail -n 20 build/apt.log >&2
    echo "The packages could not be installed (whole log: build/apt.log)" >&2
    return 1
  }
}

jobs_count() { nproc 2> /dev/null || echo 2; }

# build PRESET "CMAKE OPTIONS" TARGET...: configures and builds; quiet when nothing is left to do.
build() {
  preset="$1"
  options="$2"
  shift 2
  say "Building (preset $preset)"
  cmake --preset "$preset" $options > "build/configure-$preset.log" 2>&1 || {
    cat "build/configure-$preset.log" >&2
    echo "CMake could not configure the build" >&2
    return 1
  }
  cmake --build --preset "$preset" -j "$(jobs_count)" ${1:+--target "$@"}
}
