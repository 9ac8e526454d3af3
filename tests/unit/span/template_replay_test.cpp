// SPDX-License-Identifier: GPL-3.0-or-later
// Replay through templates of every shape (definitions D2): reasoning that later turns leave out, no generation prompt, no
// end marker, templates that raise, tools and documents, roles in a row, a field printed twice.
#include <algorithm>

#include "core/base/digest.h"
#include "core/model/weights.h"
#include "core/span/replay.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto shared = [] {
    auto model = load_vocabulary(demo("relay-dense.gguf"));
    if (!model) FAIL(model.error().line());
    auto out = make_tokenizer((*model)->vocabulary);
    if (!out) FAIL(out.error().line());
    return *out;
  }();
  return shared;
}

Conversation talk(const char* messages) {
  Conversation out;
  out.source = "test";
  for (const OrderedJson& json : OrderedJson::parse(messages)) {
    Message m;
    m.role = json["role"];
    if (json.contains("content") && json["content"].is_string()) m.content = json["content"];
    m.json = json;
    m.where = "test:" + std::to_string(out.messages.size() + 1);
    out.messages.push_back(m);
  }
  return out;
}

std::unique_ptr<Replay> start(Conversation conversation, const std::string& source, ReplayOptions options = {}) {
  auto chat_template = make_chat_template(source, tokenizer()->vocabulary());
  if (!chat_template) FAIL(chat_template.error().line());
  auto replay = make_chat_replay(std::move(conversation), tokenizer(), *chat_template, options);
  if (!replay) FAIL(replay.error().line());
  return std::move(*replay);
}

TurnPlan next(Replay& replay) {
  auto plan = replay.next();
  if (!plan) FAIL(plan.error().line());
  uint32_t at = 0;
  for (const LayoutEntry& e : plan->layout) {
    REQUIRE(e.slot == at);
    REQUIRE(replay.ledger()[e.leaf].tokens == e.len);
    at += e.len;
  }
  REQUIRE(at == plan->ids.size());
  return *plan;
}

std::string token_text(const TurnPlan& plan, uint32_t begin, uint32_t end) {
  uint64_t from = 0, length = 0;
  for (uint32_t i = 0; i < begin; ++i) from += plan.token_bytes[i];
  for (uint32_t i = begin; i < end; ++i) length += plan.token_bytes[i];
  return plan.text.substr(from, length);
}
std::string answer(const TurnPlan& plan) { return token_text(plan, plan.answer_begin, plan.answer_begin + plan.answer_len); }
std::string rows(const TurnPlan& plan, RowPhase phase) {  // text of the positions of that phase, '|' between runs
  std::string out;
  for (uint32_t i = 0; i < plan.phase.size(); ++i) {
    if (plan.phase[i] != phase) continue;
    if (!out.empty() && plan.phase[i - 1] != phase) out += '|';
    out += token_text(plan, plan.cached + i, plan.cached + i + 1);
  }
  return out;
}

struct Leaf {
  const Span* span;
  std::string text;
};
std::vector<Leaf> leaves(const TurnPlan& plan, const Ledger& ledger, SpanKind kind) {
  std::vector<Leaf> out;
  for (const LayoutEntry& e : plan.layout) {
    const Span& s = ledger[e.leaf];
    if (s.kind != kind) continue;
    const std::string all = token_text(plan, e.slot, e.slot + e.len);
    out.push_back({&s, all.substr(s.head_skip, all.size() - s.head_skip - s.tail_skip)});
    if (kind == SpanKind::content) CHECK(s.digest == sha256_hex(out.back().text));
  }
  return out;
}

constexpr const char* kStrips =
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

TEST_CASE("template replay: reasoning of earlier turns is left out and what stood behind it runs again") {
  auto replay = start(talk(R"([{"role":"user","content":"one two"},{"role":"assistant","content":"three four","reasoning_content":"some reasons"},
                               {"role":"user","content":"five"},{"role":"assistant","content":"six"}])"),
                      kStrips);
  CHECK(replay->turns() == 2);
  TurnPlan plan = next(*replay);
  CHECK(answer(plan) == "<think>some reasons</think>three four<|im_end|>");
  CHECK(rows(plan, RowPhase::recompute).empty());
  const auto first = leaves(plan, replay->ledger(), SpanKind::content);
  REQUIRE(first.size() == 3);
  CHECK(first[1].span->field == "reasoning_content");
  CHECK(first[1].text == "some reasons");
  const SpanId words = first[2].span->id;
  CHECK(first[2].text == "three four");

  plan = next(*replay);
  CHECK(plan.text == "<|im_start|>user\none two<|im_end|>\n<|im_start|>assistant\nthree four<|im_end|>\n<|im_start|>user\nfive<|im_end|>\n"
                     "<|im_start|>assistant\nsix<|im_end|>");
  CHECK(token_text(plan, 0, plan.cached) == "<|im_start|>user\none two<|im_end|>\n<|im_start|>assistant\n");
  CHECK(rows(plan, RowPhase::recompute) == "three four");
  CHECK(answer(plan) == "six<|im_end|>");
  const auto second = leaves(plan, replay->ledger(), SpanKind::content);
  REQUIRE(second.size() == 4);
  CHECK(second[1].span->id == words);  // its place changed, it is the same span
  for (const Finding& f : replay->findings()) CHECK(f.tag != "SPAN-NOT-RENDERED");  // it was read in its own turn
  CHECK(replay->done());
}

TEST_CASE("template replay: reasoning that no turn prints is a finding") {
  auto replay = start(talk(R"([{"role":"user","content":"one"},{"role":"assistant","content":"two","reasoning":"why"}])"),
                      "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}");
  next(*replay);
  REQUIRE(replay->findings().size() == 1);
  CHECK(replay->findings()[0].tag == "SPAN-NOT-RENDERED");
  CHECK(replay->findings()[0].where == "test:2 messages[1].reasoning");
}

TEST_CASE("template replay: without a generation prompt the answer begins with its content") {
  const char* source = "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}<|im_end|>{% endif %}{% endfor %}";
  auto replay = start(talk(R"([{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"},{"role":"assistant","content":"four"}])"), source);
  TurnPlan plan = next(*replay);
  CHECK(answer(plan) == "two<|im_end|>");
  CHECK(token_text(plan, 0, plan.answer_begin) == "[INST] one [/INST] ");
  plan = next(*replay);
  CHECK(answer(plan) == "four<|im_end|>");
  CHECK(rows(plan, RowPhase::recompute).empty());
  // The end marker of the last answer was never run.
  CHECK(rows(plan, RowPhase::prompt).starts_with("<|im_end|>[INST] three"));
}

TEST_CASE("template replay: without an end marker the answer is its content") {
  const char* source = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
  auto replay = start(talk(R"([{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}])"), source);
  TurnPlan plan = next(*replay);
  CHECK(answer(plan) == "two");
  CHECK(plan.text == "user: one\nassistant: two");  // the line end comes with the next turn
  plan = next(*replay);
  CHECK(plan.open);
  CHECK(plan.text == "user: one\nassistant: two\nuser: three\nassistant: ");
}

TEST_CASE("template replay: a template that raises stops with its message and the message's place") {
  const char* source =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
      "<|im_start|>{{ m.content }}<|im_end|>{% endfor %}";
  auto replay = start(talk(R"([{"role":"user","content":"1"},{"role":"assistant","content":"2"},{"role":"user","content":"3"},{"role":"user","content":"4"},
                               {"role":"user","content":"5"},{"role":"assistant","content":"6"}])"), source);
  next(*replay);
  auto refused = replay->next();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().tag == "SPAN-TEMPLATE-RAISED");
  CHECK(refused.error().message == "roles must alternate");
  CHECK(refused.error().where == "test:4 messages[3], chat template line 1, column 95");
}

TEST_CASE("template replay: roles in a row, merged or not") {
  const char* talk_text = R"([{"role":"user","content":"one"},{"role":"user","content":"two"},{"role":"assistant","content":"three"},{"role":"assistant","content":"four"}])";
  auto apart = start(talk(talk_text), kStrips);
  TurnPlan plan = next(*apart);
  CHECK(answer(plan) == "three<|im_end|>");
  plan = next(*apart);
  CHECK(answer(plan) == "four<|im_end|>");
  // Neighbours of one role in one block: what stands between the answers is the second one's, since no prompt has it.
  const char* merges =
      "{% for m in messages %}{% if loop.first or loop.previtem.role != m.role %}<|im_start|>{{ m.role }}\n{% else %}{{ '\n' }}{% endif %}{{ m.content }}"
      "{% if loop.last or loop.nextitem.role != m.role %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  auto merged = start(talk(talk_text), merges);
  plan = next(*merged);
  CHECK(plan.text == "<|im_start|>user\none\ntwo<|im_end|>\n<|im_start|>assistant\nthree<|im_end|>");
  CHECK(leaves(plan, merged->ledger(), SpanKind::content).size() == 3);
  plan = next(*merged);
  CHECK(answer(plan) == "\nfour<|im_end|>");
  CHECK(plan.text == "<|im_start|>user\none\ntwo<|im_end|>\n<|im_start|>assistant\nthree\nfour<|im_end|>");
}

TEST_CASE("template replay: an answer that begins the conversation, in a template that looks at the first message") {
  auto replay = start(talk(R"([{"role":"assistant","content":"hello"},{"role":"user","content":"why"},{"role":"assistant","content":"so"}])"),
                      "{% if messages[0].role == 'system' %}!{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  TurnPlan plan = next(*replay);
  CHECK(answer(plan) == "hello<|im_end|>");
  plan = next(*replay);
  CHECK(answer(plan) == "so<|im_end|>");
}

TEST_CASE("template replay: tools and documents are content of their own, tool calls of their message") {
  const char* source =
      "<|im_start|>system\n{% if messages[0].role != 'system' %}You help.{% endif %}\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
      "{% for d in documents %}# {{ d.title }}\n{{ d.text }}\n{% endfor %}<|im_end|>\n"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}<call>{{ c.function | tojson }}</call>{% endfor %}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  Conversation conversation = talk(R"([{"role":"user","content":"weather"},
    {"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"look","arguments":{"city":"Rome"}}}]},
    {"role":"tool","content":"mild"},{"role":"assistant","content":"It is mild."}])");
  conversation.tools = OrderedJson::parse(R"([{"name":"look"},{"name":"add"}])");
  ReplayOptions options;
  options.documents = OrderedJson::parse(R"([{"title":"Notes","text":"some text"}])");
  auto replay = start(conversation, source, options);
  TurnPlan plan = next(*replay);
  CHECK(answer(plan).starts_with("<call>"));
  auto found = leaves(plan, replay->ledger(), SpanKind::content);
  const auto with = [&](const std::string& field) -> const Leaf* {
    for (const Leaf& leaf : found)
      if (leaf.span->field == field) return &leaf;
    FAIL("no leaf " << field);
    return nullptr;
  };
  const Leaf* tool = with("tools[1]");
  CHECK(tool->text == R"({"name": "add"})");
  const Span& definitions = replay->ledger()[tool->span->parent];
  CHECK(definitions.kind == SpanKind::parent);
  CHECK(definitions.name == "tool definitions");
  CHECK(definitions.role == "system");
  CHECK(definitions.message == -1);
  CHECK(with("tools[0]")->span->parent == definitions.id);
  CHECK(definitions.tokens > 0);
  const Leaf* document = with("documents[0]");
  CHECK(document->span->role == "document");
  CHECK(document->span->taint == Taint::tainted);
  CHECK(replay->ledger()[document->span->parent].name == "Notes");
  CHECK(with("tool_calls[0].function.name")->span->message == 1);
  CHECK(with("tool_calls[0].function.arguments")->text == R"({"city": "Rome"})");
  const SpanId kept = tool->span->id;
  plan = next(*replay);
  found = leaves(plan, replay->ledger(), SpanKind::content);
  CHECK(with("tools[1]")->span->id == kept);
  CHECK(answer(plan) == "It is mild.<|im_end|>");
  CHECK(rows(plan, RowPhase::recompute).empty());
  // The default system text is template.
  for (const Leaf& leaf : found) CHECK(leaf.text.find("You help.") == std::string::npos);
}

TEST_CASE("template replay: a field printed twice has a leaf each") {
  auto replay = start(talk(R"([{"role":"user","content":"one two"},{"role":"assistant","content":"three"}])"),
                      "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{{ m.content }}<|im_end|>{% endfor %}");
  const TurnPlan plan = next(*replay);
  const auto found = leaves(plan, replay->ledger(), SpanKind::content);
  REQUIRE(found.size() == 4);
  CHECK(found[0].text == found[1].text);
  CHECK(found[0].span->id != found[1].span->id);
  CHECK(found[0].span->parent == found[1].span->parent);
}

TEST_CASE("template replay: texts that the template changes keep their message and field") {
  auto replay = start(talk(R"([{"role":"user","content":"  a\nb\n\n  c  "},{"role":"assistant","content":"x|y"}])"),
                      "{% for m in messages %}<|im_start|>{{ m.content | trim | replace('\\n', ' / ') | upper }}<|im_end|>{% endfor %}");
  const TurnPlan plan = next(*replay);
  const auto found = leaves(plan, replay->ledger(), SpanKind::content);
  REQUIRE(found.size() == 2);
  CHECK(found[0].text == "A / B /  /   C");
  CHECK(found[0].span->field == "content");
}

TEST_CASE("template replay: lists of text parts go to a template of texts joined, and a finding says so") {
  auto replay = start(talk(R"([{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"cd"}]},{"role":"assistant","content":"x"}])"),
                      "{% for m in messages %}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{% endfor %}");
  const TurnPlan plan = next(*replay);
  CHECK(plan.text.find("abcd") != std::string::npos);
  const auto found = leaves(plan, replay->ledger(), SpanKind::content);
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].span->field.starts_with("content[0].text"));
  REQUIRE(replay->findings().size() == 1);
  CHECK(replay->findings()[0].tag == "SPAN-PARTS-JOINED");
}

TEST_CASE("template replay: one time for the whole conversation, and variables") {
  const char* source = "{{ strftime_now('%H:%M:%S') }}{{ style }}{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}";
  const char* talk_text = R"([{"role":"user","content":"1"},{"role":"assistant","content":"2"}])";
  ReplayOptions options;
  options.now = LocalTime{2026, 11, 30, 14, 5, 9};
  options.variables["style"] = "!";
  auto replay = start(talk(talk_text), source, options);
  CHECK(next(*replay).text.starts_with("14:05:09!<|im_start|>"));
  CHECK(replay->template_time() == options.now);
  CHECK(start(talk(talk_text), source)->template_time().has_value());
}

TEST_CASE("template replay: generation goes on from what was generated") {
  auto replay = start(talk(R"([{"role":"user","content":"one"}])"), kStrips);
  auto begun = replay->begin_answer(20);
  REQUIRE(begun);
  CHECK(begun->text.ends_with("<|im_start|>assistant\n"));
  std::vector<TokenId> ids = tokenizer()->encode("two three<|im_end|>").ids;
  auto plan = replay->finish_answer(ids, false);
  REQUIRE(plan);
  CHECK(plan->text.ends_with("<|im_start|>assistant\ntwo three<|im_end|>"));
  CHECK(plan->answer_len == ids.size());
}
