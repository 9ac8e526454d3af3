// SPDX-License-Identifier: GPL-3.0-or-later
// Every environment variable that changes what the program does, in one table: `spanscope knobs` prints it, the session
// header keeps those that were set. Any thread (the environment is only read).
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace spanscope {

struct Knob {
  const char* name;
  const char* type;
  const char* default_value;
  const char* sentence;
};
const std::vector<Knob>& knobs();
std::string knob(const char* name);  // its value, or the default
std::vector<std::pair<std::string, std::string>> knobs_set();
std::vector<std::string> unknown_knobs();  // SPANSCOPE_* variables that are set but not in the table

}  // namespace spanscope
