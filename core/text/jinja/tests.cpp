// SPDX-License-Identifier: GPL-3.0-or-later
// Tests: what may follow "is", and what selectattr and friends take by name.
#include <fmt/format.h>

#include <algorithm>

#include "core/text/jinja/characters.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

const Value& other(Interpreter& in, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) in.fail_type("the test takes one argument");
  return arguments.positional[0];
}
template <Kind kind>
bool is_kind(Interpreter&, const Value& value, const Arguments&) { return value.is(kind); }
bool is_defined(Interpreter&, const Value& value, const Arguments&) { return !value.is(Kind::undefined); }
bool is_number(Interpreter&, const Value& value, const Arguments&) { return value.is_number(); }
template <bool wanted>
bool is_bool(Interpreter&, const Value& value, const Arguments&) { return value.is(Kind::boolean) && (value.integer() != 0) == wanted; }

bool is_iterable(Interpreter&, const Value& value, const Arguments&) {
  return !value.is_number() && !value.is(Kind::none) && !value.is(Kind::callable) && !value.is(Kind::space);
}
bool is_sequence(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::string) || value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::dict) || value.is(Kind::range) ||
         value.is(Kind::undefined);
}
bool is_callable(Interpreter&, const Value& value, const Arguments&) {
  return value.is(Kind::callable) || value.is(Kind::undefined) || value.is(Kind::loop);
}
bool is_same(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Value& b = other(in, arguments);
  if (value.kind() != b.kind()) return false;
  return value.object() || b.object() ? value.object() == b.object() : equal_scalars(value, b);
}
bool is_equal(Interpreter& in, const Value& value, const Arguments& arguments) { return in.equal(value, other(in, arguments)); }
bool is_unequal(Interpreter& in, const Value& value, const Arguments& arguments) { return !in.equal(value, other(in, arguments)); }
bool is_less(Interpreter& in, const Value& value, const Arguments& arguments) { return in.less(value, other(in, arguments), "<"); }
bool is_greater(Interpreter& in, const Value& value, const Arguments& arguments) { return in.less(other(in, arguments), value, ">"); }
bool is_at_most(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Value& b = other(in, arguments);
  return in.less(value, b, "<=") || in.equal(value, b);
}
bool is_at_least(Interpreter& in, const Value& value, const Arguments& arguments) {
  const Value& b = other(in, arguments);
  return in.less(b, value, ">=") || in.equal(value, b);
}
bool is_in(Interpreter& in, const Value& value, const Arguments& arguments) { return in.contains(other(in, arguments), value); }
bool is_odd(Interpreter& in, const Value& value, const Arguments&) {
  return in.equal(in.arithmetic(Expr::Op::modulo, value, Value::integer(2)), Value::integer(1));
}
bool is_even(Interpreter& in, const Value& value, const Arguments&) {
  return in.equal(in.arithmetic(Expr::Op::modulo, value, Value::integer(2)), Value::integer(0));
}
bool is_divisible(Interpreter& in, const Value& value, const Arguments& arguments) {
  return in.equal(in.arithmetic(Expr::Op::modulo, value, other(in, arguments)), Value::integer(0));
}
template <bool upper>
bool is_cased(Interpreter& in, const Value& value, const Arguments&) { return all_cased(bytes_of(in.to_text(value)), upper); }

constexpr Test kTests[] = {
    {"defined", is_defined}, {"undefined", is_kind<Kind::undefined>}, {"none", is_kind<Kind::none>}, {"string", is_kind<Kind::string>},
    {"number", is_number}, {"integer", is_kind<Kind::integer>}, {"float", is_kind<Kind::real>}, {"boolean", is_kind<Kind::boolean>},
    {"true", is_bool<true>}, {"false", is_bool<false>}, {"mapping", is_kind<Kind::dict>}, {"iterable", is_iterable},
    {"sequence", is_sequence}, {"callable", is_callable}, {"sameas", is_same}, {"in", is_in},
    {"equalto", is_equal}, {"eq", is_equal}, {"==", is_equal}, {"ne", is_unequal}, {"!=", is_unequal},
    {"lt", is_less}, {"lessthan", is_less}, {"<", is_less}, {"gt", is_greater}, {"greaterthan", is_greater}, {">", is_greater},
    {"le", is_at_most}, {"<=", is_at_most}, {"ge", is_at_least}, {">=", is_at_least},
    {"odd", is_odd}, {"even", is_even}, {"divisibleby", is_divisible}, {"lower", is_cased<false>}, {"upper", is_cased<true>},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTests), std::end(kTests), [&](const Test& test) { return name == test.name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace spanscope::jinja
