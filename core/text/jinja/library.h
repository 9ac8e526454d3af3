// SPDX-License-Identifier: GPL-3.0-or-later
// The filters, tests, methods and functions of the language. Any thread; each works on the interpreter it is given.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/interpreter.h"

namespace spanscope::jinja {

struct Filter {
  const char* name;
  Function apply;  // self: what stands before the "|"
};
struct Test {
  const char* name;
  bool (*holds)(Interpreter&, const Value& value, const Arguments&);
};

const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
// Filters and tests that the language has and this program does not.
bool is_known_elsewhere(std::string_view name, bool test);

// The method `name` of a string, dict, list or loop, bound to it; nothing when there is none. A method of Python that this
// program does not have is an error that names it.
std::optional<Value> find_method(Interpreter& in, const Value& of, std::string_view name);
// raise_exception, namespace, range, dict, strftime_now.
std::optional<Value> find_function(Interpreter& in, std::string_view name);
void set_attribute(Interpreter& in, const Value& space, const std::string& name, Value value);

// An error for keys that a dict cannot have: containers, and undefined values.
void check_key(Machine& machine, const Value& key);

// repr() of a container, as printing shows it. Bytes have origins only where the container came from the input.
Value print_container(Interpreter& in, const Value& value);
struct JsonStyle {
  bool ascii = false, sorted = false;
  std::optional<std::string> indent;
  std::string between, after_key;
};
Value print_json(Interpreter& in, const Value& value, const JsonStyle& style);
std::string print_real(double value);  // as Python: 1.0, 1e-07, 1e+16, inf
std::string print_integer(Int value);

// Arguments by the names of a function's parameters; too many, twice given and unknown ones are errors.
class Parameters {
 public:
  Parameters(Interpreter& in, const char* function, const Arguments& arguments, std::initializer_list<const char*> names);
  bool has(size_t i) const { return values_[i].has_value(); }
  const Value& at(size_t i) const;  // an error that names the parameter when it is not there
  const Value* find(size_t i) const { return values_[i] ? &*values_[i] : nullptr; }
  bool flag(size_t i, bool otherwise) const { return values_[i] ? is_true(*values_[i]) : otherwise; }
  Int integer(size_t i, Int otherwise) const;
  std::string_view text(size_t i, std::string_view otherwise) const;

 private:
  Interpreter& in_;
  const char* function_;
  std::vector<const char*> names_;
  std::vector<std::optional<Value>> values_;
};

// Pieces shared by filters and methods.
Value strip(Interpreter& in, const Value& text, const Value* characters, bool left, bool right);
Value replace(Interpreter& in, const Value& text, const Value& from, const Value& to, Int most);
Value join(Interpreter& in, const Value& separator, const std::vector<Value>& items, bool as_text);
Value changed_case(Interpreter& in, const Value& text, int mode);
std::vector<Value> lines(Interpreter& in, const Value& text, bool keep_ends);
std::vector<Value> characters(Interpreter& in, const Value& text);
Value piece(Interpreter& in, const Value& text, uint64_t begin, uint64_t end);
Value escaped(Interpreter& in, const Value& text);  // for HTML, marked safe

const std::vector<Filter>& text_filters();
const std::vector<Filter>& sequence_filters();

}  // namespace spanscope::jinja
