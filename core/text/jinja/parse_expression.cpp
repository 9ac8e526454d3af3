// SPDX-License-Identifier: GPL-3.0-or-later
// Expressions: operators, filters, tests.
#include <algorithm>

#include "core/text/jinja/library.h"
#include "core/text/jinja/parser.h"

namespace spanscope::jinja {

using Op = Expr::Op;

void Parser::grow(Expr& of, const ExprPtr& kid) {
  if (kid) of.depth = std::max(of.depth, kid->depth + 1);
  if (of.depth > kMostSyntaxDepth) fail("expressions are nested too deeply", of.place);
}

ExprPtr Parser::node(Op op, Place place, std::vector<ExprPtr> kids) {
  auto out = std::make_unique<Expr>();
  out->op = op;
  out->place = place;
  for (const ExprPtr& kid : kids) grow(*out, kid);
  out->kids = std::move(kids);
  return out;
}

Value Parser::text_constant(std::string text) {
  auto data = std::make_shared<TextData>();
  data->own = std::move(text);
  data->bytes = data->own;
  data->characters = count_characters(data->bytes);
  return Value(Kind::string, std::move(data));
}

ExprPtr Parser::constant(Value value, Place place) {
  ExprPtr out = node(Op::constant, place);
  out->constant = std::move(value);
  return out;
}

namespace {
std::vector<ExprPtr> kids(ExprPtr a, ExprPtr b = nullptr) {
  std::vector<ExprPtr> out;
  out.push_back(std::move(a));
  if (b) out.push_back(std::move(b));
  return out;
}
}  // namespace

bool Parser::tuple_ends() const {
  return now().type == TokenType::print_end || now().type == TokenType::block_end || is_op(")") || is_name("recursive");
}

ExprPtr Parser::tuple(bool with_condition, bool parenthesised) {
  const Nest nest(*this);
  const Place place = now().place;
  std::vector<ExprPtr> items;
  bool comma = false;
  for (;;) {
    if (!items.empty() || comma) {
      if (!is_op(",")) break;
      take();
      comma = true;
    }
    if (tuple_ends()) break;
    items.push_back(with_condition ? expression() : disjunction());
    if (!is_op(",")) break;
  }
  if (!comma) {
    if (items.size() == 1) return std::move(items[0]);
    if (!parenthesised) fail("Expected an expression, got '" + describe(now()) + "'");
  }
  return node(Op::tuple, place, std::move(items));
}

ExprPtr Parser::conditional_expression() {
  const Nest nest(*this);
  ExprPtr out = disjunction();
  while (is_name("if")) {
    const Place place = take().place;
    ++conditions_;
    ExprPtr condition = disjunction();
    ExprPtr other;
    if (take_name("else")) other = conditional_expression();
    --conditions_;
    std::vector<ExprPtr> parts = kids(std::move(out), std::move(condition));
    parts.push_back(std::move(other));
    out = node(Op::conditional, place, std::move(parts));
  }
  return out;
}

ExprPtr Parser::disjunction() {
  ExprPtr out = conjunction();
  while (is_name("or")) {
    const Place place = take().place;
    ExprPtr right = conjunction();
    out = node(Op::logical_or, place, kids(std::move(out), std::move(right)));
  }
  return out;
}

ExprPtr Parser::conjunction() {
  ExprPtr out = negation();
  while (is_name("and")) {
    const Place place = take().place;
    ExprPtr right = negation();
    out = node(Op::logical_and, place, kids(std::move(out), std::move(right)));
  }
  return out;
}

ExprPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Nest nest(*this);
  const Place place = take().place;
  return node(Op::logical_not, place, kids(negation()));
}

ExprPtr Parser::comparison() {
  using Compare = Expr::Compare;
  ExprPtr first = sum();
  ExprPtr out;
  for (;;) {
    const Place place = now().place;
    Compare how;
    if (is_op("==")) how = Compare::eq;
    else if (is_op("!=")) how = Compare::ne;
    else if (is_op("<")) how = Compare::lt;
    else if (is_op("<=")) how = Compare::le;
    else if (is_op(">")) how = Compare::gt;
    else if (is_op(">=")) how = Compare::ge;
    else if (is_name("in")) how = Compare::in;
    else if (is_name("not") && ahead().type == TokenType::name && ahead().text == "in") how = Compare::not_in;
    else break;
    take();
    if (how == Compare::not_in) take();
    if (!out) out = node(Op::compare, place, kids(std::move(first)));
    out->compares.push_back(how);
    ExprPtr right = sum();
    grow(*out, right);
    out->kids.push_back(std::move(right));
  }
  return out ? std::move(out) : std::move(first);
}

ExprPtr Parser::sum() {
  ExprPtr out = concatenation();
  while (is_op("+") || is_op("-")) {
    const Token op = take();
    ExprPtr right = concatenation();
    out = node(op.text == "+" ? Op::add : Op::subtract, op.place, kids(std::move(out), std::move(right)));
  }
  return out;
}

ExprPtr Parser::concatenation() {
  ExprPtr first = product();
  if (!is_op("~")) return first;
  ExprPtr out = node(Op::concat, now().place, kids(std::move(first)));
  while (take_op("~")) {
    ExprPtr next = product();
    grow(*out, next);
    out->kids.push_back(std::move(next));
  }
  return out;
}

ExprPtr Parser::product() {
  ExprPtr out = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const Token op = take();
    ExprPtr right = power();
    const Op kind = op.text == "*" ? Op::multiply : op.text == "/" ? Op::divide : op.text == "%" ? Op::modulo : Op::floor_divide;
    out = node(kind, op.place, kids(std::move(out), std::move(right)));
  }
  return out;
}

ExprPtr Parser::power() {
  ExprPtr out = unary(true);
  while (is_op("**")) {
    const Place place = take().place;
    ExprPtr right = unary(true);
    out = node(Op::power, place, kids(std::move(out), std::move(right)));
  }
  return out;
}

ExprPtr Parser::unary(bool with_filters) {
  const Nest nest(*this);
  ExprPtr out;
  if (is_op("-") || is_op("+")) {
    const Token op = take();
    out = node(op.text == "-" ? Op::negative : Op::positive, op.place, kids(unary(false)));
  } else {
    out = primary();
  }
  out = postfix(std::move(out));
  return with_filters ? filters(std::move(out)) : std::move(out);
}

ExprPtr Parser::filters(ExprPtr of) {
  for (;;) {
    if (is_op("|")) of = filter(std::move(of));
    else if (is_name("is")) of = test(std::move(of));
    else if (is_op("(")) of = call(std::move(of));
    else return of;
  }
}

// `of` is null in a filter block; the first filter's "|" is absent there.
ExprPtr Parser::filter(ExprPtr of) {
  bool start = !of;
  while (start || is_op("|")) {
    if (!start) take();
    start = false;
    const Place place = now().place;
    std::string name = identifier();
    while (take_op(".")) name += "." + identifier();
    std::vector<ExprPtr> parts;
    parts.push_back(std::move(of));
    ExprPtr out = node(Op::filter, place, std::move(parts));
    out->text = name;
    out->filter = find_filter(name);
    if (!out->filter && conditions_ == 0) {
      if (is_known_elsewhere(name, false)) refuse("the filter \"" + name + "\"", place);
      fail("No filter named '" + name + "'.", place);
    }
    if (is_op("(")) out->arguments = call_arguments();
    for (const Argument& argument : out->arguments) grow(*out, argument.value);
    of = std::move(out);
  }
  return of;
}

ExprPtr Parser::test(ExprPtr of) {
  const Place place = take().place;
  const bool negated = take_name("not");
  std::string name = identifier();
  while (take_op(".")) name += "." + identifier();
  ExprPtr out = node(Op::test, place, kids(std::move(of)));
  out->text = name;
  out->negated = negated;
  out->test = find_test(name);
  if (!out->test && conditions_ == 0) {
    if (is_known_elsewhere(name, true)) refuse("the test \"" + name + "\"", place);
    fail("No test named '" + name + "'.", place);
  }
  const TokenType type = now().type;
  if (is_op("(")) {
    out->arguments = call_arguments();
  } else if (((type == TokenType::name && !is_name("else") && !is_name("or") && !is_name("and")) || type == TokenType::string ||
              type == TokenType::integer || type == TokenType::real || is_op("[") || is_op("{"))) {
    if (is_name("is")) fail("You cannot chain multiple tests with is");
    // "x is defined if y", "x is none in z" do not exist; a keyword there ends the test.
    if (!is_name("if") && !is_name("not") && !is_name("in") && !is_name("recursive")) {
      Argument argument;
      argument.value = postfix(primary());
      out->arguments.push_back(std::move(argument));
    }
  }
  for (const Argument& argument : out->arguments) grow(*out, argument.value);
  return out;
}

}  // namespace spanscope::jinja
