// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/jinja/machine.h"

#include <fmt/format.h>

#include <algorithm>

namespace spanscope::jinja {

Error trouble(Trouble kind, std::string message, Place place) {
  ErrorCode code = ErrorCode::invalid;
  const char* tag = "SPAN-TEMPLATE";
  switch (kind) {
    case Trouble::raised: tag = "SPAN-TEMPLATE-RAISED"; break;
    case Trouble::syntax: tag = "SPAN-TEMPLATE-SYNTAX"; break;
    case Trouble::type: tag = "SPAN-TEMPLATE-TYPE"; break;
    case Trouble::undefined: tag = "SPAN-TEMPLATE-UNDEFINED"; break;
    case Trouble::value: tag = "SPAN-TEMPLATE-VALUE"; break;
    case Trouble::security: tag = "SPAN-TEMPLATE-SECURITY"; break;
    case Trouble::runtime: tag = "SPAN-TEMPLATE-RUNTIME"; break;
    case Trouble::zero_division: tag = "SPAN-TEMPLATE-ZERO"; break;
    case Trouble::limit: tag = "SPAN-TEMPLATE-LIMIT", code = ErrorCode::limit; break;
    case Trouble::unsupported: tag = "SPAN-TEMPLATE-UNSUPPORTED", code = ErrorCode::unsupported; break;
    case Trouble::memory: tag = "SPAN-MEMORY", code = ErrorCode::memory; break;
  }
  return make_error(code, tag, std::move(message), fmt::format("chat template line {}, column {}", place.line, place.column));
}

void Machine::fail(Trouble kind, std::string message) const { throw Failure{trouble(kind, std::move(message), place)}; }

void Machine::fail_undefined(const Value& value) const {
  if (!value.object()) fail(Trouble::undefined, "an undefined value is used");
  const auto& what = value.as<UndefinedData>();
  switch (what.why) {
    case UndefinedData::Why::name: fail(Trouble::undefined, "'" + what.name + "' is undefined");
    case UndefinedData::Why::attribute: fail(Trouble::undefined, fmt::format("'{} object' has no attribute '{}'", what.owner, what.name));
    case UndefinedData::Why::element: fail(Trouble::undefined, fmt::format("{} object has no element {}", what.owner, what.name));
    case UndefinedData::Why::parameter: fail(Trouble::undefined, "parameter '" + what.name + "' was not provided");
    case UndefinedData::Why::unsafe:
      fail(Trouble::security, fmt::format("access to attribute '{}' of '{}' object is unsafe: templates change nothing that they were given",
                                          what.name, what.owner));
    case UndefinedData::Why::plain: break;
  }
  fail(Trouble::undefined, what.name);
}

void Machine::too_many_steps() const {
  fail(Trouble::limit, fmt::format("the template takes more than {} steps", limits_.steps));
}
void Machine::too_much_memory() const {
  fail(Trouble::limit, fmt::format("the template holds more than {} MiB of values", limits_.memory >> 20));
}
void Machine::too_long(uint64_t bytes) const {
  fail(Trouble::limit, fmt::format("the template makes a text of {} bytes, the limit is {}", bytes, limits_.text));
}

uint64_t count_characters(std::string_view bytes) {
  uint64_t out = 0;
  for (size_t i = 0; i < bytes.size(); i += uint8_t(bytes[i]) < 0x80 ? 1 : character_length(bytes, i)) ++out;
  return out;
}

Value Machine::text(std::string bytes, std::vector<Run> runs, bool safe) {
  auto data = std::make_shared<TextData>();
  const uint64_t size = bytes.size() + runs.size() * sizeof(Run) + sizeof(TextData);
  reserve(size);
  data->own = std::move(bytes);
  data->bytes = data->own;
  data->runs = std::move(runs);
  data->characters = count_characters(data->bytes);
  data->charge(&budget_, size);
  return Value(Kind::string, std::move(data), safe);
}

Value Machine::input_text(std::string_view bytes, FieldId field) {
  auto data = std::make_shared<TextData>();
  data->bytes = bytes;
  if (field != kNoField && !bytes.empty()) data->runs.push_back({bytes.size(), field, RunKind::copy, 0});
  data->characters = count_characters(bytes);
  reserve(sizeof(TextData));
  data->charge(&budget_, sizeof(TextData));
  return Value(Kind::string, std::move(data));
}

uint32_t Machine::nested(const std::vector<Value>& items) const {
  uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  // The input may be nested as deep as its reader allows, and a template adds its own.
  if (depth + 1 > limits_.nesting + 128) fail(Trouble::limit, fmt::format("the template nests containers deeper than {}", limits_.nesting));
  return depth + 1;
}

Value Machine::list(std::vector<Value> items, Kind kind, FieldId origin) {
  auto data = std::make_shared<ListData>();
  const uint64_t size = sizeof(ListData) + items.size() * sizeof(Value);
  step(items.size() / 8);
  reserve(size);
  data->depth = nested(items);
  data->items = std::move(items);
  data->origin = origin;
  data->charge(&budget_, size);
  return Value(kind, std::move(data));
}

Value Machine::sequence(Kind kind, std::vector<Value> items, const char* name) {
  Value out = list(std::move(items), kind);
  out.as<ListData>().name = name;
  return out;
}

Value Machine::generator(std::initializer_list<const Value*> holds, const Arguments& arguments, std::function<std::vector<Value>()> make) {
  Value out = sequence(Kind::generator, {}, "generator");
  auto& data = out.as<ListData>();
  for (const Value* held : holds) data.depth = std::max(data.depth, depth_of(*held) + 1);
  for (const Value& held : arguments.positional) data.depth = std::max(data.depth, depth_of(held) + 1);
  for (const auto& [name, held] : arguments.named) data.depth = std::max(data.depth, depth_of(held) + 1);
  if (data.depth > limits_.nesting + 128) fail(Trouble::limit, fmt::format("the template nests containers deeper than {}", limits_.nesting));
  data.make = std::move(make);
  return out;
}

Value Machine::dict(std::shared_ptr<DictData> data) {
  const uint64_t size = sizeof(DictData) + data->entries.size() * 3 * sizeof(Value);
  step(data->entries.size() / 4);
  reserve(size);
  uint32_t depth = 0;
  for (const auto& [key, value] : data->entries) depth = std::max({depth, depth_of(key), depth_of(value)});
  if (depth + 1 > limits_.nesting + 128) fail(Trouble::limit, fmt::format("the template nests containers deeper than {}", limits_.nesting));
  data->depth = depth + 1;
  data->charge(&budget_, size);
  return Value(Kind::dict, std::move(data));
}

Value Machine::function(std::string name, Function function, Value self) {
  if (depth_of(self) > limits_.nesting + 128) fail(Trouble::limit, fmt::format("the template nests containers deeper than {}", limits_.nesting));
  auto data = std::make_shared<CallableData>();
  data->name = std::move(name);
  data->function = function;
  data->self = std::move(self);
  reserve(sizeof(CallableData));
  data->charge(&budget_, sizeof(CallableData));
  return Value(Kind::callable, std::move(data));
}

Value Machine::undefined(UndefinedData::Why why, std::string name, const char* owner) {
  auto data = std::make_shared<UndefinedData>();
  data->why = why;
  data->name = std::move(name);
  data->owner = owner;
  reserve(sizeof(UndefinedData));
  data->charge(&budget_, sizeof(UndefinedData));
  return Value(Kind::undefined, std::move(data));
}

void TextBuilder::grow(uint64_t n) {
  machine_.check_text(bytes_.size() + n);
  const uint64_t bytes = n + sizeof(Run);
  machine_.reserve(bytes);
  machine_.step(n / 64);
  machine_.budget().live += bytes;
  charged_ += bytes;
}

void TextBuilder::mark(uint64_t n, FieldId field, RunKind kind, uint64_t source) {
  const uint64_t begin = bytes_.size();
  if (runs_.empty()) {
    if (field == kNoField) return;
    if (begin > 0) runs_.push_back({begin, kNoField, RunKind::none, 0});
  }
  if (!runs_.empty()) {
    Run& last = runs_.back();
    const uint64_t last_begin = runs_.size() > 1 ? runs_[runs_.size() - 2].end : 0;
    bool joins = last.kind == kind && last.field == field;
    if (joins && kind == RunKind::copy) joins = last.source + (last.end - last_begin) == source;
    if (joins && kind == RunKind::made) joins = last.source == source;
    if (joins) {
      last.end = begin + n;
      return;
    }
  }
  runs_.push_back({begin + n, field, kind, source});
}

void TextBuilder::plain(std::string_view bytes) {
  if (bytes.empty()) return;
  grow(bytes.size());
  mark(bytes.size(), kNoField, RunKind::none, 0);
  bytes_ += bytes;
}

void TextBuilder::run(std::string_view bytes, FieldId field, RunKind kind, uint64_t source) {
  if (bytes.empty()) return;
  grow(bytes.size());
  if (field == kNoField) kind = RunKind::none;
  mark(bytes.size(), field, kind, kind == RunKind::none || kind == RunKind::owned ? 0 : source);
  bytes_ += bytes;
}

void TextBuilder::add(const TextData& text, uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  const std::string_view bytes = text.bytes;
  if (text.runs.empty()) return plain(bytes.substr(begin, end - begin));
  auto at = std::upper_bound(text.runs.begin(), text.runs.end(), begin, [](uint64_t b, const Run& r) { return b < r.end; });
  for (uint64_t from = begin; from < end; ++at) {
    const uint64_t run_begin = at == text.runs.begin() ? 0 : (at - 1)->end;
    const uint64_t to = std::min(end, at->end);
    run(bytes.substr(from, to - from), at->field, at->kind, at->kind == RunKind::copy ? at->source + (from - run_begin) : at->source);
    from = to;
  }
}

void TextBuilder::in_place(std::string_view bytes, const TextData& text, uint64_t begin) {
  const Run origin = origin_at(text, begin);
  if (origin.field == kNoField) return plain(bytes);
  if (origin.kind == RunKind::owned) return run(bytes, origin.field, RunKind::owned, 0);
  // One character of the same length still stands at its place; anything else is made from it.
  const uint64_t length = character_length(text.bytes, begin);
  const bool one = bytes.size() == length && character_length(bytes, 0) == bytes.size() && origin.kind == RunKind::copy;
  run(bytes, origin.field, one ? RunKind::copy : RunKind::made, origin.source);
}

Value TextBuilder::take(bool safe) {
  release();
  return machine_.text(std::move(bytes_), std::move(runs_), safe);
}

Run origin_at(const TextData& text, uint64_t at) {
  const auto found = std::upper_bound(text.runs.begin(), text.runs.end(), at, [](uint64_t b, const Run& r) { return b < r.end; });
  if (found == text.runs.end()) return {};
  const uint64_t begin = found == text.runs.begin() ? 0 : (found - 1)->end;
  return {at + 1, found->field, found->kind, found->kind == RunKind::copy ? found->source + (at - begin) : found->source};
}

}  // namespace spanscope::jinja
