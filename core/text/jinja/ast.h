// SPDX-License-Identifier: GPL-3.0-or-later
// A template after parsing. Immutable; any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/text/jinja/machine.h"

namespace spanscope::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using Names = uint32_t;  // index into Program::names

struct Filter;
struct Test;

struct Argument {
  enum class Form : uint8_t { positional, named, spread, spread_named } form = Form::positional;
  std::string name;
  ExprPtr value;
};

struct Expr {
  enum class Op : uint8_t {
    constant, name, list, tuple, dict,
    attribute, item, slice,       // kids[0] of `text`; kids[0][kids[1]]; kids[0][kids[1]:kids[2]:kids[3]], null where absent
    call, filter, test,           // kids[0] (null in a filter block), arguments
    negative, positive, logical_not,
    add, subtract, multiply, divide, floor_divide, modulo, power,
    concat, logical_and, logical_or,
    compare,                      // kids[0] compares[0] kids[1] compares[1] kids[2] ...
    conditional,                  // kids[0] if kids[1] else kids[2] (null where absent)
  };
  enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };
  Op op = Op::constant;
  Place place;
  uint32_t depth = 1;
  bool negated = false;           // of a test
  std::vector<ExprPtr> kids;
  std::vector<Compare> compares;
  std::vector<Argument> arguments;
  Value constant;
  Names name = 0;
  std::string text;               // attribute, filter or test name
  const Filter* filter = nullptr; // null: no such filter; reaching it is an error
  const Test* test = nullptr;
};

// What an assignment writes to.
struct Target {
  enum class Form : uint8_t { name, tuple, attribute } form = Form::name;
  Names name = 0;            // of attribute: the namespace
  std::string attribute;
  std::vector<Target> parts;
  Place place;
};

struct Statement;
using Body = std::vector<Statement>;

struct Branch {
  ExprPtr condition;  // null: else
  Body body;
};

struct Statement {
  enum class Op : uint8_t {
    text, print, conditional, loop, set, set_block, macro, call_block, filter_block, with, generation, leave, again,
  };
  Op op = Op::text;
  Place place;
  std::vector<Branch> branches;   // conditional
  Target target;                  // loop, set, set_block
  ExprPtr value;                  // print, loop (over what), set, call_block (the call), filter_block and set_block (the filter)
  ExprPtr condition;              // of a loop
  bool recursive = false;
  Body body, otherwise;           // otherwise: of a loop that did not run
  Value constant;                 // text
  // macro and call_block (its parameters)
  std::string name;
  Names name_id = 0;
  std::vector<Names> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // for the last parameters
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  // with
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
};

struct Program {
  Body body;
  std::vector<std::string> names;
};

// Throws Failure: syntax with line and column, and whatever is outside of the language's supported part.
Program parse(std::string_view source);

}  // namespace spanscope::jinja
