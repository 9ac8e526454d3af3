// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/unit/layering/walls.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace spanscope::test {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxLines = 800;

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

bool has_suffix(const std::string& name, std::initializer_list<const char*> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&](const char* s) { return name.ends_with(s); });
}

// Files of the tree as paths relative to root; what is built, fetched or belongs to git is left out.
std::vector<fs::path> files_of(const fs::path& root) {
  static const std::set<std::string> passed_over = {"build", ".git", ".cache", "__pycache__", "compile_commands.json"};
  std::vector<fs::path> out;
  for (fs::recursive_directory_iterator it(root), end; it != end; ++it) {
    if (passed_over.contains(it->path().filename().string())) {
      if (it->is_directory()) it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      out.push_back(it->path().lexically_relative(root));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool is_cpp(const std::string& name) { return has_suffix(name, {".cpp", ".h", ".hpp", ".cc", ".cu", ".cuh"}); }

bool is_source(const fs::path& file, const std::string& text) {
  const std::string name = file.filename().string();
  return is_cpp(name) || has_suffix(name, {".py", ".sh", ".cmake"}) || name == "CMakeLists.txt" || text.starts_with("#!");
}

// "core/file" -> the rooms it may include ("base" always). From the rows "| `core/file` | what | base, chat |".
std::map<std::string, std::set<std::string>> table_of_rooms(const fs::path& root) {
  std::map<std::string, std::set<std::string>> out;
  static const std::regex row(R"(^\|\s*`core/([a-z_]+)`\s*\|.*\|([^|]*)\|\s*$)"), word("[a-z_]+");
  for (const std::string& line : lines_of(read(root / "ARCHITECTURE.md"))) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    std::set<std::string>& allowed = out[match[1]];
    allowed = {"base", match[1]};
    const std::string list = match[2];
    for (std::sregex_iterator it(list.begin(), list.end(), word), end; it != end; ++it) allowed.insert(it->str());
  }
  return out;
}

struct Include {
  size_t line;
  std::string target;  // as written
  std::string path;    // from the root, "" for <system> headers
};

std::vector<Include> includes_of(const fs::path& root, const fs::path& file, const std::string& text) {
  static const std::regex directive(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  std::vector<Include> out;
  const auto lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, directive)) continue;
    Include include{i + 1, match[2], {}};
    if (match[1] == "\"") {
      const fs::path beside = (file.parent_path() / include.target).lexically_normal();
      include.path = !fs::exists(root / include.target) && fs::exists(root / beside) ? beside.generic_string() : include.target;
    }
    out.push_back(include);
  }
  return out;
}

std::string head(const std::string& path, size_t depth) {
  size_t at = 0;
  for (size_t i = 0; i < depth && at != std::string::npos; ++i) at = path.find('/', i ? at + 1 : 0);
  return path.substr(0, at);
}

bool is_qt(const std::string& target) {
  static const std::regex qt("(Q[A-Z].*|Qt[A-Z0-9].*|qcustomplot.*)");
  return std::regex_match(target, qt);
}

bool is_cuda(const std::string& target) {
  static const std::regex cuda("(cuda|cublas|curand|cub/|nv|thrust/).*");
  return std::regex_match(target, cuda);
}

}  // namespace

Violations check_includes(const fs::path& root) {
  Violations out;
  const auto rooms = table_of_rooms(root);
  if (rooms.size() < 8) return {"ARCHITECTURE.md: the table of rooms was not found"};
  for (const fs::path& file : files_of(root)) {
    const std::string name = file.generic_string();
    const std::string house = head(name, 1);
    if (!is_cpp(name) || (house != "core" && house != "widgets" && house != "gpu")) continue;
    const std::string room = house == "core" ? head(name.substr(5), 1) : "";
    if (house == "core" && !rooms.contains(room)) {
      out.push_back(name + ": core/" + room + " is not in the table of rooms");
      continue;
    }
    for (const Include& include : includes_of(root, file, read(root / file))) {
      auto wrong = [&](const std::string& why) {
        out.push_back(name + ":" + std::to_string(include.line) + ": includes " + include.target + ": " + why);
      };
      const std::string to = head(include.path, 1);
      if (house != "widgets" && is_qt(include.target)) wrong("Qt only in widgets and app");
      if (house != "gpu" && (is_cuda(include.target) || to == "gpu")) wrong("CUDA only in gpu");
      if (to == "app" || to == "tests" || (to == "widgets" && house != "widgets")) wrong("against the direction");
      if (house == "widgets" && head(include.path, 2) == "core/file") wrong("widgets read no files");
      if (house == "core" && to == "core") {
        const std::string other = head(include.path.substr(5), 1);
        if (!rooms.at(room).contains(other)) wrong("core/" + room + " may not use core/" + other);
      }
    }
  }
  return out;
}

Violations check_sources(const fs::path& root) {
  Violations out;
  for (const fs::path& file : files_of(root)) {
    const std::string text = read(root / file);
    if (!is_source(file, text)) continue;
    const auto lines = lines_of(text);
    bool licence = false;
    for (size_t i = 0; i < std::min<size_t>(3, lines.size()); ++i)
      licence = licence || lines[i].find("SPDX-License-Identifier: GPL-3.0-or-later") != std::string::npos;
    if (!licence) out.push_back(file.generic_string() + ": no SPDX-License-Identifier in the first lines");
    if (lines.size() > kMaxLines)
      out.push_back(file.generic_string() + ": " + std::to_string(lines.size()) + " lines, the most is " +
                    std::to_string(kMaxLines));
  }
  return out;
}

Violations check_paths(const fs::path& root) {
  static const std::vector<std::string> places = {"work", "tmp", "home", "root", "Users"};
  Violations out;
  for (const fs::path& file : files_of(root)) {
    const std::string text = read(root / file);
    if (text.find('\0') != std::string::npos) continue;  // not text
    for (const std::string& place : places) {
      const std::string needle = "/" + place + "/";
      for (size_t at = text.find(needle); at != std::string::npos; at = text.find(needle, at + 1)) {
        // "a/tmp/b" and "$HOME/work/x" are folders inside something else.
        const char before = at ? text[at - 1] : ' ';
        if (std::isalnum(static_cast<unsigned char>(before)) || std::string("_-.}/)").find(before) != std::string::npos) continue;
        const size_t line = 1 + size_t(std::count(text.begin(), text.begin() + ptrdiff_t(at), '\n'));
        out.push_back(file.generic_string() + ":" + std::to_string(line) + ": names " + needle);
      }
    }
  }
  return out;
}

}  // namespace spanscope::test
