// SPDX-License-Identifier: GPL-3.0-or-later
// Expressions, tightest part: literals, names, subscripts, calls.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/text/jinja/parser.h"

namespace spanscope::jinja {

using Op = Expr::Op;

namespace {
std::vector<ExprPtr> kids(ExprPtr a, ExprPtr b = nullptr) {
  std::vector<ExprPtr> out;
  out.push_back(std::move(a));
  if (b) out.push_back(std::move(b));
  return out;
}
}  // namespace

ExprPtr Parser::number() {
  const Token token = take();
  const std::string& text = token.text;
  if (token.type == TokenType::real) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      const size_t exponent = text.find_first_of("eE");
      value = exponent != std::string::npos && text[exponent + 1] == '-' ? 0.0 : std::numeric_limits<double>::infinity();
    } else if (error != std::errc() || end != text.data() + text.size()) {
      fail("'" + text + "' is no number", token.place);
    }
    return constant(Value::real(value), token.place);
  }
  Int base = 10, value = 0;
  size_t at = 0;
  if (text.size() > 1 && text[0] == '0' && std::isalpha(uint8_t(text[1]))) {
    const char kind = char(text[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'o' ? 8 : 2;
    at = 2;
  }
  if (at == text.size()) fail("'" + text + "' is no number", token.place);
  for (; at < text.size(); ++at) {
    const Int digit = std::isdigit(uint8_t(text[at])) ? text[at] - '0' : (text[at] | 0x20) - 'a' + 10;
    if (digit >= base) fail("'" + text + "' is no number", token.place);
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value))
      refuse("an integer of more than 127 bits", token.place);
  }
  return constant(Value::integer(value), token.place);
}

ExprPtr Parser::primary() {
  const Token& token = now();
  const Place place = token.place;
  switch (token.type) {
    case TokenType::name: {
      const std::string name = take().text;
      if (name == "true" || name == "True") return constant(Value::boolean(true), place);
      if (name == "false" || name == "False") return constant(Value::boolean(false), place);
      if (name == "none" || name == "None") return constant(Value::none(), place);
      if (std::isdigit(uint8_t(name[0]))) fail("Invalid character in identifier", place);
      if (in_macro_) {
        in_macro_->uses_varargs |= name == "varargs";
        in_macro_->uses_kwargs |= name == "kwargs";
        in_macro_->uses_caller |= name == "caller";
      }
      ExprPtr out = node(Op::name, place);
      out->name = intern(name);
      return out;
    }
    case TokenType::string: {
      std::string text;
      while (now().type == TokenType::string) text += take().text;
      return constant(text_constant(std::move(text)), place);
    }
    case TokenType::integer:
    case TokenType::real: return number();
    case TokenType::op:
      if (take_op("(")) {
        ExprPtr out = tuple(true, true);
        expect_op(")");
        return out;
      }
      if (is_op("[") || is_op("{")) {
        const Nest nest(*this);
        const bool is_list = take().text == "[";
        const std::string_view close = is_list ? "]" : "}";
        ExprPtr out = node(is_list ? Op::list : Op::dict, place);
        while (!is_op(close)) {
          if (!out->kids.empty()) {
            expect_op(",");
            if (is_op(close)) break;
          }
          for (int part = 0; part < (is_list ? 1 : 2); ++part) {
            if (part == 1) expect_op(":");
            ExprPtr item = expression();
            grow(*out, item);
            out->kids.push_back(std::move(item));
          }
        }
        expect_op(close);
        return out;
      }
      fail("unexpected '" + describe(token) + "'");
    default: fail("Expected an expression, got '" + describe(token) + "'");
  }
}

ExprPtr Parser::postfix(ExprPtr of) {
  for (;;) {
    if (is_op(".") || is_op("[")) of = subscript(std::move(of));
    else if (is_op("(")) of = call(std::move(of));
    else return of;
  }
}

ExprPtr Parser::subscript(ExprPtr of) {
  const Token open = take();
  if (open.text == ".") {
    const Token part = take();
    if (part.type == TokenType::name) {
      ExprPtr out = node(Op::attribute, open.place, kids(std::move(of)));
      out->text = part.text;
      out->constant = text_constant(part.text);
      return out;
    }
    if (part.type != TokenType::integer) fail("expected name or number", part.place);
    --at_;
    ExprPtr index = number();
    return node(Op::item, open.place, kids(std::move(of), std::move(index)));
  }
  const Nest nest(*this);
  std::vector<ExprPtr> parts;
  while (!is_op("]")) {
    if (!parts.empty()) expect_op(",");
    parts.push_back(subscribed());
  }
  expect_op("]");
  if (parts.empty()) fail("Expected an expression, got ']'", open.place);
  if (parts.size() == 1 && parts[0]->op == Op::slice && !parts[0]->kids[0]) {
    ExprPtr out = std::move(parts[0]);
    out->place = open.place;
    grow(*out, of);
    out->kids[0] = std::move(of);
    return out;
  }
  for (const ExprPtr& part : parts)
    if (part->op == Op::slice && !part->kids[0]) refuse("a slice in several dimensions", open.place);
  ExprPtr index = parts.size() == 1 ? std::move(parts[0]) : node(Op::tuple, open.place, std::move(parts));
  return node(Op::item, open.place, kids(std::move(of), std::move(index)));
}

// Inside square brackets: an expression, or the three parts of a slice (whose kids[0] is still open).
ExprPtr Parser::subscribed() {
  const Place place = now().place;
  ExprPtr first;
  if (!is_op(":")) {
    first = expression();
    if (!is_op(":")) return first;
  }
  std::vector<ExprPtr> parts(4);
  parts[1] = std::move(first);
  for (int part = 2; part <= 3 && take_op(":"); ++part)
    if (!is_op(":") && !is_op("]") && !is_op(",")) parts[size_t(part)] = expression();
  return node(Op::slice, place, std::move(parts));
}

ExprPtr Parser::call(ExprPtr of) {
  const Place place = now().place;
  ExprPtr out = node(Op::call, place, kids(std::move(of)));
  out->arguments = call_arguments();
  for (const Argument& argument : out->arguments) grow(*out, argument.value);
  return out;
}

std::vector<Argument> Parser::call_arguments() {
  const Nest nest(*this);
  expect_op("(");
  std::vector<Argument> out;
  bool named = false;
  while (!is_op(")")) {
    if (!out.empty()) {
      expect_op(",");
      if (is_op(")")) break;
    }
    Argument argument;
    if (take_op("**")) {
      argument.form = Argument::Form::spread_named;
      named = true;
    } else if (take_op("*")) {
      argument.form = Argument::Form::spread;
    } else if (now().type == TokenType::name && ahead().type == TokenType::op && ahead().text == "=") {
      argument.form = Argument::Form::named;
      argument.name = take().text;
      take();
      named = true;
    } else if (named) {
      fail("invalid syntax for function call expression");
    }
    argument.value = expression();
    out.push_back(std::move(argument));
  }
  expect_op(")");
  return out;
}

}  // namespace spanscope::jinja
