// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/vocabulary_digest.h"

#include <string_view>

#include "core/base/digest.h"

namespace spanscope {
namespace {

class Text {
 public:
  void add(std::string_view text) {
    all_ += std::to_string(text.size());
    all_ += ':';
    all_ += text;
  }
  void byte(int value) { all_ += char('0' + value); }
  template <class T>
  void numbers(std::string_view name, const std::vector<T>& values) {
    if (values.empty()) return;
    add(name);
    add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  void flag(std::string_view name, bool differs) {
    if (differs) add(name);
  }
  const std::string& text() const { return all_; }

 private:
  std::string all_;
};

}  // namespace

std::string vocabulary_digest(const Vocabulary& v) {
  Text out;
  out.add(v.kind);
  out.add(v.pre);
  for (const auto& token : v.tokens) out.add(token);
  for (TokenKind kind : v.kinds) out.byte(int(kind));
  for (const auto& merge : v.merges) out.add(merge);
  out.numbers("merge_left", v.merge_left);
  out.numbers("scores", v.scores);
  out.numbers("flags", v.flags);
  const auto steps = [&](std::string_view name, const std::vector<NormaliseStep>& list) {
    if (list.empty()) return;
    out.add(name);
    for (const NormaliseStep& step : list) {
      out.byte(int(step.kind));
      out.byte(int(step.when));
      out.add(step.from);
      out.add(step.to);
    }
  };
  steps("normalise", v.normalise);
  steps("prepare", v.prepare);
  for (const SplitStep& step : v.split) {
    out.byte(int(step.kind));
    out.byte(int(step.match));
    out.add(step.text);
  }
  out.flag("ignore_merges", v.ignore_merges);
  out.flag("byte_fallback", v.byte_fallback);
  out.flag("single unknown", !v.fuse_unknown);
  return sha256_hex(out.text());
}

}  // namespace spanscope
