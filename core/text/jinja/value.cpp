// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/jinja/value.h"

namespace spanscope::jinja {
namespace {

constexpr size_t kFewKeys = 8;

}  // namespace

const char* type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer: return "int";
    case Kind::real: return "float";
    case Kind::string: return value.safe() ? "Markup" : "str";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dict";
    case Kind::range: return "range";
    case Kind::view: return value.as<ListData>().name.c_str();
    case Kind::generator: return "generator";
    case Kind::callable: return value.as<CallableData>().macro ? "Macro" : "function";
    case Kind::space: return "Namespace";
    case Kind::loop: return "LoopContext";
  }
  return "object";
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return value.integer() != 0;
    case Kind::real: return value.real() != 0;
    case Kind::string: return !bytes_of(value).empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view: return !value.as<ListData>().items.empty();
    case Kind::dict: return !value.as<DictData>().entries.empty();
    case Kind::generator:
    case Kind::callable:
    case Kind::space: return true;
    case Kind::loop: return !value.as<LoopData>().items.empty();
  }
  return false;
}

bool equal_scalars(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  if (a.is(Kind::string)) return bytes_of(a) == bytes_of(b);
  return a.is(Kind::none) || a.is(Kind::undefined);
}

uint32_t depth_of(const Value& value) {
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view:
    case Kind::generator: return value.as<ListData>().depth;
    case Kind::dict: return value.as<DictData>().depth;
    // A function may hold any value as its own; these are counted as deep as their holder.
    case Kind::callable: return depth_of(value.as<CallableData>().self) + 1;
    default: return 0;
  }
}

size_t DictData::find(std::string_view key) const {
  if (!strings_.empty()) {
    const auto found = strings_.find(std::string(key));
    return found == strings_.end() ? std::string::npos : found->second;
  }
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].first.is(Kind::string) && bytes_of(entries[i].first) == key) return i;
  return std::string::npos;
}

size_t DictData::find(const Value& key) const {
  if (key.is(Kind::string)) return find(bytes_of(key));
  for (size_t i = 0; i < entries.size(); ++i)
    if (equal_scalars(entries[i].first, key)) return i;
  return std::string::npos;
}

void DictData::put(Value key, Value value) {
  const size_t at = find(key);
  if (at != std::string::npos) {
    entries[at].second = std::move(value);
    return;
  }
  if (!strings_.empty()) {
    if (key.is(Kind::string)) strings_.emplace(bytes_of(key), entries.size());
  } else if (entries.size() == kFewKeys) {
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i].first.is(Kind::string)) strings_.emplace(bytes_of(entries[i].first), i);
    if (key.is(Kind::string)) strings_.emplace(bytes_of(key), entries.size());
  }
  entries.emplace_back(std::move(key), std::move(value));
}

}  // namespace spanscope::jinja
