// SPDX-License-Identifier: GPL-3.0-or-later
// A folder of its own for a test's files, gone with its owner.
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace spanscope::test {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "spanscope-test-XXXXXX").string();
    if (!mkdtemp(name.data())) FAIL("cannot make a folder like " << name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::vector<uint8_t>& bytes) const {
    const std::string path = *this / name;
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    if (!out) FAIL("cannot write " << path);
    return path;
  }

 private:
  std::string path_;
};

}  // namespace spanscope::test
