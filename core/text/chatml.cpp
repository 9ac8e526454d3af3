// SPDX-License-Identifier: GPL-3.0-or-later
// ChatML with the origin of every byte. Accepted only where the model's template text equals a known one.
#include <array>

#include "core/base/digest.h"
#include "core/text/chat_template.h"

namespace spanscope {
namespace {

constexpr const char* kPlain =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
// The same with line feeds in place of escapes: some writers unescape the text once.
constexpr const char* kPlainUnescaped =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr const char* kSmolLm2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr const char* kSmolLm2Default =
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";

struct Known {
  const char* name;
  const char* text;
  const char* default_system;  // put before a conversation that does not begin with a system message
};
constexpr std::array<Known, 3> kKnown = {
    {{"ChatML", kPlain, ""}, {"ChatML", kPlainUnescaped, ""}, {"SmolLM2", kSmolLm2, kSmolLm2Default}}};

bool holds_something(const OrderedJson& value) {
  if (value.is_null()) return false;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return !value.empty();
  return true;
}

class ChatMl : public ChatTemplate {
 public:
  explicit ChatMl(const Known& known) : known_(known) {}
  std::string name() const override { return known_.name; }

  Result<Rendered> render(const TemplateInput& input) const override {
    Rendered out;
    if (holds_something(input.tools)) out.unprinted.push_back("tools");
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const OrderedJson& message = input.messages[i];
      const std::string where = "messages[" + std::to_string(i) + "]";
      if (!message.is_object())
        return make_error(ErrorCode::invalid, "SPAN-TEMPLATE-INPUT", "expected a message object", where);
      if (i == 0) {
        const auto role = message.find("role");
        if (role == message.end() || !role->is_string() || *role != "system") out.text += known_.default_system;
      }
      out.text += "<|im_start|>";
      SPANSCOPE_TRY(add_field(out, message, "role", where));
      out.text += "\n";
      SPANSCOPE_TRY(add_field(out, message, "content", where));
      out.text += "<|im_end|>\n";
      out.message_ends.push_back(out.text.size());
      for (const auto& [key, value] : message.items())
        if (key != "role" && key != "content" && key != "id" && holds_something(value)) out.unprinted.push_back(where + "." + key);
    }
    if (input.add_generation_prompt) out.text += "<|im_start|>assistant\n";
    return out;
  }

 private:
  static void add_text(Rendered& out, const std::string& text, const std::string& field) {
    if (!text.empty()) out.ranges.push_back({out.text.size(), out.text.size() + text.size(), field, true, {0, text.size()}});
    out.text += text;
  }
  Error refuse(const std::string& field, const std::string& found) const {
    return make_error(ErrorCode::invalid, "SPAN-TEMPLATE-INPUT",
                      std::string("the chat template (") + known_.name + ") prints text only, found " + found, field);
  }
  // The template adds strings and raises on anything else. A list of text parts is taken as programs that serve such
  // models take it: the texts follow one another with nothing between.
  Status add_field(Rendered& out, const OrderedJson& message, const char* key, const std::string& where) const {
    const std::string field = where + "." + key;
    const auto value = message.find(key);
    if (value == message.end()) return refuse(field, "nothing");
    if (value->is_string()) {
      add_text(out, value->get_ref<const std::string&>(), field);
      return {};
    }
    if (!value->is_array() || field.ends_with(".role")) return refuse(field, value->type_name());
    for (size_t k = 0; k < value->size(); ++k) {
      const OrderedJson& part = (*value)[k];
      const std::string part_field = field + "[" + std::to_string(k) + "]";
      const auto text = part.is_object() ? part.find("text") : part.end();
      if (!part.is_object() || text == part.end() || !text->is_string())
        return refuse(part_field, part.is_object() && part.contains("type") ? "a part of type " + part["type"].dump() : part.type_name());
      add_text(out, text->get_ref<const std::string&>(), part_field + ".text");
    }
    return {};
  }

  Known known_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> make_chat_template(std::string_view text, const Vocabulary&) {
  if (text.empty())
    return make_error(ErrorCode::unsupported, "SPAN-TEMPLATE", "the model has no chat template; --ids and --spans take token ids",
                      "tokenizer.chat_template");
  std::string_view compared = text;
  if (compared.ends_with('\n')) compared.remove_suffix(1);  // template engines drop it
  for (const Known& known : kKnown)
    if (compared == known.text) return std::shared_ptr<const ChatTemplate>(std::make_shared<ChatMl>(known));
  return make_error(ErrorCode::unsupported, "SPAN-TEMPLATE",
                    "this chat template is not known (SHA-256 " + sha256_hex(text).substr(0, 16) +
                        "...); supported are plain ChatML and SmolLM2's",
                    "tokenizer.chat_template");
}

}  // namespace spanscope
