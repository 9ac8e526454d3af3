// SPDX-License-Identifier: GPL-3.0-or-later
// Expressions.
#include <fmt/format.h>

#include <algorithm>

#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {

using Op = Expr::Op;

Value Interpreter::evaluate(const Expr& expr) {
  if (depth_ >= limits_.depth) fail(Trouble::limit, fmt::format("the template calls itself more than {} levels deep", limits_.depth));
  struct Level {
    uint32_t& depth;
    explicit Level(uint32_t& d) : depth(d) { ++depth; }
    ~Level() { --depth; }
  } const level(depth_);
  step();
  place = expr.place;
  switch (expr.op) {
    case Op::constant: return expr.constant;
    case Op::name: return evaluate_name(expr.name);
    case Op::list:
    case Op::tuple: {
      std::vector<Value> items;
      items.reserve(expr.kids.size());
      for (const ExprPtr& kid : expr.kids) items.push_back(evaluate(*kid));
      place = expr.place;
      return list(std::move(items), expr.op == Op::list ? Kind::list : Kind::tuple);
    }
    case Op::dict: {
      auto data = std::make_shared<DictData>();
      for (size_t i = 0; i + 1 < expr.kids.size(); i += 2) {
        Value key = evaluate(*expr.kids[i]);
        Value value = evaluate(*expr.kids[i + 1]);
        place = expr.place;
        check_key(*this, key);
        data->put(std::move(key), std::move(value));
      }
      return dict(std::move(data));
    }
    case Op::attribute: {
      const Value of = evaluate(*expr.kids[0]);
      place = expr.place;
      return attribute(of, expr.text);
    }
    case Op::item: {
      const Value of = evaluate(*expr.kids[0]);
      const Value key = evaluate(*expr.kids[1]);
      place = expr.place;
      return item(of, key);
    }
    case Op::slice: return evaluate_slice(expr);
    case Op::call: return evaluate_call(expr);
    case Op::filter: return evaluate_filter(expr, nullptr);
    case Op::test: return Value::boolean(evaluate_test(expr) != expr.negated);
    case Op::negative:
    case Op::positive: {
      const Value of = evaluate(*expr.kids[0]);
      place = expr.place;
      if (of.is(Kind::undefined)) fail_undefined(of);
      if (!of.is_number()) fail_type(fmt::format("bad operand type for unary {}: '{}'", expr.op == Op::negative ? "-" : "+", type_name(of)));
      if (of.is(Kind::real)) return Value::real(expr.op == Op::negative ? -of.real() : of.real());
      return expr.op == Op::negative ? arithmetic(Op::subtract, Value::integer(0), of) : Value::integer(of.integer());
    }
    case Op::logical_not: return Value::boolean(!is_true(evaluate(*expr.kids[0])));
    case Op::logical_and: {
      Value left = evaluate(*expr.kids[0]);
      return is_true(left) ? evaluate(*expr.kids[1]) : left;
    }
    case Op::logical_or: {
      Value left = evaluate(*expr.kids[0]);
      return is_true(left) ? left : evaluate(*expr.kids[1]);
    }
    case Op::concat: {
      TextBuilder out(*this);
      for (const ExprPtr& kid : expr.kids) {
        const Value part = evaluate(*kid);
        place = expr.place;
        out.add(part.is(Kind::string) ? part : to_text(part));
      }
      return out.take();
    }
    case Op::compare: return evaluate_compare(expr);
    case Op::conditional:
      if (is_true(evaluate(*expr.kids[1]))) return evaluate(*expr.kids[0]);
      if (expr.kids[2]) return evaluate(*expr.kids[2]);
      return undefined(UndefinedData::Why::plain, "the inline if-expression evaluated to false and no else section was defined");
    default: break;
  }
  const Value left = evaluate(*expr.kids[0]);
  const Value right = evaluate(*expr.kids[1]);
  place = expr.place;
  if (expr.op == Op::add) return add(left, right);
  return arithmetic(expr.op, left, right);
}

Value Interpreter::evaluate_name(Names name) {
  for (Scope* scope = scope_; scope; scope = scope->parent)
    for (const auto& [known, value] : scope->variables)
      if (known == name) return value;
  auto& resolved = resolved_[name];
  if (!resolved) {
    const std::string& text = program_.names[name];
    if (const auto found = input_.find(text); found != input_.end()) resolved = std::make_unique<Value>(found->second);
    else if (auto function = find_function(*this, text)) resolved = std::make_unique<Value>(std::move(*function));
    else resolved = std::make_unique<Value>(undefined_name(text));
  }
  return *resolved;
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  using Compare = Expr::Compare;
  Value left = evaluate(*expr.kids[0]);
  for (size_t i = 0; i < expr.compares.size(); ++i) {
    Value right = evaluate(*expr.kids[i + 1]);
    place = expr.place;
    bool holds = false;
    switch (expr.compares[i]) {
      case Compare::eq: holds = equal(left, right); break;
      case Compare::ne: holds = !equal(left, right); break;
      case Compare::lt: holds = less(left, right, "<"); break;
      case Compare::gt: holds = less(right, left, ">"); break;
      case Compare::le: holds = less(left, right, "<=") || equal(left, right); break;
      case Compare::ge: holds = less(right, left, ">=") || equal(left, right); break;
      case Compare::in: holds = contains(right, left); break;
      case Compare::not_in: holds = !contains(right, left); break;
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value of = evaluate(*expr.kids[0]);
  Value parts[3];
  for (size_t i = 0; i < 3; ++i) parts[i] = expr.kids[i + 1] ? evaluate(*expr.kids[i + 1]) : Value::none();
  place = expr.place;
  return slice(of, parts[0], parts[1], parts[2]);
}

Arguments Interpreter::evaluate_arguments(const std::vector<Argument>& arguments) {
  Arguments out;
  for (const Argument& argument : arguments) {
    Value value = evaluate(*argument.value);
    switch (argument.form) {
      case Argument::Form::positional: out.positional.push_back(std::move(value)); break;
      case Argument::Form::named: out.named.emplace_back(argument.name, std::move(value)); break;
      case Argument::Form::spread:
        for (Value& item : iterate(value)) out.positional.push_back(std::move(item));
        break;
      case Argument::Form::spread_named: {
        if (!value.is(Kind::dict)) fail_type(fmt::format("argument after ** must be a mapping, not {}", type_name(value)));
        for (const auto& [key, item] : value.as<DictData>().entries) {
          if (!key.is(Kind::string)) fail_type("keywords must be strings");
          out.named.emplace_back(std::string(bytes_of(key)), item);
        }
      }
    }
  }
  for (size_t i = 0; i < out.named.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (out.named[i].first == out.named[j].first) fail_type(fmt::format("got multiple values for keyword argument '{}'", out.named[i].first));
  return out;
}

Value Interpreter::evaluate_call(const Expr& expr) {
  const Value callable = evaluate(*expr.kids[0]);
  const Arguments arguments = evaluate_arguments(expr.arguments);
  place = expr.place;
  return call(callable, arguments);
}

Value Interpreter::call(const Value& callable, const Arguments& arguments) {
  if (callable.is(Kind::undefined)) fail_undefined(callable);
  if (callable.is(Kind::loop)) {
    if (arguments.positional.size() != 1 || !arguments.named.empty()) fail_type("loop() takes one argument");
    return run_loop_again(callable, arguments.positional[0]);
  }
  if (!callable.is(Kind::callable)) fail_type(fmt::format("'{}' object is not callable", type_name(callable)));
  const auto& data = callable.as<CallableData>();
  if (data.macro) return call_macro(callable, arguments);
  return data.function(*this, data.self, arguments);
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value* given) {
  const Value input = expr.kids[0] ? (expr.kids[0]->op == Op::filter && given ? evaluate_filter(*expr.kids[0], given) : evaluate(*expr.kids[0])) : *given;
  place = expr.place;
  if (!expr.filter) {
    if (is_known_elsewhere(expr.text, false))
      fail(Trouble::unsupported, "the filter \"" + expr.text + "\" is outside of the supported part of the template language");
    fail(Trouble::runtime, "No filter named '" + expr.text + "' found.");
  }
  const Arguments arguments = evaluate_arguments(expr.arguments);
  place = expr.place;
  return expr.filter->apply(*this, input, arguments);
}

bool Interpreter::evaluate_test(const Expr& expr) {
  const Value input = evaluate(*expr.kids[0]);
  place = expr.place;
  if (!expr.test) {
    if (is_known_elsewhere(expr.text, true))
      fail(Trouble::unsupported, "the test \"" + expr.text + "\" is outside of the supported part of the template language");
    fail(Trouble::runtime, "No test named '" + expr.text + "' found.");
  }
  const Arguments arguments = evaluate_arguments(expr.arguments);
  place = expr.place;
  return expr.test->holds(*this, input, arguments);
}

}  // namespace spanscope::jinja
