// SPDX-License-Identifier: GPL-3.0-or-later
// Rendering messages to prompt text with the origin of every byte. This room knows no conversation type: messages are
// JSON values, fields are named by path. Jinja will implement the same interface. Immutable; any thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// Bytes [begin, end) of the rendered text come from `field` ("messages[3].content", "messages[3].role",
// "messages[3].content[0].text", "tools[1]"). Sorted, disjoint. Bytes in no range are template text.
struct OriginRange {
  uint64_t begin = 0, end = 0;
  std::string field;
  bool verbatim = false;        // the run is a copy of source bytes [source.begin, source.end) of the field
  ByteRange source;
};

struct Rendered {
  std::string text;
  std::vector<OriginRange> ranges;
  // [messages] byte behind the template text that wraps message i; empty when a template cannot tell.
  std::vector<uint64_t> message_ends;
  // Fields that hold something but of which no byte was printed ("messages[3].tool_calls", "tools"): the model does not
  // read them. Roles, contents and ids are not listed.
  std::vector<std::string> unprinted;
};

struct TemplateInput {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;  // null when absent
  bool add_generation_prompt = false;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  virtual std::string name() const = 0;
  // A field that the template cannot print is an error that names it (where = "messages[3].content").
  virtual Result<Rendered> render(const TemplateInput& input) const = 0;
};

// Accepts a template only if its text is a known one (plain ChatML; SmolLM2's with its default system message); any
// other is refused by name and digest. An empty text is refused too (the model has no chat template).
Result<std::shared_ptr<const ChatTemplate>> make_chat_template(std::string_view template_text, const Vocabulary& vocabulary);

}  // namespace spanscope
