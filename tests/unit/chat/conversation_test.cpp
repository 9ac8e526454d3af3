// SPDX-License-Identifier: GPL-3.0-or-later
// Conversations as people have them, and one clear error for each that cannot be used.
#include "core/chat/conversation.h"
#include "core/chat/json_places.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

Conversation good(const std::string& text) {
  auto out = parse_conversation(text, "talk.json");
  if (!out) FAIL(out.error().line());
  return *out;
}

void bad(const std::string& text, const std::string& where, const std::string& word) {
  auto out = parse_conversation(text, "talk.json");
  INFO(text);
  REQUIRE_FALSE(out);
  INFO(out.error().line());
  CHECK(out.error().where == where);
  CHECK(out.error().line().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("conversation: a list, an object, lines") {
  for (const char* text : {R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])",
                           "\xef\xbb\xbf{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"},\n{\"role\":\"assistant\",\"content\":\"b\"}]}\n",
                           "\n{\"role\":\"user\",\"content\":\"a\"}\r\n\r\n{\"role\":\"assistant\",\"content\":\"b\"}\n"}) {
    const Conversation c = good(text);
    REQUIRE(c.messages.size() == 2);
    CHECK(c.messages[0].role == "user");
    CHECK(c.messages[1].content == "b");
    CHECK(c.format == "openai-chat");
    CHECK(c.messages[1].json["content"] == "b");
  }
  CHECK(good(R"({"role":"user","content":"only one"})").messages.size() == 1);
  const Conversation lines = good("{\"role\":\"user\",\"content\":\"a\"}\n\n{\"role\":\"user\",\"content\":\"b\"}");
  CHECK(lines.messages[1].where == "talk.json:3");
  const Conversation pretty = good("{\n \"messages\": [\n  {\n   \"role\": \"user\",\n   \"content\": \"[{\\\"\"\n  },\n  {\"role\": \"user\", \"content\": \"\"}\n ]\n}");
  CHECK(pretty.messages[0].where == "talk.json:3");
  CHECK(pretty.messages[1].where == "talk.json:7");
  CHECK(good(R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}]})").tools.size() == 1);
}

TEST_CASE("conversation: parts, names, tool calls") {
  const Conversation c = good(R"([
    {"role":"user","name":"ann","id":"m1","content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]},
    {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"found"},
    {"role":"function","name":"old","content":"x"},
    {"role":"developer","content":""}])");
  CHECK(c.messages[0].content == "a\nb");
  CHECK(c.messages[0].json["content"].is_array());
  CHECK(c.messages[0].name == "ann");
  CHECK(c.messages[0].id == "m1");
  CHECK(c.messages[1].content.empty());
  CHECK(c.messages[2].name == "look");
  CHECK(c.messages[3].role == "tool");
  CHECK(c.messages[3].json["role"] == "function");
}

TEST_CASE("conversation: errors name file, line and field") {
  bad("", "talk.json", "empty");
  bad(" \n\t", "talk.json", "empty");
  bad("[]", "talk.json", "no messages");
  bad("{}", "talk.json", "messages");
  bad("{\"messages\":\n {}}", "talk.json:2", "list");
  bad("3", "talk.json:1", "list");
  bad("[{\"role\":\"user\",\"content\":\"a\"},\n{\"content\":\"a\"}]", "talk.json:2 messages[1]", "role");
  bad("[{\"role\":\"user\",\"content\":\"a\"},\n{\n\"content\":\"a\",\n\"role\":\"robot\"}]", "talk.json:4 messages[1].role", "robot");
  bad("[{\"role\":7,\"content\":\"a\"}]", "talk.json:1 messages[0].role", "7");
  bad("[{\"role\":\"user\"}]", "talk.json:1 messages[0]", "content");
  bad("[\n{\"role\":\"user\",\n\"content\":null}]", "talk.json:3 messages[0].content", "null");
  bad("[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}]", "talk.json:1 messages[0].content", "null");
  bad("[{\"role\":\"user\",\"content\":5}]", "talk.json:1 messages[0].content", "5");
  bad("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "talk.json:1 messages[0].content[0]", "image_url");
  bad("[{\"role\":\"user\",\"content\":[\"x\"]}]", "talk.json:1 messages[0].content[0]", "x");
  bad("[{\"role\":\"user\",\"content\":\"a\",\"name\":[]}]", "talk.json:1 messages[0].name", "text");
  bad("[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[{}]}]", "talk.json:1 messages[0].tool_calls", "assistant");
  bad("[\"x\"]", "talk.json:1 messages[0]", "object");
  bad("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[]}\n", "talk.json:1", "whole conversation");
}

TEST_CASE("conversation: broken JSON says line and column") {
  for (const char* text : {"[{\"role\":\"user\",\"content\":\"a\"},\n]", "[{\"role\":\"user\",\n\"content\":\"a\",}]"}) {
    auto out = parse_conversation(text, "talk.json");
    REQUIRE_FALSE(out);
    CHECK(out.error().tag == "SPAN-JSON");
    CHECK(out.error().where.find("talk.json:2:") == 0);
  }
  auto utf8 = parse_conversation("[{\"role\":\"user\",\n\"content\":\"\xff\"}]", "talk.json");
  REQUIRE_FALSE(utf8);
  CHECK(utf8.error().tag == "SPAN-UTF8");
  CHECK(utf8.error().where == "talk.json:2:12");
  auto line = parse_conversation("{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"a\",}\n", "talk.json");
  REQUIRE_FALSE(line);
  CHECK(line.error().where.find("talk.json:2:") == 0);
  CHECK_FALSE(parse_conversation("[{\"role\":\"user\",\"content\":\"\\ud83d\"}]", "talk.json"));
  CHECK_FALSE(parse_conversation(std::string(100000, '['), "talk.json"));
  CHECK_FALSE(read_conversation("/"));
  CHECK_FALSE(read_conversation("/no/such/file.json"));
}

TEST_CASE("conversation: the shipped demos") {
  const auto c = read_conversation(demo("demo64.json"));
  REQUIRE(c);
  CHECK(c->messages.size() == 137);
}
