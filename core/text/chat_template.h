// SPDX-License-Identifier: GPL-3.0-or-later
// Rendering messages to prompt text with the origin of every byte. This room knows no conversation type: messages are
// JSON values, fields are named by path. Immutable; any thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "core/text/local_time.h"
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
  // [messages] byte behind the template text that wraps message i; empty when a template cannot tell. Taken from the
  // template's loop over the messages; where it has none, text behind a message's last byte is the message's up to the
  // first byte of the next.
  std::vector<uint64_t> message_ends;
  // Fields that hold something but of which no byte was printed ("messages[3].tool_calls", "tools"): the model does not
  // read them. Roles, contents and ids are not listed. Numbers count as printed where the template looked them up.
  std::vector<std::string> unprinted;
};

// As transformers hands it over, a template does not see keys of a message whose value is null, and it sees reasoning under
// "thinking" and "reasoning_content" alike, whichever of these (or "reasoning") the message has.
struct TemplateInput {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;  // null when absent
  bool add_generation_prompt = false;
  OrderedJson documents;  // null when absent
  OrderedJson extra = OrderedJson::object();  // further variables ("enable_thinking"); they replace the model's own
  std::optional<LocalTime> now;  // what strftime_now() shows; absent: this machine's clock
  // A message's content that is a list of text parts alone is handed over as one string, for templates that take no lists.
  bool join_text_parts = false;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  virtual std::string name() const = 0;
  // Errors have the place in the template as `where` ("chat template line 3, column 7"), or the field of the input. What
  // the template raises itself is SPAN-TEMPLATE-RAISED with its message.
  virtual Result<Rendered> render(const TemplateInput& input) const = 0;
};

// The model's own template (Jinja). bos_token, eos_token, unk_token and pad_token are the vocabulary's. A text outside of
// the language's supported part is refused with line and column; an empty one too (the model has no chat template).
Result<std::shared_ptr<const ChatTemplate>> make_chat_template(std::string_view template_text, const Vocabulary& vocabulary);

}  // namespace spanscope
