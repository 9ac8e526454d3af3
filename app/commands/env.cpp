// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope env and spanscope knobs: what a bug report needs.
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "app/commands/command.h"
#include "app/commands/progress.h"
#include "core/base/json.h"
#include "core/base/knobs.h"
#include "core/base/thread_pool.h"

namespace spanscope {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line))
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string system_name() {
  std::ifstream release("/etc/os-release");
  std::string line;
  while (std::getline(release, line))
    if (line.rfind("PRETTY_NAME=", 0) == 0) {
      std::string name = line.substr(12);
      std::erase(name, '"');
      return name;
    }
  return "unknown";
}

int run_env(const Context& context) {
  utsname system{};
  uname(&system);
  const uint64_t memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE));
  OrderedJson document = {
      {"program", std::string("spanscope ") + SPANSCOPE_VERSION},
      {"compiler", std::string("GCC-compatible ") + __VERSION__},
      {"system", system_name()},
      {"kernel", std::string(system.sysname) + " " + system.release + " " + system.machine},
      {"processor", cpu_name()},
      {"physical_cores", ThreadPool::physical_cores()},
      {"memory_bytes", memory},
      {"backends", OrderedJson::array({"cpu fast", "cpu reference"})},
      {"gpu", "none: this program was built without a GPU backend"},
  };
  OrderedJson set = OrderedJson::object();
  for (const auto& [name, value] : knobs_set()) set[name] = value;
  document["knobs_set"] = set;
  if (context.json) {
    std::puts(document.dump(2).c_str());
    return kExitOk;
  }
  for (const auto& [key, value] : document.items()) {
    if (key == "memory_bytes") fmt::print("{:<16} {}\n", "memory", human_bytes(memory));
    else fmt::print("{:<16} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return kExitOk;
}

int run_knobs(const Context& context) {
  if (context.json) {
    OrderedJson list = OrderedJson::array();
    for (const Knob& k : knobs())
      list.push_back({{"name", k.name}, {"type", k.type}, {"default", k.default_value}, {"sentence", k.sentence}});
    std::puts(list.dump(2).c_str());
    return kExitOk;
  }
  for (const Knob& k : knobs())
    fmt::print("{:<24} {:<8} default {:<6} {}\n", k.name, k.type, *k.default_value ? k.default_value : "-", k.sentence);
  return kExitOk;
}

}  // namespace

void add_env(CLI::App& parent, Context& context) {
  auto* c = parent.add_subcommand("env", "Environment report to paste into a bug report");
  c->callback([&context] { context.run = [&context] { return run_env(context); }; });
}

void add_knobs(CLI::App& parent, Context& context) {
  auto* c = parent.add_subcommand("knobs", "Every environment variable with type, default and meaning");
  c->callback([&context] { context.run = [&context] { return run_knobs(context); }; });
}

}  // namespace spanscope
