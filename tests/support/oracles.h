// SPDX-License-Identifier: GPL-3.0-or-later
// Where the reference data lies. A checkout with the full data (SPANSCOPE_ORACLES) must use it: there a missing file fails
// the test. Without it (a user's clone) the small copies in tests/data are used, and a test that has none says so.
#pragma once
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include "tests/support/catch.h"

namespace spanscope::test {

inline std::string data_dir() { return SPANSCOPE_TEST_DATA; }

inline bool have_full_oracles() { return std::filesystem::is_directory(SPANSCOPE_ORACLE_DIR); }

// relative: "tiny/llama-gqa/model.gguf". Empty: not here, the test says SKIPPED and returns.
inline std::optional<std::string> oracle(const std::string& relative) {
  const std::filesystem::path full = std::filesystem::path(SPANSCOPE_ORACLE_DIR) / relative;
  if (have_full_oracles()) {
    if (!std::filesystem::exists(full)) FAIL("reference data is here, but " << full.string() << " is missing");
    return full.string();
  }
  const std::filesystem::path small = std::filesystem::path(SPANSCOPE_TEST_DATA) / "oracles" / relative;
  if (std::filesystem::exists(small)) return small.string();
  std::cout << "SKIPPED: no reference data for " << relative << " (set SPANSCOPE_ORACLES)\n";
  return std::nullopt;
}

// The demo models and conversations that ship with the program.
inline std::string demo(const std::string& name) { return std::string(SPANSCOPE_DEMO_DIR) + "/" + name; }

// The real model, when SPANSCOPE_SMOLLM2 names it.
inline std::optional<std::string> smollm2() {
  const char* path = std::getenv("SPANSCOPE_SMOLLM2");
  if (path && *path) {
    if (!std::filesystem::exists(path)) FAIL("SPANSCOPE_SMOLLM2 names " << path << ", which is not there");
    return std::string(path);
  }
  std::cout << "SKIPPED: SPANSCOPE_SMOLLM2 is not set (tests/get_smollm2.sh fetches the model)\n";
  return std::nullopt;
}

}  // namespace spanscope::test
