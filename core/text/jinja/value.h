// SPDX-License-Identifier: GPL-3.0-or-later
// Values of the template language. Immutable and shared: reading a message, a slice or a loop item copies no text. A
// string knows where each of its bytes came from. Thread: one render; constants of a template are shared by all.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spanscope::jinja {

class Interpreter;
struct Scope;
struct Statement;

// Python's integers have no bounds; these have 128 bits, and arithmetic that leaves them is an error.
__extension__ typedef __int128 Int;

// A node of the input: "messages[3].content". 0: made by the template.
using FieldId = uint32_t;
inline constexpr FieldId kNoField = 0;

enum class RunKind : uint8_t {
  none,   // template text and constants
  copy,   // each byte is the field's byte at the same distance from `source`, or stands in its place (upper case)
  made,   // all bytes stand for the one source character at `source`: an escape, an entity, "SS" for one letter
  owned,  // belongs to the field, but to none of its characters: keys, quotes, punctuation
};
struct Run {
  uint64_t end = 0;  // behind the run's last byte in the string
  FieldId field = kNoField;
  RunKind kind = RunKind::none;
  uint64_t source = 0;
};

// Live bytes of one render. A value that would pass the limit is refused before it is made.
struct Budget {
  uint64_t live = 0, limit = 0;
};

class Object {
 public:
  virtual ~Object() {
    if (budget_) budget_->live -= size_;
  }
  // `budget` outlives the object; null: a constant of the template.
  void charge(Budget* budget, uint64_t bytes) {
    budget_ = budget;
    size_ = bytes;
    if (budget_) budget_->live += bytes;
  }

 private:
  Budget* budget_ = nullptr;
  uint64_t size_ = 0;
};

enum class Kind : uint8_t {
  undefined, none, boolean, integer, real, string, list, tuple, dict,
  range, view,      // range(3); d.items()
  generator,        // what map, select and friends give: can be read once
  callable, space,  // a function, method or macro; namespace()
  loop,             // the variable `loop`
};

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool b) {
    Value out(Kind::boolean);
    out.integer_ = b ? 1 : 0;
    return out;
  }
  static Value integer(Int i) {
    Value out(Kind::integer);
    out.integer_ = i;
    return out;
  }
  static Value real(double d) {
    Value out(Kind::real);
    out.real_ = d;
    return out;
  }
  Value(Kind kind, std::shared_ptr<Object> object, bool safe = false) : kind_(kind), safe_(safe), object_(std::move(object)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integral() || kind_ == Kind::real; }
  // Set by the filter `safe`: adding an ordinary string to such a string escapes that string for HTML.
  bool safe() const { return safe_; }
  Int integer() const { return integer_; }
  double real() const { return kind_ == Kind::real ? real_ : double(integer_); }
  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const Object* object() const { return object_.get(); }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::undefined;
  bool safe_ = false;
  union {
    Int integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

struct TextData : Object {
  std::string own;         // empty when `bytes` lies in the input, which outlives the render
  std::string_view bytes;
  std::vector<Run> runs;   // empty: no byte has an origin
  uint64_t characters = 0;
  bool ascii() const { return characters == bytes.size(); }
};

// list, tuple, range, view and generator.
struct ListData : Object {
  std::vector<Value> items;
  FieldId origin = kNoField;
  uint32_t depth = 1;      // of nested containers
  std::string name;        // of a view ("dict_items") or generator
  Int start = 0, stop = 0, step = 1;  // of a range
  bool read = false;       // a generator that was read is empty
  std::function<std::vector<Value>()> make;  // of a generator: its items, when they are asked for
};

struct DictData : Object {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  FieldId origin = kNoField;
  uint32_t depth = 1;
  uint64_t touched = 0;    // of an input dict: the first 64 entries that the template looked up
  // Index of the entry, or npos. Keys are strings, numbers, true, false and none; 1, 1.0 and true are one key.
  size_t find(const Value& key) const;
  size_t find(std::string_view key) const;
  void put(Value key, Value value);  // a key that is there keeps its place and its own text

 private:
  std::unordered_map<std::string, size_t> strings_;  // once there are more than a few
};

// What an undefined value stands for, so that its use can say so.
struct UndefinedData : Object {
  enum class Why : uint8_t { name, attribute, element, parameter, unsafe, plain } why = Why::plain;
  std::string name;   // or the whole message (plain)
  const char* owner = "";
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Function = Value (*)(Interpreter&, const Value& self, const Arguments&);

struct CallableData : Object {
  std::string name;
  Function function = nullptr;         // of the language
  Value self;                          // of a method
  const Statement* macro = nullptr;    // or of the template
  Scope* scope = nullptr;              // where the macro was defined
  bool caller = false;                 // the body of a call block
};

struct SpaceData : Object {
  std::vector<std::pair<std::string, Value>> entries;
};

struct LoopData : Object {
  std::vector<Value> items;
  size_t index = 0;
  uint32_t depth = 0;
  const Statement* statement = nullptr;  // of a recursive loop
  Scope* scope = nullptr;
  std::vector<Value> last_changed;
  bool changed_before = false;
};

const char* type_name(const Value& value);  // as Python names it: "str", "NoneType"
bool is_true(const Value& value);
// Of numbers, strings, true, false, none and undefined; containers are equal to nothing here (see Machine::equal).
bool equal_scalars(const Value& a, const Value& b);
inline const TextData& text_of(const Value& value) { return value.as<TextData>(); }
inline std::string_view bytes_of(const Value& value) { return value.as<TextData>().bytes; }
uint32_t depth_of(const Value& value);

}  // namespace spanscope::jinja
