// SPDX-License-Identifier: GPL-3.0-or-later
// Token ids, leaves, turns and rows of replayed conversations against reference data.
#include <fstream>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/file/safetensors.h"
#include "core/model/weights.h"
#include "core/span/replay.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

Json load_json(const std::string& path) {
  std::ifstream in(path);
  return Json::parse(in);
}

struct Chat {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
};

Chat load(const std::string& path) {
  auto model = load_vocabulary(path);
  if (!model) FAIL(model.error().line());
  auto tokenizer = make_tokenizer((*model)->vocabulary);
  if (!tokenizer) FAIL(tokenizer.error().line());
  auto chat_template = make_chat_template((*model)->chat_template, (*model)->vocabulary);
  if (!chat_template) FAIL(chat_template.error().line());
  return {*tokenizer, *chat_template};
}

std::unique_ptr<Replay> replay_of(const Conversation& conversation, const Chat& chat, ReplayOptions options = {}) {
  auto replay = make_chat_replay(conversation, chat.tokenizer, chat.chat_template, options);
  if (!replay) FAIL(replay.error().line());
  return std::move(*replay);
}

Conversation read(const std::string& path) {
  auto conversation = read_conversation(path);
  if (!conversation) FAIL(conversation.error().line());
  return *conversation;
}

// What holds of every turn, whatever the conversation.
void check_turn(const TurnPlan& plan, const Ledger& ledger, const TurnPlan* before) {
  uint64_t at = 0;
  for (const LayoutEntry& e : plan.layout) {
    REQUIRE(e.slot == at);
    REQUIRE(e.len > 0);
    REQUIRE(e.leaf < ledger.spans.size());
    REQUIRE(ledger[e.leaf].leaf());
    REQUIRE(ledger[e.leaf].tokens == e.len);
    at += e.len;
  }
  REQUIRE(at == plan.ids.size());
  REQUIRE(plan.token_bytes.size() == plan.ids.size());
  uint64_t bytes = 0;
  for (uint32_t b : plan.token_bytes) bytes += b;
  REQUIRE(bytes == plan.text.size());
  REQUIRE(plan.phase.size() == plan.executed_end - plan.cached);
  for (size_t i = 0; i < plan.phase.size(); ++i) {
    const uint64_t p = plan.cached + i;
    const bool answer = plan.answer_len > 0 && p >= plan.first_answer_row() && p + 1 < uint64_t(plan.answer_begin) + plan.answer_len;
    REQUIRE((plan.phase[i] == RowPhase::answer) == answer);
  }
  if (before)
    for (size_t i = 0; i < plan.cached; ++i) REQUIRE(plan.ids[i] == before->ids[i]);
}

Json content_leaves(const TurnPlan& plan, const Ledger& ledger) {
  Json out = Json::array();
  for (const LayoutEntry& e : plan.layout)
    if (ledger[e.leaf].kind == SpanKind::content) out.push_back({{"message", ledger[e.leaf].message}, {"from", e.slot}, {"len", e.len}});
  return out;
}

}  // namespace

TEST_CASE("SmolLM2: ids, text, leaves, turns and rows of a real conversation") {
  const auto model = smollm2();
  const auto chat_path = oracle("smollm2/chat.json");
  const auto ref_path = oracle("smollm2/ref.json");
  const auto tensors = oracle("smollm2/ref.safetensors");
  if (!model || !chat_path || !ref_path || !tensors) return;
  const Json ref = load_json(*ref_path);
  const auto bytes = read_file(*tensors);
  REQUIRE(bytes);
  auto blob = parse_safetensors({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, *tensors);
  REQUIRE(blob);
  const auto ids = blob->get<int32_t>("ids");
  REQUIRE(ids);

  auto replay = replay_of(read(*chat_path), load(*model));
  CHECK(replay->turns() == ref["turns"].size());
  TurnPlan plan, before;
  for (const Json& turn : ref["turns"]) {
    auto next = replay->next();
    if (!next) FAIL(next.error().line());
    plan = *next;
    check_turn(plan, replay->ledger(), plan.turn ? &before : nullptr);
    CHECK(Json(plan.message) == (turn["message"].is_null() ? Json(-1) : turn["message"]));
    CHECK(plan.open == turn.value("open", false));
    std::vector<int64_t> rows[3];
    for (size_t i = 0; i < plan.phase.size(); ++i) rows[size_t(plan.phase[i])].push_back(int64_t(plan.cached + i));
    CHECK(Json({rows[0].front(), rows[0].back()}) == turn["prompt_rows"]);
    CHECK(int64_t(rows[0].size()) == turn["prompt_rows"][1].get<int64_t>() - turn["prompt_rows"][0].get<int64_t>() + 1);
    if (turn.contains("answer_rows")) {
      CHECK(Json({rows[1].front(), rows[1].back()}) == turn["answer_rows"]);
    } else {
      CHECK(rows[1].empty());
    }
    CHECK(rows[2].empty());
    before = plan;
  }
  CHECK(replay->done());
  CHECK(plan.ids == *ids);
  CHECK(plan.text == ref["text"].get<std::string>());
  CHECK(content_leaves(plan, replay->ledger()) == ref["content_leaves"]);
  CHECK(replay->ledger()[plan.layout[0].leaf].kind == SpanKind::sink);
  CHECK(plan.layout[0].len == ref["sink"]["len"].get<uint32_t>());
  CHECK(replay->findings().empty());
}

TEST_CASE("SmolLM2: conversations with a known needed message") {
  const auto model = smollm2();
  if (!model) return;
  const Chat chat = load(*model);
  for (const char* name : {"literal-101", "paraphrase-102"}) {
    const auto path = oracle(std::string("needed/") + name + ".json");
    if (!path) return;
    const Json ref = load_json(*path);
    auto replay = replay_of(read(*path), chat);
    CHECK(replay->turns() == ref["answers"].size());
    TurnPlan plan, before;
    for (const Json& answer : ref["answers"]) {
      auto next = replay->next();
      if (!next) FAIL(next.error().line());
      plan = *next;
      check_turn(plan, replay->ledger(), plan.turn ? &before : nullptr);
      CHECK(Json(plan.message) == answer["message"]);
      CHECK(plan.first_answer_row() == answer["rows"][0].get<uint32_t>());
      CHECK(plan.executed_end - 1 == answer["rows"][1].get<uint32_t>());
      before = plan;
    }
    CHECK(replay->done());
    auto expected = ref["ids"].get<std::vector<TokenId>>();
    expected.pop_back();  // the line feed behind the last end marker is not in the context
    CHECK(plan.ids == expected);
    Json leaves = content_leaves(plan, replay->ledger());
    for (Json& leaf : leaves) leaf["kind"] = "content";
    CHECK(leaves == ref["content_leaves"]);
  }
}

TEST_CASE("relay models: the shipped conversations") {
  const Chat chat = load(demo("relay-dense.gguf"));
  for (const auto& [name, tokens, answers] : {std::tuple<const char*, size_t, uint32_t>{"demo64.json", 2846, 64}, {"demo12.json", 486, 12}}) {
    const Conversation conversation = read(demo(name));
    auto replay = replay_of(conversation, chat);
    TurnPlan plan, before;
    while (!replay->done()) {
      auto next = replay->next();
      if (!next) FAIL(next.error().line());
      plan = *next;
      check_turn(plan, replay->ledger(), plan.turn ? &before : nullptr);
      CHECK(plan.cached == (plan.turn ? before.executed_end : 0));
      before = plan;
    }
    std::cout << name << ": " << plan.ids.size() << " tokens, " << replay->turns() << " turns, " << replay->ledger().spans.size() << " spans\n";
    CHECK(plan.ids.size() + 1 == tokens);  // the count there includes the line feed behind the last end marker
    CHECK(replay->next_index() == answers);
    // Every message that holds text has one parent; its content leaves cover its text.
    const Ledger& ledger = replay->ledger();
    std::vector<std::string> text(conversation.messages.size());
    uint64_t byte = 0, token = 0;
    for (const LayoutEntry& e : plan.layout) {
      uint64_t length = 0;
      for (uint32_t i = 0; i < e.len; ++i) length += plan.token_bytes[token++];
      const Span& leaf = ledger[e.leaf];
      if (leaf.kind == SpanKind::content)
        text[size_t(leaf.message)] += plan.text.substr(byte + leaf.head_skip, length - leaf.head_skip - leaf.tail_skip);
      byte += length;
    }
    for (size_t i = 0; i < text.size(); ++i) CHECK(text[i] == conversation.messages[i].content);
  }
}

TEST_CASE("ids and spans: the reference layouts") {
  for (const char* family : {"llama-gqa", "mixtral"}) {
    const auto path = oracle(std::string("derived/") + family + "/spans.json");
    if (!path) return;
    const Json ref = load_json(*path);
    const auto text = read_file(*path);
    REQUIRE(text);
    auto made = make_ids_replay("", *text, *path);
    if (!made) FAIL(made.error().line());
    Replay& replay = **made;
    const auto ids = ref["tokens"].get<std::vector<TokenId>>();
    const Ledger& ledger = replay.ledger();
    REQUIRE(ledger.spans.size() == ref["spans"].size());
    for (const Json& s : ref["spans"]) {
      const Span& span = ledger[s["id"].get<SpanId>()];
      CHECK(span_kind_name(span.kind) == s["kind"].get<std::string>());
      CHECK(span.role == s["role"].get<std::string>());
      CHECK(span.name == s["name"].get<std::string>());
      CHECK(span.tokens == s["tokens"].get<uint32_t>());
      CHECK(span.birth + 1 == s["birth"].get<uint32_t>());
      CHECK(span.pinned == s["pinned"].get<bool>());
      CHECK(taint_name(span.taint) == s["taint"].get<std::string>());
      CHECK((span.parent == kNoSpan ? Json() : Json(span.parent)) == s["parent"]);
      CHECK((span.attached_to == kNoSpan ? Json() : Json(span.attached_to)) == s["attached_to"]);
    }
    REQUIRE(replay.turns() == ref["turns"].size());
    for (const Json& turn : ref["turns"]) {
      auto next = replay.next();
      REQUIRE(next);
      CHECK(next->ids == std::vector<TokenId>(ids.begin(), ids.begin() + turn["context"].get<int>()));
      CHECK(Json({next->cached, next->executed_end}) == turn["executed"]);
      CHECK(Json({next->answer_begin, next->answer_len}) == turn["answer_tokens"]);
      Json rows[3] = {Json::array(), Json::array(), Json::array()};
      for (size_t i = 0; i < next->phase.size(); ++i) rows[size_t(next->phase[i])].push_back(next->cached + i);
      CHECK(rows[0] == turn["prompt_rows"]);
      CHECK(rows[1] == turn["answer_rows"]);
      CHECK(rows[2] == turn["recompute_rows"]);
      Json layout = Json::array();
      for (const LayoutEntry& e : next->layout) layout.push_back({{"span", e.leaf}, {"slot", e.slot}, {"len", e.len}, {"pos", e.position}});
      CHECK(layout == turn["layout"]);
    }
    CHECK(replay.done());
    // The same ids apart from the spans.
    CHECK(make_ids_replay(Json(ids).dump(), *text, *path));
  }
}

TEST_CASE("templates: rendered reference cases of the accepted texts") {
  const auto cases = oracle("templates/conversations.json");
  if (!cases) return;
  std::map<std::string, OrderedJson> conversations;
  {
    std::ifstream in(*cases);
    const OrderedJson all = OrderedJson::parse(in);
    if (all.is_array()) {
      for (const auto& c : all) conversations[c["id"].get<std::string>()] = c;
    } else {
      for (const auto& [name, c] : all.items()) conversations[name] = c;
    }
  }
  for (const auto& [name, file] : {std::pair<const char*, const char*>{"smollm2", "smollm2"}, {"chatml-openhermes", "chatml-openhermes"}}) {
    const auto text = read_file(*oracle(std::string("templates/jinja/") + file + ".jinja"));
    REQUIRE(text);
    auto chat_template = make_chat_template(*text, {});
    if (!chat_template) FAIL(chat_template.error().line());
    std::ifstream in(*oracle(std::string("templates/cases/") + name + ".jsonl"));
    size_t rendered = 0, refused = 0, joined = 0;
    for (std::string line; std::getline(in, line, '\n');) {
      const OrderedJson c = OrderedJson::parse(line);
      const OrderedJson& conversation = conversations.at(c["conv"].get<std::string>());
      TemplateInput input;
      input.messages = conversation["messages"];
      input.add_generation_prompt = conversation.value("add_generation_prompt", false);
      auto out = (*chat_template)->render(input);
      INFO(name << " " << c["conv"]);
      if (c.contains("error")) {
        // A list of text parts is joined here, where the template itself raises.
        if (out) ++joined; else ++refused;
        continue;
      }
      REQUIRE(out);
      CHECK(out->text == c["rendered"].get<std::string>());
      OrderedJson ranges = OrderedJson::array();
      for (const OriginRange& r : out->ranges) ranges.push_back({r.begin, r.end, r.field, r.source.begin, r.source.end});
      CHECK(ranges == c["ranges"]);
      ++rendered;
    }
    std::cout << name << ": " << rendered << " rendered, " << refused << " refused, " << joined << " with parts joined\n";
    CHECK(rendered > 5);
  }
}
