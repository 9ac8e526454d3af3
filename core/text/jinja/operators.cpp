// SPDX-License-Identifier: GPL-3.0-or-later
// Arithmetic, joining, comparing, formatting.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

using Op = Expr::Op;

const char* sign_of(Op op) {
  switch (op) {
    case Op::add: return "+";
    case Op::subtract: return "-";
    case Op::multiply: return "*";
    case Op::divide: return "/";
    case Op::floor_divide: return "//";
    case Op::modulo: return "%";
    default: return "** or pow()";
  }
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return rest;
}

}  // namespace

bool Machine::equal(const Value& a, const Value& b) {
  step();
  switch (a.kind()) {
    case Kind::list:
    case Kind::tuple:
    case Kind::range: {
      if (a.kind() != b.kind()) return false;
      const auto& left = a.as<ListData>().items;
      const auto& right = b.as<ListData>().items;
      if (a.object() == b.object()) return true;
      if (left.size() != right.size()) return false;
      for (size_t i = 0; i < left.size(); ++i)
        if (!equal(left[i], right[i])) return false;
      return true;
    }
    case Kind::dict: {
      if (!b.is(Kind::dict)) return false;
      const auto& left = a.as<DictData>();
      const auto& right = b.as<DictData>();
      if (&left == &right) return true;
      if (left.entries.size() != right.entries.size()) return false;
      for (const auto& [key, value] : left.entries) {
        const size_t at = right.find(key);
        if (at == std::string::npos || !equal(value, right.entries[at].second)) return false;
      }
      return true;
    }
    case Kind::view:
    case Kind::generator:
    case Kind::callable:
    case Kind::space:
    case Kind::loop: return a.kind() == b.kind() && a.object() == b.object();
    default: return equal_scalars(a, b);
  }
}

bool Machine::less(const Value& a, const Value& b, const char* sign) {
  step();
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
    return a.real() < b.real();
  }
  if (a.is(Kind::string) && b.is(Kind::string)) return bytes_of(a) < bytes_of(b);  // UTF-8 keeps the order of code points
  if ((a.is(Kind::list) && b.is(Kind::list)) || (a.is(Kind::tuple) && b.is(Kind::tuple))) {
    const auto& left = a.as<ListData>().items;
    const auto& right = b.as<ListData>().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
      if (!equal(left[i], right[i])) return less(left[i], right[i], sign);
    return left.size() < right.size();
  }
  const bool swapped = sign[0] == '>';
  fail_type(fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(swapped ? b : a), type_name(swapped ? a : b)));
}

void check_key(Machine& machine, const Value& key) {
  if (key.is(Kind::undefined)) machine.fail_undefined(key);
  if (key.is(Kind::list) || key.is(Kind::dict)) machine.fail_type(fmt::format("unhashable type: '{}'", type_name(key)));
  if (!key.is_number() && !key.is(Kind::string) && !key.is(Kind::none))
    machine.fail(Trouble::unsupported, fmt::format("a {} as key of a dict is outside of the supported part of the template language", type_name(key)));
}

Value Interpreter::concat(const Value& a, const Value& b) {
  TextBuilder out(*this);
  const bool safe = a.safe() || b.safe();
  out.add(safe && !a.safe() ? escaped(*this, a) : a);
  out.add(safe && !b.safe() ? escaped(*this, b) : b);
  return out.take(safe);
}

Value Interpreter::add(const Value& a, const Value& b) {
  if (a.is(Kind::string) && b.is(Kind::string)) return concat(a, b);
  if ((a.is(Kind::list) && b.is(Kind::list)) || (a.is(Kind::tuple) && b.is(Kind::tuple))) {
    std::vector<Value> items;
    const auto& left = a.as<ListData>().items;
    const auto& right = b.as<ListData>().items;
    reserve((left.size() + right.size()) * sizeof(Value));
    step((left.size() + right.size()) / 4);
    items.reserve(left.size() + right.size());
    items.insert(items.end(), left.begin(), left.end());
    items.insert(items.end(), right.begin(), right.end());
    return list(std::move(items), a.kind());
  }
  if (a.is_number() && b.is_number()) return arithmetic(Op::add, a, b);
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  if (a.is(Kind::string)) fail_type(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  if (a.is(Kind::list)) fail_type(fmt::format("can only concatenate list (not \"{}\") to list", type_name(b)));
  if (a.is(Kind::tuple)) fail_type(fmt::format("can only concatenate tuple (not \"{}\") to tuple", type_name(b)));
  fail_type(fmt::format("unsupported operand type(s) for +: '{}' and '{}'", type_name(a), type_name(b)));
}

Value Interpreter::arithmetic(Op op, const Value& a, const Value& b) {
  if (op == Op::modulo && a.is(Kind::string)) return format(a, b);
  if (a.is(Kind::undefined)) fail_undefined(a);
  if (b.is(Kind::undefined)) fail_undefined(b);
  if (op == Op::multiply && a.is_integral() && !b.is_number()) return arithmetic(op, b, a);
  if (op == Op::multiply && b.is_integral() && (a.is(Kind::string) || a.is(Kind::list) || a.is(Kind::tuple))) {
    const Int times = std::max(b.integer(), Int(0));
    if (a.is(Kind::string)) {
      const TextData& text = text_of(a);
      if (!text.bytes.empty() && times > Int(limits_.text / text.bytes.size())) check_text(UINT64_MAX);
      TextBuilder out(*this);
      if (!text.bytes.empty())
        for (Int k = 0; k < times; ++k) {
          step();
          out.add(text);
        }
      return out.take(a.safe());
    }
    const auto& items = a.as<ListData>().items;
    if (!items.empty() && times > Int(limits_.memory / sizeof(Value) / items.size())) reserve(UINT64_MAX);
    reserve(items.size() * uint64_t(items.empty() ? 0 : times) * sizeof(Value));
    std::vector<Value> out;
    if (!items.empty())
      for (Int k = 0; k < times; ++k) {
        step(items.size());
        out.insert(out.end(), items.begin(), items.end());
      }
    return list(std::move(out), a.kind());
  }
  if (!a.is_number() || !b.is_number())
    fail_type(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign_of(op), type_name(a), type_name(b)));
  const bool divides = op == Op::divide || op == Op::floor_divide || op == Op::modulo;
  if (divides && b.real() == 0) fail(Trouble::zero_division, op == Op::divide ? "division by zero" : "integer division or modulo by zero");
  if (a.is_integral() && b.is_integral() && op != Op::divide && !(op == Op::power && b.integer() < 0)) {
    const Int x = a.integer(), y = b.integer();
    Int out = 0;
    bool overflow = false;
    switch (op) {
      case Op::add: overflow = __builtin_add_overflow(x, y, &out); break;
      case Op::subtract: overflow = __builtin_sub_overflow(x, y, &out); break;
      case Op::multiply: overflow = __builtin_mul_overflow(x, y, &out); break;
      case Op::power: {
        out = 1;
        if (x == 0 || x == 1) out = y == 0 ? 1 : x;
        else if (x == -1) out = y % 2 == 0 ? 1 : -1;
        else for (Int k = 0; k < y && !overflow; ++k) overflow = __builtin_mul_overflow(out, x, &out);
        break;
      }
      default: {
        if (y == -1) {
          if (op == Op::modulo) return Value::integer(0);
          overflow = __builtin_sub_overflow(Int(0), x, &out);
          break;
        }
        Int quotient = x / y, rest = x % y;
        if (rest != 0 && (rest < 0) != (y < 0)) {
          --quotient;
          rest += y;
        }
        out = op == Op::modulo ? rest : quotient;
      }
    }
    if (overflow) fail(Trouble::limit, "an integer of more than 127 bits");
    return Value::integer(out);
  }
  const double x = a.real(), y = b.real();
  switch (op) {
    case Op::add: return Value::real(x + y);
    case Op::subtract: return Value::real(x - y);
    case Op::multiply: return Value::real(x * y);
    case Op::divide: return Value::real(x / y);
    case Op::floor_divide: return Value::real(std::floor((x - floor_modulo(x, y)) / y + 0.5));
    case Op::modulo: return Value::real(floor_modulo(x, y));
    default: {
      if (x == 0 && y < 0) fail(Trouble::zero_division, "0.0 cannot be raised to a negative power");
      const double out = std::pow(x, y);
      if (std::isnan(out) && !std::isnan(x) && !std::isnan(y))
        fail(Trouble::unsupported, "complex numbers are outside of the supported part of the template language");
      if (std::isinf(out) && !std::isinf(x) && !std::isinf(y)) fail(Trouble::value, "the result of ** is too large");
      return Value::real(out);
    }
  }
}

// "%s", "%d", "%i", "%r", "%f", "%x", "%%" with flags, width and precision. A %s without width keeps its origins.
Value Interpreter::format(const Value& pattern, const Value& arguments) {
  const TextData& text = text_of(pattern);
  std::vector<Value> values;
  if (arguments.is(Kind::tuple)) values = iterate(arguments);
  else values.push_back(arguments);
  // What can be looked up by key may hold more than the pattern asks for.
  const bool maps = arguments.is(Kind::dict) || arguments.is(Kind::list) || arguments.is(Kind::range) || arguments.is(Kind::undefined);
  TextBuilder out(*this);
  size_t used = 0;
  for (uint64_t at = 0; at < text.bytes.size();) {
    const uint64_t sign = std::min<uint64_t>(text.bytes.find('%', at), text.bytes.size());
    out.add(text, at, sign);
    if (sign == text.bytes.size()) break;
    at = sign + 1;
    std::string flags;
    size_t width = 0, precision = 0;
    bool precise = false;
    const auto peek = [&] { return at < text.bytes.size() ? text.bytes[at] : '\0'; };
    const auto read = [&](size_t& number) {
      for (; peek() >= '0' && peek() <= '9'; ++at) number = std::min<size_t>(number * 10 + size_t(peek() - '0'), 100'000);
    };
    while (peek() == '-' || peek() == '+' || peek() == ' ' || peek() == '#' || peek() == '0') flags += text.bytes[at++];
    read(width);
    if (peek() == '.') {
      ++at;
      precise = true;
      read(precision);
    }
    const char kind = peek();
    ++at;
    if (kind == '%') {
      out.plain("%");
      continue;
    }
    if (std::string_view("sdirfFxXogGeE").find(kind) == std::string_view::npos || kind == '\0' || flags.find('#') != std::string::npos || precision > 100)
      fail(Trouble::unsupported, "a format other than %s, %d, %i, %r, %f, %g, %e, %x and %o is outside of the supported part of the template language");
    if (used >= values.size()) fail_type("not enough arguments for format string");
    const Value& value = values[used++];
    const bool left = flags.find('-') != std::string::npos, zeros = flags.find('0') != std::string::npos && !left;
    if (kind == 's' || kind == 'r') {
      Value shown = kind == 's' ? to_text(value) : print_container(*this, value);
      if (pattern.safe() && !shown.safe()) shown = escaped(*this, shown);
      if (precise) shown = slice(shown, Value::none(), Value::integer(Int(precision)), Value::none());
      const uint64_t length = text_of(shown).characters;
      const std::string pad(width > length ? width - length : 0, ' ');
      if (!left) out.plain(pad);
      out.add(shown);
      if (left) out.plain(pad);
      continue;
    }
    if (!value.is_number()) fail_type(fmt::format("%{} format: a number is required, not {}", kind, type_name(value)));
    std::string digits;
    bool negative = false;
    if (std::string_view("fFgGeE").find(kind) != std::string_view::npos) {
      const double number = value.real();
      negative = std::signbit(number);
      digits = fmt::format(fmt::runtime(std::string("{:.{}") + kind + "}"), std::fabs(number), precise ? int(precision) : 6);
    } else {
      if (value.is(Kind::real) && (kind == 'x' || kind == 'X' || kind == 'o')) fail_type(fmt::format("%{} format: an integer is required, not float", kind));
      if (value.is(Kind::real) && !(std::fabs(value.real()) < 1e30)) fail(Trouble::value, "cannot convert this float to an integer");
      Int number = value.is(Kind::real) ? Int(value.real()) : value.integer();
      negative = number < 0;
      const unsigned base = kind == 'x' || kind == 'X' ? 16 : kind == 'o' ? 8 : 10;
      do {
        const auto digit = unsigned(negative ? -(number % Int(base)) : number % Int(base));
        digits += char(digit < 10 ? '0' + digit : (kind == 'X' ? 'A' : 'a') + digit - 10);
        number /= Int(base);
      } while (number != 0);
      if (precise && digits.size() < precision) digits.append(precision - digits.size(), '0');
      std::reverse(digits.begin(), digits.end());
    }
    std::string prefix = negative ? "-" : flags.find('+') != std::string::npos ? "+" : flags.find(' ') != std::string::npos ? " " : "";
    const size_t length = prefix.size() + digits.size();
    const std::string pad(width > length ? width - length : 0, zeros ? '0' : ' ');
    out.plain(left ? prefix + digits + pad : zeros ? prefix + pad + digits : pad + prefix + digits);
  }
  if (used < values.size() && !maps) fail_type("not all arguments converted during string formatting");
  return out.take(pattern.safe());
}

}  // namespace spanscope::jinja
