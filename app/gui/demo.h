// SPDX-License-Identifier: GPL-3.0-or-later
// The demo: a small model and a chat of 64 turns that ship with the program, recorded on this machine when asked for.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "core/base/result.h"

namespace spanscope {

struct DemoFiles {
  std::string model, chat;
};
// Beside the program: as installed (../share/spanscope/demo) or in the tree that it was built from. Nothing: not there.
std::optional<DemoFiles> find_demo(const std::string& program_folder);

// Records into `path` (an older recording is replaced, when the new one is whole) and gives the path.
Result<std::string> record_demo(const DemoFiles& files, const std::string& path, const std::string& program_version, std::stop_token stop,
                                const std::function<void(const std::string& text, uint64_t done, uint64_t total)>& report);

}  // namespace spanscope
