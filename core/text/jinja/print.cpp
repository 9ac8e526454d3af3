// SPDX-License-Identifier: GPL-3.0-or-later
// Containers as text: Python's repr() and JSON, with origins. Quotes take the field of the string's first and last
// character; everything that is not inside a string belongs to the innermost container that came from the input.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text/jinja/characters.h"
#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

void own(TextBuilder& out, std::string_view bytes, FieldId field) { out.run(bytes, field, RunKind::owned, 0); }

FieldId field_at(const TextData& text, uint64_t at) { return origin_at(text, at).field; }

template <class Escape>
void print_string(TextBuilder& out, const Value& string, FieldId container, std::string_view quote, Escape escape) {
  const TextData& text = text_of(string);
  if (text.bytes.empty()) {
    own(out, std::string(quote) + std::string(quote), container);
    return;
  }
  own(out, quote, field_at(text, 0));
  uint64_t plain = 0, length = 0;
  std::string escaped;
  for (uint64_t at = 0; at < text.bytes.size(); at += length) {
    const uint32_t code = code_at(text.bytes, at, length);
    escaped.clear();
    escape(escaped, code);
    if (escaped.empty()) continue;
    out.add(text, plain, at);
    out.in_place(escaped, text, at);
    plain = at + length;
  }
  out.add(text, plain, text.bytes.size());
  own(out, quote, field_at(text, text.bytes.size() - 1));
}

constexpr uint32_t kIllFormed = 0xffffffff;

class ReprPrinter {
 public:
  ReprPrinter(Interpreter& in, bool tracked) : in_(in), tracked_(tracked), out_(in) {}
  Value take() { return out_.take(); }

  void print(const Value& value, FieldId container) {
    in_.step();
    switch (value.kind()) {
      case Kind::string: return string(value, container);
      case Kind::dict: {
        const auto& data = value.as<DictData>();
        const FieldId origin = tracked_ ? data.origin : kNoField;
        own(out_, "{", origin);
        bool first = true;
        for (const auto& [key, item] : data.entries) {
          if (!first) own(out_, ", ", origin);
          first = false;
          print(key, origin);
          own(out_, ": ", origin);
          print(item, origin);
        }
        return own(out_, "}", origin);
      }
      case Kind::list:
      case Kind::tuple:
      case Kind::view: {
        const auto& data = value.as<ListData>();
        const FieldId origin = tracked_ ? data.origin : kNoField;
        const bool tuple = value.is(Kind::tuple);
        if (value.is(Kind::view)) own(out_, data.name + "(", origin);
        own(out_, tuple ? "(" : "[", origin);
        for (size_t i = 0; i < data.items.size(); ++i) {
          if (i > 0) own(out_, ", ", origin);
          print(data.items[i], origin);
        }
        if (tuple && data.items.size() == 1) own(out_, ",", origin);
        own(out_, tuple ? ")" : "]", origin);
        if (value.is(Kind::view)) own(out_, ")", origin);
        return;
      }
      case Kind::range: {
        const auto& data = value.as<ListData>();
        std::string text = "range(" + print_integer(data.start) + ", " + print_integer(data.stop);
        if (data.step != 1) text += ", " + print_integer(data.step);
        return own(out_, text + ")", container);
      }
      case Kind::undefined: return own(out_, "Undefined", container);
      default: return own(out_, bytes_of(in_.to_text(value)), container);
    }
  }

 private:
  void string(const Value& value, FieldId container) {
    const std::string_view bytes = bytes_of(value);
    const char quote = bytes.find('\'') != std::string_view::npos && bytes.find('"') == std::string_view::npos ? '"' : '\'';
    const auto escape = [&](std::string& out, uint32_t code) {
      if (code == uint32_t(quote) || code == '\\') {
        out += '\\';
        out += char(code);
      } else if (code == '\n') {
        out = "\\n";
      } else if (code == '\r') {
        out = "\\r";
      } else if (code == '\t') {
        out = "\\t";
      } else if (code != kIllFormed && !is_printable(code)) {
        if (code < 0x100) out = fmt::format("\\x{:02x}", code);
        else if (code < 0x10000) out = fmt::format("\\u{:04x}", code);
        else out = fmt::format("\\U{:08x}", code);
      }
    };
    if (tracked_) return print_string(out_, value, container, std::string_view(&quote, 1), escape);
    TextBuilder with(in_);
    print_string(with, value, kNoField, std::string_view(&quote, 1), escape);
    out_.plain(with.bytes());
  }

  Interpreter& in_;
  bool tracked_;
  TextBuilder out_;
};

class JsonPrinter {
 public:
  JsonPrinter(Interpreter& in, const JsonStyle& style) : in_(in), style_(style), out_(in) {}
  Value take() { return out_.take(); }

  void print(const Value& value, FieldId container, uint32_t level) {
    in_.step();
    switch (value.kind()) {
      case Kind::string: return string(value, container);
      case Kind::list:
      case Kind::tuple: {
        const auto& data = value.as<ListData>();
        if (data.items.empty()) return own(out_, "[]", data.origin);
        own(out_, "[", data.origin);
        line(data.origin, level + 1);
        for (size_t i = 0; i < data.items.size(); ++i) {
          if (i > 0) between(data.origin, level + 1);
          print(data.items[i], data.origin, level + 1);
        }
        line(data.origin, level);
        return own(out_, "]", data.origin);
      }
      case Kind::dict: return dict(value.as<DictData>(), level);
      default: return own(out_, scalar(value), container);
    }
  }

 private:
  void line(FieldId origin, uint32_t level) {
    if (!style_.indent) return;
    own(out_, "\n", origin);
    for (uint32_t k = 0; k < level; ++k) own(out_, *style_.indent, origin);
  }
  void between(FieldId origin, uint32_t level) {
    own(out_, style_.between, origin);
    line(origin, level);
  }

  std::string scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::none: return "null";
      case Kind::boolean: return value.integer() ? "true" : "false";
      case Kind::integer: return print_integer(value.integer());
      case Kind::real:
        if (std::isnan(value.real())) return "NaN";
        if (std::isinf(value.real())) return value.real() < 0 ? "-Infinity" : "Infinity";
        return print_real(value.real());
      default: in_.fail_type(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  void dict(const DictData& data, uint32_t level) {
    if (data.entries.empty()) return own(out_, "{}", data.origin);
    std::vector<size_t> order(data.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style_.sorted)
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return in_.less(data.entries[a].first, data.entries[b].first); });
    own(out_, "{", data.origin);
    line(data.origin, level + 1);
    bool first = true;
    for (const size_t i : order) {
      const auto& [key, value] = data.entries[i];
      if (!first) between(data.origin, level + 1);
      first = false;
      if (key.is(Kind::string)) string(key, data.origin);
      else own(out_, "\"" + scalar(key) + "\"", data.origin);
      own(out_, style_.after_key, data.origin);
      print(value, data.origin, level + 1);
    }
    line(data.origin, level);
    own(out_, "}", data.origin);
  }

  void string(const Value& value, FieldId container) {
    print_string(out_, value, container, "\"", [&](std::string& out, uint32_t code) {
      switch (code) {
        case '"': out = "\\\""; return;
        case '\\': out = "\\\\"; return;
        case '\n': out = "\\n"; return;
        case '\r': out = "\\r"; return;
        case '\t': out = "\\t"; return;
        case '\b': out = "\\b"; return;
        case '\f': out = "\\f"; return;
        default: break;
      }
      if (code < 0x20 || (style_.ascii && code >= 0x80 && code < 0x10000)) {
        out = fmt::format("\\u{:04x}", code);
      } else if (style_.ascii && code >= 0x10000 && code != kIllFormed) {
        out = fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
      }
    });
  }

  Interpreter& in_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

// A container that the template built is printed as a constant: the reference does not follow its strings either.
Value print_container(Interpreter& in, const Value& value) {
  const bool tracked = (value.is(Kind::list) && value.as<ListData>().origin != kNoField) ||
                       (value.is(Kind::dict) && value.as<DictData>().origin != kNoField) || value.is(Kind::string);
  ReprPrinter printer(in, tracked);
  printer.print(value, kNoField);
  return printer.take();
}

Value print_json(Interpreter& in, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(in, style);
  printer.print(value, kNoField, 0);
  return printer.take();
}

std::string print_integer(Int value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  std::string out;
  for (; value != 0; value /= 10) out += char('0' + int(negative ? -(value % 10) : value % 10));
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view shortest(buffer, size_t(end - buffer));  // d.ddde+XX, as few digits as name the number
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* digits_of_exponent = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits_of_exponent, buffer + shortest.size(), exponent);
  const bool negative = shortest[0] == '-';
  std::string digits;
  for (char c : shortest.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  const auto whole = size_t(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace spanscope::jinja
