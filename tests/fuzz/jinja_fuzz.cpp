// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a chat template over a small conversation, or as template and conversation with a zero byte between: a text
// whose ranges are in order, or an error with its place. Limits are low so that runs are short.
#include <cstdlib>
#include <new>

#include "core/base/json.h"
#include "core/text/jinja/fields.h"
#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/ranges.h"

namespace {

constexpr const char* kConversation = R"({"messages":[{"role":"system","content":"Be brief, ü."},{"role":"user","content":"a <b> \"c\"\n"},
  {"role":"assistant","content":"<think>\nx\n</think>\n\nyes","reasoning_content":"x","tool_calls":[{"id":"1","type":"function",
  "function":{"name":"f","arguments":{"k":1.5,"l":[true,null,"z"]}}}]},{"role":"tool","content":[{"type":"text","text":"ok"}]}],
  "tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"k":{"type":"number"}}}}}],
  "add_generation_prompt":true,"bos_token":"<s>","x":"Hello","n":5,"l":["a","b"],"d":{"k":"v","n":1},"no":null})";

void run(std::string_view source, const spanscope::OrderedJson& context) {
  using namespace spanscope;
  using namespace spanscope::jinja;
  Limits limits;
  limits.steps = 200'000;
  limits.memory = 32 << 20;
  limits.text = 1 << 20;
  try {
    const Program program = parse(source);
    Fields fields;
    Interpreter in(program, limits, {2026, 11, 30, 14, 5, 9});
    for (auto it = context.begin(); it != context.end(); ++it) in.define(it.key(), input_value(in, fields, *it, fields.root(it.key())));
    const TextBuilder& text = in.run();
    uint64_t end = 0;
    for (const bool leaves : {false, true}) {
      end = 0;
      for (const OriginRange& r : origin_ranges(fields, text.bytes(), text.runs(), leaves)) {
        if (r.begin < end || r.end <= r.begin || r.end > text.size() || r.field.empty()) std::abort();
        if (r.verbatim && r.source.size() != r.end - r.begin) std::abort();
        end = r.end;
      }
    }
  } catch (const Failure& failure) {
    if (failure.error.tag.empty() || failure.error.message.empty() || !failure.error.where.starts_with("chat template line ")) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  static const OrderedJson conversation = OrderedJson::parse(kConversation);
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t zero = all.find('\0');
  if (zero == std::string_view::npos) {
    run(all, conversation);
    return 0;
  }
  const auto own = parse_json(all.substr(zero + 1), "fuzz");
  run(all.substr(0, zero), own && own->is_object() ? *own : conversation);
  return 0;
}
