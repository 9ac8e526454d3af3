// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/schema_versions.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/record/schema_parts.h"

namespace spanscope::schema {
namespace {

struct KindVersion {
  std::string_view kind;
  uint32_t version;
};
constexpr KindVersion kKinds[] = {
    {"session", kVersion}, {"ledger", kVersion},  {"turn_begin", 2}, {"mass", 2}, {"reads", kVersion},
    {"routing", 2}, {"profile", 2}, {"turn_end", kVersion}, {"closing", kVersion}, {"note", kVersion}, {"gc", kVersion}, {"loss", kVersion},
    {"tokenstat", kVersion}, {"residual", kVersion}, {"rows", kVersion}, {"pairs", kVersion}, {"keys", kVersion}, {"values", kVersion}};

// Version 2 may hold profiles as f16 shares, and expert picks that gc dropped; readers take either form, so what version 1
// holds stays as it is.
Status keep(Blob&) { return {}; }
constexpr Converter kConverters[] = {{"turn_begin", 1, keep}, {"mass", 1, keep}, {"profile", 1, keep}, {"routing", 1, keep}};

}  // namespace

uint32_t version_of(std::string_view kind) {
  for (const KindVersion& k : kKinds)
    if (k.kind == kind) return k.version;
  return 0;
}

std::span<const Converter> converters() { return kConverters; }

Status convert(Blob& blob, std::string_view kind, uint32_t found, uint32_t wanted, std::span<const Converter> table, std::string_view written_by) {
  auto refuse = [&](uint32_t at) {
    const std::string by = written_by.empty() ? "another program" : fmt::format("spanscope {}", written_by);
    return make_error(ErrorCode::unsupported, "SPAN-VERSION",
                      at > wanted ? fmt::format("{} of version {}, written by {}; this program reads up to version {}", kind, found, by, wanted)
                                  : fmt::format("{} of version {}, written by {}; this program reads version {} and cannot convert from {}", kind, found, by, wanted, at));
  };
  if (found > wanted) return refuse(found);
  for (uint32_t at = found; at < wanted; ++at) {
    const auto step = std::find_if(table.begin(), table.end(), [&](const Converter& c) { return c.kind == kind && c.from == at; });
    if (step == table.end()) return refuse(at);
    SPANSCOPE_TRY(step->convert(blob));
  }
  return {};
}

}  // namespace spanscope::schema
