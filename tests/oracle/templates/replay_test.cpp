// SPDX-License-Identifier: GPL-3.0-or-later
// Replay (definitions D2) through every reference template and conversation: whatever the template does, a turn's text is
// the beginning of what it renders for the messages so far, its leaves partition it, and its rows are accounted for.
#include <fstream>
#include <set>

#include "core/base/files.h"
#include "core/model/weights.h"
#include "core/span/replay.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

OrderedJson load(const std::string& path) {
  std::ifstream in(path);
  return OrderedJson::parse(in);
}

Conversation conversation_of(const OrderedJson& c) {
  Conversation out;
  out.source = c["id"];
  for (const OrderedJson& json : c["messages"]) {
    Message m;
    m.role = json["role"];
    if (json.contains("content") && json["content"].is_string()) m.content = json["content"];
    m.json = json;
    m.where = out.source + ":" + std::to_string(out.messages.size());
    out.messages.push_back(std::move(m));
  }
  if (c.contains("tools")) out.tools = c["tools"];
  return out;
}

}  // namespace

TEST_CASE("templates: replay through each") {
  const auto list = oracle("templates/templates.json");
  if (!list) return;
  auto model = load_vocabulary(demo("relay-dense.gguf"));
  REQUIRE(model);
  auto tokenizer = make_tokenizer((*model)->vocabulary);
  REQUIRE(tokenizer);
  const OrderedJson templates = load(*list), conversations = load(*oracle("templates/conversations.json"));
  size_t turns = 0, refused = 0, with_recompute = 0, whole = 0;
  for (const auto& [name, meta] : templates.items()) {
    const auto text = read_file(*oracle("templates/jinja/" + name + ".jinja"));
    REQUIRE(text);
    auto chat_template = make_chat_template(*text, {});
    REQUIRE(chat_template);
    for (const OrderedJson& c : conversations) {
      INFO(name << " " << c["id"]);
      ReplayOptions options;
      options.now = LocalTime{2026, 11, 30, 14, 5, 9};
      if (c.contains("kwargs"))
        for (const auto& [key, value] : c["kwargs"].items()) {
          if (key == "documents") options.documents = value;
          else options.variables[key] = value;
        }
      for (const char* key : {"bos_token", "eos_token"})
        if (!meta[key].is_null()) options.variables[key] = meta[key];
      const Conversation conversation = conversation_of(c);
      auto replay = make_chat_replay(conversation, *tokenizer, *chat_template, options);
      REQUIRE(replay);
      bool complete = true;
      std::set<SpanId> known;
      while (!(*replay)->done()) {
        auto plan = (*replay)->next();
        if (!plan) {
          INFO(plan.error().line());
          REQUIRE(plan.error().tag.starts_with("SPAN-TEMPLATE"));
          REQUIRE(plan.error().where.find("messages[") != std::string::npos);
          ++refused;
          complete = false;
          break;
        }
        ++turns;
        const size_t answered = plan->open ? conversation.messages.size() : size_t(plan->message) + 1;
        TemplateInput input;
        for (size_t i = 0; i < answered; ++i) input.messages.push_back(conversation.messages[i].json);
        input.tools = conversation.tools;
        input.documents = options.documents;
        input.extra = options.variables;
        input.now = options.now;
        input.add_generation_prompt = plan->open;
        auto rendered = (*chat_template)->render(input);
        if (!rendered) {
          input.join_text_parts = true;
          rendered = (*chat_template)->render(input);
        }
        REQUIRE(rendered);
        REQUIRE(std::string_view(rendered->text).starts_with(plan->text));
        if (plan->open) REQUIRE(plan->text == rendered->text);
        const Ledger& ledger = (*replay)->ledger();
        uint32_t at = 0;
        std::set<SpanId> seen;
        for (const LayoutEntry& e : plan->layout) {
          REQUIRE(e.slot == at);
          REQUIRE(e.len > 0);
          REQUIRE(ledger[e.leaf].leaf());
          REQUIRE(ledger[e.leaf].tokens == e.len);
          REQUIRE(seen.insert(e.leaf).second);  // a leaf stands in one place
          at += e.len;
        }
        REQUIRE(at == plan->ids.size());
        REQUIRE(plan->phase.size() == plan->executed_end - plan->cached);
        REQUIRE(plan->cached <= plan->executed_end);
        if (plan->answer_len > 0) {
          size_t answers = 0;
          for (RowPhase phase : plan->phase) answers += phase == RowPhase::answer;
          // Rows a-1 ... a+m-2; an answer at position 0 has no row before it.
          REQUIRE(answers == plan->answer_len - (plan->answer_begin == 0 ? 1 : 0));
        }
        with_recompute += std::count(plan->phase.begin(), plan->phase.end(), RowPhase::recompute) > 0;
      }
      whole += complete;
    }
  }
  std::cout << "template replay: " << turns << " turns, " << with_recompute << " with recompute rows, " << whole << " conversations to their end, "
            << refused << " refused by the template\n";
  CHECK(turns > 2000);
  CHECK(with_recompute > 10);
}
