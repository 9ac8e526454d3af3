// SPDX-License-Identifier: GPL-3.0-or-later
// One session per released version (tests/data/golden/vX.Y.Z.span), each with what must be found in it. The descriptions were made
// by the Python reader, so that two readers that share no code have to agree.
#include <filesystem>

#include "core/base/digest.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;
namespace fs = std::filesystem;

namespace {

template <class T>
std::string sha(const std::vector<T>& values) {
  return sha256_hex(std::span(reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)));
}

int64_t index_of(const OrderedJson& j) { return j.is_null() ? -1 : j.get<int64_t>(); }

void check_turn(const TurnRecord& t, const OrderedJson& j) {
  INFO("turn " << t.turn);
  CHECK(t.turn == j["turn"]);
  CHECK(t.context == j["context"]);
  CHECK(t.message == j["message"]);
  CHECK((t.executed_begin == j["executed"][0] && t.executed_end == j["executed"][1]));
  CHECK((t.answer_begin == j["answer"][0] && t.answer_len == j["answer"][1]));
  CHECK(sha(t.phase) == j["phase"]);
  CHECK(sha(t.new_ids) == j["ids"]);
  REQUIRE(t.layout.size() == j["layout"].size());
  for (size_t i = 0; i < t.layout.size(); ++i) {
    const LayoutEntry& e = t.layout[i];
    CHECK(OrderedJson({e.leaf, e.slot, e.len, e.position}) == j["layout"][i]);
  }
  CHECK(OrderedJson(t.query_leaves) == j["query_leaves"]);
  CHECK(OrderedJson(t.rows_q) == j["rows_q"]);
  CHECK(OrderedJson(t.profile_spans) == j["profile_spans"]);
  double sum = 0;
  for (float m : t.mass_qk) sum += m;
  CHECK(std::abs(sum - j["mass_sum"].get<double>()) <= 1e-9 * std::abs(sum));
  const OrderedJson& h = j["sha256"];
  CHECK(sha(t.mass_qk) == h["mass_qk"]);
  CHECK(sha(t.uniform_qk) == h["uniform_qk"]);
  CHECK(sha(t.learned_sink) == h["learned_sink"]);
  CHECK(sha(t.unattributed) == h["unattributed"]);
  CHECK(sha(t.spike) == h["spike"]);
  CHECK(sha(t.spike_layer) == h["spike_layer"]);
  CHECK(sha(t.spike_head) == h["spike_head"]);
  CHECK(sha(t.spike_row) == h["spike_row"]);
  CHECK(sha(t.layer_mass) == h["layer_mass"]);
  REQUIRE(t.events.size() == j["events"].size());
  for (size_t i = 0; i < t.events.size(); ++i) {
    const OrderedJson& e = j["events"][i];
    CHECK((t.events.row[i] == e["row"] && t.events.leaf[i] == e["leaf"] && t.events.layer[i] == e["layer"] && t.events.head[i] == e["head"]));
    CHECK((double(t.events.mass[i]) == e["mass"].get<double>() && double(t.events.habit[i]) == e["habit"].get<double>()));
  }
  REQUIRE(t.routing.empty() == j["routing"].is_null());
  if (t.routing.empty()) return;
  CHECK(sha(t.routing.ids) == j["routing"]["ids"]);
  CHECK(sha(t.routing.weights) == j["routing"]["weights"]);
  CHECK(sha(t.routing.margin) == j["routing"]["margin"]);
}

}  // namespace

TEST_CASE("sessions of every released version are read as they always were") {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(SPANSCOPE_TEST_DATA) / "golden")) {
    if (entry.path().extension() != ".span") continue;
    ++files;
    INFO(entry.path().filename().string());
    auto text = read_file(fs::path(entry.path()).replace_extension(".json").string());
    REQUIRE(text);
    auto parsed = parse_json(*text, "golden");
    REQUIRE(parsed);
    const OrderedJson& j = *parsed;
    const auto reader = SessionReader::open(entry.path().string());
    REQUIRE(reader);
    CHECK(verify_session(**reader).findings.empty());
    const auto loaded = load_session(**reader);
    REQUIRE(loaded);
    const SessionData& s = **loaded;
    CHECK(s.finished == j["finished"].get<bool>());
    CHECK(s.header.session_id == j["session_id"]);
    CHECK(s.findings.size() == j["findings"].size());
    const OrderedJson& h = j["header"];
    CHECK(entry.path().stem().string() == "v" + s.header.program_version);
    CHECK(s.header.model_name == h["model_name"]);
    CHECK(s.header.model_digest == h["model_digest"]);
    CHECK((s.header.layers == h["layers"] && s.header.query_heads == h["query_heads"] && s.header.routing == h["routing"]));
    CHECK(s.header.lambda == h["lambda"].get<double>());
    REQUIRE(s.messages.size() == j["messages"].size());
    for (size_t i = 0; i < s.messages.size(); ++i)
      CHECK(OrderedJson({s.messages[i].role, s.messages[i].name, s.messages[i].id}) == j["messages"][i]);
    REQUIRE(s.ledger.spans.size() == j["spans"].size());
    for (const Span& span : s.ledger.spans) {
      const OrderedJson& x = j["spans"][span.id];
      CHECK((span.id == x["id"] && span_kind_name(span.kind) == x["kind"].get<std::string>() && span.role == x["role"] && span.name == x["name"]));
      CHECK((span.message == index_of(x["message"]) && span.tokens == x["tokens"] && span.birth == x["birth"] && span.digest == x["digest"]));
      CHECK((span.parent == kNoSpan ? -1 : int64_t(span.parent)) == index_of(x["parent"]));
      CHECK(s.text_of(span.id) == x["text"]);
    }
    REQUIRE(s.turns.size() == j["turns"].size());
    for (size_t t = 0; t < s.turns.size(); ++t) check_turn(s.turns[t], j["turns"][t]);
    const OrderedJson& c = j["closing"];
    CHECK(sha(s.closing.ema_n) == c["ema_n"]);
    CHECK(sha(s.closing.ema_triples) == c["ema_triples"]);
    CHECK(sha(s.closing.ema_sink) == c["ema_sink"]);
    CHECK(sha(s.closing.ema_u) == c["ema_u"]);
    CHECK(sha(s.closing.sum_n) == c["sum_n"]);
    CHECK(sha(s.closing.sum_triples) == c["sum_triples"]);
    CHECK(sha(s.closing.sum_sink) == c["sum_sink"]);
    CHECK(sha(s.closing.sum_u) == c["sum_u"]);
  }
  CHECK(files >= 1);
}
