// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/head_map.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "core/base/files.h"
#include "core/base/json.h"

namespace spanscope {
namespace {

constexpr const char* kFormat = "spanscope head map";
constexpr int kVersion = 1;
constexpr std::array<const char*, kHeadMeasures> kNames = {"copy", "session_copy", "reads", "session_reads", "sink", "streaming", "gate"};

Error bad(const std::string& message, const std::string& where) {
  return make_error(ErrorCode::corrupt, "SPAN-HEAD-MAP", message, where);
}

std::string shape_text(uint32_t layers, uint32_t heads) {
  return std::to_string(layers) + " layers of " + std::to_string(heads) + " query heads";
}

Result<HeadTable> parse_table(const OrderedJson& json, const std::string& name, const HeadMap& map, const std::string& where) {
  if (!json.is_object() || !json.contains("value") || !json["value"].is_array())
    return bad("field \"" + name + "\": expected an object with \"value\", one list of numbers a layer", where);
  HeadTable out;
  if (json.contains("source") && json["source"].is_string()) out.source = json["source"];
  const OrderedJson& rows = json["value"];
  if (rows.size() != map.layers)
    return bad("field \"" + name + "\": expected " + std::to_string(map.layers) + " layers, found " + std::to_string(rows.size()), where);
  for (size_t l = 0; l < rows.size(); ++l) {
    if (!rows[l].is_array() || rows[l].size() != map.query_heads)
      return bad("field \"" + name + "\", layer " + std::to_string(l) + ": expected " + std::to_string(map.query_heads) + " numbers", where);
    for (const OrderedJson& x : rows[l]) {
      if (!x.is_number() || !std::isfinite(x.get<double>()))
        return bad("field \"" + name + "\", layer " + std::to_string(l) + ": expected finite numbers", where);
      out.value.push_back(x.get<float>());
    }
  }
  return out;
}

}  // namespace

const char* head_measure_name(HeadMeasure measure) { return kNames[size_t(measure)]; }

const HeadTable* HeadMap::best_copy() const {
  for (HeadMeasure m : {HeadMeasure::copy, HeadMeasure::session_copy})
    if (!(*this)[m].empty()) return &(*this)[m];
  return nullptr;
}

const HeadTable* HeadMap::best_reads() const {
  for (HeadMeasure m : {HeadMeasure::session_reads, HeadMeasure::reads})
    if (!(*this)[m].empty()) return &(*this)[m];
  return nullptr;
}

HeadMap empty_head_map(const Model& model) {
  HeadMap out;
  out.model_digest = model.digest;
  out.model_name = model.recipe.name;
  out.layers = model.recipe.layers;
  out.query_heads = model.recipe.query_heads;
  out.kv_heads = model.recipe.kv_heads;
  return out;
}

Status merge_head_map(HeadMap& map, const HeadMap& newer) {
  if (map.model_digest != newer.model_digest)
    return bad("two maps of different models: " + map.model_digest + " and " + newer.model_digest, newer.model_name);
  if (map.layers != newer.layers || map.query_heads != newer.query_heads)
    return bad("expected " + shape_text(map.layers, map.query_heads) + ", found " + shape_text(newer.layers, newer.query_heads), newer.model_name);
  for (size_t m = 0; m < kHeadMeasures; ++m)
    if (!newer.tables[m].empty()) map.tables[m] = newer.tables[m];
  return {};
}

std::vector<uint32_t> top_heads(const HeadTable& table, size_t count) {
  std::vector<uint32_t> order(table.value.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return table.value[a] > table.value[b]; });
  order.resize(std::min(count, order.size()));
  while (!order.empty() && !(table.value[order.back()] > 0)) order.pop_back();
  return order;
}

size_t head_count(size_t heads, double fraction) {
  // 0.05 x 20 must be 1: a hair below, so that what the product rounds up to does not count as more.
  return size_t(std::ceil(fraction * double(heads) - 1e-9));
}

std::string head_map_json(const HeadMap& map) {
  OrderedJson json = {{"format", kFormat}, {"v", kVersion}, {"model_digest", map.model_digest}, {"model_name", map.model_name},
                      {"layers", map.layers}, {"query_heads", map.query_heads}, {"kv_heads", map.kv_heads}};
  for (size_t m = 0; m < kHeadMeasures; ++m) {
    const HeadTable& table = map.tables[m];
    if (table.empty()) continue;
    OrderedJson rows = OrderedJson::array();
    for (uint32_t l = 0; l < map.layers; ++l)
      rows.push_back(std::vector<float>(table.value.begin() + l * map.query_heads, table.value.begin() + (l + 1) * map.query_heads));
    json[kNames[m]] = {{"source", table.source}, {"value", rows}};
  }
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Result<HeadMap> parse_head_map(std::string_view text, const std::string& where) {
  auto json = parse_json(text, where);
  if (!json) return std::move(json).error();
  if (!json->is_object() || json->value("format", OrderedJson()) != kFormat) return bad("not a head map: \"format\" is not \"" + std::string(kFormat) + "\"", where);
  const OrderedJson version = json->value("v", OrderedJson());
  if (!version.is_number_integer() || version.get<int64_t>() != kVersion)
    return make_error(ErrorCode::unsupported, "SPAN-HEAD-MAP", "version " + version.dump() + ", this program reads " + std::to_string(kVersion), where);
  HeadMap map;
  for (const auto& [key, field] : {std::pair{"model_digest", &map.model_digest}, {"model_name", &map.model_name}}) {
    if (!json->contains(key) || !(*json)[key].is_string()) return bad("field \"" + std::string(key) + "\": expected a string", where);
    *field = (*json)[key];
  }
  for (const auto& [key, field] : {std::pair{"layers", &map.layers}, {"query_heads", &map.query_heads}, {"kv_heads", &map.kv_heads}}) {
    if (!json->contains(key) || !(*json)[key].is_number_unsigned() || (*json)[key].get<uint64_t>() == 0 || (*json)[key].get<uint64_t>() > 65535)
      return bad("field \"" + std::string(key) + "\": expected a number from 1 to 65535", where);
    *field = (*json)[key].get<uint32_t>();
  }
  for (size_t m = 0; m < kHeadMeasures; ++m) {
    if (!json->contains(kNames[m])) continue;
    auto table = parse_table((*json)[kNames[m]], kNames[m], map, where);
    if (!table) return std::move(table).error();
    map.tables[m] = std::move(*table);
  }
  return map;
}

std::string head_map_path(const std::string& model_digest) {
  std::string base;
  // The base directory rules: a relative path in the variable is to be ignored.
  if (const char* data = std::getenv("XDG_DATA_HOME"); data && *data == '/') base = data;
  else if (const char* home = std::getenv("HOME"); home && *home) base = std::string(home) + "/.local/share";
  return base.empty() ? std::string() : base + "/spanscope/heads/" + model_digest + ".json";
}

namespace {

// `expected`: digest, name and shape of the model that is asked about.
Result<std::optional<HeadMap>> load_for(const HeadMap& expected, const std::string& path) {
  const std::string file = path.empty() ? head_map_path(expected.model_digest) : path;
  if (file.empty() || ::access(file.c_str(), F_OK) != 0) return std::optional<HeadMap>();
  auto text = read_file(file, uint64_t(64) << 20);
  if (!text) return std::move(text).error();
  auto map = parse_head_map(*text, file);
  if (!map) return std::move(map).error();
  if (map->model_digest != expected.model_digest)
    return bad("the map of another model (" + map->model_name + ", digest " + map->model_digest + "), expected " + expected.model_name + ", digest " + expected.model_digest, file);
  if (map->layers != expected.layers || map->query_heads != expected.query_heads || map->kv_heads != expected.kv_heads)
    return bad("expected " + shape_text(expected.layers, expected.query_heads) + ", found " + shape_text(map->layers, map->query_heads), file);
  return std::optional<HeadMap>(std::move(*map));
}

}  // namespace

HeadMap empty_head_map(const SessionHeader& header) {
  HeadMap out;
  out.model_digest = header.model_digest;
  out.model_name = header.model_name;
  out.layers = header.layers;
  out.query_heads = header.query_heads;
  out.kv_heads = header.kv_heads;
  return out;
}

Result<std::optional<HeadMap>> load_head_map(const Model& model, const std::string& path) { return load_for(empty_head_map(model), path); }
Result<std::optional<HeadMap>> load_head_map(const SessionHeader& header, const std::string& path) { return load_for(empty_head_map(header), path); }

Status save_head_map(const HeadMap& map, const std::string& path, bool force) {
  if (path != "-") {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code error;
    if (!folder.empty()) std::filesystem::create_directories(folder, error);
    if (error) return make_error(ErrorCode::io, "SPAN-IO", "cannot make the folder: " + error.message(), folder.string());
  }
  return write_file(path, head_map_json(map), force);
}

Result<HeadTable> import_duo_gates(std::string_view text, const std::string& where, const Recipe& recipe) {
  HeadTable out;
  out.source = "DuoAttention gates imported from " + where;
  const uint32_t group = recipe.query_heads / recipe.kv_heads;
  uint32_t layer = 0, line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    const std::string place = where + ":" + std::to_string(line_number);
    uint32_t column = 0;
    for (size_t i = 0; i < line.size();) {
      if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r' || line[i] == ',') {
        ++i;
        continue;
      }
      const size_t stop = std::min(line.find_first_of(" \t\r,", i), line.size());
      float gate = 0;
      const auto [rest, error] = std::from_chars(line.data() + i, line.data() + stop, gate);
      if (error != std::errc() || rest != line.data() + stop || !std::isfinite(gate))
        return bad("layer " + std::to_string(layer) + ", head " + std::to_string(column) + ": expected a number, found \"" + std::string(line.substr(i, stop - i)) + "\"", place);
      out.value.insert(out.value.end(), group, gate);
      ++column;
      i = stop;
    }
    if (column == 0) continue;
    if (column != recipe.kv_heads)
      return bad("layer " + std::to_string(layer) + ": expected " + std::to_string(recipe.kv_heads) + " key/value heads, found " + std::to_string(column), place);
    ++layer;
  }
  if (layer != recipe.layers)
    return bad("expected " + std::to_string(recipe.layers) + " layers of gates, found " + std::to_string(layer), where);
  return out;
}

}  // namespace spanscope
