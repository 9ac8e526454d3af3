// SPDX-License-Identifier: GPL-3.0-or-later
// ChatML: where every byte comes from, what is refused, what is not printed.
#include "core/model/weights.h"
#include "core/text/chat_template.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::shared_ptr<const ChatTemplate> relay() {
  auto model = load_vocabulary(demo("relay-dense.gguf"));
  if (!model) FAIL(model.error().line());
  auto out = make_chat_template((*model)->chat_template, (*model)->vocabulary);
  if (!out) FAIL(out.error().line());
  return *out;
}

TemplateInput input(const char* messages, bool prompt = false) {
  return {OrderedJson::parse(messages), {}, prompt};
}

}  // namespace

TEST_CASE("ChatML: text and ranges") {
  auto out = relay()->render(input(R"([{"role":"user","content":"hé"},{"role":"tool","name":"t","content":""}])", true));
  REQUIRE(out);
  CHECK(out->text == "<|im_start|>user\nh\xc3\xa9<|im_end|>\n<|im_start|>tool\n<|im_end|>\n<|im_start|>assistant\n");
  REQUIRE(out->ranges.size() == 3);  // an empty content has no bytes
  CHECK(out->ranges[1].field == "messages[0].content");
  CHECK(out->text.substr(out->ranges[1].begin, 3) == "h\xc3\xa9");
  CHECK(out->ranges[1].verbatim);
  CHECK(out->ranges[2].field == "messages[1].role");
  REQUIRE(out->message_ends.size() == 2);
  CHECK(out->text.substr(0, out->message_ends[0]) == "<|im_start|>user\nh\xc3\xa9<|im_end|>\n");
  CHECK(out->unprinted == std::vector<std::string>{"messages[1].name"});
}

TEST_CASE("ChatML: text parts follow one another, each with its own origin") {
  auto out = relay()->render(input(R"([{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"cd"}]}])"));
  REQUIRE(out);
  CHECK(out->text == "<|im_start|>user\nabcd<|im_end|>\n");
  REQUIRE(out->ranges.size() == 3);
  CHECK(out->ranges[1].field == "messages[0].content[0].text");
  CHECK(out->ranges[2].field == "messages[0].content[1].text");
  CHECK(out->ranges[2].begin == out->ranges[1].end);
}

TEST_CASE("ChatML: what the template cannot print is an error with its field") {
  const auto refused = [](const char* messages, const char* field) {
    auto out = relay()->render(input(messages));
    REQUIRE_FALSE(out);
    INFO(out.error().line());
    CHECK(out.error().where == field);
    CHECK(out.error().tag == "SPAN-TEMPLATE-INPUT");
  };
  refused(R"([{"role":"user","content":null}])", "messages[0].content");
  refused(R"([{"role":"user","content":"x"},{"role":"user"}])", "messages[1].content");
  refused(R"([{"content":"x"}])", "messages[0].role");
  refused(R"([{"role":["x"],"content":"x"}])", "messages[0].role");
  refused(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", "messages[0].content[0]");
  refused(R"([{"role":"user","content":3}])", "messages[0].content");
  refused(R"(["x"])", "messages[0]");
}

TEST_CASE("ChatML: fields that are not printed are named") {
  TemplateInput in = input(R"([{"role":"assistant","id":"1","content":"x","tool_calls":[{}],"refusal":null,"name":"","reasoning_content":"y"}])");
  in.tools = OrderedJson::parse(R"([{"type":"function"}])");
  auto out = relay()->render(in);
  REQUIRE(out);
  CHECK(out->unprinted == std::vector<std::string>{"tools", "messages[0].tool_calls", "messages[0].reasoning_content"});
}

TEST_CASE("templates: unknown and missing ones are refused by digest") {
  for (const char* text : {"", "{{ messages }}", "{% for message in messages %}"}) {
    auto out = make_chat_template(text, {});
    REQUIRE_FALSE(out);
    CHECK(out.error().tag == "SPAN-TEMPLATE");
    CHECK(out.error().code == ErrorCode::unsupported);
  }
  CHECK(make_chat_template("{{ messages }}", {}).error().message.find("SHA-256 ") != std::string::npos);
}
