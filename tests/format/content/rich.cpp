// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/format/content/rich.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/record/session_schema.h"
#include "core/record/units.h"
#include "tests/support/catch.h"
#include "tests/support/small_session.h"

namespace spanscope::test {
namespace fs = std::filesystem;

Scratch::Scratch() {
  path = (fs::temp_directory_path() / "spanscope-content-XXXXXX").string();
  REQUIRE(::mkdtemp(path.data()));
}
Scratch::~Scratch() { fs::remove_all(path); }

SessionData rich_session(uint32_t turns) {
  SessionData s = small_session();
  s.header.source = "secret/chat of somebody.json";
  s.header.model_path = "secret/models/hand.gguf";
  s.header.knobs = {{"SPANSCOPE_PASS_ROWS", "64"}};
  s.header.experts = 4, s.header.experts_used = 2, s.header.moe_layer = {1}, s.header.routing = true;
  s.messages[0].name = "somebody", s.messages[0].id = "id-7";
  s.ledger.spans[1].digest = std::string(64, 'a'), s.ledger.spans[1].producer = "somebody", s.ledger.spans[1].field = "content";
  s.ledger.spans[2].digest = std::string(64, 'b');
  TurnRecord& t = s.turns[0];
  t.events.row = {1, 2, 2}, t.events.leaf = {1, 1, 2}, t.events.layer = {0, 0, 0}, t.events.head = {1, 0, 1};
  t.events.mass = {0.5f, 0.75f, 0.25f}, t.events.habit = {0.125f, 0, 0.0625f};
  t.events_dropped = 3, t.dropped_most = 0.2f;
  t.dropped.leaf = {1, 2}, t.dropped.layer = {0, 0}, t.dropped.head = {0, 1}, t.dropped.count = {2, 1}, t.dropped.above_display = {1, 0};
  t.routing.layers = 1, t.routing.experts_used = 2;
  t.routing.ids = {0, 1, 2, 3, 1, 0}, t.routing.weights = {0.75f, 0.25f, 0.5f, 0.5f, 0.875f, 0.125f}, t.routing.margin = {0.5f, 0.25f, 1};
  t.seconds_prompt = 0.125, t.seconds_answer = 0.25;
  for (uint32_t n = 1; n < turns; ++n) add_open_turn_without(s, kNoSpan);
  for (uint32_t n = 1; n < turns; ++n) {
    RoutingColumns& r = s.turns[n].routing;
    r.layers = 1, r.experts_used = 2, r.ids = {uint16_t(n % 4), uint16_t((n + 1) % 4)}, r.weights = {0.5f, 0.5f}, r.margin = {float(n)};
  }
  s.header.detail = "head";
  for (TurnRecord& turn : s.turns)  // [1 layer][2 heads][answer, consumer][P], of which the layer's masses are the sums
    for (uint32_t head = 0; head < 2; ++head)
      for (float mass : turn.layer_mass) turn.head_mass.push_back(mass * (head ? 0.25f : 0.75f));
  s.closing = {};
  for (RowSet rows : {RowSet::answer, RowSet::all, RowSet::consumer}) {
    const Recurrence r = replay_recurrence(s, rows, s.header.lambda, s.turns.back().turn);
    for (const Sums& x : r.ema) s.closing.ema_n.push_back(x.n), s.closing.ema_triples.push_back(x.triples), s.closing.ema_sink.push_back(x.sink), s.closing.ema_u.push_back(x.u);
    for (const Sums& x : r.cumulative) s.closing.sum_n.push_back(x.n), s.closing.sum_triples.push_back(x.triples), s.closing.sum_sink.push_back(x.sink), s.closing.sum_u.push_back(x.u);
  }
  return s;
}

void write_one_turn(SessionWriter& writer, const SessionData& s, uint32_t turn) {
  // The spans and messages of this turn; those of the first turn are the small session's four and two.
  const size_t first_span = turn == 0 ? 0 : 3 + turn, end_span = 4 + turn;
  const size_t first_message = turn == 0 ? 0 : 1 + turn, end_message = 2 + turn;
  Ledger ledger;
  ledger.spans.assign(s.ledger.spans.begin(), s.ledger.spans.begin() + ptrdiff_t(end_span));
  std::vector<MessageInfo> messages(s.messages.begin(), s.messages.begin() + ptrdiff_t(end_message));
  REQUIRE(write_ledger(writer, ledger, first_span, messages, first_message));
  REQUIRE(write_turn(writer, s.turns[turn], s.header, s.ledger));
  REQUIRE(writer.sync());
}

void write_session(SessionWriter& writer, const SessionData& s, uint32_t from_turn) {
  if (from_turn == 0) REQUIRE(write_header(writer, s.header));
  for (uint32_t t = from_turn; t < s.turns.size(); ++t) write_one_turn(writer, s, t);
  REQUIRE(write_findings(writer, {{Grade::warning, "SPAN-CONTROL-IN-CONTENT", "the content says \"shello\"", "chat.json", {}}}));
  REQUIRE(write_closing(writer, s.closing));
}

Bytes session_bytes(const Scratch& scratch, const SessionData& s, bool finish) {
  const std::string path = scratch.file("rich.span");
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  write_session(**writer, s);
  if (finish) REQUIRE((*writer)->finish());
  return read_bytes(path);
}

Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

void write_bytes(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  REQUIRE(out.flush());
}

std::shared_ptr<const SessionReader> open_bytes(const Bytes& bytes) {
  auto reader = SessionReader::from_bytes(bytes, "memory");
  if (!reader) FAIL(reader.error().line());
  return *reader;
}

namespace {
struct Image {
  std::string out;
  template <class T>
  void value(T v) {
    out.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void list(const std::string& s) {
    value(uint64_t(s.size()));
    out += s;
  }
  template <class T>
  void list(const std::vector<T>& v) {
    value(uint64_t(v.size()));
    if (!v.empty()) out.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
  }
};
}  // namespace

std::string image(const TurnRecord& t) {
  Image i;
  i.value(t.turn), i.value(t.message), i.value(t.open), i.value(t.cut), i.value(t.generated), i.value(t.context), i.value(t.executed_begin);
  i.value(t.executed_end), i.value(t.answer_begin), i.value(t.answer_len), i.list(t.phase);
  for (const LayoutEntry& e : t.layout) i.value(e.leaf), i.value(e.slot), i.value(e.len), i.value(e.position);
  i.list(t.new_ids), i.list(t.new_token_bytes), i.list(t.new_text), i.value(t.seconds_prompt), i.value(t.seconds_answer);
  i.list(t.query_leaves), i.list(t.rows_q), i.list(t.mass_qk), i.list(t.uniform_qk), i.list(t.learned_sink), i.list(t.unattributed);
  i.list(t.learned_sink_q), i.list(t.profile_spans), i.list(t.layer_mass), i.list(t.head_mass), i.list(t.spike), i.list(t.spike_layer), i.list(t.spike_head), i.list(t.spike_row);
  i.list(t.events.row), i.list(t.events.leaf), i.list(t.events.layer), i.list(t.events.head), i.list(t.events.mass), i.list(t.events.habit);
  i.value(t.events_dropped), i.value(t.dropped_most), i.list(t.dropped.leaf), i.list(t.dropped.layer), i.list(t.dropped.head), i.list(t.dropped.count);
  i.list(t.dropped.above_display), i.list(t.routing.ids), i.list(t.routing.weights), i.list(t.routing.margin);
  return i.out;
}

std::string image(const Ledger& ledger, size_t spans) {
  Image i;
  for (size_t n = 0; n < spans; ++n) {
    const Span& s = ledger.spans[n];
    i.value(s.id), i.value(s.kind), i.list(s.role), i.list(s.name), i.list(s.producer), i.value(s.taint), i.list(s.digest), i.value(s.parent);
    i.value(s.attached_to), i.value(s.message), i.list(s.field), i.value(s.source.begin), i.value(s.source.end), i.value(s.head_skip);
    i.value(s.tail_skip), i.value(s.birth), i.value(s.tokens), i.value(s.pinned), i.value(s.replaces);
  }
  return i.out;
}

std::string image(const SessionHeader& h) {
  Image i;
  for (const std::string* s : {&h.program_version, &h.model_name, &h.model_family, &h.model_path, &h.model_digest, &h.weight_types, &h.tokenizer_digest,
                               &h.backend, &h.detail, &h.source, &h.mode, &h.redacted})
    i.list(*s);
  for (uint32_t n : {h.layers, h.query_heads, h.kv_heads, h.head_dim, h.hidden, h.vocab, h.experts, h.experts_used, h.threads, h.habit_min_rows}) i.value(n);
  i.list(h.window), i.list(h.moe_layer), i.value(h.routing), i.value(h.has_text), i.value(h.theta_rec), i.value(h.factor), i.value(h.cap), i.value(h.lambda);
  for (const auto& [name, value] : h.knobs) i.list(name), i.list(value);
  return i.out;
}

std::string image(const ClosingScalars& c) {
  Image i;
  for (const auto* v : {&c.ema_n, &c.ema_triples, &c.ema_sink, &c.ema_u, &c.sum_n, &c.sum_triples, &c.sum_sink, &c.sum_u}) i.list(*v);
  return i.out;
}

bool has_finding(const std::vector<Finding>& findings, const std::string& tag) {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.tag == tag; });
}
bool has_loss(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.grade >= Grade::loss; });
}

std::string tags_of(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) out += f.tag + ": " + f.message + "\n";
  return out;
}

bool exhaustive() {
  const char* value = std::getenv("SPANSCOPE_EXHAUSTIVE");
  return value && std::strcmp(value, "1") == 0;
}

}  // namespace spanscope::test
