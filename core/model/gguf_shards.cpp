// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/gguf_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace spanscope {
namespace {

constexpr const char* kTag = "SPAN-GGUF-SPLIT";

// "-00002-of-00003.gguf"
constexpr size_t kDigits = 5, kSuffix = 1 + kDigits + 4 + kDigits + 5;

std::optional<uint32_t> number_in(const std::string& text, size_t at) {
  uint32_t value = 0;
  for (size_t i = at; i < at + kDigits; ++i) {
    if (text[i] < '0' || text[i] > '9') return {};
    value = value * 10 + uint32_t(text[i] - '0');
  }
  return value;
}

std::string shard_path(const std::string& prefix, uint64_t number, uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

Error split_error(ErrorCode code, std::string message, const std::string& where,
                  std::optional<uint64_t> offset = {}) {
  return make_error(code, kTag, std::move(message), where, offset);
}

std::optional<uint64_t> offset_of(const GgufFile& file, const char* key) {
  const GgufValue* v = file.find(key);
  return v ? std::optional(v->offset) : std::nullopt;
}

// What a file says of its place among the shards.
struct Split {
  uint64_t no = 0, count = 1;
  std::optional<uint64_t> tensors;
};

Result<Split> split_of(const GgufFile& file) {
  Split split;
  auto count = file.unsigned_value("split.count", 1);
  if (!count) return std::move(count).error();
  split.count = *count;
  if (split.count <= 1) return split;
  auto no = file.unsigned_value("split.no");
  if (!no) return std::move(no).error();
  split.no = *no;
  if (file.find("split.tensors.count")) {
    auto tensors = file.unsigned_value("split.tensors.count");
    if (!tensors) return std::move(tensors).error();
    split.tensors = *tensors;
  }
  return split;
}

Result<GgufPart> open_part(const std::string& path, bool check_tensors) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return std::move(mapped).error();
  auto file = GgufFile::parse((*mapped)->bytes(), path, check_tensors);
  if (!file) return std::move(file).error();
  return GgufPart{std::move(*mapped), std::move(*file)};
}

// That a part is the one its place asks for.
Status check_part(const GgufFile& file, uint64_t no, const Split& expected) {
  auto found = split_of(file);
  if (!found) return std::move(found).error();
  if (found->count <= 1)
    return split_error(
        ErrorCode::corrupt,
        fmt::format("foreign shard: nothing in it says that it is one of {} files", expected.count),
        file.where());
  if (found->count != expected.count)
    return split_error(ErrorCode::corrupt,
                       fmt::format("foreign shard: it says it is of {} files, this model has {}",
                                   found->count, expected.count),
                       file.where(), offset_of(file, "split.count"));
  if (found->no != no)
    return split_error(ErrorCode::corrupt,
                       fmt::format("foreign shard: it says it is file {} of {}, expected {} by its name",
                                   found->no + 1, found->count, no + 1),
                       file.where(), offset_of(file, "split.no"));
  if (found->tensors != expected.tensors) {
    const auto said = [](const std::optional<uint64_t>& n) { return n ? std::to_string(*n) : "no number"; };
    return split_error(ErrorCode::corrupt,
                       fmt::format("foreign shard: split.tensors.count is {}, {} in the first shard",
                                   said(found->tensors), said(expected.tensors)),
                       file.where(), offset_of(file, "split.tensors.count"));
  }
  return {};
}

Status check_together(const std::vector<GgufPart>& parts, const std::optional<uint64_t>& tensors) {
  std::set<std::string_view> names;
  uint64_t found = 0;
  for (const GgufPart& part : parts)
    for (const GgufTensor& t : part.file.tensors()) {
      ++found;
      if (!names.insert(t.name).second)
        return split_error(ErrorCode::corrupt,
                           fmt::format("tensor \"{}\" is in an earlier shard too", printable(t.name)),
                           part.file.where(), t.entry);
    }
  if (tensors && *tensors != found)
    return split_error(
        ErrorCode::corrupt,
        fmt::format("the {} shards have {} tensors together, expected {} (split.tensors.count)", parts.size(),
                    found, *tensors),
        parts[0].file.where(), offset_of(parts[0].file, "split.tensors.count"));
  return {};
}

}  // namespace

std::optional<GgufShardName> gguf_shard_name(const std::string& path) {
  if (path.size() <= kSuffix) return {};
  const size_t at = path.size() - kSuffix, of = at + 1 + kDigits;
  if (path[at] != '-' || path.compare(of, 4, "-of-") != 0 || path.compare(path.size() - 5, 5, ".gguf") != 0)
    return {};
  const auto number = number_in(path, at + 1), count = number_in(path, of + 4);
  if (!number || !count || *number == 0 || *number > *count) return {};
  return GgufShardName{path.substr(0, at), *number, *count};
}

Result<std::vector<std::string>> gguf_shard_paths(const std::string& path, uint64_t split_count,
                                                  uint64_t split_no) {
  if (split_count <= 1) return std::vector<std::string>{path};
  const std::optional<GgufShardName> name = gguf_shard_name(path);
  if (!name)
    return split_error(ErrorCode::not_found,
                       fmt::format("the file is shard {} of {}; to find the others its name must end in {}",
                                   split_no + 1, split_count, shard_path("", split_no + 1, split_count)),
                       path);
  if (name->count != split_count || name->number != split_no + 1)
    return split_error(ErrorCode::corrupt,
                       fmt::format("the name says shard {} of {}, the file says it is shard {} of {}",
                                   name->number, name->count, split_no + 1, split_count),
                       path);
  std::vector<std::string> paths, missing;
  for (uint64_t number = 1; number <= split_count; ++number) {
    paths.push_back(shard_path(name->prefix, number, split_count));
    std::error_code ignored;
    if (number != name->number && !std::filesystem::exists(paths.back(), ignored))
      missing.push_back(file_name(paths.back()));
  }
  if (!missing.empty()) {
    const size_t shown = std::min<size_t>(missing.size(), 3), more = missing.size() - shown;
    return split_error(
        ErrorCode::not_found,
        fmt::format("{} of {} shards are not beside this one: {}{}", missing.size(), split_count,
                    fmt::join(missing.begin(), missing.begin() + ptrdiff_t(shown), ", "),
                    more ? fmt::format(" and {} more", more) : ""),
        path);
  }
  return paths;
}

Result<std::vector<GgufPart>> open_gguf_parts(const std::string& path) {
  auto given = open_part(path, true);
  if (!given) return std::move(given).error();
  auto split = split_of(given->file);
  if (!split) return std::move(split).error();
  auto paths = gguf_shard_paths(path, split->count, split->no);
  if (!paths) return std::move(paths).error();

  std::vector<GgufPart> parts;
  if (paths->size() == 1) {
    parts.push_back(std::move(*given));
    return parts;
  }
  Split expected;
  for (size_t i = 0; i < paths->size(); ++i) {
    auto part = i == split->no ? std::move(given) : open_part((*paths)[i], true);
    if (!part) return std::move(part).error();
    if (i == 0) {
      auto first = split_of(part->file);
      if (!first) return std::move(first).error();
      expected = {0, split->count, first->tensors};
    }
    SPANSCOPE_TRY(check_part(part->file, i, expected));
    parts.push_back(std::move(*part));
  }
  SPANSCOPE_TRY(check_together(parts, expected.tensors));
  return parts;
}

Result<GgufPart> open_gguf_metadata(const std::string& path) {
  auto given = open_part(path, false);
  if (!given) return given;
  auto split = split_of(given->file);
  if (!split) return std::move(split).error();
  if (split->count <= 1 || split->no == 0) return given;
  auto paths = gguf_shard_paths(path, split->count, split->no);
  if (!paths) return std::move(paths).error();
  auto first = open_part(paths->front(), false);
  if (!first) return first;
  auto said = split_of(first->file);
  if (!said) return std::move(said).error();
  SPANSCOPE_TRY(check_part(first->file, 0, {0, split->count, said->tensors}));
  return first;
}

}  // namespace spanscope
