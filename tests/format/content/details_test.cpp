// SPDX-License-Identifier: GPL-3.0-or-later
// Frames of what is kept beyond views: they come back bit by bit; damaged, cut, missing or of another shape they are named
// and left out, and the rest of the turn is read all the same.
#include <algorithm>
#include <cstring>

#include "core/record/session_lazy.h"
#include "core/record/session_redact.h"
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Every array of its own length and numbers.
class Filler {
 public:
  template <class T>
  std::vector<T> operator()(size_t n, uint32_t below = 1000) {
    std::vector<T> out;
    for (size_t i = 0; i < n; ++i) out.push_back(T(next_++ * 7 % below));
    return out;
  }

 private:
  uint32_t next_ = 1;
};

SessionData detailed(bool heads_apart, bool chosen) {
  SessionData s = rich_session(2);
  SessionHeader& h = s.header;
  h.detail = "token", h.head_dim = 2, h.stat_windows = {8, 16}, h.pairs = h.values = true, h.keys = KeyDetail::all;
  h.rows = heads_apart ? RowDetail::heads : RowDetail::layers;
  if (chosen) h.kept_heads = {0, 1};
  Filler fill;
  const size_t kept = chosen ? 1 : 2;
  for (TurnRecord& t : s.turns) {
    const uint32_t keys = t.executed_end, rows = keys - t.executed_begin;
    if (chosen) t.head_mass.resize(2 * t.profile_spans.size());
    TokenStatLayer l;
    l.keys = keys, l.rows = rows, l.heads = h.heads_kept(0);
    l.column_sum = fill.operator()<float>(kept * keys), l.column_square = fill.operator()<float>(kept * keys), l.column_max = fill.operator()<float>(kept * keys);
    l.column_count = fill.operator()<uint32_t>(kept * keys), l.last_row = fill.operator()<float>(kept * keys);
    l.window_sum = fill.operator()<float>(2 * kept * keys), l.window_count = fill.operator()<uint32_t>(2 * kept * keys);
    l.row_argmax = fill.operator()<uint32_t>(kept * rows, keys), l.row_max = fill.operator()<float>(kept * rows), l.row_lse = fill.operator()<float>(kept * rows);
    l.row_entropy = fill.operator()<float>(kept * rows), l.output_norm = fill.operator()<float>(kept * rows), l.value_norm = fill.operator()<float>(rows);
    l.residual_cosine = fill.operator()<float>(rows);
    t.token_stats = {l};
    t.residual.pass_begin = {t.executed_begin}, t.residual.pass_rows = {rows};
    t.residual.median = fill.operator()<float>(2), t.residual.massive = fill.operator()<uint32_t>(2), t.residual.peak = fill.operator()<float>(6);
    t.residual.peak_slot = fill.operator()<uint32_t>(6, keys), t.residual.peak_dimension = fill.operator()<uint32_t>(6);
    t.row_mass = {{0, fill.operator()<float>(t.answer_rows() * (heads_apart ? kept : 1) * t.layout.size())}};
    t.pair_mass = {{0, fill.operator()<float>(3 * t.query_leaves.size() * t.layout.size())}};
    t.keys = {{0, false, fill.operator()<uint16_t>(rows * 2)}};
    t.values = {{0, true, fill.operator()<uint16_t>(rows * 2)}};
  }
  return s;
}

using Parts = std::vector<std::pair<std::string, std::string>>;  // kind, its bytes; absent: nothing of that kind
Parts parts_of(const TurnRecord& t) {
  Parts out;
  std::string bytes;
  const auto list = [&](const auto& v) {
    const uint64_t n = v.size();
    bytes.append(reinterpret_cast<const char*>(&n), sizeof n);
    if (n) bytes.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
  };
  const auto done = [&](const char* kind) {
    if (!bytes.empty()) out.emplace_back(kind, std::move(bytes));
    bytes.clear();
  };
  for (const TokenStatLayer& l : t.token_stats) {
    list(std::vector<uint32_t>{l.layer, l.keys, l.rows}), list(l.heads), list(l.column_sum), list(l.column_square), list(l.column_max), list(l.column_count);
    list(l.last_row), list(l.window_sum), list(l.window_count), list(l.row_argmax), list(l.row_max), list(l.row_lse), list(l.row_entropy);
    list(l.output_norm), list(l.value_norm), list(l.residual_cosine);
  }
  done("tokenstat");
  if (t.residual.passes()) {
    list(t.residual.pass_begin), list(t.residual.pass_rows), list(t.residual.median), list(t.residual.massive), list(t.residual.peak);
    list(t.residual.peak_slot), list(t.residual.peak_dimension);
  }
  done("residual");
  for (const RowMassLayer& l : t.row_mass) list(std::vector<uint32_t>{l.layer}), list(l.mass);
  done("rows");
  for (const PairLayer& l : t.pair_mass) list(std::vector<uint32_t>{l.layer}), list(l.mass);
  done("pairs");
  for (const CacheLayer& l : t.keys) list(std::vector<uint32_t>{l.layer, l.bf16}), list(l.data);
  done("keys");
  for (const CacheLayer& l : t.values) list(std::vector<uint32_t>{l.layer, l.bf16}), list(l.data);
  done("values");
  return out;
}

// Whether nothing is missing; what is there is what was written.
bool right(const SessionData& s, const SessionData& original) {
  bool all = s.turns.size() == original.turns.size();
  for (const TurnRecord& t : s.turns) {
    const TurnRecord& was = original.turns[t.turn];
    REQUIRE(image(t) == image(was));
    const Parts expected = parts_of(was);
    for (const auto& part : parts_of(t)) REQUIRE(std::find(expected.begin(), expected.end(), part) != expected.end());
    all = all && parts_of(t).size() == expected.size();
  }
  return all;
}

}  // namespace

TEST_CASE("details come back bit by bit, and only when they are asked for") {
  for (const bool apart : {false, true})
    for (const bool chosen : {false, true}) {
      INFO("heads apart " << apart << ", chosen " << chosen);
      const Scratch scratch;
      const SessionData data = detailed(apart, chosen);
      const auto reader = open_bytes(session_bytes(scratch, data, true));
      const auto whole = load_session(*reader, true), views = load_session(*reader);
      REQUIRE(whole);
      REQUIRE(views);
      CHECK(right(**whole, data));
      CHECK(parts_of((*whole)->turns[0]).size() == 6);
      CHECK((*whole)->header.kept_heads == data.header.kept_heads);
      CHECK((*whole)->header.rows == data.header.rows);
      CHECK((*whole)->header.keys == data.header.keys);
      CHECK((*whole)->header.stat_windows == data.header.stat_windows);
      for (size_t t = 0; t < 2; ++t) {
        CHECK(image((*views)->turns[t]) == image(data.turns[t]));
        CHECK(parts_of((*views)->turns[t]).empty());
      }
      const auto lazy = LazySession::open(reader);
      REQUIRE(lazy);
      const auto turn = (*lazy)->turn_with_details(1);
      REQUIRE(turn);
      CHECK(parts_of(**turn) == parts_of(data.turns[1]));
      CHECK(parts_of(**(*lazy)->turn(1)).empty());
    }
}

TEST_CASE("details, every bit: what is read is right, what is not is named, and views are not touched") {
  const Scratch scratch;
  const SessionData data = detailed(true, false);
  for (const bool finish : {true, false}) {
    const Bytes bytes = session_bytes(scratch, data, finish);
    size_t detail_lost = 0;
    for (size_t bit = 0; bit < bytes.size() * 8; bit += exhaustive() ? 1 : 61) {
      INFO("bit " << bit % 8 << " of byte " << bit / 8 << " of " << bytes.size() << (finish ? "" : ", unfinished"));
      Bytes flipped = bytes;
      flipped[bit / 8] = uint8_t(flipped[bit / 8] ^ (1u << (bit % 8)));
      const auto reader = SessionReader::from_bytes(flipped, "flipped");
      if (!reader) continue;
      const auto s = load_session(**reader, true);
      if (!s) continue;
      if (!right(**s, data)) {
        REQUIRE(has_loss((*s)->findings));
        detail_lost += (*s)->turns.size() == data.turns.size();
      }
      // Without details the same file has the same views.
      const auto views = load_session(**reader);
      REQUIRE(views);
      REQUIRE((*views)->turns.size() >= (*s)->turns.size());
    }
    CHECK(detail_lost > 0);  // some flips cost details only
  }
}

TEST_CASE("details whose frames are missing, repeated or of another shape are left out with a finding") {
  const Scratch scratch;
  const SessionData data = detailed(false, false);
  const auto reader = open_bytes(session_bytes(scratch, data, true));
  const std::vector<std::string> kinds = {"tokenstat", "residual", "rows", "pairs", "keys", "values"};
  enum class Harm { none, drop, repeat, layer, shape };
  const auto harmed = [&](const std::string& kind, Harm harm) {
    const std::string path = scratch.file("harmed.span");
    auto writer = SessionWriter::create(path, true);
    REQUIRE(writer);
    for (size_t i = 0; i < reader->frames().size(); ++i) {
      const FrameInfo& f = reader->frames()[i];
      auto blob = reader->frame(i);
      REQUIRE(blob);
      const bool meant = f.kind == kind && f.turn == 0;
      if (meant && harm == Harm::drop) continue;
      if (meant && harm == Harm::layer) blob->metadata["layer"] = "7";
      if (meant && harm == Harm::shape) {
        Tensor& tensor = blob->tensors.back();
        tensor.shape = {0}, tensor.data.clear();
      }
      for (int n = 0; n < (meant && harm == Harm::repeat ? 2 : 1); ++n) REQUIRE((*writer)->append({f.kind, f.version, f.turn}, *blob));
    }
    REQUIRE((*writer)->finish());
    auto s = load_session(path, true);
    REQUIRE(s);
    return *s;
  };
  CHECK(right(*harmed("", Harm::none), data));
  for (const std::string& kind : kinds)
    for (const Harm harm : {Harm::drop, Harm::repeat, Harm::layer, Harm::shape}) {
      INFO(kind << ", harm " << int(harm));
      if (harm == Harm::layer && kind == "residual") continue;  // it has no layer
      const auto s = harmed(kind, harm);
      REQUIRE(s->turns.size() == 2);
      right(*s, data);
      const Parts parts = parts_of(s->turns[0]);
      const bool there = std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p.first == kind; });
      CHECK(has_loss(s->findings));
      // A repeated frame is refused; the first one stays what it was.
      CHECK(there == (harm == Harm::repeat));
      CHECK(parts_of(s->turns[1]) == parts_of(data.turns[1]));
    }
}

TEST_CASE("redaction keeps numbers about places, not keys and values") {
  const Scratch scratch;
  const SessionData data = detailed(false, false);
  const std::string from = scratch.file("from.span"), to = scratch.file("to.span");
  write_bytes(from, session_bytes(scratch, data, true));
  const auto report = redact_session(from, to, Redaction::text, false);
  REQUIRE(report);
  CHECK(report->left_out.at("keys") == 2);
  CHECK(report->left_out.at("values") == 2);
  const auto s = load_session(to, true);
  REQUIRE(s);
  for (const Finding& f : (*s)->findings) INFO(f.tag << ": " << f.message);
  CHECK(!has_loss((*s)->findings));
  REQUIRE((*s)->turns.size() == 2);
  const Parts parts = parts_of((*s)->turns[0]), expected = parts_of(data.turns[0]);
  CHECK(parts == Parts(expected.begin(), expected.begin() + 4));
}
