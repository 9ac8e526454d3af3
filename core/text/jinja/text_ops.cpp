// SPDX-License-Identifier: GPL-3.0-or-later
// Operations on strings that filters and methods share. Each result says where its bytes came from.
#include <algorithm>

#include "core/text/jinja/characters.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {

Value piece(Interpreter& in, const Value& text, uint64_t begin, uint64_t end) {
  if (begin == 0 && end == bytes_of(text).size()) return text;
  TextBuilder out(in);
  out.add(text_of(text), begin, end);
  return out.take(text.safe());
}

std::vector<Value> characters(Interpreter& in, const Value& value) {
  const TextData& text = text_of(value);
  std::vector<Value> out;
  in.reserve(text.characters * sizeof(Value));
  out.reserve(text.characters);
  for (uint64_t at = 0; at < text.bytes.size();) {
    const uint64_t length = character_length(text.bytes, at);
    in.step();
    out.push_back(piece(in, value, at, at + length));
    at += length;
  }
  return out;
}

Value strip(Interpreter& in, const Value& value, const Value* set, bool left, bool right) {
  const TextData& text = text_of(value);
  std::string_view rest = text.bytes;
  in.step(rest.size() / 64);
  if (!set || set->is(Kind::none)) {
    if (left) rest = strip_left(rest);
    if (right) rest = strip_right(rest);
  } else {
    if (set->is(Kind::undefined)) in.fail_undefined(*set);
    if (!set->is(Kind::string)) in.fail_type(std::string("strip arg must be None or str, not ") + type_name(*set));
    const std::string_view characters = bytes_of(*set);
    const auto in_set = [&](std::string_view one) {
      for (uint64_t at = 0; at < characters.size(); at += character_length(characters, at))
        if (characters.substr(at, character_length(characters, at)) == one) return true;
      return false;
    };
    while (left && !rest.empty() && in_set(rest.substr(0, character_length(rest, 0)))) {
      in.step();
      rest.remove_prefix(character_length(rest, 0));
    }
    while (right && !rest.empty()) {
      in.step();
      size_t at = rest.size() - 1;
      while (at > 0 && rest.size() - at < 4 && (uint8_t(rest[at]) & 0xc0) == 0x80) --at;
      if (at + character_length(rest, at) != rest.size()) at = rest.size() - 1;  // an ill-formed byte
      if (!in_set(rest.substr(at))) break;
      rest = rest.substr(0, at);
    }
  }
  const auto begin = rest.empty() ? uint64_t(0) : uint64_t(rest.data() - text.bytes.data());
  return piece(in, value, begin, begin + rest.size());
}

Value replace(Interpreter& in, const Value& value, const Value& from_value, const Value& to_value, Int most) {
  const TextData& text = text_of(value);
  const TextData& to = text_of(to_value);
  const std::string_view from = bytes_of(from_value);
  if (most < 0) most = Int(text.bytes.size()) + 1;
  TextBuilder out(in);
  Int done = 0;
  if (from.empty()) {  // between all characters
    uint64_t at = 0;
    for (; at < text.bytes.size() && done < most; ++done) {
      in.step();
      out.add(to);
      const uint64_t length = character_length(text.bytes, at);
      out.add(text, at, at + length);
      at += length;
    }
    if (done < most) out.add(to);
    out.add(text, at, text.bytes.size());
    return out.take();
  }
  uint64_t at = 0;
  for (; done < most; ++done) {
    const size_t found = text.bytes.find(from, at);
    if (found == std::string_view::npos) break;
    in.step();
    out.add(text, at, found);
    // What has no origin of its own belongs to the first character that it replaces.
    uint64_t begin = 0;
    for (const Run& run : to.runs) {
      if (run.field == kNoField) out.in_place(to.bytes.substr(begin, run.end - begin), text, found);
      else out.add(to, begin, run.end);
      begin = run.end;
    }
    if (begin < to.bytes.size()) out.in_place(to.bytes.substr(begin), text, found);
    at = found + from.size();
  }
  in.step(text.bytes.size() / 64);
  out.add(text, at, text.bytes.size());
  return out.take();
}

Value join(Interpreter& in, const Value& separator, const std::vector<Value>& items, bool as_text) {
  TextBuilder out(in);
  for (size_t i = 0; i < items.size(); ++i) {
    in.step();
    if (i > 0) out.add(separator);
    if (items[i].is(Kind::string)) {
      out.add(items[i]);
    } else if (as_text) {
      out.add(in.to_text(items[i]));
    } else {
      in.fail_type("sequence item " + std::to_string(i) + ": expected str instance, " + type_name(items[i]) + " found");
    }
  }
  return out.take();
}

Value changed_case(Interpreter& in, const Value& text, int mode) {
  TextBuilder out(in);
  in.step(bytes_of(text).size() / 16);
  change_case(out, text_of(text), Case(mode));
  return out.take(text.safe());
}

std::vector<Value> lines(Interpreter& in, const Value& value, bool keep_ends) {
  const std::string_view text = bytes_of(value);
  std::vector<Value> out;
  uint64_t begin = 0, length = 0;
  for (uint64_t at = 0; at < text.size();) {
    const uint32_t code = code_at(text, at, length);
    uint64_t next = at + length;
    if (is_line_end(code)) {
      if (code == '\r' && next < text.size() && text[next] == '\n') ++next;
      in.step();
      out.push_back(piece(in, value, begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) out.push_back(piece(in, value, begin, text.size()));
  return out;
}

Value escaped(Interpreter& in, const Value& value) {
  if (value.safe()) return value;
  const Value shown = in.to_text(value);
  const TextData& text = text_of(shown);
  TextBuilder out(in);
  uint64_t plain = 0;
  for (uint64_t at = 0; at < text.bytes.size(); ++at) {
    const char* entity = nullptr;
    switch (text.bytes[at]) {
      case '&': entity = "&amp;"; break;
      case '<': entity = "&lt;"; break;
      case '>': entity = "&gt;"; break;
      case '\'': entity = "&#39;"; break;
      case '"': entity = "&#34;"; break;
      default: continue;
    }
    out.add(text, plain, at);
    out.in_place(entity, text, at);
    plain = at + 1;
  }
  out.add(text, plain, text.bytes.size());
  return out.take(true);
}

}  // namespace spanscope::jinja
