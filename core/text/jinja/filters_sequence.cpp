// SPDX-License-Identifier: GPL-3.0-or-later
// Filters over lists, dicts and what loops can run over.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/text/jinja/characters.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

Value length(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "length", arguments, {});
  switch (self.kind()) {
    case Kind::undefined: return Value::integer(0);
    case Kind::string: return Value::integer(Int(text_of(self).characters));
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
    case Kind::view: return Value::integer(Int(self.as<ListData>().items.size()));
    case Kind::dict: return Value::integer(Int(self.as<DictData>().entries.size()));
    case Kind::loop: return Value::integer(Int(self.as<LoopData>().items.size()));
    default: in.fail_type(fmt::format("object of type '{}' has no len()", type_name(self)));
  }
}

// "function.name": each part an entry or attribute, numbers are indexes.
Value by_path(Interpreter& in, const Value& item, const Value& path, const Value* otherwise) {
  if (path.is_integral()) {
    Value out = in.item(item, path);
    return otherwise && out.is(Kind::undefined) ? *otherwise : out;
  }
  if (!path.is(Kind::string)) in.fail_type(fmt::format("an attribute is named by a string or a number, not {}", type_name(path)));
  Value out = item;
  std::string_view rest = bytes_of(path);
  for (;;) {
    in.step();
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && part[0] != '-' && error == std::errc() && end == part.data() + part.size();
    out = in.item(out, number ? Value::integer(index) : in.text(std::string(part)));
    if (otherwise && out.is(Kind::undefined)) out = *otherwise;
    if (dot == rest.size()) return out;
    rest.remove_prefix(dot + 1);
  }
}

// What items are compared by: the attribute where one is named, without case unless asked. `several`: as a list, also of one
// (sort takes "a,b"), so that undefined ones are equal and not an error.
std::vector<Value> keys_of(Interpreter& in, const std::vector<Value>& items, const Value* attribute, bool with_case, bool several = false) {
  std::vector<Value> out;
  const auto one = [&](Value key) {
    if (!with_case && key.is(Kind::string)) key = changed_case(in, key, int(Case::lower));
    return key;
  };
  const bool named = attribute && !attribute->is(Kind::none);
  for (const Value& item : items) {
    if (!named) {
      out.push_back(several ? in.list({one(item)}) : one(item));
    } else if (several && attribute->is(Kind::string)) {
      std::vector<Value> parts;
      std::string_view rest = bytes_of(*attribute);
      for (bool more = true; more;) {
        const size_t comma = std::min(rest.find(','), rest.size());
        parts.push_back(one(by_path(in, item, in.text(std::string(rest.substr(0, comma))), nullptr)));
        more = comma < rest.size();
        if (more) rest.remove_prefix(comma + 1);
      }
      out.push_back(in.list(std::move(parts)));
    } else {
      const Value key = one(by_path(in, item, *attribute, nullptr));
      out.push_back(several ? in.list({key}) : key);
    }
  }
  return out;
}

std::vector<size_t> sorted_order(Interpreter& in, const std::vector<Value>& keys, bool backwards) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // A stable sort in reverse keeps equal items in their order, as sorted(reverse=True) does.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return backwards ? in.less(keys[b], keys[a]) : in.less(keys[a], keys[b]); });
  return order;
}

Value join_filter(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "join", arguments, {"d", "attribute"});
  std::vector<Value> items = in.iterate(self);
  if (p.has(1) && !p.at(1).is(Kind::none))
    for (Value& item : items) item = by_path(in, item, p.at(1), nullptr);
  return join(in, p.has(0) ? in.to_text(p.at(0)) : in.text(""), items, true);
}

Value list_filter(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "list", arguments, {});
  return in.list(in.iterate(self));
}

std::vector<Value> item_pairs(Interpreter& in, const Value& dict) {
  std::vector<Value> out;
  for (const auto& [key, value] : dict.as<DictData>().entries) out.push_back(in.list({key, value}, Kind::tuple));
  return out;
}

Value items(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "items", arguments, {});
  return in.generator({&self}, {}, [&in, self]() -> std::vector<Value> {
    if (self.is(Kind::undefined)) return {};
    if (!self.is(Kind::dict)) in.fail_type("Can only get item pairs from a mapping.");
    return item_pairs(in, self);
  });
}

Value first(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "first", arguments, {});
  const std::vector<Value> all = in.iterate(self);
  return all.empty() ? in.undefined(UndefinedData::Why::plain, "No first item, sequence was empty.") : all.front();
}

void check_reversible(Interpreter& in, const Value& self) {
  if (self.is(Kind::generator)) in.fail_type("'generator' object is not reversible");
}

Value last(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "last", arguments, {});
  check_reversible(in, self);
  const std::vector<Value> all = in.iterate(self);
  return all.empty() ? in.undefined(UndefinedData::Why::plain, "No last item, sequence was empty.") : all.back();
}

Value reverse(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "reverse", arguments, {});
  if (self.is(Kind::string)) return in.slice(self, Value::none(), Value::none(), Value::integer(-1));
  check_reversible(in, self);
  std::vector<Value> all = in.iterate(self);
  std::reverse(all.begin(), all.end());
  return in.sequence(Kind::generator, std::move(all), "list_reverseiterator");
}

Value sort(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> all = in.iterate(self);
  const std::vector<Value> keys = keys_of(in, all, p.find(2), p.flag(1, false), true);
  std::vector<Value> out;
  for (size_t i : sorted_order(in, keys, p.flag(0, false))) out.push_back(all[i]);
  return in.list(std::move(out));
}

Value unique(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters checked(in, "unique", arguments, {"case_sensitive", "attribute"});
  return in.generator({&self}, arguments, [&in, self, arguments] {
    const Parameters p(in, "unique", arguments, {"case_sensitive", "attribute"});
    const std::vector<Value> all = in.iterate(self);
    const std::vector<Value> keys = keys_of(in, all, p.find(1), p.flag(0, false));
    DictData seen;
    std::vector<Value> out;
    for (size_t i = 0; i < all.size(); ++i) {
      in.step();
      check_key(in, keys[i]);
      const size_t before = seen.entries.size();
      seen.put(keys[i], Value::none());
      if (seen.entries.size() > before) out.push_back(all[i]);
    }
    return out;
  });
}

Value dictsort(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (self.is(Kind::undefined)) in.fail_undefined(self);
  if (!self.is(Kind::dict)) in.fail_type(fmt::format("dictsort takes a mapping, not {}", type_name(self)));
  const std::string_view by = p.text(1, "key");
  if (by != "key" && by != "value") in.fail(Trouble::value, "You can only sort by either \"key\" or \"value\"");
  const std::vector<Value> pairs = item_pairs(in, self);
  const Value part = Value::integer(by == "key" ? 0 : 1);
  std::vector<Value> out;
  for (size_t i : sorted_order(in, keys_of(in, pairs, &part, p.flag(0, false)), p.flag(2, false))) out.push_back(pairs[i]);
  return in.list(std::move(out));
}

Value default_filter(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "default", arguments, {"default_value", "boolean"});
  if (self.is(Kind::undefined) || (p.flag(1, false) && !is_true(self))) return p.has(0) ? p.at(0) : in.text("");
  return self;
}

// The arguments behind the first.
Arguments rest_of(const Arguments& arguments, size_t skipped) {
  Arguments out;
  out.positional.assign(arguments.positional.begin() + ptrdiff_t(std::min(skipped, arguments.positional.size())), arguments.positional.end());
  out.named = arguments.named;
  return out;
}

std::vector<Value> mapped(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!is_true(self)) return {};  // none, too
  std::vector<Value> out;
  if (arguments.positional.empty()) {
    const Parameters p(in, "map", arguments, {"attribute", "default"});
    const Value* otherwise = p.find(1) && !p.find(1)->is(Kind::none) ? p.find(1) : nullptr;
    for (const Value& item : in.iterate(self)) out.push_back(by_path(in, item, p.at(0), otherwise));
    return out;
  }
  const Value& name = arguments.positional[0];
  const Filter* filter = name.is(Kind::string) ? find_filter(bytes_of(name)) : nullptr;
  if (!filter) in.fail(Trouble::runtime, fmt::format("No filter named '{}'.", bytes_of(in.to_text(name))));
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : in.iterate(self)) {
    in.step();
    out.push_back(filter->apply(in, item, rest));
  }
  return out;
}

Value map(Interpreter& in, const Value& self, const Arguments& arguments) {
  return in.generator({&self}, arguments, [&in, self, arguments] { return mapped(in, self, arguments); });
}

template <bool keep, bool by_attribute>
std::vector<Value> selected(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!is_true(self)) return {};
  const size_t first_test = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) in.fail(Trouble::runtime, "Missing parameter for attribute name");
  const Test* test = nullptr;
  if (arguments.positional.size() > first_test) {
    const Value& name = arguments.positional[first_test];
    test = name.is(Kind::string) ? find_test(bytes_of(name)) : nullptr;
    if (!test) in.fail(Trouble::runtime, fmt::format("No test named '{}'.", bytes_of(in.to_text(name))));
  }
  const Arguments rest = rest_of(arguments, first_test + 1);
  std::vector<Value> out;
  for (const Value& item : in.iterate(self)) {
    in.step();
    const Value value = by_attribute ? by_path(in, item, arguments.positional[0], nullptr) : item;
    if ((test ? test->holds(in, value, rest) : is_true(value)) == keep) out.push_back(item);
  }
  return out;
}

template <bool keep, bool by_attribute>
Value select(Interpreter& in, const Value& self, const Arguments& arguments) {
  return in.generator({&self}, arguments, [&in, self, arguments] { return selected<keep, by_attribute>(in, self, arguments); });
}

Value sum(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "sum", arguments, {"attribute", "start"});
  Value out = p.has(1) ? p.at(1) : Value::integer(0);
  for (const Value& item : in.iterate(self)) {
    in.step();
    out = in.add(out, p.has(0) && !p.at(0).is(Kind::none) ? by_path(in, item, p.at(0), nullptr) : item);
  }
  return out;
}

template <bool largest>
Value extreme(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> all = in.iterate(self);
  if (all.empty()) return in.undefined(UndefinedData::Why::plain, "No aggregated item, sequence was empty.");
  const std::vector<Value> keys = keys_of(in, all, p.find(1), p.flag(0, false));
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i)
    if (largest ? in.less(keys[best], keys[i]) : in.less(keys[i], keys[best])) best = i;
  return all[best];
}

Value attr(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "attr", arguments, {"name"});
  p.at(0);
  const std::string_view name = p.text(0, "");
  if (!self.is(Kind::dict)) return in.attribute(self, name);
  if (auto method = find_method(in, self, name)) return *method;
  return in.undefined(UndefinedData::Why::attribute, std::string(name), type_name(self));
}

}  // namespace

const std::vector<Filter>& sequence_filters() {
  static const std::vector<Filter> all = {
      {"length", length},   {"count", length},   {"join", join_filter}, {"list", list_filter},
      {"items", items},     {"first", first},    {"last", last},        {"reverse", reverse},
      {"sort", sort},       {"unique", unique},  {"dictsort", dictsort}, {"default", default_filter},
      {"d", default_filter}, {"map", map},       {"sum", sum},          {"max", extreme<true>},
      {"min", extreme<false>}, {"attr", attr},
      {"select", select<true, false>},    {"reject", select<false, false>},
      {"selectattr", select<true, true>}, {"rejectattr", select<false, true>},
  };
  return all;
}

const Filter* find_filter(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const Filter*> out;
    for (const auto* table : {&text_filters(), &sequence_filters()})
      for (const Filter& filter : *table) out.emplace(filter.name, &filter);
    return out;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

bool is_known_elsewhere(std::string_view name, bool test) {
  constexpr std::string_view kFilters[] = {"batch", "center", "filesizeformat", "groupby", "pprint", "random", "slice", "striptags",
                                           "truncate", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"};
  constexpr std::string_view kTests[] = {"escaped", "filter", "test"};
  if (test) return std::find(std::begin(kTests), std::end(kTests), name) != std::end(kTests);
  return std::find(std::begin(kFilters), std::end(kFilters), name) != std::end(kFilters);
}

}  // namespace spanscope::jinja
