// SPDX-License-Identifier: GPL-3.0-or-later
// What a session keeps beyond span and head detail, from the closed, reopened file: token statistics (R1-R9) and span-to-span
// mass (R7) against the reference data, rows against derived/<family>, and what must agree with what.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/half.h"
#include "tests/oracle/record/derived_check.h"
#include "tests/oracle/record/record_file.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Reductions {
  OrderedJson json;
  Blob blob;
  std::string model;
  std::vector<double> f64(const std::string& name) const { return take(blob.get<double>(name)); }
  std::vector<double> i32(const std::string& name) const {
    const auto v = take(blob.get<int32_t>(name));
    return {v.begin(), v.end()};
  }
};

std::optional<Reductions> load_reductions(const std::string& family) {
  if (!have_full_oracles()) {
    std::cout << "SKIPPED: no reference data for derived/reductions\n";
    return {};
  }
  const std::string base = "derived/reductions/" + family + "/reductions";
  const std::string path = *oracle(base + ".json");
  return Reductions{take(parse_json(take(read_file(path)), path)), take(read_safetensors_file(*oracle(base + ".safetensors"))),
                    *oracle("tiny/" + family + "/model.gguf")};
}

// The prompt as open turns of the given borders, with the reference data's leaves; a turn shows the leaves that it reaches.
std::string spans_of(const Reductions& d, const std::vector<uint32_t>& borders) {
  OrderedJson out = {{"tokens", d.json["tokens"]}, {"spans", OrderedJson::array()}, {"turns", OrderedJson::array()}};
  // A leaf that grows over a border stands there as two: turns end where they like, leaves are laid out anew.
  std::vector<std::pair<uint32_t, uint32_t>> leaves;
  for (const auto& leaf : d.json["leaves"]) {
    uint32_t at = leaf[1], end = uint32_t(leaf[1]) + uint32_t(leaf[2]);
    for (uint32_t border : borders)
      if (border > at && border < end) leaves.emplace_back(at, border - at), at = border;
    leaves.emplace_back(at, end - at);
  }
  for (size_t i = 0; i < leaves.size(); ++i)
    out["spans"].push_back({{"id", i}, {"kind", i == 0 ? "sink" : "content"}, {"tokens", leaves[i].second}});
  uint32_t begin = 0;
  for (size_t t = 0; t < borders.size(); ++t) {
    OrderedJson rows = OrderedJson::array(), layout = OrderedJson::array();
    for (uint32_t row = begin; row < borders[t]; ++row) rows.push_back(row);
    for (size_t i = 0; i < leaves.size() && leaves[i].first < borders[t]; ++i)
      layout.push_back({{"span", i}, {"slot", leaves[i].first}, {"len", leaves[i].second}});
    out["turns"].push_back({{"turn", t + 1}, {"context", borders[t]}, {"executed", {begin, borders[t]}}, {"answer_tokens", nullptr},
                            {"prompt_rows", rows}, {"layout", layout}});
    begin = borders[t];
  }
  return out.dump();
}

void near(const char* name, const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  INFO(name);
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(got[i] - expected[i]) / std::max(std::fabs(expected[i]), 1.0);
    if (!(difference <= worst)) worst = difference;
  }
  CHECK(worst <= tolerance);
}

void exact(const char* name, const std::vector<double>& got, const std::vector<double>& expected, const std::vector<double>& margin) {
  INFO(name);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (margin[i] >= 1e-5) REQUIRE(got[i] == expected[i]);
}

// One number a (layer, head, key), put together from all turns.
template <class Get, class Fold>
std::vector<double> columns(const SessionData& s, uint32_t n, Get get, Fold fold) {
  std::vector<double> out(size_t(s.header.layers) * s.header.query_heads * n, 0);
  for (const TurnRecord& turn : s.turns)
    for (const TokenStatLayer& l : turn.token_stats)
      for (size_t h = 0; h < l.heads.size(); ++h)
        for (uint32_t k = 0; k < l.keys; ++k) {
          double& to = out[(size_t(l.layer) * s.header.query_heads + l.heads[h]) * n + k];
          to = fold(to, double(get(l)[h * l.keys + k]));
        }
  return out;
}
// One number a (layer, line, row).
template <class Get>
std::vector<double> of_rows(const SessionData& s, uint32_t n, size_t lines, Get get) {
  std::vector<double> out(size_t(s.header.layers) * lines * n, 0);
  for (const TurnRecord& turn : s.turns)
    for (const TokenStatLayer& l : turn.token_stats)
      for (size_t h = 0; h < lines; ++h)
        for (uint32_t r = 0; r < l.rows; ++r) out[(l.layer * lines + h) * n + turn.executed_begin + r] = double(get(l)[h * l.rows + r]);
  return out;
}

double plus(double a, double b) { return a + b; }
double larger(double a, double b) { return std::max(a, b); }
double second(double, double b) { return b; }

void check_reductions(const std::string& family, const std::string& path, uint32_t pass_rows, const std::vector<uint32_t>& borders) {
  const auto d = load_reductions(family);
  if (!d) return;
  INFO(family << ", " << path << " path, passes of " << pass_rows << ", " << borders.size() << " turns");
  auto backend = backend_of(d->model, path, path == "fast" ? 2 : 1);
  auto replay = take(make_ids_replay("", spans_of(*d, borders), family));
  RecordRequest request;
  request.recorder.heads = request.recorder.tokens = request.recorder.pairs = true;
  request.recorder.stat_windows = {8, 16};
  request.pass_rows = pass_rows;
  const Recorded r = record_to_file(*backend, *replay, nullptr, {}, request, family + "-token.span");
  const SessionData& s = *r.session;
  CHECK(s.findings.empty());
  CHECK(s.header.detail == "token");
  CHECK(s.header.stat_windows == std::vector<uint32_t>{8, 16});
  REQUIRE(s.turns.size() == borders.size());
  CHECK(r.outcome.session->turns.back().token_stats.empty());  // the file has them
  const uint32_t n = borders.back();

  near("R1", columns(s, n, [](const auto& l) { return l.column_sum.data(); }, plus), d->f64("R1.colsum"), 1e-5);
  near("R4 squares", columns(s, n, [](const auto& l) { return l.column_square.data(); }, plus), d->f64("R4.colsq"), 1e-5);
  near("R4 maxima", columns(s, n, [](const auto& l) { return l.column_max.data(); }, larger), d->f64("R4.colmax"), 1e-5);
  near("R3", columns(s, n, [](const auto& l) { return l.last_row.data(); }, second), d->f64("R3.last"), 1e-5);
  const auto margin = d->f64("R5.margin");
  exact("R5", columns(s, n, [](const auto& l) { return l.column_count.data(); }, plus), d->i32("R5.cnt"), margin);
  for (size_t w = 0; w < 2; ++w) {
    // The windows of the last turn: it has more rows than they have.
    const std::string name = w ? "_w16" : "_w8";
    const auto at = [&](const auto& l, const auto& all) { return all.data() + w * l.heads.size() * l.keys; };
    near("R2", columns(s, n, [&](const auto& l) { return at(l, l.window_sum); }, second), d->f64("R2.wincol" + name), 1e-5);
    exact("R5 of windows", columns(s, n, [&](const auto& l) { return at(l, l.window_count); }, second), d->i32("R5.cnt" + name), margin);
  }
  const size_t heads = s.header.query_heads;
  exact("R6 argmax", of_rows(s, n, heads, [](const auto& l) { return l.row_argmax.data(); }), d->i32("R6.argmax"), d->f64("R6.argmax_margin"));
  near("R6 largest", of_rows(s, n, heads, [](const auto& l) { return l.row_max.data(); }), d->f64("R6.pmax"), 1e-5);
  near("R6 log-sum-exp", of_rows(s, n, heads, [](const auto& l) { return l.row_lse.data(); }), d->f64("R6.lse"), 2e-5);
  near("R6 entropy", of_rows(s, n, heads, [](const auto& l) { return l.row_entropy.data(); }), d->f64("R6.entropy"), 2e-5);
  near("R8 outputs", of_rows(s, n, heads, [](const auto& l) { return l.output_norm.data(); }), d->f64("R8.fnorm"), 1e-5);
  near("R8 values", of_rows(s, n, s.header.kv_heads, [](const auto& l) { return l.value_norm.data(); }), d->f64("R8.vnorm"), 1e-5);
  near("R9 cosine", of_rows(s, n, 1, [](const auto& l) { return l.residual_cosine.data(); }), d->f64("R9.cos_token"), 1e-5);

  if (borders.size() == 3) {  // R1 by chunk: a turn each
    const auto chunk = d->f64("R1.chunk");
    const size_t each = chunk.size() / 3;
    for (size_t t = 0; t < 3; ++t) {
      SessionData one = s;
      one.turns = {s.turns[t]};
      near("R1 of a turn", columns(one, n, [](const auto& l) { return l.column_sum.data(); }, plus),
           {chunk.begin() + ptrdiff_t(t * each), chunk.begin() + ptrdiff_t((t + 1) * each)}, 1e-5);
    }
    return;
  }
  // One turn: R7 over heads, and, when it was one pass, the whole residual stream.
  const TurnRecord& turn = s.turns[0];
  const size_t leaves = turn.layout.size(), q = turn.query_leaves.size();
  REQUIRE(q == leaves);
  const auto pairs = d->f64("R7.M");
  REQUIRE(turn.pair_mass.size() == s.header.layers);
  for (const PairLayer& l : turn.pair_mass) {
    std::vector<double> expected(leaves * leaves, 0), got(leaves * leaves);
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += pairs[(l.layer * heads + h) * leaves * leaves + i];
    for (size_t i = 0; i < got.size(); ++i) got[i] = l.mass[i];  // prompt rows come first
    near("R7", got, expected, 1e-5);
  }
  if (pass_rows < n) return;
  const auto median = d->f64("R9.hmed"), top = d->f64("R9.top3"), top_at = d->i32("R9.top3_at"), massive = d->i32("R9.massive");
  REQUIRE(turn.residual.passes() == 1);
  for (size_t l = 0; l <= s.header.layers; ++l) {
    CHECK(std::fabs(turn.residual.median[l] - median[l]) <= 1e-5 * std::max(1.0, median[l]));
    CHECK(turn.residual.massive[l] == uint32_t(massive[l]));
    for (size_t p = 0; p < 3; ++p) {
      CHECK(std::fabs(turn.residual.peak[l * 3 + p] - top[l * 3 + p]) <= 2e-4);
      CHECK(turn.residual.peak_slot[l * 3 + p] == uint32_t(top_at[(l * 3 + p) * 2]));
      CHECK(turn.residual.peak_dimension[l * 3 + p] == uint32_t(top_at[(l * 3 + p) * 2 + 1]));
    }
  }
}

Recorded record_family(const std::string& family, const Derived& d, const std::string& path, const RecordRequest& request) {
  auto backend = backend_of(*oracle("tiny/" + family + "/model.gguf"), path, 2);
  auto replay = take(make_ids_replay("", d.spans_json, family));
  return record_to_file(*backend, *replay, nullptr, {}, request, family + "-detail.span");
}

}  // namespace

TEST_CASE("token statistics and span-to-span mass from the file equal the reference data") {
  for (const char* family : {"llama-gqa", "mixtral"})
    for (const char* path : {"reference", "fast"})
      for (uint32_t rows : {512u, 5u, 1u}) {
        check_reductions(family, path, rows, {48});
        check_reductions(family, path, rows, {17, 31, 48});
      }
}

TEST_CASE("rows, pairs and head profiles from the file agree with the reference data and with each other") {
  for (const char* family : {"llama-gqa", "mixtral"}) {
    const auto d = load_derived(family);
    if (!d) continue;
    for (const char* path : {"reference", "fast"}) {
      INFO(family << ", " << path);
      RecordRequest request;
      request.recorder.heads = request.recorder.tokens = request.recorder.pairs = true;
      request.recorder.rows = RowDetail::heads;
      request.pass_rows = 7;
      const Recorded by_head = record_family(family, *d, path, request);
      request.recorder.rows = RowDetail::layers;
      const Recorded by_layer = record_family(family, *d, path, request);
      check_session(*by_head.session, *d, true);  // and nothing else changed
      for (size_t t = 0; t < by_head.session->turns.size(); ++t) {
        INFO("turn " << t + 1);
        const TurnRecord &apart = by_head.session->turns[t], &summed = by_layer.session->turns[t];
        const size_t leaves = apart.layout.size(), answers = apart.answer_rows(), heads = by_head.session->header.query_heads,
                     layers = by_head.session->header.layers, spans = by_head.session->ledger.spans.size();
        REQUIRE(apart.row_mass.size() == layers);
        REQUIRE(summed.row_mass.size() == layers);
        const auto reference = d->f64("t0" + std::to_string(t + 1) + ".row_mass");  // [answer rows][layers][spans]
        Comparison c;
        for (size_t l = 0; l < layers; ++l)
          for (size_t row = 0; row < answers; ++row) {
            double all = 0;
            for (size_t k = 0; k < leaves; ++k) {
              double sum = 0;
              for (size_t h = 0; h < heads; ++h) sum += apart.row_mass[l].mass[(row * heads + h) * leaves + k];
              const double ours = summed.row_mass[l].mass[row * leaves + k];
              c.value(at("heads of a row", l, row, k), sum, ours, 1e-6);
              c.value(at("row_mass", row, l, k), ours, reference[(row * layers + l) * spans + apart.layout[k].leaf]);
              all += ours;
            }
            c.value(at("a row gives its heads", l, row), all, double(heads));  // D3; these two have no learned sink
          }
        // Pairs over layers are the turn's span-to-span mass.
        const size_t q = apart.query_leaves.size();
        for (size_t i = 0; i < 3 * q * leaves; ++i) {
          double sum = 0;
          for (const PairLayer& l : apart.pair_mass) sum += l.mass[i];
          c.value(at("pairs", i), sum, apart.mass_qk[i], 1e-6);
        }
        // Column sums over a leaf's keys are its mass from prompt and answer rows: what all its query leaves gave it.
        for (size_t k = 0; k < leaves; ++k) {
          double columns = 0, mass = 0;
          for (const TokenStatLayer& l : apart.token_stats)
            for (size_t h = 0; h < l.heads.size(); ++h)
              for (Slot slot = apart.layout[k].slot; slot < std::min<Slot>(apart.layout[k].slot + apart.layout[k].len, l.keys); ++slot)
                columns += l.column_sum[h * l.keys + slot];
          for (size_t p = 0; p < 2; ++p)
            for (size_t i = 0; i < q; ++i) mass += apart.mass_qk[(p * q + i) * leaves + k];
          c.value(at("columns of a leaf", k), columns, mass);
        }
        c.finish(family);
      }
    }
  }
}

TEST_CASE("chosen heads: what is kept is what a full recording holds for them, and nothing else is") {
  const auto d = load_derived("llama-gqa");
  if (!d) return;
  RecordRequest request;
  request.recorder.heads = request.recorder.tokens = request.recorder.pairs = true;
  request.recorder.rows = RowDetail::heads;
  const Recorded full = record_family("llama-gqa", *d, "fast", request);
  const SessionHeader& h = full.session->header;
  request.recorder.kept_heads.assign(size_t(h.layers) * h.query_heads, 0);
  const std::set<uint32_t> chosen = {1, 3, 2 * h.query_heads};  // 0.1, 0.3, 2.0
  for (uint32_t pair : chosen) request.recorder.kept_heads[pair] = 1;
  const Recorded some = record_family("llama-gqa", *d, "fast", request);
  CHECK(some.session->findings.empty());
  CHECK(some.session->header.kept_heads == request.recorder.kept_heads);
  CHECK(some.session->header.layers_kept() == std::vector<uint32_t>{0, 2});
  for (size_t t = 0; t < full.session->turns.size(); ++t) {
    INFO("turn " << t + 1);
    const TurnRecord &a = full.session->turns[t], &b = some.session->turns[t];
    CHECK(a.mass_qk == b.mass_qk);  // span detail is whatever it was
    CHECK(a.events.mass == b.events.mass);
    const size_t line = 2 * a.profile_spans.size();
    std::vector<float> expected;
    for (uint32_t pair : chosen) expected.insert(expected.end(), a.head_mass.begin() + ptrdiff_t(pair * line), a.head_mass.begin() + ptrdiff_t((pair + 1) * line));
    CHECK(b.head_mass == expected);
    REQUIRE(b.token_stats.size() == 2);
    for (const TokenStatLayer& l : b.token_stats) {
      const TokenStatLayer& whole = a.token_stats[l.layer];
      CHECK(l.heads == some.session->header.heads_kept(l.layer));
      CHECK(l.value_norm == whole.value_norm);
      CHECK(l.residual_cosine == whole.residual_cosine);
      for (size_t i = 0; i < l.heads.size(); ++i)
        for (uint32_t k = 0; k < l.keys; ++k) {
          CHECK(l.column_sum[i * l.keys + k] == whole.column_sum[size_t(l.heads[i]) * l.keys + k]);
          CHECK(l.column_count[i * l.keys + k] == whole.column_count[size_t(l.heads[i]) * l.keys + k]);
        }
    }
    REQUIRE(b.row_mass.size() == 2);
    const size_t leaves = a.layout.size();
    for (const RowMassLayer& l : b.row_mass) {
      const auto kept = some.session->header.heads_kept(l.layer);
      REQUIRE(l.mass.size() == b.answer_rows() * kept.size() * leaves);
      for (size_t row = 0; row < b.answer_rows(); ++row)
        for (size_t i = 0; i < kept.size(); ++i)
          for (size_t k = 0; k < leaves; ++k)
            CHECK(l.mass[(row * kept.size() + i) * leaves + k] == a.row_mass[l.layer].mass[(row * h.query_heads + kept[i]) * leaves + k]);
    }
    REQUIRE(b.pair_mass.size() == 2);
    for (const PairLayer& l : b.pair_mass) CHECK(l.mass == a.pair_mass[l.layer].mass);
  }
}
