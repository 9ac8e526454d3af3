// SPDX-License-Identifier: GPL-3.0-or-later
// The rules of the house as functions of a source tree: each returns one line per violation, empty when all is well.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace spanscope::test {

using Violations = std::vector<std::string>;

// Includes against the table of rooms in ARCHITECTURE.md; no Qt or CUDA in core; no gpu, no core/file in widgets.
Violations check_includes(const std::filesystem::path& root);
// The licence line at the top of every source file, and at most 800 lines in it.
Violations check_sources(const std::filesystem::path& root);
// Text that names a folder of somebody's machine.
Violations check_paths(const std::filesystem::path& root);

}  // namespace spanscope::test
