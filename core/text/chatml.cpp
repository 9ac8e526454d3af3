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
constexpr const char* kPlainRawNewline =
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
constexpr std::array<Known, 3> kKnown = {{{"ChatML", kPlain, ""}, {"ChatML", kPlainRawNewline, ""}, {"SmolLM2", kSmolLm2, kSmolLm2Default}}};

class ChatMl : public ChatTemplate {
 public:
  explicit ChatMl(const Known& known) : known_(known) {}
  std::string name() const override { return known_.name; }

  Result<Rendered> render(const TemplateInput& input) const override {
    Rendered out;
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const OrderedJson& message = input.messages[i];
      const std::string where = "messages[" + std::to_string(i) + "]";
      if (i == 0 && message.value("role", "") != "system") out.text += known_.default_system;
      out.text += "<|im_start|>";
      SPANSCOPE_TRY(add_field(out, message, "role", where));
      out.text += "\n";
      SPANSCOPE_TRY(add_field(out, message, "content", where));
      out.text += "<|im_end|>\n";
    }
    if (input.add_generation_prompt) out.text += "<|im_start|>assistant\n";
    return out;
  }

 private:
  // The template adds strings, so anything else raises there; here it is an error that names the field.
  Status add_field(Rendered& out, const OrderedJson& message, const char* key, const std::string& where) const {
    const auto it = message.find(key);
    if (it == message.end() || !it->is_string())
      return make_error(ErrorCode::invalid, "SPAN-TEMPLATE-INPUT",
                        std::string("the ") + known_.name + " template needs text here, found " +
                            (it == message.end() ? "nothing" : it->type_name()),
                        where + "." + key);
    const std::string& text = it->get_ref<const std::string&>();
    if (!text.empty())
      out.ranges.push_back({out.text.size(), out.text.size() + text.size(), where + "." + key, true, {0, text.size()}});
    out.text += text;
    return {};
  }

  Known known_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> make_chat_template(std::string_view text, const Vocabulary&) {
  if (text.empty())
    return make_error(ErrorCode::unsupported, "SPAN-TEMPLATE", "the model has no chat template; --ids and --spans take token ids",
                      "tokenizer.chat_template");
  for (const Known& known : kKnown)
    if (text == known.text) return std::shared_ptr<const ChatTemplate>(std::make_shared<ChatMl>(known));
  return make_error(ErrorCode::unsupported, "SPAN-TEMPLATE",
                    "this chat template is not known (SHA-256 " + sha256_hex(text).substr(0, 16) +
                        "...); supported are plain ChatML and SmolLM2's",
                    "tokenizer.chat_template");
}

}  // namespace spanscope
