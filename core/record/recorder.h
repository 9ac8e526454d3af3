// SPDX-License-Identifier: GPL-3.0-or-later
// Records turns: makes the RecordPlan of every pass, takes the LayerRecords in, keeps each head's habit, closes the turn
// (conservation, events, spike, profiles) and writes its frames. Thread: the engine thread.
#pragma once
#include <memory>

#include "core/base/result.h"
#include "core/file/session_writer.h"
#include "core/model/backend.h"
#include "core/record/session_data.h"
#include "core/span/replay.h"

namespace spanscope {

struct RecorderOptions {
  float theta_rec = 0.20f, factor = 3.0f, cap = 0.90f;
  uint32_t habit_min_rows = 8;
  double lambda = 0.9;
  bool routing = false;
  bool heads = false;  // head detail: each head's profile, [layers][query heads][answer, consumer][spans]
  // Beyond span detail, for the heads that kept_heads names (see SessionHeader) and their layers:
  bool tokens = false;  // token statistics
  std::vector<uint32_t> stat_windows = {32};  // at most kMaxStatWindows
  RowDetail rows = RowDetail::none;
  bool pairs = false;
  KeyDetail keys = KeyDetail::none;  // needs a cache with originals
  bool values = false;
  std::vector<uint8_t> kept_heads;   // [layers][query heads], empty: all
  bool text = true;
  uint64_t max_events = uint64_t(1) << 20;  // of a turn; the strongest stay
  double conservation = 1e-5;  // relative; 1e-3 for half-precision score kernels (D3)
};

class Recorder : public RecordSink {
 public:
  Recorder(const Recipe& recipe, RecorderOptions options);
  ~Recorder() override;

  void begin_turn(const TurnPlan& plan, const Ledger& ledger);
  // The plan for the next pass over slots [begin, end) with their phases; end - begin <= kMaxPlannedRows, and a pass never
  // crosses the first answer row (the habit is taken there). Valid until the next call.
  const RecordPlan& plan_pass(Slot begin, Slot end, const std::vector<RowPhase>& phases);
  void on_layer(const LayerRecord& record) override;
  // What the pass that was planned last should reduce per token; null without token detail.
  const TokenStatsPlan* token_plan() const;
  TokenStatsSink* token_sink();
  // Before close_turn: keys and values of the turn's rows, when they are kept. Errors: those of Cache::read_keys.
  Status take_cache(const Cache& cache, const TurnPlan& plan);
  // Sums up the turn. `plan` is the final one (generation: with the real answer). Conservation violated: an error that
  // names turn, layer, head and row set. Rows that ran but are not in `plan`, or the other way round: SPAN-RECORDER.
  Result<TurnRecord> close_turn(const TurnPlan& plan, const Ledger& ledger);
  // The habit as of now (running): [layers][query heads][spans], for tests.
  std::vector<float> habit(size_t spans) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spanscope
