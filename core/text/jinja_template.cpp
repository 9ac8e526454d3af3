// SPDX-License-Identifier: GPL-3.0-or-later
// A model's own chat template, run over a conversation.
#include <algorithm>
#include <charconv>
#include <new>
#include <unordered_set>

#include "core/base/digest.h"
#include "core/text/chat_template.h"
#include "core/text/jinja/interpreter.h"
#include "core/text/jinja/ranges.h"

namespace spanscope {
namespace {

using namespace jinja;

// A message as the template sees it, without a copy of its texts.
struct SeenMessage {
  std::vector<std::pair<std::string_view, const OrderedJson*>> entries;
};
constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

SeenMessage seen_message(const OrderedJson& message) {
  SeenMessage out;
  const OrderedJson* reasoning = nullptr;
  for (std::string_view name : kReasoning) {
    const auto found = message.find(std::string(name));
    if (!reasoning && found != message.end() && !found->is_null()) reasoning = &*found;
  }
  for (auto it = message.begin(); it != message.end(); ++it)
    if (!it->is_null()) out.entries.emplace_back(it.key(), &*it);
  if (!reasoning) return out;
  const auto place = [&](std::string_view name) {
    return std::find_if(out.entries.begin(), out.entries.end(), [&](const auto& e) { return e.first == name; });
  };
  if (const auto thinking = place("thinking"); thinking != out.entries.end()) std::rotate(out.entries.begin(), thinking, thinking + 1);
  else out.entries.insert(out.entries.begin(), {"thinking", reasoning});
  if (const auto content = place("reasoning_content"); content != out.entries.end()) content->second = reasoning;
  else out.entries.emplace_back("reasoning_content", reasoning);
  return out;
}

bool holds_something(const OrderedJson& value) {
  if (value.is_null()) return false;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return !value.empty();
  return true;
}

bool has_text(const OrderedJson& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (!value.is_structured()) return false;
  return std::any_of(value.begin(), value.end(), has_text);
}

// The texts of a list of text parts; nothing when there are other parts.
std::optional<std::vector<const OrderedJson*>> text_parts(const OrderedJson& content) {
  if (!content.is_array()) return std::nullopt;
  std::vector<const OrderedJson*> out;
  for (const OrderedJson& part : content) {
    const auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || text == part.end() || !text->is_string()) return std::nullopt;
    out.push_back(&*text);
  }
  return out;
}

// One run of the program: the variables, and what came out.
class Rendering {
 public:
  Rendering(const Program& program, const Limits& limits, const TemplateInput& input, const OrderedJson& specials, LocalTime now)
      : input_(input), in_(program, limits, now) {
    const FieldId root = fields_.root("messages");
    if (!input.messages.is_array())
      throw Failure{make_error(ErrorCode::invalid, "SPAN-TEMPLATE-INPUT", "expected a list of messages", "messages")};
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const OrderedJson& message = input.messages[i];
      const std::string where = "messages[" + std::to_string(i) + "]";
      if (!message.is_object()) throw Failure{make_error(ErrorCode::invalid, "SPAN-TEMPLATE-INPUT", "expected a message object", where)};
      const FieldId field = fields_.item(root, i);
      in_.watch(field, i);
      messages_.push_back(message_value(seen_message(message), field));
    }
    for (const auto& [key, value] : specials.items()) in_.define(key, input_value(in_, fields_, value, kNoField));
    in_.define("messages", in_.list(messages_, Kind::list, root));
    define("tools", input.tools);
    define("documents", input.documents);
    in_.define("add_generation_prompt", Value::boolean(input.add_generation_prompt));
    if (input.extra.is_object())
      for (auto it = input.extra.begin(); it != input.extra.end(); ++it) {
        if (it.key() == "functions" || it.key() == "documents" || it.key() == "tools") define(it.key(), *it);
        else in_.define(it.key(), input_value(in_, fields_, *it, kNoField));
      }
  }

  void run() {
    const TextBuilder& out = in_.run();
    rendered_.text = out.bytes();
    rendered_.ranges = origin_ranges(fields_, rendered_.text, out.runs(), false, &range_fields_);
    for (const Run& run : out.runs())
      for (FieldId field = run.field; field != kNoField && printed_.insert(field).second; field = fields_.parent(field)) {
      }
  }

  const Interpreter& interpreter() const { return in_; }
  Rendered& rendered() { return rendered_; }

  void list_unprinted() {
    for (const char* root : {"tools", "documents"}) {
      const OrderedJson& value = std::string_view(root) == "tools" ? input_.tools : input_.documents;
      const bool printed = std::any_of(rendered_.ranges.begin(), rendered_.ranges.end(), [&](const OriginRange& r) { return r.field.starts_with(root); });
      if (holds_something(value) && !printed) rendered_.unprinted.push_back(root);
    }
    for (size_t i = 0; i < input_.messages.size(); ++i) list_unprinted(i);
  }

 private:
  void define(const std::string& name, const OrderedJson& json) {
    in_.define(name, input_value(in_, fields_, json, json.is_structured() || json.is_string() ? fields_.root(name_of(name)) : kNoField));
  }
  // A name that lives as long as the fields.
  std::string_view name_of(const std::string& name) {
    for (std::string_view known : {"tools", "documents", "functions"})
      if (name == known) return known;
    return "";
  }

  Value message_value(const SeenMessage& message, FieldId field) {
    auto data = std::make_shared<DictData>();
    data->origin = field;
    for (const auto& [key, json] : message.entries) {
      const FieldId entry = fields_.entry(field, key);
      data->put(input_key(in_, key, field), key == "content" && input_.join_text_parts ? content_value(*json, entry) : input_value(in_, fields_, *json, entry));
    }
    return in_.dict(std::move(data));
  }
  Value content_value(const OrderedJson& content, FieldId field) {
    const auto parts = text_parts(content);
    if (!parts) return input_value(in_, fields_, content, field);
    TextBuilder out(in_);
    for (size_t k = 0; k < parts->size(); ++k) {
      const FieldId text = fields_.entry(fields_.item(field, k), "text");
      out.add(input_value(in_, fields_, *(*parts)[k], text));
    }
    return out.take();
  }

  void list_unprinted(size_t i) {
    const auto& dict = messages_[i].as<DictData>();
    const bool whole = printed_.count(dict.origin) > 0;  // some byte of the message, its braces perhaps
    bool reasoning_printed = false, reasoning_listed = false;
    const auto printed = [&](std::string_view key, const OrderedJson& value) {
      const std::string field = "messages[" + std::to_string(i) + "]." + std::string(key);
      const bool found = std::any_of(range_fields_.begin(), range_fields_.end(), [&](FieldId f) {
        for (; f != kNoField; f = fields_.parent(f))
          if (fields_.level(f) == 3 && fields_.parent(f) == dict.origin) return fields_.path(f) == field;
        return false;
      });
      if (found || has_text(value)) return found;
      const size_t at = dict.find(key);
      return whole && at != std::string::npos && (at >= 64 || (dict.touched >> at & 1) != 0);
    };
    const auto is_reasoning = [](std::string_view key) { return std::find(std::begin(kReasoning), std::end(kReasoning), key) != std::end(kReasoning); };
    for (const auto& [key, json] : seen_message(input_.messages[i]).entries)
      if (is_reasoning(key)) reasoning_printed = reasoning_printed || printed(key, *json);
    for (auto it = input_.messages[i].begin(); it != input_.messages[i].end(); ++it) {
      const std::string& key = it.key();
      if (key == "role" || key == "content" || key == "id" || !holds_something(*it)) continue;
      if (is_reasoning(key)) {
        if (reasoning_printed || reasoning_listed) continue;
        reasoning_listed = true;
      } else if (printed(key, *it)) {
        continue;
      }
      rendered_.unprinted.push_back("messages[" + std::to_string(i) + "]." + key);
    }
  }

  const TemplateInput& input_;
  Fields fields_;
  std::unordered_set<FieldId> printed_;
  std::vector<FieldId> range_fields_;
  Rendered rendered_;
  Interpreter in_;               // before the values, which it outlives
  std::vector<Value> messages_;
};

size_t message_of(std::string_view field) {
  constexpr std::string_view kHead = "messages[";
  size_t out = 0;
  if (!field.starts_with(kHead)) return std::string::npos;
  const auto [end, error] = std::from_chars(field.data() + kHead.size(), field.data() + field.size(), out);
  return error == std::errc() && end != field.data() + field.size() && *end == ']' ? out : std::string::npos;
}

class JinjaTemplate : public ChatTemplate {
 public:
  JinjaTemplate(Program program, std::string name, OrderedJson specials)
      : program_(std::move(program)), name_(std::move(name)), specials_(std::move(specials)) {}
  std::string name() const override { return name_; }

  Result<Rendered> render(const TemplateInput& input) const override {
    try {
      const LocalTime now = input.now ? *input.now : local_time_now();
      Rendering rendering(program_, limits_, input, specials_, now);
      rendering.run();
      rendering.list_unprinted();
      set_message_ends(rendering, input, now);
      return std::move(rendering.rendered());
    } catch (Failure& failure) {
      return std::move(failure.error);
    } catch (const std::bad_alloc&) {
      return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory to render the conversation", "chat template");
    }
  }

 private:
  void set_message_ends(const Rendering& rendering, const TemplateInput& input, LocalTime now) const {
    Rendered& out = const_cast<Rendering&>(rendering).rendered();
    const size_t n = input.messages.size();
    if (n == 0) return;
    const auto& passages = rendering.interpreter().passages();
    // First and last byte of each message's own fields.
    constexpr uint64_t kNowhere = UINT64_MAX;
    std::vector<uint64_t> first(n, kNowhere), last(n, 0);
    for (const OriginRange& range : out.ranges) {
      const size_t i = message_of(range.field);
      if (i >= n) continue;
      first[i] = std::min(first[i], range.begin);
      last[i] = std::max(last[i], range.end);
    }
    std::vector<uint64_t> ends(n, kNowhere);
    for (size_t i = 0; i < n; ++i) {
      if (const auto passage = passages.find(i); passage != passages.end()) {
        ends[i] = passage->second.end;
        continue;
      }
      // Not looped over: its text ends where the next message begins.
      for (size_t j = i + 1; j < n && ends[i] == kNowhere; ++j) {
        const auto passage = passages.find(j);
        if (passage != passages.end()) ends[i] = passage->second.begin;
        else if (first[j] != kNowhere && first[j] >= last[i]) ends[i] = first[j];
      }
    }
    if (ends[n - 1] == kNowhere) ends[n - 1] = out.text.size();
    for (size_t i = n - 1; i-- > 0;) ends[i] = std::min(ends[i], ends[i + 1]);
    for (size_t i = 1; i < n; ++i) ends[i] = std::max(ends[i], ends[i - 1]);
    // What only the generation prompt adds wraps no message, also where the loop over the messages prints it.
    if (input.add_generation_prompt && ends[n - 1] == out.text.size()) {
      TemplateInput without = input;
      without.add_generation_prompt = false;
      try {
        Rendering bare(program_, limits_, without, specials_, now);
        bare.run();
        const std::string& text = bare.rendered().text;
        const size_t common = size_t(std::mismatch(text.begin(), text.begin() + ptrdiff_t(std::min(text.size(), out.text.size())), out.text.begin()).first - text.begin());
        for (uint64_t& end : ends) end = std::min(end, std::max<uint64_t>(common, std::min(last[n - 1], end)));
      } catch (const Failure&) {  // it renders with the prompt only; the ends stay as they are
      }
    }
    out.message_ends = std::move(ends);
  }

  Program program_;
  Limits limits_;
  std::string name_;
  OrderedJson specials_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> make_chat_template(std::string_view text, const Vocabulary& vocabulary) {
  if (text.empty())
    return make_error(ErrorCode::unsupported, "SPAN-TEMPLATE", "the model has no chat template; --ids and --spans take token ids",
                      "tokenizer.chat_template");
  OrderedJson specials = OrderedJson::object();
  for (const auto& [name, id] : {std::pair<const char*, int32_t>{"bos_token", vocabulary.bos}, {"eos_token", vocabulary.eos},
                                 {"unk_token", vocabulary.unknown}, {"pad_token", vocabulary.pad}})
    if (id >= 0 && size_t(id) < vocabulary.tokens.size()) specials[name] = vocabulary.tokens[size_t(id)];
  try {
    const Limits limits;
    if (text.size() > limits.template_bytes)
      return make_error(ErrorCode::limit, "SPAN-TEMPLATE-LIMIT",
                        "a chat template of " + std::to_string(text.size()) + " bytes, the limit is " + std::to_string(limits.template_bytes), "chat template");
    if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
      return make_error(ErrorCode::invalid, "SPAN-TEMPLATE-SYNTAX", "the chat template is no well-formed UTF-8", "chat template", bad);
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<JinjaTemplate>(parse(text), "SHA-256 " + sha256_hex(text).substr(0, 12), std::move(specials)));
  } catch (Failure& failure) {
    return std::move(failure.error);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory for the chat template", "chat template");
  }
}

}  // namespace spanscope
