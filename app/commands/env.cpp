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
#include "core/device/gpu_module.h"

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

// The GPU module, its driver and devices, or why there is none.
OrderedJson gpu_report() {
  auto module = GpuModule::find();
  if (!module) return "none: " + module.error().line();
  OrderedJson out = {{"module", module->path()}, {"runtime", module->runtime()}, {"driver", module->driver()}};
  auto devices = module->devices();
  if (!devices) {
    out["devices"] = "none: " + devices.error().line();
    return out;
  }
  out["devices"] = OrderedJson::array();
  for (const GpuDevice& d : *devices)
    out["devices"].push_back({{"index", d.index},
                              {"name", d.name},
                              {"compute_capability", fmt::format("{}.{}", d.compute_major, d.compute_minor)},
                              {"multiprocessors", d.multiprocessors},
                              {"memory_bytes", d.memory_bytes},
                              {"free_bytes", d.free_bytes}});
  return out;
}

void print_gpu(const OrderedJson& gpu) {
  if (gpu.is_string()) return fmt::print("{:<16} {}\n", "gpu", gpu.get<std::string>());
  fmt::print("{:<16} {} ({}, driver {})\n", "gpu module", gpu["module"].get<std::string>(), gpu["runtime"].get<std::string>(),
             gpu["driver"].get<std::string>());
  if (gpu["devices"].is_string()) return fmt::print("{:<16} {}\n", "gpu", gpu["devices"].get<std::string>());
  for (const auto& d : gpu["devices"])
    fmt::print("{:<16} cuda:{} {}, compute capability {}, {} multiprocessors, {} of {} free\n", "gpu", d["index"].get<int>(),
               d["name"].get<std::string>(), d["compute_capability"].get<std::string>(), d["multiprocessors"].get<int>(),
               human_bytes(d["free_bytes"].get<uint64_t>()), human_bytes(d["memory_bytes"].get<uint64_t>()));
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
      {"gpu", gpu_report()},
  };
  OrderedJson set = OrderedJson::object();
  for (const auto& [name, value] : knobs_set()) set[name] = value;
  document["knobs_set"] = set;
  if (context.json) {
    std::puts(document.dump(2).c_str());
    return kExitOk;
  }
  for (const auto& [key, value] : document.items()) {
    if (key == "gpu") print_gpu(value);
    else if (key == "memory_bytes") fmt::print("{:<16} {}\n", "memory", human_bytes(memory));
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
