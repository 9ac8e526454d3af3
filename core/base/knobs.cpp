// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/knobs.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace spanscope {

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> table = {
      {"SPANSCOPE_PASS_ROWS", "1..1024", "512", "Rows of one prefill pass while recording."},
      {"SPANSCOPE_DEVICE", "auto, cpu or cuda[:N]", "auto", "What runs models when --device does not say."},
      {"SPANSCOPE_CUDA_MODULE", "file", "", "The GPU module, instead of the one beside the program."},
      {"SPANSCOPE_SMOLLM2", "file", "", "The real model that the tests use."},
      {"SPANSCOPE_ORACLES", "folder", "", "Where the test scripts find the full reference data."},
  };
  return table;
}

std::string knob(const char* name) {
  if (const char* value = std::getenv(name); value && *value) return value;
  for (const Knob& k : knobs())
    if (std::strcmp(k.name, name) == 0) return k.default_value;
  return {};
}

std::vector<std::pair<std::string, std::string>> knobs_set() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Knob& k : knobs())
    if (const char* value = std::getenv(k.name); value && *value) out.emplace_back(k.name, value);
  return out;
}

std::vector<std::string> unknown_knobs() {
  std::vector<std::string> out;
  for (char** e = environ; e && *e; ++e) {
    if (std::strncmp(*e, "SPANSCOPE_", 10) != 0) continue;
    const std::string name(*e, std::strcspn(*e, "="));
    bool known = false;
    for (const Knob& k : knobs()) known = known || name == k.name;
    if (!known) out.push_back(name);
  }
  return out;
}

}  // namespace spanscope
