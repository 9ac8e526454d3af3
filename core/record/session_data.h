// SPDX-License-Identifier: GPL-3.0-or-later
// A recorded session in memory: what the recorder writes turn by turn and what every view, report and panel reads.
// Plain data, immutable once loaded, shared as shared_ptr<const SessionData>. Everything derived (units, reads at another
// strength, dead weight) is computed from it: units.h, reads.h.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/model/record_plan.h"
#include "core/span/span.h"

namespace spanscope {

// What is kept beyond span detail, besides head profiles (detail "head") and token statistics (detail "token").
enum class RowDetail : uint8_t { none, layers, heads };  // each answer row's mass per leaf: heads summed, or apart
enum class KeyDetail : uint8_t { none, first_layer, all };

struct SessionHeader {
  std::string program_version, session_id;
  std::string model_name, model_family, model_path, model_digest, weight_types, tokenizer_digest;
  uint32_t layers = 0, query_heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, vocab = 0;
  uint32_t experts = 0, experts_used = 0;
  std::vector<uint32_t> window;   // [layers], 0 = none
  std::vector<uint8_t> moe_layer; // [layers]
  std::string backend;            // "cpu fast", and threads
  uint32_t threads = 1;
  std::string detail = "span";
  bool routing = false, has_text = true;
  RowDetail rows = RowDetail::none;
  bool pairs = false, values = false;
  KeyDetail keys = KeyDetail::none;
  // [layers][query heads] 1: what is kept beyond span detail is kept for this head, and for its layer; empty: all.
  std::vector<uint8_t> kept_heads;
  std::vector<uint32_t> stat_windows;  // rows of each window of the token statistics, with token detail
  float theta_rec = 0.20f, factor = 3.0f, cap = 0.90f;
  double lambda = 0.9;
  uint32_t habit_min_rows = 8;
  std::string source;             // the conversation's path as given
  std::string mode;               // "replay", "generate", "ids"
  std::string redacted;           // "text" or "names" when it was made by redaction; else empty
  std::vector<std::pair<std::string, std::string>> knobs;  // environment variables that were set
  bool keeps_head(uint32_t layer, uint32_t head) const {
    return kept_heads.empty() || kept_heads[size_t(layer) * query_heads + head];
  }
  bool keeps_layer(uint32_t layer) const {
    for (uint32_t h = 0; h < query_heads; ++h)
      if (keeps_head(layer, h)) return true;
    return false;
  }
  std::vector<uint16_t> heads_kept(uint32_t layer) const;  // ascending
  std::vector<uint32_t> layers_kept() const;               // ascending
  std::vector<uint32_t> pairs_kept() const;                // layer * query_heads + head, ascending: what head_mass has
  uint32_t read_min() const {     // definitions D5
    const uint32_t n = (layers * query_heads + 99) / 100;
    return n < 2 ? 2 : n;
  }
};

struct EventColumns {  // sorted by (row, leaf, layer, head); row = absolute position, leaf = span id
  std::vector<uint32_t> row, leaf;
  std::vector<uint16_t> layer, head;
  std::vector<float> mass, habit;
  size_t size() const { return row.size(); }
};

inline constexpr float kDisplayTheta = 0.30f;  // the line at which reads are shown unless somebody drags it (D5)

struct DroppedColumns {  // sorted by (leaf, layer, head)
  std::vector<uint32_t> leaf;
  std::vector<uint16_t> layer, head;
  std::vector<uint32_t> count, above_display;
  size_t size() const { return leaf.size(); }
};

inline constexpr uint16_t kNoExpert = 0xffff;  // in RoutingColumns::ids: dropped by gc, weights and margin are NaN

struct RoutingColumns {  // rows = executed slots of the turn, in order
  uint32_t layers = 0, experts_used = 0;  // MoE layers only
  std::vector<uint16_t> ids;      // [MoE layers][rows][K], selection order
  std::vector<float> weights;     // [MoE layers][rows][K]
  std::vector<float> margin;      // [MoE layers][rows]
  bool empty() const { return ids.empty(); }
};

// Token statistics of one layer (core/model/token_stats.h says what each number is): sums over the turn's prompt and
// answer rows, in passes of any size. Keys: slots [0, keys) of the turn's context. Rows: executed slots, recompute too.
struct TokenStatLayer {
  uint32_t layer = 0, keys = 0, rows = 0;
  std::vector<uint16_t> heads;             // [H] query heads kept
  std::vector<float> column_sum, column_square, column_max;  // [H][keys]
  std::vector<uint32_t> column_count;      // [H][keys]
  // Of the last header.stat_windows[w] prompt and answer rows up to the row that predicts the answer's first token (an
  // open turn: its last rows), as far as they ran in this turn.
  std::vector<float> window_sum;           // [windows][H][keys]
  std::vector<uint32_t> window_count;      // [windows][H][keys]
  std::vector<float> last_row;             // [H][keys] of the turn's last row
  std::vector<uint32_t> row_argmax;        // [H][rows] slot
  std::vector<float> row_max, row_lse, row_entropy;  // [H][rows]
  std::vector<float> output_norm;          // [H][rows] of the key that the row wrote
  std::vector<float> value_norm;           // [kv heads][rows]
  std::vector<float> residual_cosine;      // [rows]
};

// The residual stream before each layer and behind the last, pass by pass: a median cannot be put together from parts.
struct ResidualColumns {
  std::vector<uint32_t> pass_begin, pass_rows;  // [passes] first slot, rows
  std::vector<float> median;               // [passes][layers + 1]
  std::vector<uint32_t> massive;           // [passes][layers + 1]
  std::vector<float> peak;                 // [passes][layers + 1][3]
  std::vector<uint32_t> peak_slot, peak_dimension;  // [passes][layers + 1][3]
  size_t passes() const { return pass_begin.size(); }
};

// The mass of each answer row on each leaf, in one layer: over all heads, or for each head kept.
struct RowMassLayer {
  uint32_t layer = 0;
  std::vector<float> mass;                 // [answer rows][S] or [answer rows][H][S]
};

// Span-to-span mass of one layer, over all heads.
struct PairLayer {
  uint32_t layer = 0;
  std::vector<float> mass;                 // [3 phases][Q][S]
};

// Keys before rotation, or values, of the executed slots, in one layer: 16-bit floats.
struct CacheLayer {
  uint32_t layer = 0;
  bool bf16 = false;                       // else f16; bf16 where a number is too large for f16
  std::vector<uint16_t> data;              // [kv heads][rows][head_dim]
};

struct TurnRecord {
  TurnId turn = 0;
  int32_t message = -1;
  bool open = false, cut = false, generated = false;
  uint32_t context = 0;                        // tokens in the context, answer included
  uint32_t executed_begin = 0, executed_end = 0;
  uint32_t answer_begin = 0, answer_len = 0;
  std::vector<uint8_t> phase;                  // [executed] RowPhase
  std::vector<LayoutEntry> layout;             // [S] leaves in slot order
  std::vector<SlotRange> kept;                 // slots of the turn before whose keys stayed; empty: [0, executed_begin)
  std::vector<SpanId> evicted;                 // leaves that left with this turn because the context was full
  std::vector<TokenId> new_ids;                // ids of slots [executed_begin, context); empty with --no-text
  std::vector<uint32_t> new_token_bytes;       // bytes per token, same slots
  std::string new_text;                        // their bytes
  std::vector<uint64_t> new_token_end;         // [new tokens] end of each in new_text; derived, see index_text()
  double seconds_prompt = 0, seconds_answer = 0;

  std::vector<SpanId> query_leaves;            // [Q] leaves that own rows of this turn, layout order
  std::vector<uint32_t> rows_q;                // [3 phases][Q]
  std::vector<float> mass_qk;                  // [3][Q][S] summed over layers and heads. NaN, here and in what follows:
                                               // dropped by gc (GcRecord)
  std::vector<float> uniform_qk;               // [3][Q][S] definitions D4, summed over layers and heads
  std::vector<float> gc_mass_qk;               // [3][Q] mass_qk of all leaves that gc dropped; empty: none
  std::vector<float> learned_sink, unattributed;  // [3][layers] summed over heads and rows
  std::vector<float> learned_sink_q;           // [3][Q] the learned sink by query leaf, over layers and heads; empty: none
  std::vector<SpanId> profile_spans;           // [P] resident leaves, then resident parents
  std::vector<float> layer_mass;               // [layers][answer, consumer][P] summed over heads
  std::vector<float> head_mass;                // [pairs_kept][answer, consumer][P]; empty: no head detail
  std::vector<float> spike;                    // [S] NaN: missing
  std::vector<uint16_t> spike_layer, spike_head;  // [S]
  std::vector<uint32_t> spike_row;             // [S] absolute position
  EventColumns events;
  // Beyond 2^20 events the weakest go, but their counts stay exact: per (leaf, layer, head) all of them and those above
  // the display line (kDisplayTheta). Reads at another theta below dropped_most are "at least".
  uint64_t events_dropped = 0;
  float dropped_most = 0;                      // the largest mass among the dropped
  DroppedColumns dropped;
  RoutingColumns routing;
  // Large parts, layers kept only, ascending. Read only when asked for (load_session's `details`).
  std::vector<TokenStatLayer> token_stats;
  ResidualColumns residual;
  std::vector<RowMassLayer> row_mass;
  std::vector<PairLayer> pair_mass;
  std::vector<CacheLayer> keys, values;
  void drop_details();                         // frees them

  uint32_t rows(RowPhase p) const {
    uint32_t n = 0;
    for (uint8_t x : phase) n += x == uint8_t(p);
    return n;
  }
  uint32_t answer_rows() const { return rows(RowPhase::answer); }
  void index_text();                           // fills new_token_end from new_token_bytes
};

struct MessageInfo {
  std::string role, name, id;
};

// Sums through time, written once when the session closes (D5); a reader of an unfinished session replays them.
struct ClosingScalars {
  // [row set: answer, all, consumer][spans]
  std::vector<double> ema_n, ema_triples, ema_sink, ema_u;
  std::vector<double> sum_n, sum_triples, sum_sink, sum_u;
};

// What `gc` left out of a session (session_gc.h): the turn-by-turn numbers of spans that were not read for a while. They
// read as missing, never as 0; sums through time up to the last turn, spikes and read events are whole.
struct GcRecord {
  double theta = 0;
  uint32_t turns = 0;               // policy: at most theta in each of that many turns
  std::string measure;              // "reads", "share" or "ema"; empty: nothing was dropped
  TurnId last = 0;                  // the last turn then: the closing sums reach to it, and turns behind it are whole
  std::vector<SpanId> spans;        // ascending: leaves and parents
  std::vector<TurnId> until;        // [spans] dropped in turns before this one (0-based)
  // Expert picks of dropped rows, in the bounded form of definitions D6: by (span, mixture layer, phase), leaves only.
  struct Picks {
    std::vector<uint32_t> span;
    std::vector<uint16_t> layer;    // mixture layers counted from 0
    std::vector<uint8_t> phase;     // 0 prompt rows (prefill), 1 answer rows (decode)
    std::vector<uint16_t> expert;   // kNoExpert: picks of experts beyond the bound, weight 0
    std::vector<uint32_t> count;
    std::vector<double> weight;     // sum
    size_t size() const { return span.size(); }
  } picks;
  bool dropped(SpanId span, TurnId turn) const;
};

struct SessionData {
  SessionHeader header;
  Ledger ledger;
  std::vector<MessageInfo> messages;
  std::vector<TurnRecord> turns;
  ClosingScalars closing;
  GcRecord gc;
  bool finished = false;
  uint64_t file_bytes = 0;
  std::string path;
  std::vector<Finding> findings;

  // Exact bytes of a span (leaf or parent), from the tokens of its birth turn; empty when text was not recorded.
  std::string text_of(SpanId id) const;
  // Bytes of the token in a slot of a turn's context; for slots run in earlier turns too.
  std::string token_text(TurnId turn, Slot slot) const;
};

}  // namespace spanscope
