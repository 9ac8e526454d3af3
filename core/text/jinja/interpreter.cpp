// SPDX-License-Identifier: GPL-3.0-or-later
// Statements, scopes and macros.
#include "core/text/jinja/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/text/jinja/library.h"

namespace spanscope::jinja {

class Interpreter::Nest {
 public:
  explicit Nest(Interpreter& in) : in_(in) {
    if (in.depth_ >= in.limits_.depth) in.fail(Trouble::limit, fmt::format("the template calls itself more than {} levels deep", in.limits_.depth));
    ++in.depth_;
  }
  ~Nest() { --in_.depth_; }

 private:
  Interpreter& in_;
};

// A scope for as long as it lives.
class Interpreter::Block {
 public:
  Block(Interpreter& in, Scope* parent) : in_(in), outer_(in.scope_) { in.scope_ = in.open(parent); }
  explicit Block(Interpreter& in) : Block(in, in.scope_) {}
  ~Block() {
    in_.close(in_.scope_);
    in_.scope_ = outer_;
  }
  // The next item of a loop: variables of the last are gone.
  void renew() {
    Scope* const parent = in_.scope_->parent;
    in_.close(in_.scope_);
    in_.scope_ = in_.open(parent);
  }

 private:
  Interpreter& in_;
  Scope* outer_;
};

// Output goes to a string for as long as it lives.
struct Interpreter::Capture {
  explicit Capture(Interpreter& in) : in(in), outer(in.sink_), text(in) { in.sink_ = &text; }
  ~Capture() { in.sink_ = outer; }
  Interpreter& in;
  TextBuilder* outer;
  TextBuilder text;
};

Interpreter::Interpreter(const Program& program, const Limits& limits, LocalTime now)
    : Machine(limits), program_(program), now_(now), resolved_(program.names.size()), output_(*this) {
  sink_ = &output_;
}

// Namespaces and scopes may hold each other: they are emptied one by one while all of them still exist.
Interpreter::~Interpreter() {
  for (const auto& space : spaces_) space->entries.clear();
  for (Scope& scope : scopes_) scope.variables.clear();
}

Scope* Interpreter::open(Scope* parent) {
  if (free_scopes_.empty()) {
    constexpr uint64_t kScopeBytes = 512;  // with some variables
    reserve(kScopeBytes);
    budget_.live += kScopeBytes;
    scopes_.emplace_back();
    scopes_.back().parent = parent;
    return &scopes_.back();
  }
  Scope* const out = free_scopes_.back();
  free_scopes_.pop_back();
  out->parent = parent;
  return out;
}

void Interpreter::close(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

void Interpreter::set(Names name, Value value) {
  for (auto& [known, old] : scope_->variables)
    if (known == name) {
      old = std::move(value);
      return;
    }
  scope_->variables.emplace_back(name, std::move(value));
}

const TextBuilder& Interpreter::run() {
  Block block(*this, nullptr);
  scope_->captured = true;  // macros may be defined in it, and there is only one
  run(program_.body);
  return output_;
}

Interpreter::Flow Interpreter::run(const Body& body) {
  const Nest nest(*this);
  for (const Statement& statement : body) {
    const Flow flow = run(statement);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  using Op = Statement::Op;
  step();
  place = statement.place;
  switch (statement.op) {
    case Op::text: sink_->plain(bytes_of(statement.constant)); return Flow::on;
    case Op::print: print(evaluate(*statement.value)); return Flow::on;
    case Op::conditional: return run_conditional(statement);
    case Op::loop: return run_loop(statement, evaluate(*statement.value), 1);
    case Op::set:
    case Op::set_block: run_set(statement); return Flow::on;
    case Op::macro:
      for (Scope* scope = scope_; scope && !scope->captured; scope = scope->parent) scope->captured = true;
      set(statement.name_id, macro_value(statement, false));
      return Flow::on;
    case Op::call_block: run_call_block(statement); return Flow::on;
    case Op::filter_block: {
      const Value text = captured(statement.body);
      place = statement.place;
      print(evaluate_filter(*statement.value, &text));
      return Flow::on;
    }
    case Op::with: {
      std::vector<Value> values;
      for (const ExprPtr& value : statement.values) values.push_back(evaluate(*value));
      Block block(*this);
      for (size_t i = 0; i < values.size(); ++i) assign(statement.targets[i], std::move(values[i]));
      return run(statement.body);
    }
    case Op::generation: {
      Block block(*this);
      return run(statement.body);
    }
    case Op::leave: return Flow::leave;
    case Op::again: return Flow::again;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run_conditional(const Statement& statement) {
  for (const Branch& branch : statement.branches)
    if (!branch.condition || is_true(evaluate(*branch.condition))) return run(branch.body);
  return Flow::on;
}

Value Interpreter::captured(const Body& body) {
  Capture capture(*this);
  Block block(*this);
  run(body);
  return capture.text.take();
}

void Interpreter::run_set(const Statement& statement) {
  if (statement.op == Statement::Op::set) return assign(statement.target, evaluate(*statement.value));
  Value text = captured(statement.body);
  place = statement.place;
  if (statement.value) text = evaluate_filter(*statement.value, &text);
  assign(statement.target, std::move(text));
}

void Interpreter::run_call_block(const Statement& statement) {
  // The scopes that the block's body sees stay as long as the call runs.
  const Value caller = macro_value(statement, true);
  const Expr& call_expr = *statement.value;
  const Value callable = evaluate(*call_expr.kids[0]);
  Arguments arguments = evaluate_arguments(call_expr.arguments);
  arguments.named.emplace_back("caller", caller);
  place = call_expr.place;
  // The caller may be kept by the macro: then its scopes must stay as well.
  for (Scope* scope = scope_; scope && !scope->captured; scope = scope->parent) scope->captured = true;
  print(call(callable, arguments));
}

void Interpreter::print(const Value& value) {
  if (value.is(Kind::string)) return sink_->add(value);
  sink_->add(to_text(value));
}

void Interpreter::assign(const Target& target, Value value) {
  switch (target.form) {
    case Target::Form::name: return set(target.name, std::move(value));
    case Target::Form::attribute: {
      place = target.place;
      const Value space = evaluate_name(target.name);
      if (!space.is(Kind::space)) fail(Trouble::runtime, "cannot assign attribute on non-namespace object");
      set_attribute(*this, space, target.attribute, std::move(value));
      return;
    }
    case Target::Form::tuple: {
      place = target.place;
      if (value.is(Kind::undefined)) fail_undefined(value);
      const std::vector<Value> parts = iterate(value);
      if (parts.size() != target.parts.size())
        fail(Trouble::value, parts.size() > target.parts.size()
                                 ? fmt::format("too many values to unpack (expected {})", target.parts.size())
                                 : fmt::format("not enough values to unpack (expected {}, got {})", target.parts.size(), parts.size()));
      for (size_t i = 0; i < parts.size(); ++i) assign(target.parts[i], parts[i]);
    }
  }
}

Interpreter::Flow Interpreter::run_loop(const Statement& statement, Value over, uint32_t depth) {
  const Nest nest(*this);
  place = statement.place;
  auto data = std::make_shared<LoopData>();
  data->depth = depth;
  data->statement = statement.recursive ? &statement : nullptr;
  data->scope = scope_;
  data->items = iterate(over);
  if (statement.condition) {
    std::vector<Value> kept;
    Block block(*this);
    for (const Value& item : data->items) {
      step();
      assign(statement.target, item);
      if (is_true(evaluate(*statement.condition))) kept.push_back(item);
      block.renew();
    }
    data->items = std::move(kept);
  }
  const auto run_otherwise = [&] {  // a break in it is the outer loop's
    if (statement.otherwise.empty()) return Flow::on;
    Block block(*this);
    return run(statement.otherwise);
  };
  if (data->items.empty()) return run_otherwise();
  // A loop that is over holds nothing, so that loops in namespaces do not hold each other.
  struct Emptied {
    LoopData& data;
    ~Emptied() {
      data.items.clear();
      data.last_changed.clear();
    }
  } const emptied{*data};
  const Value loop(Kind::loop, data);
  Names loop_name = Names(std::find(program_.names.begin(), program_.names.end(), "loop") - program_.names.begin());
  const bool uses_loop = loop_name < program_.names.size();
  std::optional<Block> block(std::in_place, *this);
  bool completed = false;
  for (size_t i = 0; i < data->items.size(); ++i) {
    step();
    data->index = i;
    if (i > 0) block->renew();
    if (uses_loop) set(loop_name, loop);
    const Value item = data->items[i];
    assign(statement.target, item);
    const uint64_t begin = sink_->size();
    const Flow flow = run(statement.body);
    if (sink_ == &output_ && item.is(Kind::dict) && item.as<DictData>().origin != kNoField && !watched_.empty()) {
      const auto watched = watched_.find(item.as<DictData>().origin);
      if (watched != watched_.end()) {
        const auto [passage, added] = passages_.emplace(watched->second, Passage{begin, sink_->size()});
        if (!added && sink_->size() > begin) passage->second = {begin, sink_->size()};
      }
    }
    if (flow == Flow::leave) break;
    completed = completed || flow == Flow::on;
  }
  // As in Jinja, "else" also runs when break or continue cut every pass short.
  block.reset();
  return completed ? Flow::on : run_otherwise();
}

Value Interpreter::run_loop_again(const Value& loop, const Value& over) {
  const auto& data = loop.as<LoopData>();
  if (!data.statement) fail_type("The loop must have the 'recursive' marker to be called recursively.");
  Capture capture(*this);
  Scope* const outer = scope_;
  scope_ = data.scope;
  struct Back {
    Interpreter& in;
    Scope* scope;
    ~Back() { in.scope_ = scope; }
  } const back{*this, outer};
  run_loop(*data.statement, over, data.depth + 1);
  return capture.text.take();
}

Value Interpreter::macro_value(const Statement& statement, bool caller) {
  Value out = function(statement.name, nullptr);
  auto& data = out.as<CallableData>();
  data.macro = &statement;
  data.scope = scope_;
  data.caller = caller;
  return out;
}

Value Interpreter::call_macro(const Value& callable, const Arguments& arguments) {
  const Nest nest(*this);
  const auto& data = callable.as<CallableData>();
  const Statement& macro = *data.macro;
  const size_t count = macro.parameters.size();
  std::vector<Value> values(count);
  std::vector<bool> given(count, false);
  for (size_t i = 0; i < std::min(count, arguments.positional.size()); ++i) {
    values[i] = arguments.positional[i];
    given[i] = true;
  }
  std::vector<Value> extra(arguments.positional.begin() + ptrdiff_t(std::min(count, arguments.positional.size())), arguments.positional.end());
  if (!extra.empty() && !macro.uses_varargs)
    fail_type(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count));
  Value caller;
  bool has_caller = false;
  auto named = std::make_shared<DictData>();
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name);
    const size_t i = size_t(at - macro.parameter_names.begin());
    if (at != macro.parameter_names.end()) {
      if (given[i]) fail_type(fmt::format("macro '{}' got multiple values for argument '{}'", macro.name, name));
      values[i] = value;
      given[i] = true;
    } else if (name == "caller" && macro.uses_caller) {
      caller = value;
      has_caller = true;
    } else if (macro.uses_kwargs) {
      named->put(text(name), value);
    } else if (name == "caller") {
      fail_type(fmt::format("macro '{}' was invoked with two values for the special caller argument or does not use it", macro.name));
    } else {
      fail_type(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
    }
  }
  Capture capture(*this);
  Block block(*this, data.scope);
  const Place at = place;
  for (size_t i = 0; i < count; ++i) {
    if (given[i]) {
      set(macro.parameters[i], values[i]);
      continue;
    }
    const size_t without = count - macro.defaults.size();
    if (i >= without) set(macro.parameters[i], evaluate(*macro.defaults[i - without]));
    else set(macro.parameters[i], undefined(UndefinedData::Why::parameter, macro.parameter_names[i]));
  }
  const auto define_special = [&](const char* name, Value value) {
    const auto found = std::find(program_.names.begin(), program_.names.end(), name);
    if (found != program_.names.end()) set(Names(found - program_.names.begin()), std::move(value));
  };
  if (macro.uses_varargs) define_special("varargs", list(std::move(extra), Kind::tuple));
  if (macro.uses_kwargs) define_special("kwargs", dict(named));
  if (macro.uses_caller && !data.caller) {
    if (has_caller) define_special("caller", caller);
    else define_special("caller", undefined(UndefinedData::Why::plain, "No caller defined"));
  }
  run(macro.body);
  place = at;
  return capture.text.take();
}

Value Interpreter::make_space() {
  reserve(sizeof(SpaceData));
  auto data = std::make_shared<SpaceData>();
  data->charge(&budget_, sizeof(SpaceData));
  spaces_.push_back(data);
  return Value(Kind::space, std::move(data));
}

}  // namespace spanscope::jinja
