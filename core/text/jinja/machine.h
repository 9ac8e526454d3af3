// SPDX-License-Identifier: GPL-3.0-or-later
// What every operation of a render shares: where it stands in the template, its limits, and how values are made.
// Errors are exceptions inside this folder only; the template's render() turns them into a Result.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/text/jinja/value.h"

namespace spanscope::jinja {

struct Place {
  uint32_t line = 1, column = 1;  // in characters
};

struct Limits {
  uint64_t template_bytes = 1 << 20;
  uint64_t steps = 100'000'000;      // operations; long copies count one more for every 64 bytes
  uint64_t memory = uint64_t(1) << 30;
  uint64_t text = uint64_t(1) << 28;  // bytes of one string; the output is one
  uint32_t depth = 1000;             // of calls, blocks and expressions inside each other while rendering
  uint32_t nesting = 100;            // of a container's containers
};
// Of the source text's syntax.
inline constexpr uint32_t kMostSyntaxDepth = 150;
inline constexpr Int kMostRange = 100'000;

enum class Trouble { raised, syntax, type, undefined, value, security, runtime, zero_division, limit, unsupported, memory };

// "chat template line 3, column 7" is `where` of every error of a template.
struct Failure {
  Error error;
};
Error trouble(Trouble kind, std::string message, Place place);

class Machine {
 public:
  explicit Machine(const Limits& limits) : limits_(limits) { budget_.limit = limits.memory; }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  const Limits& limits() const { return limits_; }
  [[noreturn]] void fail(Trouble kind, std::string message) const;
  [[noreturn]] void fail_type(std::string message) const { fail(Trouble::type, std::move(message)); }
  // The error that the use of an undefined value is.
  [[noreturn]] void fail_undefined(const Value& value) const;
  void step(uint64_t n = 1) {
    if (steps_ + n > limits_.steps) too_many_steps();
    steps_ += n;
  }
  // Before `bytes` are allocated.
  void reserve(uint64_t bytes) const {
    if (bytes > budget_.limit || budget_.live > budget_.limit - bytes) too_much_memory();
  }
  void check_text(uint64_t bytes) const {
    if (bytes > limits_.text) too_long(bytes);
  }

  Value text(std::string bytes, std::vector<Run> runs = {}, bool safe = false);
  Value input_text(std::string_view bytes, FieldId field);
  Value list(std::vector<Value> items, Kind kind = Kind::list, FieldId origin = kNoField);
  Value sequence(Kind kind, std::vector<Value> items, const char* name);  // views and generators
  // A generator: `make` runs when it is first read, so that its errors come then, too. It holds what is in `holds`.
  Value generator(std::initializer_list<const Value*> holds, const Arguments& arguments, std::function<std::vector<Value>()> make);
  Value dict(std::shared_ptr<DictData> data);
  Value function(std::string name, Function function, Value self = Value());
  Value undefined(UndefinedData::Why why, std::string name, const char* owner = "");

  Budget& budget() { return budget_; }

  // ==: numbers by value, dicts regardless of order.
  bool equal(const Value& a, const Value& b);
  // <: of two numbers, strings, lists or tuples; anything else is an error that names `sign`.
  bool less(const Value& a, const Value& b, const char* sign = "<");

  Place place;

 private:
  [[noreturn]] void too_many_steps() const;
  [[noreturn]] void too_much_memory() const;
  [[noreturn]] void too_long(uint64_t bytes) const;
  uint32_t nested(const std::vector<Value>& items) const;

 protected:
  Limits limits_;
  Budget budget_;
  uint64_t steps_ = 0;
};

// A string under construction. Refuses to grow past the limits before it does.
class TextBuilder {
 public:
  explicit TextBuilder(Machine& machine) : machine_(machine) {}
  ~TextBuilder() { release(); }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;
  void plain(std::string_view bytes);
  void add(const TextData& text) { add(text, 0, text.bytes.size()); }
  void add(const TextData& text, uint64_t begin, uint64_t end);
  void add(const Value& string) { add(text_of(string)); }
  void run(std::string_view bytes, FieldId field, RunKind kind, uint64_t source);
  // `bytes` in place of the characters [begin, end) of `text`: they belong to the first of these.
  void in_place(std::string_view bytes, const TextData& text, uint64_t begin);
  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  const std::vector<Run>& runs() const { return runs_; }
  Value take(bool safe = false);

 private:
  void grow(uint64_t n);
  void mark(uint64_t n, FieldId field, RunKind kind, uint64_t source);
  void release() {
    machine_.budget().live -= charged_;
    charged_ = 0;
  }
  Machine& machine_;
  uint64_t charged_ = 0;
  std::string bytes_;
  std::vector<Run> runs_;
};

// The origin of the byte at `at`: a run of length one.
Run origin_at(const TextData& text, uint64_t at);
uint64_t count_characters(std::string_view bytes);
// Bytes of the character at `at`: an ill-formed byte is a character of its own.
inline uint64_t character_length(std::string_view bytes, uint64_t at);

}  // namespace spanscope::jinja

#include "core/text/utf8.h"
inline uint64_t spanscope::jinja::character_length(std::string_view bytes, uint64_t at) {
  const size_t n = spanscope::utf8_sequence(bytes, at);
  return n == 0 ? 1 : n;
}
