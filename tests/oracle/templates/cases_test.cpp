// SPDX-License-Identifier: GPL-3.0-or-later
// Chat templates of 76 models over 24 conversations: the text, where every byte came from, and what is refused.
#include <fstream>
#include <map>

#include "core/base/files.h"
#include "core/text/chat_template.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

OrderedJson load(const std::string& path) {
  std::ifstream in(path);
  return OrderedJson::parse(in);
}

OrderedJson ranges_of(const std::vector<OriginRange>& ranges) {
  OrderedJson out = OrderedJson::array();
  for (const OriginRange& r : ranges) {
    out.push_back({r.begin, r.end, r.field});
    if (r.verbatim) {
      out.back().push_back(r.source.begin);
      out.back().push_back(r.source.end);
    }
  }
  return out;
}

TemplateInput input_of(const OrderedJson& conversation, const OrderedJson& meta) {
  TemplateInput input;
  input.messages = conversation["messages"];
  if (conversation.contains("tools")) input.tools = conversation["tools"];
  input.add_generation_prompt = conversation["add_generation_prompt"].get<bool>();
  if (conversation.contains("kwargs"))
    for (const auto& [key, value] : conversation["kwargs"].items()) {
      if (key == "documents") input.documents = value;
      else input.extra[key] = value;
    }
  if (meta.contains("extra_context"))
    for (const auto& [key, value] : meta["extra_context"].items()) {
      if (key == "tools") {
        if (input.tools.is_null()) input.tools = value;
      } else if (!input.extra.contains(key)) {
        input.extra[key] = value;
      }
    }
  for (const char* key : {"bos_token", "eos_token"})
    if (!meta[key].is_null()) input.extra[key] = meta[key];
  input.now = LocalTime{2026, 11, 30, 14, 5, 9};
  return input;
}

}  // namespace

TEST_CASE("templates: every case of every reference template") {
  const auto list = oracle("templates/templates.json");
  if (!list) return;
  const OrderedJson templates = load(*list);
  std::map<std::string, OrderedJson> conversations;
  for (const OrderedJson& c : load(*oracle("templates/conversations.json"))) conversations[c["id"].get<std::string>()] = c;
  size_t rendered = 0, raised = 0, failed = 0, ranges = 0;
  for (const auto& [name, meta] : templates.items()) {
    const auto text = read_file(*oracle("templates/jinja/" + name + ".jinja"));
    REQUIRE(text);
    auto chat_template = make_chat_template(*text, {});
    INFO(name);
    if (!chat_template) {
      FAIL_CHECK(chat_template.error().line());
      continue;
    }
    std::ifstream in(*oracle("templates/cases/" + name + ".jsonl"));
    for (std::string line; std::getline(in, line, '\n');) {
      const OrderedJson c = OrderedJson::parse(line);
      INFO(name << " " << c["conv"]);
      const TemplateInput input = input_of(conversations.at(c["conv"].get<std::string>()), meta);
      const auto out = (*chat_template)->render(input);
      if (c.contains("error")) {
        if (out) {
          FAIL_CHECK("rendered, expected " << c["error"].dump());
          continue;
        }
        INFO(out.error().line());
        CHECK(out.error().where.starts_with("chat template line "));
        const bool own = c["error"]["kind"] == "raise_exception";
        CHECK((out.error().tag == "SPAN-TEMPLATE-RAISED") == own);
        if (own) CHECK(out.error().message == c["error"]["message"].get<std::string>());
        ++(own ? raised : failed);
        continue;
      }
      if (!out) {
        FAIL_CHECK(out.error().line());
        continue;
      }
      CHECK(out->text == c["rendered"].get<std::string>());
      CHECK(ranges_of(out->ranges) == c["ranges"]);
      ranges += out->ranges.size();
      // The ends are in order, inside the text, and behind each message's own loop item.
      REQUIRE(out->message_ends.size() == input.messages.size());
      for (size_t i = 0; i < out->message_ends.size(); ++i) {
        CHECK(out->message_ends[i] <= out->text.size());
        if (i > 0) CHECK(out->message_ends[i] >= out->message_ends[i - 1]);
      }
      ++rendered;
    }
  }
  std::cout << "templates: " << templates.size() << " templates, " << rendered << " cases rendered with " << ranges << " ranges, " << raised
            << " raised by the template, " << failed << " other errors\n";
  CHECK(rendered > 1000);
}
