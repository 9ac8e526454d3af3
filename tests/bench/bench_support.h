// SPDX-License-Identifier: GPL-3.0-or-later
// A made-up session for benchmarks: pseudo-random token ids in leaves of equal length, four leaves to a
// message, run pass by pass with or without a plan. The recorder is left out: what is measured is the
// engine's share of recording.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/backends.h"

namespace spanscope::bench {

struct Arguments {
  std::string model, path = "fast";
  std::vector<uint32_t> prompts;
  uint32_t leaves = 200, decode = 32, repeat = 5, threads = 0, pass_rows = 1024;
  bool record = false, child = false;
};
// Options: -p N[,N...] --leaves N -n N -r N --threads N --pass N --path fast|reference --record --child.
// Exits with a usage line on anything else.
Arguments parse(int argc, char** argv, const char* what, std::vector<uint32_t> prompts);

std::unique_ptr<Backend> load(const Arguments& arguments);  // exits with the error's line

struct Timing {
  double prefill = 0, decode = 0;  // seconds
  double prefill_cpu = 0,
         decode_cpu = 0;  // processor seconds of all threads: what a busy machine leaves comparable
  double mass = 0;        // all that was recorded, so that nothing can be left out unnoticed
  uint64_t events = 0;
};
// `prompt` rows in passes of arguments.pass_rows, then arguments.decode rows one by one.
Timing run_session(Backend& backend, const Arguments& arguments, uint32_t prompt, bool record);

double median(std::vector<double> values);

}  // namespace spanscope::bench
