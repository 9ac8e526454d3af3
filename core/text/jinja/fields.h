// SPDX-License-Identifier: GPL-3.0-or-later
// The nodes of the input that strings come from, and the values that a template sees in their place. Thread: one render.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/jinja/machine.h"

namespace spanscope::jinja {

class Fields {
 public:
  Fields() : nodes_(1) {}
  // Keys and texts lie in the input, which outlives this.
  FieldId root(std::string_view name) { return add({kNoField, name, 0, 1, false, {}}); }
  FieldId entry(FieldId parent, std::string_view key) { return add({parent, key, 0, nodes_[parent].level + 1, false, {}}); }
  FieldId item(FieldId parent, uint64_t index) { return add({parent, {}, index, nodes_[parent].level + 1, true, {}}); }
  void set_text(FieldId field, std::string_view text) { nodes_[field].text = text; }

  std::string path(FieldId field) const;  // "messages[3].content[0].text"
  std::string_view text(FieldId field) const { return nodes_[field].text; }
  FieldId parent(FieldId field) const { return nodes_[field].parent; }
  uint32_t level(FieldId field) const { return nodes_[field].level; }
  // The field that ranges name: of a message its keys, its parts' keys, its calls' keys and their functions' keys; one
  // tool, one document; of anything else an item of the root.
  FieldId group(FieldId field) const;

 private:
  struct Node {
    FieldId parent = kNoField;
    std::string_view key;
    uint64_t index = 0;
    uint32_t level = 0;  // of a root: 1
    bool is_index = false;
    std::string_view text;
  };
  FieldId add(Node node) {
    nodes_.push_back(node);
    return FieldId(nodes_.size() - 1);
  }
  std::vector<Node> nodes_;
};

// `json` as a value whose strings and containers come from `field`; kNoField: without origins. Strings are not copied.
Value input_value(Machine& machine, Fields& fields, const OrderedJson& json, FieldId field, uint32_t depth = 0);
// Key of an entry of the container `parent`.
Value input_key(Machine& machine, std::string_view key, FieldId parent);

}  // namespace spanscope::jinja
