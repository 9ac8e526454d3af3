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

// `file`: "model.gguf" or the Hugging Face folder "hf".
void record_and_check(const std::string& family, const std::string& path, uint32_t pass_rows, unsigned threads,
                      const std::string& file = "model.gguf") {
  INFO(family << "/" << file << ", " << path << " path, passes of " << pass_rows << ", threads " << threads);
  const auto d = load_derived(family);
  const auto model = oracle("tiny/" + family + "/" + file);
  if (!d || !model) return;
  auto backend = backend_of(*model, path, threads);
  auto replay = take(make_ids_replay("", d->spans_json, family));
  RecordRequest request;
  request.recorder.routing = true;
  request.recorder.heads = pass_rows != 512;  // with head detail and without
  request.pass_rows = pass_rows;
  const Recorded r = record_to_file(*backend, *replay, nullptr, {}, request, family + ".span");
  CHECK(r.session->findings.empty());
  for (const TurnRecord& turn : r.session->turns) CHECK(turn.head_mass.empty() != request.recorder.heads);
  CHECK(r.session->header.routing == (family == "mixtral" || family == "gpt-oss"));
  check_session(*r.session, *d, true);
  check_session(*r.outcome.session, *d, false);
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

TEST_CASE("windows, learned sinks and local rotation, recorded by the engine itself") {
  if (!have_full_oracles()) {
    std::cout << "SKIPPED: no reference data for derived/mistral, gpt-oss and gemma3-text\n";
    return;
  }
  // The window of mistral is in the folder's configuration only.
  const std::pair<const char*, const char*> models[] = {
      {"mistral", "hf"}, {"gpt-oss", "hf"}, {"gpt-oss", "model.gguf"}, {"gemma3-text", "hf"}, {"gemma3-text", "model.gguf"}};
  for (const auto& [family, file] : models)
    for (uint32_t rows : {512u, 7u, 1u}) {
      record_and_check(family, "reference", rows, 1, file);
      record_and_check(family, "fast", rows, 2, file);
    }
}
