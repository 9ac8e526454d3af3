// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/normaliser.h"

#include <utf8proc.h>

#include <algorithm>
#include <new>

#include "core/text/utf8.h"

namespace spanscope {
namespace {

class Builder {
 public:
  explicit Builder(const MappedText& from) : from_(from) {
    out_.text.reserve(from.text.size() + 16);
    out_.origin.reserve(from.origin.size() + 16);
  }
  void copy(size_t begin, size_t end) {
    out_.text.append(from_.text, begin, end - begin);
    out_.origin.insert(out_.origin.end(), from_.origin.begin() + ptrdiff_t(begin), from_.origin.begin() + ptrdiff_t(end));
  }
  // Bytes [begin, end) of the source became `text`.
  void put(std::string_view text, size_t begin, size_t end) {
    const uint64_t first = from_.origin[begin], last = from_.origin[end];
    out_.text += text;
    for (size_t i = 0; i < text.size(); ++i) out_.origin.push_back(std::min(first + i, last));
  }
  MappedText finish() {
    out_.origin.push_back(from_.origin.back());
    return std::move(out_);
  }

 private:
  const MappedText& from_;
  MappedText out_;
};

MappedText replaced(const MappedText& in, const std::string& from, const std::string& to) {
  size_t at = in.text.find(from);
  if (at == std::string::npos) return in;
  Builder out(in);
  size_t done = 0;
  for (; at != std::string::npos; at = in.text.find(from, done)) {
    out.copy(done, at);
    out.put(to, at, at + from.size());
    done = at + from.size();
  }
  out.copy(done, in.text.size());
  return out.finish();
}

MappedText prefixed(MappedText in, const NormaliseStep& step, bool first, bool continues) {
  using When = NormaliseStep::When;
  if (continues || in.text.empty() || (step.when == When::first_unless_there && !first)) return in;
  if (step.when != When::always && in.text.compare(0, step.to.size(), step.to) == 0) return in;
  in.text.insert(0, step.to);
  in.origin.insert(in.origin.begin(), step.to.size(), in.origin.front());
  return in;
}

MappedText lowercased(const MappedText& in) {
  Builder out(in);
  std::string lower;
  for (size_t at = 0; at < in.text.size();) {
    const size_t length = utf8_sequence(in.text, at), end = at + std::max<size_t>(length, 1);
    if (length == 0) {
      out.copy(at, end);
    } else {
      const uint32_t c = utf8_code_point(in.text, at, length);
      lower.clear();
      append_utf8(lower, uint32_t(utf8proc_tolower(utf8proc_int32_t(c))));
      if (c == 0x130) lower = "i\xcc\x87";  // the only character whose lower case is two, whatever stands around it
      out.put(lower, at, end);
    }
    at = end;
  }
  return out.finish();
}

int combining_class(uint32_t c) { return utf8proc_get_property(utf8proc_int32_t(c))->combining_class; }

// Nothing composes or is reordered across the begin of a character that is no mark and no vowel or final of a Hangul syllable.
bool begins_cluster(uint32_t c) {
  if (c >= 0x1160 && c <= 0x11ff) return false;
  const utf8proc_category_t category = utf8proc_category(utf8proc_int32_t(c));
  return category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC && category != UTF8PROC_CATEGORY_ME;
}

std::string canonical(std::string_view cluster, int options) {
  std::vector<utf8proc_int32_t> codes;
  for (size_t at = 0; at < cluster.size();) {
    const size_t length = utf8_sequence(cluster, at);
    utf8proc_int32_t parts[32];
    const auto n = utf8proc_decompose_char(utf8proc_int32_t(utf8_code_point(cluster, at, length)), parts, 32,
                                           utf8proc_option_t(options | UTF8PROC_DECOMPOSE), nullptr);
    if (n < 0 || n > 32) throw std::bad_alloc();  // no character takes more than 18
    codes.insert(codes.end(), parts, parts + n);
    at += length;
  }
  for (size_t i = 0; i < codes.size();) {
    size_t end = i;
    while (end < codes.size() && combining_class(uint32_t(codes[end])) != 0) ++end;
    std::stable_sort(codes.begin() + ptrdiff_t(i), codes.begin() + ptrdiff_t(end), [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(uint32_t(a)) < combining_class(uint32_t(b));
    });
    i = end + 1;
  }
  if (options & UTF8PROC_COMPOSE) {
    const auto n = utf8proc_normalize_utf32(codes.data(), utf8proc_ssize_t(codes.size()), utf8proc_option_t(options));
    if (n < 0) throw std::bad_alloc();
    codes.resize(size_t(n));
  }
  std::string out;
  for (utf8proc_int32_t c : codes) append_utf8(out, uint32_t(c));
  return out;
}

MappedText composed(const MappedText& in, NormaliseStep::Kind kind) {
  int options = UTF8PROC_STABLE;
  if (kind == NormaliseStep::Kind::nfc || kind == NormaliseStep::Kind::nfkc) options |= UTF8PROC_COMPOSE;
  if (kind == NormaliseStep::Kind::nfkc || kind == NormaliseStep::Kind::nfkd) options |= UTF8PROC_COMPAT;
  // What stays as it is whatever follows, marks apart: below U+0300 for NFC, ASCII for the others.
  const uint32_t plain = kind == NormaliseStep::Kind::nfc ? 0x300 : 0x80;
  Builder out(in);
  const auto code_at = [&](size_t at, size_t& length) {
    length = utf8_sequence(in.text, at);
    return length == 0 ? 0 : utf8_code_point(in.text, at, length);
  };
  for (size_t at = 0; at < in.text.size();) {
    size_t length = 0;
    const uint32_t first = code_at(at, length);
    size_t end = at + std::max<size_t>(length, 1);
    bool all_plain = first < plain;
    if (length > 0)
      while (end < in.text.size()) {
        size_t next_length = 0;
        const uint32_t next = code_at(end, next_length);
        if (next_length == 0 || next < 0x300 || begins_cluster(next)) break;
        all_plain = false;
        end += next_length;
      }
    if (length == 0 || all_plain) {
      out.copy(at, end);
    } else {
      const std::string_view cluster = std::string_view(in.text).substr(at, end - at);
      const std::string normal = canonical(cluster, options);
      if (normal == cluster) out.copy(at, end);
      else out.put(normal, at, end);
    }
    at = end;
  }
  return out.finish();
}

}  // namespace

MappedText unmapped(std::string_view text, uint64_t base) {
  MappedText out{std::string(text), std::vector<uint64_t>(text.size() + 1)};
  for (size_t i = 0; i <= text.size(); ++i) out.origin[i] = base + i;
  return out;
}

MappedText part_of(const MappedText& text, size_t begin, size_t end) {
  return {text.text.substr(begin, end - begin),
          std::vector<uint64_t>(text.origin.begin() + ptrdiff_t(begin), text.origin.begin() + ptrdiff_t(end) + 1)};
}

Result<Normaliser> Normaliser::make(std::vector<NormaliseStep> steps, const std::string& where) {
  if (steps.size() > 16) return make_error(ErrorCode::limit, "SPAN-LIMIT", std::to_string(steps.size()) + " normalizer steps, more than 16", where);
  for (const NormaliseStep& step : steps) {
    if (step.kind == NormaliseStep::Kind::replace && step.from.empty())
      return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", "a normalizer replaces the empty text", where);
    if (step.to.size() > 1024) return make_error(ErrorCode::limit, "SPAN-LIMIT", "a normalizer puts in more than 1024 bytes", where);
  }
  Normaliser out;
  out.steps_ = std::move(steps);
  return out;
}

MappedText Normaliser::apply(MappedText text, bool first, bool continues) const {
  for (const NormaliseStep& step : steps_) switch (step.kind) {
      case NormaliseStep::Kind::replace:
        text = replaced(text, step.from, step.to);
        break;
      case NormaliseStep::Kind::prefix:
        text = prefixed(std::move(text), step, first, continues);
        break;
      case NormaliseStep::Kind::lowercase:
        text = lowercased(text);
        break;
      default:
        text = composed(text, step.kind);
    }
  return text;
}

}  // namespace spanscope
