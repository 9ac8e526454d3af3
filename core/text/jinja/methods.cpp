// SPDX-License-Identifier: GPL-3.0-or-later
// Methods of strings, dicts, lists and the loop variable, as Python has them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/jinja/characters.h"
#include "core/text/jinja/library.h"

namespace spanscope::jinja {
namespace {

const Value& string_argument(Interpreter& in, const Parameters& p, size_t i, const char* method) {
  const Value& out = p.at(i);
  if (out.is(Kind::undefined)) in.fail_undefined(out);
  if (!out.is(Kind::string)) in.fail_type(fmt::format("{}() argument must be str, not {}", method, type_name(out)));
  return out;
}

template <bool left, bool right>
Value strip_method(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "strip", arguments, {"chars"});
  return strip(in, self, p.find(0), left, right);
}

template <bool from_right>
Value split(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "split", arguments, {"sep", "maxsplit"});
  const std::string_view text = bytes_of(self);
  Int most = p.integer(1, -1);
  if (most < 0) most = Int(text.size()) + 1;
  std::vector<std::pair<uint64_t, uint64_t>> cuts;  // of the separators
  const Value* separator = p.find(0) && !p.find(0)->is(Kind::none) ? p.find(0) : nullptr;
  in.step(text.size() / 16);
  uint64_t begin = 0, end = text.size();
  if (separator) {
    const std::string_view by = bytes_of(string_argument(in, p, 0, "split"));
    if (by.empty()) in.fail(Trouble::value, "empty separator");
    if (from_right) {
      for (size_t at = text.size(); Int(cuts.size()) < most && at >= by.size();) {
        const size_t found = text.rfind(by, at - by.size());
        if (found == std::string_view::npos) break;
        cuts.emplace_back(found, found + by.size());
        at = found;
      }
      std::reverse(cuts.begin(), cuts.end());
    } else {
      for (size_t at = 0; Int(cuts.size()) < most;) {
        const size_t found = text.find(by, at);
        if (found == std::string_view::npos) break;
        cuts.emplace_back(found, found + by.size());
        at = found + by.size();
      }
    }
  } else {
    // Runs of white space separate; those at the two ends do not count, but stay in a rest that is not split further.
    uint64_t length = 0;
    std::vector<std::pair<uint64_t, uint64_t>> words;
    for (uint64_t at = 0; at < text.size();) {
      const bool space = is_space(code_at(text, at, length));
      if (!space && (words.empty() || words.back().second != at)) words.emplace_back(at, at);
      if (!space) words.back().second = at + length;
      at += length;
    }
    if (words.empty()) return in.list({});
    begin = words.front().first;
    end = words.back().second;
    const size_t limit = size_t(std::min(most, Int(words.size() - 1)));
    for (size_t k = 0; k < limit; ++k) {
      const size_t w = from_right ? words.size() - 1 - k : k + 1;
      cuts.emplace_back(words[w - 1].second, words[w].first);
    }
    if (from_right) std::reverse(cuts.begin(), cuts.end());
    if (limit < words.size() - 1) (from_right ? begin : end) = from_right ? 0 : text.size();
  }
  std::vector<Value> out;
  in.reserve((cuts.size() + 1) * sizeof(Value));
  for (const auto& [cut, next] : cuts) {
    in.step();
    out.push_back(piece(in, self, begin, cut));
    begin = next;
  }
  out.push_back(piece(in, self, begin, end));
  return in.list(std::move(out));
}

Value splitlines(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "splitlines", arguments, {"keepends"});
  return in.list(lines(in, self, p.flag(0, false)));
}

template <bool from_right>
Value partition(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "partition", arguments, {"sep"});
  const std::string_view text = bytes_of(self), by = bytes_of(string_argument(in, p, 0, "partition"));
  if (by.empty()) in.fail(Trouble::value, "empty separator");
  const size_t at = from_right ? text.rfind(by) : text.find(by);
  if (at == std::string_view::npos) {
    const Value none = in.text("");
    return in.list(from_right ? std::vector<Value>{none, none, self} : std::vector<Value>{self, none, none}, Kind::tuple);
  }
  return in.list({piece(in, self, 0, at), piece(in, self, at, at + by.size()), piece(in, self, at + by.size(), text.size())}, Kind::tuple);
}

template <Case mode>
Value cased(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "upper", arguments, {});
  return changed_case(in, self, int(mode));
}

template <bool at_end>
Value affix(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, at_end ? "endswith" : "startswith", arguments, {"prefix"});
  const std::string_view text = bytes_of(self);
  const auto fits = [&](const Value& value) {
    if (!value.is(Kind::string))
      in.fail_type(fmt::format("{} first arg must be str or a tuple of str, not {}", at_end ? "endswith" : "startswith", type_name(value)));
    return at_end ? text.ends_with(bytes_of(value)) : text.starts_with(bytes_of(value));
  };
  if (p.at(0).is(Kind::undefined)) in.fail_undefined(p.at(0));
  if (!p.at(0).is(Kind::tuple)) return Value::boolean(fits(p.at(0)));
  bool any = false;
  for (const Value& one : in.iterate(p.at(0))) any = any || fits(one);
  return Value::boolean(any);
}

template <bool at_end>
Value without_affix(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "removeprefix", arguments, {"prefix"});
  const std::string_view text = bytes_of(self), part = bytes_of(string_argument(in, p, 0, "removeprefix"));
  if (at_end ? !text.ends_with(part) : !text.starts_with(part)) return self;
  return at_end ? piece(in, self, 0, text.size() - part.size()) : piece(in, self, part.size(), text.size());
}

Value replace_method(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "replace", arguments, {"old", "new", "count"});
  return replace(in, self, string_argument(in, p, 0, "replace"), string_argument(in, p, 1, "replace"), p.integer(2, -1));
}

template <bool from_right, bool must>
Value find(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "find", arguments, {"sub"});
  const std::string_view text = bytes_of(self), part = bytes_of(string_argument(in, p, 0, "find"));
  const size_t at = from_right ? text.rfind(part) : text.find(part);
  if (at != std::string_view::npos) return Value::integer(Int(count_characters(text.substr(0, at))));
  if (must) in.fail(Trouble::value, "substring not found");
  return Value::integer(-1);
}

Value count(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "count", arguments, {"sub"});
  const std::string_view text = bytes_of(self), part = bytes_of(string_argument(in, p, 0, "count"));
  if (part.empty()) return Value::integer(Int(text_of(self).characters) + 1);
  Int out = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++out;
  return Value::integer(out);
}

Value join_method(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "join", arguments, {"iterable"});
  return join(in, self, in.iterate(p.at(0)), false);
}

enum class Side { left, right, both };
template <Side side>
Value pad(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "center", arguments, {"width", "fillchar"});
  p.at(0);
  const Int length = Int(text_of(self).characters), missing = std::max(p.integer(0, 0) - length, Int(0));
  const Value fill = p.has(1) ? string_argument(in, p, 1, "center") : in.text(" ");
  if (text_of(fill).characters != 1) in.fail_type("The fill character must be exactly one character long");
  const Int before = side == Side::left ? missing : side == Side::right ? 0 : missing / 2 + (missing & p.integer(0, 0) & 1);
  TextBuilder out(in);
  out.add(in.arithmetic(Expr::Op::multiply, fill, Value::integer(before)));
  out.add(self);
  out.add(in.arithmetic(Expr::Op::multiply, fill, Value::integer(missing - before)));
  return out.take(self.safe());
}

Value zfill(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "zfill", arguments, {"width"});
  p.at(0);
  const std::string_view text = bytes_of(self);
  const uint64_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const Int missing = std::max(p.integer(0, 0) - Int(text_of(self).characters), Int(0));
  TextBuilder out(in);
  out.add(text_of(self), 0, sign);
  out.add(in.arithmetic(Expr::Op::multiply, in.text("0"), Value::integer(missing)));
  out.add(text_of(self), sign, text.size());
  return out.take(self.safe());
}

template <bool (*of)(uint32_t)>
Value every(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "isspace", arguments, {});
  const std::string_view text = bytes_of(self);
  uint64_t length = 0;
  bool all = !text.empty();
  for (uint64_t at = 0; at < text.size() && all; at += length) all = of(code_at(text, at, length));
  return Value::boolean(all);
}
template <bool upper>
Value every_cased(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "isupper", arguments, {});
  return Value::boolean(all_cased(bytes_of(self), upper));
}

Value dict_get(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "get", arguments, {"key", "default"});
  check_key(in, p.at(0));
  auto& data = self.as<DictData>();
  const size_t at = data.find(p.at(0));
  if (at == std::string::npos) return p.has(1) ? p.at(1) : Value::none();
  if (at < 64) data.touched |= uint64_t(1) << at;
  return data.entries[at].second;
}

template <bool keys, bool values>
Value dict_view(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "items", arguments, {});
  std::vector<Value> out;
  for (const auto& [key, value] : self.as<DictData>().entries) out.push_back(keys && values ? in.list({key, value}, Kind::tuple) : keys ? key : value);
  return in.sequence(Kind::view, std::move(out), keys && values ? "dict_items" : keys ? "dict_keys" : "dict_values");
}

Value dict_copy(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "copy", arguments, {});
  auto out = std::make_shared<DictData>();
  for (const auto& [key, value] : self.as<DictData>().entries) out->put(key, value);
  return in.dict(std::move(out));
}

Value list_copy(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "copy", arguments, {});
  return in.list(in.iterate(self));
}
template <bool counts>
Value list_find(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "index", arguments, {"value"});
  const auto& items = self.as<ListData>().items;
  Int out = 0;
  for (size_t i = 0; i < items.size(); ++i)
    if (in.equal(items[i], p.at(0))) {
      if (!counts) return Value::integer(Int(i));
      ++out;
    }
  if (!counts) in.fail(Trouble::value, "the value is not in list");
  return Value::integer(out);
}

Value loop_cycle(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) in.fail_type("no items for cycling given");
  return arguments.positional[self.as<LoopData>().index % arguments.positional.size()];
}
Value loop_changed(Interpreter& in, const Value& self, const Arguments& arguments) {
  auto& data = self.as<LoopData>();
  bool same = data.changed_before && data.last_changed.size() == arguments.positional.size();
  for (size_t i = 0; same && i < arguments.positional.size(); ++i) same = in.equal(data.last_changed[i], arguments.positional[i]);
  if (!data.items.empty()) data.last_changed = arguments.positional;
  data.changed_before = true;
  return Value::boolean(!same);
}

Value is_whole(Interpreter& in, const Value& self, const Arguments& arguments) {
  const Parameters p(in, "is_integer", arguments, {});
  return Value::boolean(std::isfinite(self.real()) && self.real() == std::floor(self.real()));
}

struct Method {
  std::string_view name;
  Function function;
};
constexpr Method kString[] = {
    {"strip", strip_method<true, true>}, {"lstrip", strip_method<true, false>}, {"rstrip", strip_method<false, true>},
    {"split", split<false>}, {"rsplit", split<true>}, {"splitlines", splitlines}, {"partition", partition<false>}, {"rpartition", partition<true>},
    {"upper", cased<Case::upper>}, {"lower", cased<Case::lower>}, {"title", cased<Case::title>}, {"capitalize", cased<Case::capitalize>},
    {"swapcase", cased<Case::swapped>}, {"startswith", affix<false>}, {"endswith", affix<true>}, {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>}, {"replace", replace_method}, {"find", find<false, false>}, {"rfind", find<true, false>},
    {"index", find<false, true>}, {"rindex", find<true, true>}, {"count", count}, {"join", join_method}, {"ljust", pad<Side::right>},
    {"rjust", pad<Side::left>}, {"center", pad<Side::both>}, {"zfill", zfill}, {"isspace", every<is_space>}, {"isalpha", every<is_letter>},
    {"isdigit", every<is_digit>}, {"isalnum", every<is_letter_or_digit>}, {"isupper", every_cased<true>}, {"islower", every_cased<false>},
};
constexpr std::string_view kOtherString[] = {"casefold", "encode", "expandtabs", "format", "format_map", "isascii", "isdecimal", "isidentifier",
                                             "isnumeric", "isprintable", "istitle", "maketrans", "translate"};
constexpr Method kDict[] = {{"items", dict_view<true, true>}, {"keys", dict_view<true, false>}, {"values", dict_view<false, true>},
                            {"get", dict_get}, {"copy", dict_copy}};
constexpr std::string_view kChangesDict[] = {"pop", "popitem", "clear", "update", "setdefault"};
constexpr Method kList[] = {{"index", list_find<false>}, {"count", list_find<true>}, {"copy", list_copy}};
constexpr std::string_view kChangesList[] = {"append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear"};
constexpr Method kLoop[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
constexpr Method kReal[] = {{"is_integer", is_whole}};

template <size_t N>
std::optional<Value> bound(Interpreter& in, const Method (&table)[N], const Value& of, std::string_view name) {
  for (const Method& method : table)
    if (method.name == name) return in.function(std::string(name), method.function, of);
  return std::nullopt;
}
template <size_t N>
bool holds(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::optional<Value> find_method(Interpreter& in, const Value& of, std::string_view name) {
  switch (of.kind()) {
    case Kind::string:
      if (holds(kOtherString, name))
        in.fail(Trouble::unsupported, fmt::format("the method \"{}\" of strings is outside of the supported part of the template language", name));
      return bound(in, kString, of, name);
    case Kind::dict:
      if (holds(kChangesDict, name)) return in.undefined(UndefinedData::Why::unsafe, std::string(name), "dict");
      return bound(in, kDict, of, name);
    case Kind::list:
      if (holds(kChangesList, name)) return in.undefined(UndefinedData::Why::unsafe, std::string(name), "list");
      return bound(in, kList, of, name);
    case Kind::tuple:
      if (name == "copy") return std::nullopt;
      return bound(in, kList, of, name);
    case Kind::loop: return bound(in, kLoop, of, name);
    case Kind::real: return bound(in, kReal, of, name);
    default: return std::nullopt;
  }
}

}  // namespace spanscope::jinja
