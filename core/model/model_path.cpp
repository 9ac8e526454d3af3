// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/model_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"

namespace spanscope {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "ollama:";
constexpr const char* kModelLayer = "application/vnd.ollama.image.model";

std::vector<fs::path> stores() {
  if (const char* set = std::getenv("OLLAMA_MODELS"); set && *set) return {set};
  std::vector<fs::path> out;
  if (const char* home = std::getenv("HOME"); home && *home) out.push_back(fs::path(home) / ".ollama/models");
  for (const char* service : {"/usr/share/ollama/.ollama/models", "/var/lib/ollama/models", "/var/lib/ollama/.ollama/models"})
    out.push_back(service);
  return out;
}

Error refuse(ErrorCode code, std::string message, std::string where) {
  return make_error(code, "SPAN-OLLAMA", std::move(message), std::move(where));
}

// The model layer of a manifest: its digest names a file under blobs/.
Result<std::string> blob_of(const fs::path& store, const fs::path& manifest) {
  auto text = read_file(manifest.string(), 1 << 20);
  if (!text) return std::move(text).error();
  auto json = parse_json(*text, manifest.string());
  if (!json) return std::move(json).error();
  const auto layers = json->is_object() ? json->find("layers") : json->end();
  if (!json->is_object() || layers == json->end() || !layers->is_array())
    return refuse(ErrorCode::corrupt, "expected a list \"layers\"", manifest.string());
  for (const auto& layer : *layers) {
    if (!layer.is_object() || layer.value("mediaType", OrderedJson()) != kModelLayer) continue;
    const auto digest = layer.find("digest");
    if (digest == layer.end() || !digest->is_string()) break;
    std::string name = digest->get<std::string>();
    if (name.rfind("sha256:", 0) != 0 || name.size() != 71 ||
        name.find_first_not_of("0123456789abcdef", 7) != std::string::npos)
      return refuse(ErrorCode::corrupt, "the model's digest is not sha256:<64 hexadecimal digits>", manifest.string());
    name[6] = '-';
    const fs::path blob = store / "blobs" / name;
    std::error_code error;
    if (!fs::is_regular_file(blob, error))
      return refuse(ErrorCode::not_found, "the manifest names a file that is not there: " + blob.string(), manifest.string());
    return blob.string();
  }
  return refuse(ErrorCode::unsupported, "the manifest has no model file", manifest.string());
}

}  // namespace

Result<std::string> resolve_model_path(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return name;
  std::string wanted = name.substr(kPrefix.size()), tag = "latest";
  if (const size_t colon = wanted.rfind(':'); colon != std::string::npos && wanted.find('/', colon) == std::string::npos) {
    tag = wanted.substr(colon + 1);
    wanted.resize(colon);
  }
  const auto plain = [](const std::string& part) {
    return !part.empty() && part.find("..") == std::string::npos && part.find('\0') == std::string::npos;
  };
  if (!plain(wanted) || !plain(tag) || wanted.front() == '/' || tag.find('/') != std::string::npos)
    return refuse(ErrorCode::invalid, "expected ollama:NAME or ollama:NAME:TAG", name);
  // NAME, USER/NAME or HOST/USER/NAME.
  const auto slashes = std::count(wanted.begin(), wanted.end(), '/');
  const std::string below = slashes == 0   ? "registry.ollama.ai/library/" + wanted
                            : slashes == 1 ? "registry.ollama.ai/" + wanted
                                           : wanted;
  std::vector<std::string> looked;
  for (const fs::path& store : stores()) {
    const fs::path manifest = store / "manifests" / below / tag;
    std::error_code error;
    if (fs::is_regular_file(manifest, error)) return blob_of(store, manifest);
    looked.push_back(manifest.string());
  }
  return refuse(ErrorCode::not_found,
                fmt::format("no such model; looked for {} (\"ollama pull\" fetches one, this program downloads nothing)",
                            fmt::join(looked, ", ")),
                name);
}

}  // namespace spanscope
