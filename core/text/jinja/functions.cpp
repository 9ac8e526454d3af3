// SPDX-License-Identifier: GPL-3.0-or-later
// Functions of the language, and how arguments meet parameters.
#include <fmt/format.h>

#include <algorithm>

#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {

Parameters::Parameters(Interpreter& in, const char* function, const Arguments& arguments, std::initializer_list<const char*> names)
    : in_(in), function_(function), names_(names), values_(names.size()) {
  if (arguments.positional.size() > names_.size())
    in.fail_type(fmt::format("{}() takes at most {} argument(s), {} given", function, names_.size(), arguments.positional.size()));
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto& argument : arguments.named) {
    const std::string& name = argument.first;
    const auto found = std::find_if(names_.begin(), names_.end(), [&](const char* known) { return name == known; });
    if (found == names_.end()) in.fail_type(fmt::format("{}() got an unexpected keyword argument '{}'", function, name));
    auto& slot = values_[size_t(found - names_.begin())];
    if (slot) in.fail_type(fmt::format("{}() got multiple values for argument '{}'", function, name));
    slot = argument.second;
  }
}

const Value& Parameters::at(size_t i) const {
  if (!values_[i]) in_.fail_type(fmt::format("{}() is missing its argument '{}'", function_, names_[i]));
  return *values_[i];
}
Int Parameters::integer(size_t i, Int otherwise) const {
  if (!values_[i]) return otherwise;
  return in_.index_of(*values_[i], fmt::format("{}(): {}", function_, names_[i]).c_str());
}
std::string_view Parameters::text(size_t i, std::string_view otherwise) const {
  if (!values_[i]) return otherwise;
  if (values_[i]->is(Kind::undefined)) in_.fail_undefined(*values_[i]);
  if (!values_[i]->is(Kind::string)) in_.fail_type(fmt::format("{}(): {} must be a string, not {}", function_, names_[i], type_name(*values_[i])));
  return bytes_of(*values_[i]);
}

void set_attribute(Interpreter& in, const Value& space, const std::string& name, Value value) {
  if (name.starts_with('_'))
    in.fail(Trouble::security, fmt::format("templates cannot store attributes that begin with an underscore in a namespace, but got '{}'", name));
  auto& entries = space.as<SpaceData>().entries;
  for (auto& [known, old] : entries)
    if (known == name) {
      old = std::move(value);
      return;
    }
  in.reserve(sizeof(Value) + 64);
  entries.emplace_back(name, std::move(value));
}

namespace {

// Pairs given as a dict, or as a list of pairs.
void put_pairs(Interpreter& in, const Value& from, DictData& into, const char* function) {
  if (from.is(Kind::dict)) {
    for (const auto& [key, value] : from.as<DictData>().entries) into.put(key, value);
    return;
  }
  for (const Value& pair : in.iterate(from)) {
    const std::vector<Value> parts = in.iterate(pair);
    if (parts.size() != 2) in.fail(Trouble::value, fmt::format("{}() takes pairs, found a sequence of length {}", function, parts.size()));
    check_key(in, parts[0]);
    into.put(parts[0], parts[1]);
  }
}

std::shared_ptr<DictData> pairs(Interpreter& in, const Arguments& arguments, const char* function) {
  if (arguments.positional.size() > 1) in.fail_type(fmt::format("{} expected at most 1 argument, got {}", function, arguments.positional.size()));
  auto out = std::make_shared<DictData>();
  if (!arguments.positional.empty()) {
    if (arguments.positional[0].is(Kind::undefined)) in.fail_undefined(arguments.positional[0]);
    put_pairs(in, arguments.positional[0], *out, function);
  }
  for (const auto& [name, value] : arguments.named) out->put(in.text(name), value);
  return out;
}

Value raise_exception(Interpreter& in, const Value&, const Arguments& arguments) {
  const Parameters p(in, "raise_exception", arguments, {"message"});
  in.fail(Trouble::raised, std::string(bytes_of(in.to_text(p.at(0)))));
}

Value make_namespace(Interpreter& in, const Value&, const Arguments& arguments) {
  const auto entries = pairs(in, arguments, "namespace");
  const Value out = in.make_space();
  for (const auto& [key, value] : entries->entries) {
    if (!key.is(Kind::string)) in.fail_type("the attributes of a namespace are named by strings");
    set_attribute(in, out, std::string(bytes_of(key)), value);
  }
  return out;
}

Value make_dict(Interpreter& in, const Value&, const Arguments& arguments) { return in.dict(pairs(in, arguments, "dict")); }

Value make_range(Interpreter& in, const Value&, const Arguments& arguments) {
  if (!arguments.named.empty()) in.fail_type("range() takes no keyword arguments");
  const auto& given = arguments.positional;
  if (given.empty() || given.size() > 3) in.fail_type(fmt::format("range expected 1 to 3 arguments, got {}", given.size()));
  Int bounds[3] = {0, 0, 1};
  if (given.size() == 1) bounds[1] = in.index_of(given[0], "range()");
  else for (size_t i = 0; i < given.size(); ++i) bounds[i] = in.index_of(given[i], "range()");
  const auto [start, stop, step] = bounds;
  if (step == 0) in.fail(Trouble::value, "range() arg 3 must not be zero");
  constexpr Int kFar = Int(1) << 100;
  for (const Int b : bounds)
    if (b > kFar || b < -kFar) in.fail(Trouble::limit, "Range too big");
  const Int count = step > 0 ? (stop > start ? (stop - start - 1) / step + 1 : 0) : (start > stop ? (start - stop - 1) / -step + 1 : 0);
  if (count > kMostRange) in.fail(Trouble::limit, fmt::format("Range too big: {} items, at most {} are allowed", print_integer(count), print_integer(kMostRange)));
  std::vector<Value> items;
  in.step(uint64_t(count));
  items.reserve(size_t(count));
  for (Int k = 0; k < count; ++k) items.push_back(Value::integer(start + k * step));
  const Value out = in.list(std::move(items), Kind::range);
  auto& data = out.as<ListData>();
  data.start = start;
  data.stop = stop;
  data.step = step;
  return out;
}

Value strftime_now(Interpreter& in, const Value&, const Arguments& arguments) {
  const Parameters p(in, "strftime_now", arguments, {"format"});
  p.at(0);
  const std::string_view format = p.text(0, "");
  if (format.size() > 4096) in.fail(Trouble::limit, "a time format of more than 4096 bytes");
  auto out = format_local_time(format, in.now());
  if (!out) in.fail(Trouble::unsupported, out.error().message);
  return in.text(std::move(*out));
}

Value not_here(Interpreter& in, const Value& self, const Arguments&) {
  in.fail(Trouble::unsupported, fmt::format("the function \"{}\" is outside of the supported part of the template language", bytes_of(self)));
}

}  // namespace

std::optional<Value> find_function(Interpreter& in, std::string_view name) {
  constexpr std::pair<const char*, Function> kFunctions[] = {{"raise_exception", raise_exception}, {"namespace", make_namespace},
                                                             {"dict", make_dict},                  {"range", make_range},
                                                             {"strftime_now", strftime_now}};
  for (const auto& [known, function] : kFunctions)
    if (name == known) return in.function(std::string(name), function);
  for (std::string_view other : {"cycler", "joiner", "lipsum", "self"})
    if (name == other) return in.function(std::string(name), not_here, in.text(std::string(name)));
  return std::nullopt;
}

}  // namespace spanscope::jinja
