// SPDX-License-Identifier: GPL-3.0-or-later
// Turns, rows and leaves at the edges: empty messages, one message, consecutive roles, characters over several tokens,
// templates that rewrite earlier turns, generation.
#include <map>
#include <random>

#include "core/base/digest.h"
#include "core/model/weights.h"
#include "core/span/replay.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Chat {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
};

const Chat& relay() {
  static const Chat chat = [] {
    auto model = load_vocabulary(demo("relay-dense.gguf"));
    if (!model) FAIL(model.error().line());
    auto tokenizer = make_tokenizer((*model)->vocabulary);
    if (!tokenizer) FAIL(tokenizer.error().line());
    auto chat_template = make_chat_template((*model)->chat_template, (*model)->vocabulary);
    if (!chat_template) FAIL(chat_template.error().line());
    return Chat{*tokenizer, *chat_template};
  }();
  return chat;
}

Conversation talk(const std::vector<std::pair<std::string, std::string>>& messages) {
  Conversation out;
  out.source = "test";
  for (const auto& [role, content] : messages) {
    Message m;
    m.role = role;
    m.content = content;
    m.json = {{"role", role}, {"content", content}};
    m.where = "test:" + std::to_string(out.messages.size() + 1);
    out.messages.push_back(m);
  }
  return out;
}

std::unique_ptr<Replay> start(Conversation conversation, ReplayOptions options = {}, std::shared_ptr<const ChatTemplate> other = nullptr) {
  auto replay = make_chat_replay(std::move(conversation), relay().tokenizer, other ? other : relay().chat_template, options);
  if (!replay) FAIL(replay.error().line());
  return std::move(*replay);
}

TurnPlan next(Replay& replay) {
  auto plan = replay.next();
  if (!plan) FAIL(plan.error().line());
  return *plan;
}

std::string token_text(const TurnPlan& plan, uint32_t begin, uint32_t end) {
  uint64_t from = 0, length = 0;
  for (uint32_t i = 0; i < begin; ++i) from += plan.token_bytes[i];
  for (uint32_t i = begin; i < end; ++i) length += plan.token_bytes[i];
  return plan.text.substr(from, length);
}

std::string leaf_text(const TurnPlan& plan, const Ledger& ledger, const LayoutEntry& e) {
  const Span& s = ledger[e.leaf];
  const std::string all = token_text(plan, e.slot, e.slot + e.len);
  return all.substr(s.head_skip, all.size() - s.head_skip - s.tail_skip);
}

const LayoutEntry* leaf_of(const TurnPlan& plan, const Ledger& ledger, int32_t message) {
  for (const LayoutEntry& e : plan.layout)
    if (ledger[e.leaf].kind == SpanKind::content && ledger[e.leaf].message == message) return &e;
  return nullptr;
}

std::string phases(const TurnPlan& plan) {
  std::string out;
  for (RowPhase p : plan.phase) out += "parx"[size_t(p)];
  return out;
}

void check_partition(const TurnPlan& plan, const Ledger& ledger) {
  uint32_t at = 0;
  for (const LayoutEntry& e : plan.layout) {
    REQUIRE(e.slot == at);
    REQUIRE(e.len > 0);
    REQUIRE(ledger[e.leaf].leaf());
    REQUIRE(ledger[e.leaf].tokens == e.len);
    at += e.len;
  }
  REQUIRE(at == plan.ids.size());
  REQUIRE(ledger[plan.layout[0].leaf].kind == SpanKind::sink);
  REQUIRE(plan.layout[0].len >= 1);
  REQUIRE(plan.layout[0].len <= 4);
  for (const LayoutEntry& e : plan.layout) {
    const Span& s = ledger[e.leaf];
    if (s.kind != SpanKind::content) continue;
    REQUIRE(s.digest == sha256_hex(leaf_text(plan, ledger, e)));
    REQUIRE(s.source.size() == leaf_text(plan, ledger, e).size());
    REQUIRE(ledger[s.parent].kind == SpanKind::parent);
    REQUIRE(ledger.message_of(e.leaf) == s.parent);
  }
}

// Prints contents only, each behind `between`: no roles, no end marker, no generation prompt. With `strip` an earlier
// assistant message loses everything up to its last '|', as templates do with reasoning.
class Bare : public ChatTemplate {
 public:
  Bare(std::string between, bool strip) : between_(std::move(between)), strip_(strip) {}
  std::string name() const override { return "bare"; }
  Result<Rendered> render(const TemplateInput& input) const override {
    Rendered out;
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const std::string& text = input.messages[i]["content"].get_ref<const std::string&>();
      size_t from = 0;
      if (strip_ && input.messages[i]["role"] == "assistant" && (i + 1 < input.messages.size() || input.add_generation_prompt) &&
          text.find('|') != std::string::npos)
        from = text.rfind('|') + 1;
      if (i > 0) out.text += between_;
      out.ranges.push_back({out.text.size(), out.text.size() + text.size() - from, "messages[" + std::to_string(i) + "].content", true, {from, text.size()}});
      out.text += text.substr(from);
    }
    return out;
  }

 private:
  std::string between_;
  bool strip_;
};

}  // namespace

TEST_CASE("replay: one message of each kind") {
  auto user = start(talk({{"user", "hello there"}}));
  CHECK(user->turns() == 1);
  TurnPlan plan = next(*user);
  CHECK(plan.open);
  CHECK(plan.message == -1);
  CHECK(plan.answer_len == 0);
  CHECK(plan.executed_end == plan.ids.size());
  CHECK(plan.text == "<|im_start|>user\nhello there<|im_end|>\n<|im_start|>assistant\n");
  CHECK(phases(plan) == std::string(plan.ids.size(), 'p'));
  check_partition(plan, user->ledger());
  CHECK(user->done());
  CHECK_FALSE(user->next());

  auto assistant = start(talk({{"assistant", "hello"}}));
  plan = next(*assistant);
  CHECK_FALSE(plan.open);
  CHECK(plan.message == 0);
  CHECK(plan.text == "<|im_start|>assistant\nhello<|im_end|>");
  CHECK(token_text(plan, plan.answer_begin, plan.answer_begin + plan.answer_len) == "hello<|im_end|>");
  CHECK(plan.executed_end + 1 == plan.ids.size());
  check_partition(plan, assistant->ledger());
}

TEST_CASE("replay: rows of two turns") {
  auto replay = start(talk({{"system", "be kind"}, {"user", "one"}, {"assistant", "two three"}, {"user", "four"}, {"assistant", "five"}, {"user", "six"}}));
  CHECK(replay->turns() == 3);
  const TurnPlan a = next(*replay);
  const uint32_t m = a.answer_len;
  CHECK(phases(a) == std::string(a.answer_begin - 1, 'p') + std::string(m, 'a'));
  CHECK(a.cached == 0);
  const TurnPlan b = next(*replay);
  CHECK(b.cached == a.executed_end);
  // The end marker of the first answer is fed now, as a prompt row.
  CHECK(b.ids[b.cached] == 2);
  CHECK(phases(b) == std::string(b.answer_begin - 1 - b.cached, 'p') + std::string(b.answer_len, 'a'));
  CHECK(replay->turns() == 3);
  CHECK(replay->next_index() == 2);
  const TurnPlan c = next(*replay);
  CHECK(c.open);
  CHECK(c.cached == b.executed_end);
  CHECK(c.executed_end == c.ids.size());
  // Spans keep their ids; what was there is a prefix of the layout.
  for (size_t i = 0; i < a.layout.size(); ++i) CHECK(a.layout[i].leaf == c.layout[i].leaf);
  const Ledger& ledger = replay->ledger();
  for (const TurnPlan* plan : {&a, &b, &c}) check_partition(*plan, ledger);
  const Span& system = ledger[ledger[leaf_of(c, ledger, 0)->leaf].parent];
  CHECK(system.pinned);
  CHECK(system.role == "system");
  CHECK(ledger[leaf_of(c, ledger, 3)->leaf].birth == 1);
  CHECK(ledger[leaf_of(c, ledger, 2)->leaf].birth == 0);
  CHECK(ledger[leaf_of(c, ledger, 2)->leaf].name == "two three");
  // Each message has its header and end marker attached; the generation prompt of an open turn wraps no message.
  std::map<int32_t, std::string> wrapped;
  for (const LayoutEntry& e : c.layout)
    if (ledger[e.leaf].kind == SpanKind::template_text) wrapped[ledger[e.leaf].message] += token_text(c, e.slot, e.slot + e.len) + "/";
  CHECK(wrapped[0] == "<|im_end|>/");  // its header is the sink
  CHECK(wrapped[1] == "\n<|im_start|>user\n/<|im_end|>/");
  CHECK(wrapped[2] == "\n<|im_start|>assistant\n/<|im_end|>/");
  CHECK(wrapped[-1] == "\n<|im_start|>assistant\n/");
}

TEST_CASE("replay: empty messages have no leaf, but a parent and template text") {
  auto replay = start(talk({{"system", ""}, {"user", ""}, {"assistant", ""}, {"user", "x"}, {"assistant", "y"}}));
  const TurnPlan a = next(*replay);
  const Ledger& ledger = replay->ledger();
  check_partition(a, ledger);
  CHECK(token_text(a, a.answer_begin, a.answer_begin + a.answer_len) == "<|im_end|>");
  CHECK(phases(a).back() == 'a');
  CHECK(a.answer_len == 1);
  for (const LayoutEntry& e : a.layout) CHECK(ledger[e.leaf].kind != SpanKind::content);
  CHECK(a.layout[0].len == 4);
  const TurnPlan b = next(*replay);
  check_partition(b, ledger);
  CHECK(leaf_of(b, ledger, 0) == nullptr);
  REQUIRE(leaf_of(b, ledger, 3));
  CHECK(leaf_text(b, ledger, *leaf_of(b, ledger, 3)) == "x");
  int parents = 0;
  for (const Span& s : ledger.spans)
    if (s.kind == SpanKind::parent) {
      ++parents;
      CHECK(s.tokens == (s.message < 3 ? 0 : 1));
    }
  CHECK(parents == 5);
}

TEST_CASE("replay: consecutive roles and equal texts are messages of their own") {
  auto replay = start(talk({{"user", "same"}, {"user", "same"}, {"assistant", "same"}, {"assistant", "same"}, {"tool", "same"}, {"document", "same"}, {"assistant", "same"}}));
  CHECK(replay->turns() == 3);
  TurnPlan plan;
  while (!replay->done()) {
    plan = next(*replay);
    check_partition(plan, replay->ledger());
  }
  std::vector<SpanId> leaves;
  for (const LayoutEntry& e : plan.layout)
    if (replay->ledger()[e.leaf].kind == SpanKind::content) leaves.push_back(e.leaf);
  CHECK(leaves.size() == 7);
  std::sort(leaves.begin(), leaves.end());
  CHECK(std::unique(leaves.begin(), leaves.end()) == leaves.end());
  CHECK(replay->ledger()[leaf_of(plan, replay->ledger(), 4)->leaf].taint == Taint::tainted);
  CHECK(replay->ledger()[leaf_of(plan, replay->ledger(), 5)->leaf].taint == Taint::tainted);
  CHECK(replay->ledger()[leaf_of(plan, replay->ledger(), 3)->leaf].taint == Taint::trusted);
}

TEST_CASE("replay: a long answer is one leaf in its turn and split from the next turn on") {
  std::string words;
  for (int i = 0; i < 600; ++i) words += " 1";
  auto replay = start(talk({{"user", words}, {"assistant", words}, {"user", "x"}, {"assistant", "y"}}));
  const TurnPlan a = next(*replay);
  const Ledger& ledger = replay->ledger();
  uint32_t answer_tokens = 0;
  int user_leaves = 0;
  for (const LayoutEntry& e : a.layout) {
    const Span& s = ledger[e.leaf];
    if (s.kind == SpanKind::content && s.message == 0) {
      ++user_leaves;
      CHECK(e.len <= 256);
    }
    if (s.kind == SpanKind::content && s.message == 1) answer_tokens = e.len;
  }
  CHECK(user_leaves == 3);
  CHECK(answer_tokens > 512);
  const SpanId whole = leaf_of(a, ledger, 1)->leaf;
  const TurnPlan b = next(*replay);
  check_partition(b, ledger);
  int pieces = 0;
  for (const LayoutEntry& e : b.layout) {
    const Span& s = ledger[e.leaf];
    CHECK(e.leaf != whole);
    if (s.kind != SpanKind::content || s.message != 1) continue;
    ++pieces;
    CHECK(s.birth == 0);
    CHECK(s.parent == ledger[whole].parent);
  }
  CHECK(pieces == 3);
  CHECK(ledger[ledger[whole].parent].tokens == answer_tokens);
  CHECK(b.cached == a.executed_end);
}

TEST_CASE("replay: characters over several tokens, at leaf borders too") {
  std::string emoji;
  for (int i = 0; i < 200; ++i) emoji += "\xf0\x9f\x9a\x80";
  auto replay = start(talk({{"user", emoji + "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9"}, {"assistant", "\xf0\x9f\x9a\x80"}, {"user", emoji}}));
  while (!replay->done()) {
    const TurnPlan plan = next(*replay);
    check_partition(plan, replay->ledger());
    std::map<int32_t, std::string> text;
    for (const LayoutEntry& e : plan.layout)
      if (replay->ledger()[e.leaf].kind == SpanKind::content) text[replay->ledger()[e.leaf].message] += leaf_text(plan, replay->ledger(), e);
    CHECK(text[0] == emoji + "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9");
    CHECK(text[1] == "\xf0\x9f\x9a\x80");
  }
}

TEST_CASE("replay: content at position 0 gives its first token to the sink") {
  auto replay = start(talk({{"user", "hello world again"}, {"assistant", "yes sir"}}), {}, std::make_shared<Bare>(" ", false));
  const TurnPlan plan = next(*replay);
  const Ledger& ledger = replay->ledger();
  check_partition(plan, ledger);
  CHECK(plan.layout[0].len == 1);
  CHECK(plan.layout[0].position == 0);
  const Span& first = ledger[leaf_of(plan, ledger, 0)->leaf];
  CHECK(first.source.begin == plan.token_bytes[0]);
  CHECK(first.source.end == 17);
  // No generation prompt and no end marker: the answer is its content, tokenised apart.
  CHECK(token_text(plan, plan.answer_begin, uint32_t(plan.ids.size())) == "yes sir");
  CHECK(plan.answer_begin > 0);
}

TEST_CASE("replay: a token over a border belongs to the content that it holds") {
  // "x" + "." + "'s": the template's text and the content meet inside tokens.
  auto replay = start(talk({{"user", "desk"}, {"user", "the end"}}), {}, std::make_shared<Bare>(".\n", false));
  const TurnPlan plan = next(*replay);
  check_partition(plan, replay->ledger());
  auto words = start(talk({{"user", "a "}, {"user", "number"}}), {}, std::make_shared<Bare>("", false));
  const TurnPlan joined = next(*words);
  const Ledger& ledger = words->ledger();
  check_partition(joined, ledger);
  // " number" is one token that holds one byte of the first content and six of the second.
  const LayoutEntry* second = leaf_of(joined, ledger, 1);
  REQUIRE(second);
  CHECK(ledger[second->leaf].head_skip == 1);
  CHECK(ledger[second->leaf].source == ByteRange{0, 6});
  CHECK(leaf_text(joined, ledger, *second) == "number");
}

TEST_CASE("replay: a template that rewrites earlier turns gives recompute rows") {
  auto replay = start(talk({{"user", "first question"}, {"assistant", "thinking about it|the answer is 28"}, {"user", "second question"}, {"assistant", "so|done now"}}),
                      {}, std::make_shared<Bare>("<|im_end|>", true));
  const TurnPlan a = next(*replay);
  CHECK(a.text == "first question<|im_end|>thinking about it|the answer is 28");
  const TurnPlan b = next(*replay);
  CHECK(b.text == "first question<|im_end|>the answer is 28<|im_end|>second question<|im_end|>so|done now");
  check_partition(b, replay->ledger());
  // Kept: the first question with the marker. Run again: what is left of the answer, but its last token was never run.
  CHECK(token_text(b, 0, b.cached) == "first question<|im_end|>");
  const std::string p = phases(b);
  CHECK(p.find('r') != std::string::npos);
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] == 'r') {
      const Span* holder = nullptr;
      for (const LayoutEntry& e : b.layout)
        if (b.cached + i >= e.slot && b.cached + i < e.slot + e.len) holder = &replay->ledger()[e.leaf];
      REQUIRE(holder);
      CHECK(holder->message == 1);
    }
  const LayoutEntry* answer = leaf_of(b, replay->ledger(), 1);
  CHECK(replay->ledger()[answer->leaf].source.begin == std::string("thinking about it|").size());
}

TEST_CASE("replay: longer than the context says both numbers and the turn") {
  const Conversation conversation = talk({{"user", "one"}, {"assistant", "two"}, {"user", "three four five six"}, {"assistant", "seven"}});
  auto whole = start(conversation);
  next(*whole);
  const size_t needed = next(*whole).ids.size();
  ReplayOptions options;
  options.context = uint32_t(needed);
  auto fits = start(conversation, options);
  next(*fits);
  next(*fits);
  options.context = uint32_t(needed - 1);
  auto replay = start(conversation, options);
  next(*replay);
  auto plan = replay->next();
  REQUIRE_FALSE(plan);
  CHECK(plan.error().tag == "SPAN-CONTEXT");
  CHECK(plan.error().code == ErrorCode::limit);
  CHECK(plan.error().message.find("turn 2 ") != std::string::npos);
  CHECK(plan.error().message.find(std::to_string(needed)) != std::string::npos);
  CHECK(plan.error().message.find(std::to_string(needed - 1)) != std::string::npos);
  CHECK(plan.error().where == "test:4");
}

TEST_CASE("replay: what is not read is said") {
  Conversation conversation = talk({{"user", "mark <|im_end|> inside"}, {"assistant", "x"}, {"assistant", "y"}});
  conversation.messages[1].json["tool_calls"] = OrderedJson::parse(R"([{"function":{"name":"f","arguments":"{}"}}])");
  conversation.messages[2].json["tool_calls"] = conversation.messages[1].json["tool_calls"];
  conversation.tools = OrderedJson::parse(R"([{"type":"function"}])");
  auto replay = start(conversation);
  while (!replay->done()) next(*replay);
  std::map<std::string, int> tags;
  for (const Finding& f : replay->findings()) ++tags[f.tag];
  CHECK(tags["SPAN-CONTROL-IN-CONTENT"] == 1);
  CHECK(tags["SPAN-NOT-RENDERED"] == 2);  // tools, and tool_calls once for both messages
  bool counted = false;
  for (const Finding& f : replay->findings()) counted = counted || (f.message.find("2 times") != std::string::npos && f.where == "test:2 messages[1].tool_calls");
  CHECK(counted);

  Conversation null = talk({{"user", "x"}, {"assistant", ""}});
  null.messages[1].json["content"] = nullptr;
  auto refused = start(null);
  auto plan = refused->next();
  REQUIRE_FALSE(plan);
  CHECK(plan.error().where == "test:2 messages[1], chat template line 1, column 72");
}

TEST_CASE("replay: bytes without a token are reported and cover no token") {
  Vocabulary v = relay().tokenizer->vocabulary();
  for (size_t i = 0; i < v.tokens.size(); ++i)
    if (v.tokens[i] == "Z") v.tokens[i] = "<none>";
  auto tokenizer = make_tokenizer(v);
  REQUIRE(tokenizer);
  auto replay = make_chat_replay(talk({{"user", "aZbZ"}, {"assistant", "Zc"}}), *tokenizer, relay().chat_template);
  REQUIRE(replay);
  const TurnPlan plan = next(**replay);
  CHECK(plan.text == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\nc<|im_end|>");
  int found = 0;
  for (const Finding& f : (*replay)->findings())
    if (f.tag == "SPAN-DROPPED-BYTES") {
      ++found;
      CHECK(f.grade == Grade::loss);
    }
  CHECK(found == 2);
}

TEST_CASE("generation: the same ids give the same turn as replay") {
  const Conversation conversation = talk({{"system", "s"}, {"user", "one"}, {"assistant", "two three"}, {"user", "four"}, {"assistant", "five"}, {"user", "six"}, {"assistant", "seven"}});
  auto forced = start(conversation);
  auto generated = start(conversation);
  while (!forced->done()) {
    const TurnPlan a = next(*forced);
    const std::vector<TokenId> answer(a.ids.begin() + a.answer_begin, a.ids.end());
    auto begun = generated->begin_answer(100);
    REQUIRE(begun);
    CHECK(begun->ids == std::vector<TokenId>(a.ids.begin(), a.ids.begin() + a.answer_begin));
    CHECK(begun->answer_begin == a.answer_begin);
    CHECK(begun->cached == a.cached);
    CHECK(begun->executed_end == a.answer_begin);
    CHECK(phases(*begun) == phases(a).substr(0, a.answer_begin - a.cached));
    CHECK(phases(*begun).back() == 'a');
    CHECK(begun->layout.back().len == 100);
    CHECK(begun->layout.back().slot == a.answer_begin);
    const SpanId provisional = begun->layout.back().leaf;
    CHECK_FALSE(generated->next());
    CHECK_FALSE(generated->begin_answer(5));
    auto finished = generated->finish_answer(answer, false);
    REQUIRE(finished);
    check_partition(*finished, generated->ledger());
    CHECK(finished->generated);
    CHECK_FALSE(finished->cut);
    CHECK(finished->ids == a.ids);
    CHECK(finished->text == a.text);
    CHECK(phases(*finished) == phases(a));
    CHECK(finished->cached == a.cached);
    CHECK(finished->executed_end == a.executed_end);
    CHECK(finished->message == a.message);
    REQUIRE(finished->layout.size() == a.layout.size());
    for (size_t i = 0; i < a.layout.size(); ++i) CHECK(finished->layout[i].len == a.layout[i].len);
    CHECK(leaf_of(*finished, generated->ledger(), a.message)->leaf == provisional);
    CHECK(generated->ledger()[provisional].name == forced->ledger()[leaf_of(a, forced->ledger(), a.message)->leaf].name);
  }
  CHECK(generated->done());
}

TEST_CASE("generation: ids are kept as generated, an open turn goes on, the rest can be dropped") {
  // "o" "n" "e" apart is not what the tokenizer would make of "one".
  std::vector<TokenId> letters;
  for (const char* c : {"o", "n", "e"}) letters.push_back(relay().tokenizer->encode(c).ids[0]);
  auto replay = start(talk({{"user", "x"}, {"assistant", "gone"}, {"user", "y"}, {"assistant", "z"}, {"user", "w"}}));
  REQUIRE(replay->begin_answer(8));
  std::vector<TokenId> answer = letters;
  answer.push_back(2);
  REQUIRE(replay->finish_answer(answer, false));
  const TurnPlan b = next(*replay);
  CHECK(b.text.find("one<|im_end|>\n<|im_start|>user\ny") != std::string::npos);
  for (size_t i = 0; i + 3 < b.ids.size(); ++i)
    if (b.ids[i] == letters[0] && b.ids[i + 1] == letters[1]) CHECK(b.ids[i + 2] == letters[2]);
  CHECK(b.ids[b.cached] == 2);  // the generated end marker was never run
  CHECK(std::vector<TokenId>(b.ids.begin() + b.cached - 3, b.ids.begin() + b.cached) == letters);
  CHECK(replay->turns() == 3);

  // Cut at the limit in the middle of a character: no end marker, which the template adds before the next message.
  REQUIRE(replay->begin_answer(2));
  const auto rocket = relay().tokenizer->encode("\xf0\x9f\x9a\x80").ids;
  REQUIRE(rocket.size() >= 2);
  auto cut = replay->finish_answer({rocket[0], rocket[1]}, true);
  REQUIRE(cut);
  CHECK(cut->cut);
  CHECK(cut->answer_len == 2);
  check_partition(*cut, replay->ledger());
  CHECK(replay->done());
  CHECK_FALSE(replay->begin_answer(5));

  auto stopped = start(talk({{"user", "x"}, {"assistant", "a"}, {"user", "y"}, {"assistant", "b"}, {"user", "z"}}));
  next(*stopped);
  REQUIRE(stopped->begin_answer(4));
  REQUIRE(stopped->finish_answer({2}, false));  // nothing but the end marker
  stopped->drop_rest();
  CHECK(stopped->done());
  CHECK(stopped->turns() == 2);
}

TEST_CASE("generation: a cut answer is closed by the template before the next message") {
  auto replay = start(talk({{"user", "x"}, {"assistant", "gone"}, {"user", "y"}}));
  REQUIRE(replay->begin_answer(1));
  const TokenId word = relay().tokenizer->encode("hello").ids[0];
  auto a = replay->finish_answer({word}, true);
  REQUIRE(a);
  const TurnPlan b = next(*replay);
  const std::string piece = relay().tokenizer->piece(word);
  CHECK(b.text == "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n" + piece + "<|im_end|>\n<|im_start|>user\ny<|im_end|>\n<|im_start|>assistant\n");
  CHECK(b.cached == a->executed_end);
  CHECK(phases(b) == std::string(b.phase.size(), 'p'));
  check_partition(b, replay->ledger());
}

TEST_CASE("generation: going on with a recorded open turn runs the last prompt position again") {
  auto replay = start(talk({{"user", "x"}}));
  const TurnPlan open = next(*replay);
  auto begun = replay->begin_answer(3);
  REQUIRE(begun);
  CHECK(begun->turn == 1);
  CHECK(begun->cached + 1 == open.ids.size());
  CHECK(phases(*begun) == "a");
  auto finished = replay->finish_answer({2}, false);
  REQUIRE(finished);
  CHECK(phases(*finished) == "a");
  CHECK(finished->message == 1);
}

TEST_CASE("generation: room is what the context leaves") {
  ReplayOptions options;
  options.context = 20;
  auto replay = start(talk({{"user", "x"}}), options);
  auto begun = replay->begin_answer(1000);
  REQUIRE(begun);
  CHECK(begun->ids.size() + begun->layout.back().len == 20);
  options.context = uint32_t(begun->ids.size());
  CHECK_FALSE(start(talk({{"user", "x"}}), options)->begin_answer(1));
}

TEST_CASE("replay: random conversations keep their text, their spans and their cache") {
  std::mt19937 random(11);
  static const std::vector<std::string> parts = {"word ", "28", "\n\n", "- item\n", "# head\n", "\xf0\x9f\x9a\x80", "\xe4\xb8\xad", ". ", "```\ncode\n```\n", "  ", "'s", "\xcc\x81"};
  for (int round = 0; round < 40; ++round) {
    std::vector<std::pair<std::string, std::string>> messages;
    const size_t count = 1 + random() % 12;
    for (size_t i = 0; i < count; ++i) {
      static const char* roles[] = {"user", "assistant", "tool", "system"};
      std::string text;
      for (size_t k = random() % 120; k > 0; --k) text += parts[random() % parts.size()];
      messages.push_back({roles[random() % 4], text});
    }
    ReplayOptions options;
    options.split.max_tokens = 16 + uint32_t(random() % 100);
    auto replay = start(talk(messages), options);
    TurnPlan before;
    while (!replay->done()) {
      const TurnPlan plan = next(*replay);
      check_partition(plan, replay->ledger());
      REQUIRE(plan.cached == (plan.turn ? before.executed_end : 0));
      std::vector<std::string> text(messages.size());
      for (const LayoutEntry& e : plan.layout)
        if (replay->ledger()[e.leaf].kind == SpanKind::content) text[size_t(replay->ledger()[e.leaf].message)] += leaf_text(plan, replay->ledger(), e);
      for (size_t i = 0; i < messages.size() && (plan.open || int32_t(i) <= plan.message); ++i) REQUIRE(text[i] == messages[i].second);
      before = plan;
    }
  }
}
