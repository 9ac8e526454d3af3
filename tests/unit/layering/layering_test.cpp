// SPDX-License-Identifier: GPL-3.0-or-later
// The tree keeps the rules; and each rule notices when it is broken (in a small tree made for that).
#include "tests/unit/layering/walls.h"

#include <unistd.h>

#include <fstream>

#include "tests/support/catch.h"

using namespace spanscope::test;
namespace fs = std::filesystem;

namespace {

std::string all(const Violations& violations) {
  std::string out;
  for (const std::string& v : violations) out += "\n" + v;
  return out;
}

const std::string kLicence = "// SPDX-License-Identifier: GPL-3.0-or-later\n";

// A small tree that keeps every rule, with files to be added.
struct Tree {
  fs::path root;
  Tree() {
    std::string name = (fs::temp_directory_path() / "spanscope-tree-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()));
    root = name;
    fs::copy_file(fs::path(SPANSCOPE_SOURCE_DIR) / "ARCHITECTURE.md", root / "ARCHITECTURE.md");
    put("core/base/result.h", kLicence);
    put("core/file/session_reader.h", kLicence + "#include \"core/base/result.h\"\n");
    put("core/model/recipe.h", kLicence + "#include <vector>\n#include \"core/file/session_reader.h\"\n");
    put("widgets/panel.cpp", kLicence + "#include <QWidget>\n#include \"core/model/recipe.h\"\n");
    put("packaging/go.sh", "#!/bin/sh\n# SPDX-License-Identifier: GPL-3.0-or-later\nd=\"$(mktemp -d)\"\n");
  }
  ~Tree() { fs::remove_all(root); }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
};

}  // namespace

TEST_CASE("no include crosses a wall") {
  const auto violations = check_includes(SPANSCOPE_SOURCE_DIR);
  INFO(all(violations));
  CHECK(violations.empty());
}

TEST_CASE("every source file has its licence line and stays under 800 lines") {
  const auto violations = check_sources(SPANSCOPE_SOURCE_DIR);
  INFO(all(violations));
  CHECK(violations.empty());
}

TEST_CASE("no text names a folder of somebody's machine") {
  const auto violations = check_paths(SPANSCOPE_SOURCE_DIR);
  INFO(all(violations));
  CHECK(violations.empty());
}

TEST_CASE("a tree that keeps the rules passes") {
  const Tree tree;
  CHECK(check_includes(tree.root).empty());
  CHECK(check_sources(tree.root).empty());
  CHECK(check_paths(tree.root).empty());
}

TEST_CASE("each broken wall is noticed") {
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"core/view/a.h", "#include <QString>\n"},
      {"core/view/a.h", "#include <qcustomplot.h>\n"},
      {"core/cpu/a.cpp", "#include <cuda_runtime.h>\n"},
      {"core/cpu/a.cpp", "#include \"gpu/abi.h\"\n"},
      {"core/base/a.h", "#include \"core/file/session_reader.h\"\n"},
      {"core/text/a.h", "#include \"core/model/recipe.h\"\n"},
      {"core/text/a.h", "#include \"../model/recipe.h\"\n"},
      {"core/report/a.h", "#include \"widgets/panel.h\"\n"},
      {"core/attic/a.h", "\n"},
      {"widgets/a.cpp", "#include \"core/file/session_reader.h\"\n"},
      {"widgets/a.cpp", "#include \"gpu/abi.h\"\n"},
      {"gpu/a.cu", "#include \"app/main.h\"\n"},
      {"gpu/a.cu", "#include <QString>\n"},
  };
  for (const auto& [file, text] : broken) {
    const Tree tree;
    tree.put(file, kLicence + text);
    INFO(file << " " << text);
    const auto violations = check_includes(tree.root);
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].find(file) == 0);
  }
}

TEST_CASE("a missing licence, a long file and a machine's folder are noticed") {
  const Tree tree;
  tree.put("core/base/a.h", "#pragma once\n");
  tree.put("app/a.py", "print(1)\n");
  tree.put("app/run", "#!/bin/sh\necho\n");
  std::string long_file = kLicence;
  for (int i = 0; i < 800; ++i) long_file += "\n";
  tree.put("core/base/b.h", long_file);
  CHECK(check_sources(tree.root).size() == 4);
  tree.put("README.md", std::string("see /") + "home/me/notes and \"/" + "tmp/x\", not build/" + "tmp/y\n");
  CHECK(check_paths(tree.root).size() == 2);
}
