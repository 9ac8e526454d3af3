// SPDX-License-Identifier: GPL-3.0-or-later
// Runs a program over its input. Thread: one render, one thread.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/text/jinja/ast.h"
#include "core/text/jinja/machine.h"
#include "core/text/local_time.h"

namespace spanscope::jinja {

// Variables of a block. A name that is not there is looked for in the block around it, then in the input.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Names, Value>> variables;
  bool captured = false;  // a macro defined here may still be called
};

// Where the loop over the messages stood in the output.
struct Passage {
  uint64_t begin = 0, end = 0;
};

class Interpreter : public Machine {
 public:
  Interpreter(const Program& program, const Limits& limits, LocalTime now);
  ~Interpreter();

  void define(const std::string& name, Value value) { input_[name] = std::move(value); }
  // The output position around each item of a loop over values with these origins, when they go to the output directly.
  void watch(FieldId origin, size_t index) { watched_[origin] = index; }
  const std::unordered_map<size_t, Passage>& passages() const { return passages_; }

  // Runs the program; the text stays here.
  const TextBuilder& run();

  // What the library uses.
  const LocalTime& now() const { return now_; }
  Value call(const Value& callable, const Arguments& arguments);
  Value attribute(const Value& of, std::string_view name);             // of.name
  Value item(const Value& of, const Value& key);                       // of[key]
  Value slice(const Value& of, const Value& start, const Value& stop, const Value& step);
  std::vector<Value> iterate(const Value& over);  // a generator is empty afterwards
  Value to_text(const Value& value);              // str()
  Value concat(const Value& a, const Value& b);   // of strings: +, which may escape
  Value add(const Value& a, const Value& b);
  Value arithmetic(Expr::Op op, const Value& a, const Value& b);
  Value format(const Value& pattern, const Value& arguments);  // %
  bool contains(const Value& in, const Value& what);
  Int index_of(const Value& value, const char* what);  // an integer, or an error that names `what`
  Value make_space();
  Value run_loop_again(const Value& loop, const Value& over);  // loop(...) of a recursive loop
  Value undefined_name(const std::string& name) { return undefined(UndefinedData::Why::name, name); }

 private:
  enum class Flow : uint8_t { on, leave, again };
  class Nest;
  class Block;
  struct Capture;

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_conditional(const Statement& statement);
  Flow run_loop(const Statement& statement, Value over, uint32_t depth);
  void run_set(const Statement& statement);
  void run_call_block(const Statement& statement);
  Value captured(const Body& body);  // its output as a string
  void assign(const Target& target, Value value);
  void print(const Value& value);

  Value evaluate(const Expr& expr);
  Value evaluate_name(Names name);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_call(const Expr& expr);
  Value evaluate_filter(const Expr& expr, const Value* given);
  bool evaluate_test(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Arguments evaluate_arguments(const std::vector<Argument>& arguments);
  Value call_macro(const Value& callable, const Arguments& arguments);
  Value macro_value(const Statement& statement, bool caller);

  Scope* open(Scope* parent);
  void close(Scope* scope);
  void set(Names name, Value value);

  const Program& program_;
  LocalTime now_;
  std::unordered_map<std::string, Value> input_;
  std::vector<std::unique_ptr<Value>> resolved_;  // [names] of the input or the language
  std::vector<std::shared_ptr<SpaceData>> spaces_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  TextBuilder output_;
  TextBuilder* sink_ = nullptr;
  uint32_t depth_ = 0;
  std::unordered_map<FieldId, size_t> watched_;
  std::unordered_map<size_t, Passage> passages_;
};

}  // namespace spanscope::jinja
