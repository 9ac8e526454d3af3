// SPDX-License-Identifier: GPL-3.0-or-later
// Filters whose result is a string or a number.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/text/jinja/characters.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

Value trim(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "trim", arguments, {"chars"});
  return strip(in, in.to_text(self), p.find(0), true, true);
}

template <Case mode>
Value cased(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "upper", arguments, {});
  return changed_case(in, in.to_text(self), int(mode));
}

// The filter, not the method: words begin behind white space, hyphens and opening brackets only.
Value title(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "title", arguments, {});
  const Value shown = in.to_text(self);
  const TextData& text = text_of(shown);
  TextBuilder out(in);
  bool first = true;
  uint64_t length = 0;
  for (uint64_t at = 0; at < text.bytes.size(); at += length) {
    const uint32_t code = code_at(text.bytes, at, length);
    const bool between = is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    change_case(out, text, at, at + length, first ? Case::upper : Case::lower);
    first = between;
  }
  return out.take();
}

Value replace_filter(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "replace", arguments, {"old", "new", "count"});
  const Int count = p.find(2) && !p.find(2)->is(Kind::none) ? p.integer(2, -1) : -1;
  return replace(in, in.to_text(self), in.to_text(p.at(0)), in.to_text(p.at(1)), count);
}

Value indent(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "indent", arguments, {"width", "first", "blank"});
  if (self.is(Kind::undefined)) in.fail_undefined(self);
  if (!self.is(Kind::string)) in.fail_type(fmt::format("indent takes a string, not {}", type_name(self)));
  Value margin = in.text("    ");
  if (p.has(0)) margin = p.at(0).is(Kind::string) ? p.at(0) : in.arithmetic(Expr::Op::multiply, in.text(" "), Value::integer(p.integer(0, 4)));
  const bool blank = p.flag(2, false);
  std::vector<Value> all = lines(in, in.concat(self, in.text("\n")), false);
  TextBuilder out(in);
  if (p.flag(1, false)) out.add(margin);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) {
      out.plain("\n");
      if (blank || !bytes_of(all[i]).empty()) out.add(margin);
    }
    out.add(all[i]);
  }
  return out.take(self.safe());
}

Value string(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "string", arguments, {});
  return in.to_text(self);
}

Value safe(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "safe", arguments, {});
  TextBuilder out(in);
  out.add(in.to_text(self));
  return out.take(true);
}

Value escape(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "escape", arguments, {});
  return escaped(in, self);
}

Value force_escape(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "forceescape", arguments, {});
  TextBuilder plain(in);
  plain.add(in.to_text(self));
  return escaped(in, plain.take());
}

Value tojson(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = p.flag(0, false);
  if (const Value* margin = p.find(1); margin && !margin->is(Kind::none)) {
    if (margin->is(Kind::string)) {
      style.indent = std::string(bytes_of(*margin));
    } else {
      const Int width = p.integer(1, 0);
      if (width > 1000) in.fail(Trouble::limit, "tojson() indents by at most 1000");
      style.indent = std::string(size_t(std::max(width, Int(0))), ' ');
    }
  }
  style.between = style.indent ? "," : ", ";
  style.after_key = ": ";
  if (const Value* given = p.find(2); given && !given->is(Kind::none)) {
    const std::vector<Value> both = in.iterate(*given);
    if (both.size() != 2 || !both[0].is(Kind::string) || !both[1].is(Kind::string)) in.fail_type("tojson() takes two strings as separators");
    style.between = bytes_of(both[0]);
    style.after_key = bytes_of(both[1]);
  }
  style.sorted = p.flag(3, false);
  return print_json(in, self, style);
}

// As Python reads an integer or a number from a string: white space around and single underscores inside are fine.
std::string cleaned(std::string_view text) {
  text = strip_right(strip_left(text));
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool inside = i > 0 && i + 1 < text.size() && std::isalnum(uint8_t(text[i - 1])) && std::isalnum(uint8_t(text[i + 1]));
    if (text[i] != '_' || !inside) out += text[i];
  }
  return out;
}

std::optional<Int> read_integer(std::string_view given, Int base) {
  std::string text = cleaned(given);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.erase(0, 1);
  }
  const auto prefix = [&](char letter) { return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter; };
  for (const auto& [letter, radix] : {std::pair<char, int>{'x', 16}, {'o', 8}, {'b', 2}})
    if ((base == 0 || base == radix) && prefix(letter)) {
      base = radix;
      text.erase(0, 2);
      break;
    }
  if (base == 0) base = 10;
  if (text.empty()) return std::nullopt;
  Int out = 0;
  for (char c : text) {
    const Int digit = std::isdigit(uint8_t(c)) ? c - '0' : std::isalpha(uint8_t(c)) ? (c | 0x20) - 'a' + 10 : 99;
    if (digit >= base || __builtin_mul_overflow(out, base, &out) || __builtin_add_overflow(out, digit, &out)) return std::nullopt;
  }
  return negative ? -out : out;
}

std::optional<double> read_real(std::string_view given) {
  std::string text = cleaned(given);
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  const char* begin = text.data();
  if (!text.empty() && text[0] == '+') ++begin;
  double out = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || (begin != text.data() && *begin == '-')) return std::nullopt;
  return out;
}

std::optional<Int> whole(double value) {
  if (!(std::fabs(value) < 1.7e38)) return std::nullopt;
  return Int(value);
}

Value to_int(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "int", arguments, {"default", "base"});
  if (self.is(Kind::undefined)) in.fail_undefined(self);
  const Int base = p.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) in.fail(Trouble::value, "int() base must be >= 2 and <= 36, or 0");
  std::optional<Int> out;
  if (self.is_integral()) out = self.integer();
  else if (self.is(Kind::real)) out = whole(self.real());
  else if (self.is(Kind::string)) {
    out = read_integer(bytes_of(self), base);
    if (!out)
      if (const auto real = read_real(bytes_of(self))) out = whole(*real);
  }
  if (out) return Value::integer(*out);
  return p.has(0) ? p.at(0) : Value::integer(0);
}

Value to_float(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "float", arguments, {"default"});
  if (self.is(Kind::undefined)) in.fail_undefined(self);
  if (self.is_number()) return Value::real(self.real());
  if (self.is(Kind::string))
    if (const auto out = read_real(bytes_of(self))) return Value::real(*out);
  return p.has(0) ? p.at(0) : Value::real(0);
}

Value absolute(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "abs", arguments, {});
  if (self.is(Kind::undefined)) in.fail_undefined(self);
  if (!self.is_number()) in.fail_type(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
  if (self.is(Kind::real)) return Value::real(std::fabs(self.real()));
  return self.integer() < 0 ? in.arithmetic(Expr::Op::subtract, Value::integer(0), self) : Value::integer(self.integer());
}

Value round_filter(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "round", arguments, {"precision", "method"});
  if (self.is(Kind::undefined)) in.fail_undefined(self);
  if (!self.is_number()) in.fail_type(fmt::format("type {} doesn't define __round__ method", type_name(self)));
  const Int precision = p.integer(0, 0);
  const std::string_view method = p.text(1, "common");
  if (precision < 0 || precision > 20) in.fail(Trouble::unsupported, "round() to other than 0 to 20 digits is outside of the supported part of the template language");
  if (method == "common") {
    if (self.is_integral()) return Value::integer(self.integer());
    if (!std::isfinite(self.real())) return self;
    return Value::real(std::strtod(fmt::format("{:.{}f}", self.real(), int(precision)).c_str(), nullptr));
  }
  if (method != "ceil" && method != "floor") in.fail(Trouble::value, "method must be common, ceil or floor");
  const double scale = std::pow(10.0, double(precision));
  return Value::real((method == "ceil" ? std::ceil(self.real() * scale) : std::floor(self.real() * scale)) / scale);
}

Value format_filter(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) in.fail(Trouble::unsupported, "format by names is outside of the supported part of the template language");
  return in.format(in.to_text(self), in.list(arguments.positional, Kind::tuple));
}

}  // namespace

const std::vector<Filter>& text_filters() {
  static const std::vector<Filter> all = {
      {"trim", trim},           {"upper", cased<Case::upper>},  {"lower", cased<Case::lower>}, {"capitalize", cased<Case::capitalize>},
      {"title", title},         {"replace", replace_filter},    {"indent", indent},            {"string", string},
      {"safe", safe},           {"escape", escape},             {"e", escape},                 {"forceescape", force_escape},
      {"tojson", tojson},       {"int", to_int},                {"float", to_float},           {"abs", absolute},
      {"round", round_filter},  {"format", format_filter},
  };
  return all;
}

}  // namespace spanscope::jinja
