// SPDX-License-Identifier: GPL-3.0-or-later
// Reading parts of values: attributes, items, slices, iteration, text.
#include <fmt/format.h>

#include <algorithm>

#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

bool is_sequence(const Value& value) { return value.is(Kind::list) || value.is(Kind::tuple) || value.is(Kind::range); }

// Marks an entry of the input as looked up.
const Value& entry(const Value& dict, size_t at) {
  auto& data = dict.as<DictData>();
  if (at < 64) data.touched |= uint64_t(1) << at;
  return data.entries[at].second;
}

std::optional<Value> loop_attribute(Interpreter& in, const Value& loop, std::string_view name) {
  const auto& data = loop.as<LoopData>();
  const auto n = Int(data.items.size()), i = Int(data.index);
  if (name == "index") return Value::integer(i + 1);
  if (name == "index0") return Value::integer(i);
  if (name == "revindex") return Value::integer(n - i);
  if (name == "revindex0") return Value::integer(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i + 1 >= n);
  if (name == "length") return Value::integer(n);
  if (name == "depth") return Value::integer(data.depth);
  if (name == "depth0") return Value::integer(Int(data.depth) - 1);
  if (name == "previtem")
    return i > 0 && i <= n ? data.items[size_t(i - 1)] : in.undefined(UndefinedData::Why::plain, "there is no previous item");
  if (name == "nextitem") return i + 1 < n ? data.items[size_t(i + 1)] : in.undefined(UndefinedData::Why::plain, "there is no next item");
  return std::nullopt;
}

}  // namespace

// x.name: a method first, then an entry.
Value Interpreter::attribute(const Value& of, std::string_view name) {
  if (of.is(Kind::undefined)) fail_undefined(of);
  if (name.starts_with("__")) return undefined(UndefinedData::Why::unsafe, std::string(name), type_name(of));
  if (of.is(Kind::loop))
    if (auto found = loop_attribute(*this, of, name)) return *found;
  if (of.is(Kind::space)) {
    for (const auto& [key, value] : of.as<SpaceData>().entries)
      if (key == name) return value;
  }
  if (auto method = find_method(*this, of, name)) return *method;
  if (of.is(Kind::dict))
    if (const size_t at = of.as<DictData>().find(name); at != std::string::npos) return entry(of, at);
  return undefined(UndefinedData::Why::attribute, std::string(name), type_name(of));
}

// x[key]: an entry first, then an attribute.
Value Interpreter::item(const Value& of, const Value& key) {
  if (of.is(Kind::undefined)) fail_undefined(of);
  if (of.is(Kind::dict)) {
    if (const size_t at = of.as<DictData>().find(key); at != std::string::npos) return entry(of, at);
  } else if ((is_sequence(of) || of.is(Kind::string)) && key.is_integral()) {
    const auto size = of.is(Kind::string) ? Int(text_of(of).characters) : Int(of.as<ListData>().items.size());
    Int at = key.integer();
    if (at < 0) at += size;
    if (at >= 0 && at < size) {
      if (!of.is(Kind::string)) return of.as<ListData>().items[size_t(at)];
      const TextData& text = text_of(of);
      uint64_t byte = uint64_t(at);
      if (!text.ascii()) {
        step(uint64_t(at) / 64);
        byte = 0;
        for (Int k = 0; k < at; ++k) byte += character_length(text.bytes, byte);
      }
      return piece(*this, of, byte, byte + character_length(text.bytes, byte));
    }
    return undefined(UndefinedData::Why::element, print_integer(key.integer()), type_name(of));
  }
  if (!key.is(Kind::string)) return undefined(UndefinedData::Why::element, std::string(bytes_of(to_text(key))), type_name(of));
  const std::string_view name = bytes_of(key);
  if (of.is(Kind::loop) || of.is(Kind::space)) return attribute(of, name);
  if (name.starts_with("__")) return undefined(UndefinedData::Why::unsafe, std::string(name), type_name(of));
  if (auto method = find_method(*this, of, name)) return *method;
  return undefined(UndefinedData::Why::attribute, std::string(name), type_name(of));
}

Int Interpreter::index_of(const Value& value, const char* what) {
  if (value.is(Kind::undefined)) fail_undefined(value);
  if (!value.is_integral()) fail_type(fmt::format("{} must be an integer, not {}", what, type_name(value)));
  return value.integer();
}

Value Interpreter::slice(const Value& of, const Value& start, const Value& stop, const Value& step_value) {
  if (of.is(Kind::undefined)) fail_undefined(of);
  if (of.is(Kind::dict)) fail_type("unhashable type: 'slice'");
  if (!is_sequence(of) && !of.is(Kind::string)) fail_type(fmt::format("'{}' object is not subscriptable", type_name(of)));
  const Int size = of.is(Kind::string) ? Int(text_of(of).characters) : Int(of.as<ListData>().items.size());
  const Int by = step_value.is(Kind::none) ? 1 : index_of(step_value, "a slice's step");
  if (by == 0) fail(Trouble::value, "slice step cannot be zero");
  const auto bound = [&](const Value& value, Int otherwise) {
    if (value.is(Kind::none)) return otherwise;
    Int at = index_of(value, "a slice's bound");
    if (at < 0) at += size;
    return std::clamp(at, by > 0 ? Int(0) : Int(-1), by > 0 ? size : size - 1);
  };
  const Int from = bound(start, by > 0 ? Int(0) : size - 1), to = bound(stop, by > 0 ? size : Int(-1));
  if (of.is(Kind::string)) {
    const TextData& text = text_of(of);
    step(uint64_t(text.bytes.size()) / 64);
    if (by == 1 && text.ascii()) return piece(*this, of, uint64_t(from), uint64_t(std::max(from, to)));
    std::vector<uint64_t> starts;  // of each character
    if (!text.ascii()) {
      reserve((text.characters + 1) * sizeof(uint64_t));
      starts.reserve(text.characters + 1);
      for (uint64_t at = 0; at < text.bytes.size(); at += character_length(text.bytes, at)) starts.push_back(at);
      starts.push_back(text.bytes.size());
    }
    const auto byte = [&](Int character) { return starts.empty() ? uint64_t(character) : starts[size_t(character)]; };
    if (by == 1) return piece(*this, of, byte(from), byte(std::max(from, to)));
    TextBuilder out(*this);
    for (Int i = from; by > 0 ? i < to : i > to;) {
      out.add(text, byte(i), byte(i + 1));
      if (by > 0 ? by >= to - i : by <= to - i) break;
      i += by;
    }
    return out.take(of.safe());
  }
  std::vector<Value> items;
  const auto& all = of.as<ListData>().items;
  for (Int i = from; by > 0 ? i < to : i > to;) {
    items.push_back(all[size_t(i)]);
    if (by > 0 ? by >= to - i : by <= to - i) break;
    i += by;
  }
  step(items.size());
  const Value out = list(std::move(items), of.kind());
  if (of.is(Kind::range)) {
    const auto& whole = of.as<ListData>();
    auto& part = out.as<ListData>();
    part.start = whole.start + from * whole.step;
    part.stop = whole.start + to * whole.step;
    // A step that leaves the range makes no difference to what it holds.
    if (__builtin_mul_overflow(whole.step, by, &part.step)) part.step = by > 0 ? whole.step : -whole.step;
  }
  return out;
}

std::vector<Value> Interpreter::iterate(const Value& over) {
  switch (over.kind()) {
    case Kind::undefined:
      if (over.object() && over.as<UndefinedData>().why == UndefinedData::Why::unsafe) fail_undefined(over);
      return {};
    case Kind::string: return characters(*this, over);
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view: {
      const auto& items = over.as<ListData>().items;
      step(items.size());
      reserve(items.size() * sizeof(Value));
      return items;
    }
    case Kind::generator: {
      auto& data = over.as<ListData>();
      if (data.read) return {};
      data.read = true;
      std::vector<Value> items = data.make ? data.make() : std::move(data.items);
      data.make = nullptr;
      step(items.size());
      return items;
    }
    case Kind::dict: {
      const auto& entries = over.as<DictData>().entries;
      step(entries.size());
      std::vector<Value> out;
      for (const auto& [key, value] : entries) out.push_back(key);
      return out;
    }
    case Kind::loop: {
      fail(Trouble::unsupported, "iterating over the variable \"loop\" is outside of the supported part of the template language");
    }
    default: fail_type(fmt::format("'{}' object is not iterable", type_name(over)));
  }
}

bool Interpreter::contains(const Value& in, const Value& what) {
  if (in.is(Kind::string)) {
    if (what.is(Kind::undefined)) fail_undefined(what);
    if (!what.is(Kind::string)) fail_type(fmt::format("'in <string>' requires string as left operand, not {}", type_name(what)));
    step(bytes_of(in).size() / 64);
    return bytes_of(in).find(bytes_of(what)) != std::string_view::npos;
  }
  if (in.is(Kind::dict)) {
    check_key(*this, what);
    const size_t at = in.as<DictData>().find(what);
    if (at != std::string::npos) entry(in, at);
    return at != std::string::npos;
  }
  if (in.is(Kind::space)) fail_type("argument of type 'Namespace' is not iterable");
  if (in.is_number() || in.is(Kind::none) || in.is(Kind::callable)) fail_type(fmt::format("argument of type '{}' is not iterable", type_name(in)));
  for (const Value& item : iterate(in))
    if (equal(item, what)) return true;
  return false;
}

Value Interpreter::to_text(const Value& value) {
  switch (value.kind()) {
    case Kind::string: return value;
    case Kind::undefined: return text("");
    case Kind::none: return text("None");
    case Kind::boolean: return text(value.integer() ? "True" : "False");
    case Kind::integer: return text(print_integer(value.integer()));
    case Kind::real: return text(print_real(value.real()));
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::view: return print_container(*this, value);
    default:
      fail(Trouble::unsupported, fmt::format("printing a {} is outside of the supported part of the template language", type_name(value)));
  }
}

}  // namespace spanscope::jinja
