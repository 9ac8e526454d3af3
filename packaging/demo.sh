#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Installs what is missing, builds, records the demo conversation with the demo model, and shows the result: in the window
# if there is a display, else as a report and a picture. Run again it only does what is left to do.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build/demo
. packaging/common.sh

install_packages $build_packages
build release "-DSPANSCOPE_GUI=ON" spanscope spanscope-gui
bin=build/release/bin
session=build/demo/demo64.span

if [ -n "$(find "$session" -newer "$bin/spanscope" 2> /dev/null)" ] && "$bin/spanscope" verify "$session" > /dev/null 2>&1; then
  say "Already recorded: $session"
else
  say "Recording the demo (an office chat of 64 turns)"
  "$bin/spanscope" record --model resources/demo/relay-dense.gguf --chat resources/demo/demo64.json -o "$session" --force
fi

if [ -n "${DISPLAY:-}" ] || [ -n "${WAYLAND_DISPLAY:-}" ]; then
  say "Opening the window"
  exec "$bin/spanscope-gui" "$session"
fi
say "No display: writing a report and a picture"
"$bin/spanscope" report "$session" -o build/demo/demo64.html --force
QT_QPA_PLATFORM=offscreen "$bin/spanscope-gui" "$session" --screenshot build/demo/demo64.png
echo
echo "Session  $PWD/$session"
echo "Report   $PWD/build/demo/demo64.html"
echo "Picture  $PWD/build/demo/demo64.png"
