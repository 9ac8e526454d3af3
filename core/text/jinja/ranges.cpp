// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/jinja/ranges.h"

#include <unordered_map>

namespace spanscope::jinja {

std::vector<OriginRange> origin_ranges(const Fields& fields, std::string_view text, const std::vector<Run>& runs, bool leaves,
                                       std::vector<FieldId>* fields_of) {
  std::vector<OriginRange> out;
  std::vector<FieldId> groups;
  std::unordered_map<FieldId, FieldId> known;
  uint64_t begin = 0;
  bool copies = false;  // the range so far is a copy of consecutive source bytes
  const auto close = [&] {
    if (out.empty()) return;
    OriginRange& range = out.back();
    const std::string_view source = fields.text(groups.back());
    copies = copies && range.source.end <= source.size() &&
             source.substr(range.source.begin, range.source.size()) == text.substr(range.begin, range.end - range.begin);
    range.verbatim = copies;
    if (!copies) range.source = {};
  };
  for (const Run& run : runs) {
    if (run.field != kNoField) {
      auto [found, added] = known.emplace(run.field, run.field);
      if (added && !leaves) found->second = fields.group(run.field);
      const FieldId group = found->second;
      const ByteRange source{run.source, run.source + (run.end - begin)};
      const bool copy = run.kind == RunKind::copy && group == run.field;
      if (!out.empty() && out.back().end == begin && groups.back() == group) {
        copies = copies && copy && out.back().source.end == source.begin;
        out.back().end = run.end;
        out.back().source.end = source.end;
      } else {
        close();
        out.push_back({begin, run.end, fields.path(group), false, source});
        groups.push_back(group);
        copies = copy;
      }
    }
    begin = run.end;
  }
  close();
  if (fields_of) *fields_of = std::move(groups);
  return out;
}

}  // namespace spanscope::jinja
