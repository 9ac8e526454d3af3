// SPDX-License-Identifier: GPL-3.0-or-later
// Chat templates as the program calls them: text, origins, what the template sees, message ends, unprinted fields, errors.
// The language itself: oracle/templates, jinja_test.cpp.
#include "core/text/chat_template.h"

#include "core/model/weights.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::shared_ptr<const ChatTemplate> make(const std::string& text, const Vocabulary& vocabulary = {}) {
  auto out = make_chat_template(text, vocabulary);
  if (!out) FAIL(out.error().line());
  return *out;
}

std::shared_ptr<const ChatTemplate> relay() {
  auto model = load_vocabulary(demo("relay-dense.gguf"));
  if (!model) FAIL(model.error().line());
  return make((*model)->chat_template, (*model)->vocabulary);
}

TemplateInput input(const char* messages, bool prompt = false) {
  TemplateInput out;
  out.messages = OrderedJson::parse(messages);
  out.add_generation_prompt = prompt;
  return out;
}

Rendered render(const ChatTemplate& t, const TemplateInput& in) {
  auto out = t.render(in);
  if (!out) FAIL(out.error().line());
  return *out;
}

// The text of each message, cut at the ends.
std::vector<std::string> wrapped(const Rendered& r) {
  std::vector<std::string> out;
  uint64_t from = 0;
  for (uint64_t end : r.message_ends) {
    out.push_back(r.text.substr(from, end - from));
    from = end;
  }
  return out;
}

constexpr const char* kTalk = R"([{"role":"system","content":"S"},{"role":"user","content":"U"},{"role":"assistant","content":"A"}])";
using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("chat template: text and ranges") {
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
  CHECK(out->unprinted == Strings{"messages[1].name"});
}

TEST_CASE("chat template: a list of text parts is joined when asked, each part with its own origin") {
  TemplateInput in = input(R"([{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"cd"}]}])");
  auto refused = relay()->render(in);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().tag == "SPAN-TEMPLATE-TYPE");
  in.join_text_parts = true;
  auto out = relay()->render(in);
  REQUIRE(out);
  CHECK(out->text == "<|im_start|>user\nabcd<|im_end|>\n");
  REQUIRE(out->ranges.size() == 3);
  CHECK(out->ranges[1].field == "messages[0].content[0].text");
  CHECK(out->ranges[2].field == "messages[0].content[1].text");
  CHECK(out->ranges[2].verbatim);
  CHECK(out->ranges[2].begin == out->ranges[1].end);
  // A picture is no text: the list stays a list.
  in.messages = OrderedJson::parse(R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"cd"}]}])");
  CHECK_FALSE(relay()->render(in));
}

TEST_CASE("chat template: what it cannot print is an error with its place") {
  for (const char* messages : {R"([{"role":"user","content":null}])", R"([{"role":"user","content":"x"},{"role":"user"}])", R"([{"content":"x"}])",
                               R"([{"role":["x"],"content":"x"}])", R"([{"role":"user","content":3}])"}) {
    auto out = relay()->render(input(messages));
    REQUIRE_FALSE(out);
    INFO(messages << " " << out.error().line());
    CHECK(out.error().where.starts_with("chat template line 1, column "));
  }
  auto out = relay()->render(input(R"(["x"])"));
  REQUIRE_FALSE(out);
  CHECK(out.error().tag == "SPAN-TEMPLATE-INPUT");
  CHECK(out.error().where == "messages[0]");
}

TEST_CASE("chat template: fields that are not printed are named") {
  TemplateInput in = input(R"([{"role":"assistant","id":"1","content":"x","tool_calls":[{}],"refusal":null,"name":"","reasoning_content":"y","score":3}])");
  in.tools = OrderedJson::parse(R"([{"type":"function"}])");
  in.documents = OrderedJson::parse(R"([{"title":"t"}])");
  CHECK(render(*relay(), in).unprinted ==
        Strings{"tools", "documents", "messages[0].tool_calls", "messages[0].reasoning_content", "messages[0].score"});
  // Read under the other name, printed inside a container, looked up as a number: all printed.
  CHECK(render(*make("{{ messages[0].thinking }}{{ messages[0].score }}{{ tools }}{{ documents | tojson }}{{ messages[0].tool_calls }}{{ messages[0].content }}"), in)
            .unprinted.empty());
  CHECK(render(*make("{{ messages | tojson }}{{ tools[0].type }}{{ documents[0].title }}"), in).unprinted == Strings{"messages[0].score"});
}

TEST_CASE("chat template: what it sees of a message") {
  const auto show = make("{% for m in messages %}{{ m | tojson }}{% endfor %}");
  CHECK(render(*show, input(R"([{"role":"user","content":null,"name":"n","x":{"y":null}}])")).text == R"({"role": "user", "name": "n", "x": {"y": null}})");
  for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
    const std::string text = std::string(R"([{"role":"assistant",")") + key + R"(":"r","content":"c"}])";
    const Rendered out = render(*make("{{ messages[0].thinking }}{{ messages[0].reasoning_content }}"), input(text.c_str()));
    CHECK(out.text == "rr");
    REQUIRE(out.ranges.size() == 2);
    CHECK(out.ranges[0].field == "messages[0].thinking");
    CHECK(out.ranges[1].field == "messages[0].reasoning_content");
  }
  CHECK(render(*show, input(R"([{"role":"assistant","reasoning":"r","content":"c"}])")).text ==
        R"({"thinking": "r", "role": "assistant", "reasoning": "r", "content": "c", "reasoning_content": "r"})");
}

TEST_CASE("chat template: variables beside the messages") {
  Vocabulary vocabulary;
  vocabulary.tokens = {"<s>", "</s>", "<unk>"};
  vocabulary.bos = 0;
  vocabulary.eos = 1;
  vocabulary.unknown = 2;
  const auto t = make("{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token is defined }}|{{ tools is none }}|{{ documents is none }}|{{ enable_thinking }}", vocabulary);
  TemplateInput in = input("[]");
  CHECK(render(*t, in).text == "<s>|</s>|<unk>|False|True|True|");
  in.extra = OrderedJson::parse(R"({"enable_thinking":false,"bos_token":"B"})");
  CHECK(render(*t, in).text == "B|</s>|<unk>|False|True|True|False");
  in.now = LocalTime{2026, 2, 3, 4, 5, 6};
  CHECK(render(*make("{{ strftime_now('%d %B %Y, %H:%M:%S %j') }}"), in).text == "03 February 2026, 04:05:06 034");
  in.now.reset();
  CHECK(render(*make("{{ strftime_now('%Y') }}"), in).text == std::to_string(local_time_now().year));
}

TEST_CASE("chat template: the end of each message") {
  // A loop, text behind it, a generation prompt behind it or inside it.
  CHECK(wrapped(render(*make("^{% for m in messages %}<{{ m.content }}>{% endfor %}$"), input(kTalk))) == Strings{"^<S>", "<U>", "<A>"});
  CHECK(wrapped(render(*make("{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}!{% endif %}"), input(kTalk, true))) ==
        Strings{"<S>", "<U>", "<A>"});
  CHECK(wrapped(render(*make("{% for m in messages %}<{{ m.content }}>{% if loop.last and add_generation_prompt %}!{% endif %}{% endfor %}"), input(kTalk, true))) ==
        Strings{"<S>", "<U>", "<A>"});
  // A first loop that prints nothing.
  CHECK(wrapped(render(*make("{% for m in messages %}{% set x = m %}{% endfor %}{% for m in messages %}<{{ m.content }}>{% endfor %}"), input(kTalk))) ==
        Strings{"<S>", "<U>", "<A>"});
  // The system message apart, the others from a slice.
  CHECK(wrapped(render(*make("[{{ messages[0].content }}]\n\n{% for m in messages[1:] %}<{{ m.content }}>{% endfor %}"), input(kTalk))) ==
        Strings{"[S]\n\n", "<U>", "<A>"});
  // The system message inside the first user message.
  CHECK(wrapped(render(*make("{% for m in messages[1:] %}<{% if loop.first %}{{ messages[0].content }} {% endif %}{{ m.content }}>{% endfor %}"), input(kTalk))) ==
        Strings{"", "<S U>", "<A>"});
  // Loops over numbers and texts that are made first: up to the first byte of the next message.
  CHECK(wrapped(render(*make("{% for i in range(3) %}<{{ messages[i].content }}>{% endfor %}"), input(kTalk))) == Strings{"<S><", "U><", "A>"});
  CHECK(wrapped(render(*make("{% set all %}{% for m in messages %}<{{ m.content }}>{% endfor %}{% endset %}{{ all }}"), input(kTalk))) == Strings{"<S><", "U><", "A>"});
  // A default system message that nobody gave belongs to the first message's wrap.
  CHECK(wrapped(render(*make("{% for m in messages %}{% if loop.first %}[default]{% endif %}<{{ m.content }}>{% endfor %}"), input(kTalk))) ==
        Strings{"[default]<S>", "<U>", "<A>"});
  CHECK(render(*make("x"), input("[]")).message_ends.empty());
}

TEST_CASE("chat template: missing and refused ones") {
  auto none = make_chat_template("", {});
  REQUIRE_FALSE(none);
  CHECK(none.error().tag == "SPAN-TEMPLATE");
  CHECK(none.error().code == ErrorCode::unsupported);
  const auto refused = [](const std::string& text, const char* tag, const char* where) {
    auto out = make_chat_template(text, {});
    REQUIRE_FALSE(out);
    INFO(text.substr(0, 80) << " " << out.error().line());
    CHECK(out.error().tag == tag);
    CHECK(out.error().where == where);
  };
  refused("{% for message in messages %}", "SPAN-TEMPLATE-SYNTAX", "chat template line 1, column 30");
  refused("a\n  {{ x y }}", "SPAN-TEMPLATE-SYNTAX", "chat template line 2, column 8");
  refused("ü {% include 'x' %}", "SPAN-TEMPLATE-UNSUPPORTED", "chat template line 1, column 6");
  refused("{{ x | groupby('y') }}", "SPAN-TEMPLATE-UNSUPPORTED", "chat template line 1, column 8");
  refused("a\xff", "SPAN-TEMPLATE-SYNTAX", "chat template");
  refused(std::string(2 << 20, 'a'), "SPAN-TEMPLATE-LIMIT", "chat template");
}

TEST_CASE("chat template: the template's own error") {
  auto out = make("{% for m in messages %}\n{{ raise_exception('No ' + m.role + '!') }}{% endfor %}")->render(input(kTalk));
  REQUIRE_FALSE(out);
  CHECK(out.error().tag == "SPAN-TEMPLATE-RAISED");
  CHECK(out.error().message == "No system!");
  CHECK(out.error().where == "chat template line 2, column 19");
}
