// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/jinja/fields.h"

#include <algorithm>

namespace spanscope::jinja {

std::string Fields::path(FieldId field) const {
  if (field == kNoField) return {};
  const Node& node = nodes_[field];
  std::string out = path(node.parent);
  if (node.is_index) return out + "[" + std::to_string(node.index) + "]";
  if (!out.empty()) out += '.';
  return out.append(node.key);
}

FieldId Fields::group(FieldId field) const {
  std::vector<FieldId> line;  // from the root down
  for (FieldId f = field; f != kNoField; f = nodes_[f].parent) line.push_back(f);
  std::reverse(line.begin(), line.end());
  const auto is_index = [&](size_t i) { return i < line.size() && nodes_[line[i]].is_index; };
  const auto is_key = [&](size_t i) { return i < line.size() && !nodes_[line[i]].is_index; };
  const std::string_view root = nodes_[line[0]].key;
  size_t keep = is_index(1) ? 2 : 1;
  if (root == "messages" && is_index(1) && is_key(2)) {
    keep = 3;
    const std::string_view key = nodes_[line[2]].key;
    if (key == "content" && is_index(3) && is_key(4)) keep = 5;
    if (key == "tool_calls" && is_index(3)) {
      keep = 4;
      if (is_key(4)) keep = nodes_[line[4]].key == "function" && is_key(5) ? 6 : 5;
    }
  }
  return line[keep - 1];
}

Value input_key(Machine& machine, std::string_view key, FieldId parent) {
  if (parent == kNoField) return machine.input_text(key, kNoField);
  TextBuilder out(machine);
  out.run(key, parent, RunKind::owned, 0);
  return out.take();
}

Value input_value(Machine& machine, Fields& fields, const OrderedJson& json, FieldId field, uint32_t depth) {
  constexpr uint32_t kDeepest = 128;  // as the reader of JSON allows
  if (depth > kDeepest) machine.fail(Trouble::limit, "the conversation is nested deeper than 128 levels");
  machine.step();
  const bool tracked = field != kNoField;
  switch (json.type()) {
    case OrderedJson::value_t::string: {
      const std::string_view text = json.get_ref<const std::string&>();
      if (tracked) fields.set_text(field, text);
      return machine.input_text(text, field);
    }
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (size_t i = 0; i < json.size(); ++i)
        items.push_back(input_value(machine, fields, json[i], tracked ? fields.item(field, i) : kNoField, depth + 1));
      return machine.list(std::move(items), Kind::list, field);
    }
    case OrderedJson::value_t::object: {
      auto data = std::make_shared<DictData>();
      data->origin = field;
      for (const auto& [key, item] : json.items()) {
        const std::string& name = key;
        data->put(input_key(machine, name, field), input_value(machine, fields, item, tracked ? fields.entry(field, name) : kNoField, depth + 1));
      }
      return machine.dict(std::move(data));
    }
    case OrderedJson::value_t::boolean: return Value::boolean(json.get<bool>());
    case OrderedJson::value_t::number_integer: return Value::integer(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned: return Value::integer(Int(json.get<uint64_t>()));
    case OrderedJson::value_t::number_float: return Value::real(json.get<double>());
    default: return Value::none();
  }
}

}  // namespace spanscope::jinja
