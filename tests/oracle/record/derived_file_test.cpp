// SPDX-License-Identifier: GPL-3.0-or-later
// The whole way: model file, engine, recorder, file, reader. Both paths, several pass sizes, against the reference numbers.
#include "tests/oracle/record/derived_check.h"
#include "tests/oracle/record/record_file.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

void check_closing(const SessionData& s) {
  // A reader of an unfinished session replays the recurrence; both must agree.
  REQUIRE(s.finished);
  const size_t spans = s.ledger.spans.size();
  const RowSet sets[] = {RowSet::answer, RowSet::all, RowSet::consumer};
  REQUIRE(s.closing.ema_n.size() == 3 * spans);
  for (size_t r = 0; r < 3; ++r) {
    const Recurrence replayed = replay_recurrence(s, sets[r], s.header.lambda, s.turns.back().turn);
    for (size_t i = 0; i < spans; ++i) {
      const size_t k = r * spans + i;
      CHECK(s.closing.ema_n[k] == replayed.ema[i].n);
      CHECK(s.closing.ema_triples[k] == replayed.ema[i].triples);
      CHECK(s.closing.ema_sink[k] == replayed.ema[i].sink);
      CHECK(s.closing.ema_u[k] == replayed.ema[i].u);
      CHECK(s.closing.sum_n[k] == replayed.cumulative[i].n);
      CHECK(s.closing.sum_triples[k] == replayed.cumulative[i].triples);
      CHECK(s.closing.sum_sink[k] == replayed.cumulative[i].sink);
      CHECK(s.closing.sum_u[k] == replayed.cumulative[i].u);
    }
  }
}

void record_and_check(const std::string& family, const std::string& path, uint32_t pass_rows, unsigned threads) {
  INFO(family << ", " << path << " path, passes of " << pass_rows << ", threads " << threads);
  const auto d = load_derived(family);
  const auto model = oracle("tiny/" + family + "/model.gguf");
  if (!d || !model) return;
  auto backend = backend_of(*model, path, threads);
  auto replay = take(make_ids_replay("", d->spans_json, family));
  RecordRequest request;
  request.recorder.routing = true;
  request.pass_rows = pass_rows;
  const Recorded r = record_to_file(*backend, *replay, nullptr, {}, request, family + ".span");
  CHECK(r.session->findings.empty());
  CHECK(r.session->header.routing == (family == "mixtral"));
  check_session(*r.session, *d);
  check_session(*r.outcome.session, *d);
  check_closing(*r.session);
}

}  // namespace

TEST_CASE("recorded, closed and reopened: the reference path gives the reference numbers") {
  for (const char* family : {"llama-gqa", "mixtral"})
    for (uint32_t rows : {512u, 7u, 1u}) record_and_check(family, "reference", rows, 1);
}

TEST_CASE("recorded, closed and reopened: the fast path gives the reference numbers") {
  for (const char* family : {"llama-gqa", "mixtral"})
    for (uint32_t rows : {512u, 7u, 1u}) record_and_check(family, "fast", rows, 2);
}
