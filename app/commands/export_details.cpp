// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/export_details.h"

#include <fmt/format.h>

namespace spanscope {
namespace {

constexpr const char* kPhaseName[3] = {"prompt", "answer", "recompute"};

// One line a (turn, layer, head, key): what its column gathered, and, of keys that ran in this turn, what their row did.
ExportTable tokens_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "layer", "head", "slot", "sum", "square", "max", "count", "last_row"};
  for (uint32_t w : s.header.stat_windows) {
    t.columns.push_back(fmt::format("window{}_sum", w));
    t.columns.push_back(fmt::format("window{}_count", w));
  }
  for (const char* name : {"row_phase", "row_argmax", "row_max", "row_lse", "row_entropy", "output_norm", "value_norm", "residual_cosine"})
    t.columns.push_back(name);
  t.caption = {"columns: sums over the turn's prompt and answer rows of the weight on the key; rows: of the row at this slot; empty: not run in this turn"};
  for (const TurnRecord& turn : s.turns)
    for (const TokenStatLayer& l : turn.token_stats)
      for (size_t h = 0; h < l.heads.size(); ++h)
        for (uint32_t k = 0; k < l.keys; ++k) {
          const size_t at = h * l.keys + k, all = l.heads.size() * l.keys;
          std::vector<OrderedJson> row = {turn.turn + 1, l.layer, l.heads[h], k, l.column_sum[at], l.column_square[at], l.column_max[at], l.column_count[at], l.last_row[at]};
          for (size_t w = 0; w < s.header.stat_windows.size(); ++w) row.insert(row.end(), {l.window_sum[w * all + at], l.window_count[w * all + at]});
          if (k < turn.executed_begin) {
            row.insert(row.end(), 8, OrderedJson());
          } else {
            const uint32_t r = k - turn.executed_begin;
            const size_t i = h * l.rows + r, g = size_t(l.heads[h]) * s.header.kv_heads / s.header.query_heads;
            row.insert(row.end(), {kPhaseName[std::min<size_t>(turn.phase[r], 2)], l.row_argmax[i], l.row_max[i], l.row_lse[i], l.row_entropy[i],
                                   l.output_norm[i], l.value_norm[g * l.rows + r], l.residual_cosine[r]});
          }
          t.rows.push_back(std::move(row));
        }
  return t;
}

ExportTable rows_table(const SessionData& s) {
  const bool apart = s.header.rows == RowDetail::heads;
  ExportTable t;
  t.columns = {"turn", "row", "layer", "head", "span", "mass"};
  t.caption = {apart ? "mass of one answer row on the span, per layer and head" : "mass of one answer row on the span, per layer, summed over heads"};
  for (const TurnRecord& turn : s.turns) {
    std::vector<TokenPos> rows;  // positions of the answer rows
    for (const LayoutEntry& e : turn.layout)
      for (Slot slot = std::max(e.slot, turn.executed_begin); slot < std::min(e.slot + e.len, turn.executed_end); ++slot)
        if (RowPhase(turn.phase[slot - turn.executed_begin]) == RowPhase::answer) rows.push_back(e.position + (slot - e.slot));
    for (const RowMassLayer& l : turn.row_mass) {
      const std::vector<uint16_t> heads = apart ? s.header.heads_kept(l.layer) : std::vector<uint16_t>{0};
      for (size_t r = 0; r < rows.size(); ++r)
        for (size_t h = 0; h < heads.size(); ++h)
          for (size_t c = 0; c < turn.layout.size(); ++c) {
            if (turn.layout[c].position > rows[r]) continue;
            t.rows.push_back({turn.turn + 1, rows[r], l.layer, apart ? OrderedJson(heads[h]) : OrderedJson(), turn.layout[c].leaf,
                              l.mass[(r * heads.size() + h) * turn.layout.size() + c]});
          }
    }
  }
  return t;
}

ExportTable pairs_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "layer", "phase", "query_span", "span", "mass"};
  t.caption = {"mass of the query span's rows on the span in one layer, summed over heads"};
  for (const TurnRecord& turn : s.turns)
    for (const PairLayer& l : turn.pair_mass)
      for (size_t p = 0; p < 3; ++p)
        for (size_t q = 0; q < turn.query_leaves.size(); ++q) {
          if (turn.rows_q[p * turn.query_leaves.size() + q] == 0) continue;
          for (size_t c = 0; c < turn.layout.size(); ++c)
            if (turn.layout[c].slot < turn.executed_end)
              t.rows.push_back({turn.turn + 1, l.layer, kPhaseName[p], turn.query_leaves[q], turn.layout[c].leaf,
                                l.mass[(p * turn.query_leaves.size() + q) * turn.layout.size() + c]});
        }
  return t;
}

void add_tokens(Blob& b, const std::string& p, const TokenStatLayer& l, uint64_t kv, uint64_t windows) {
  const uint64_t h = l.heads.size(), k = l.keys, r = l.rows;
  b.add<uint16_t>(p + "heads", {h}, l.heads);
  b.add<float>(p + "column_sum", {h, k}, l.column_sum);
  b.add<float>(p + "column_square", {h, k}, l.column_square);
  b.add<float>(p + "column_max", {h, k}, l.column_max);
  b.add<uint32_t>(p + "column_count", {h, k}, l.column_count);
  b.add<float>(p + "last_row", {h, k}, l.last_row);
  b.add<float>(p + "window_sum", {windows, h, k}, l.window_sum);
  b.add<uint32_t>(p + "window_count", {windows, h, k}, l.window_count);
  b.add<uint32_t>(p + "row_argmax", {h, r}, l.row_argmax);
  b.add<float>(p + "row_max", {h, r}, l.row_max);
  b.add<float>(p + "row_lse", {h, r}, l.row_lse);
  b.add<float>(p + "row_entropy", {h, r}, l.row_entropy);
  b.add<float>(p + "output_norm", {h, r}, l.output_norm);
  b.add<float>(p + "value_norm", {kv, r}, l.value_norm);
  b.add<float>(p + "residual_cosine", {r}, l.residual_cosine);
}

void add_cache(Blob& b, const std::string& p, const std::vector<CacheLayer>& layers, const SessionHeader& h, uint64_t rows) {
  for (const CacheLayer& l : layers) {
    b.add<uint16_t>(fmt::format("{}l{:02}.data", p, l.layer), {h.kv_heads, rows, h.head_dim}, l.data);
    b.tensors.back().dtype = l.bf16 ? DType::bf16 : DType::f16;
  }
}

}  // namespace

bool is_detail_export(const std::string& what) { return what == "tokens" || what == "rows" || what == "pairs" || what == "keys" || what == "values"; }

std::string detail_option(const SessionHeader& h, const std::string& what) {
  if (what == "tokens" && h.detail != "token") return "--detail token";
  if (what == "rows" && h.rows == RowDetail::none) return "--rows";
  if (what == "pairs" && !h.pairs) return "--pairs";
  if (what == "keys" && h.keys == KeyDetail::none) return "--keys";
  if (what == "values" && !h.values) return "--values";
  return {};
}

bool has_detail_table(const std::string& what) { return what == "tokens" || what == "rows" || what == "pairs"; }

ExportTable detail_table(const SessionData& s, const std::string& what) {
  return what == "tokens" ? tokens_table(s) : what == "rows" ? rows_table(s) : pairs_table(s);
}

Blob detail_arrays(const SessionData& s, const std::string& what) {
  Blob b;
  for (const TurnRecord& t : s.turns) {
    const std::string p = fmt::format("t{:02}.", t.turn + 1);
    const auto layer = [&](uint32_t l) { return fmt::format("{}l{:02}.", p, l); };
    const uint64_t q = t.query_leaves.size(), c = t.layout.size(), rows = t.phase.size(), answers = t.answer_rows();
    std::vector<uint32_t> leaves;
    for (const LayoutEntry& e : t.layout) leaves.push_back(e.leaf);
    if (what == "rows" || what == "pairs") b.add<uint32_t>(p + "leaves", {c}, leaves);
    if (what == "pairs") b.add<uint32_t>(p + "q_leaves", {q}, t.query_leaves);
    if (what == "tokens")
      for (const TokenStatLayer& l : t.token_stats) add_tokens(b, layer(l.layer), l, s.header.kv_heads, s.header.stat_windows.size());
    if (what == "rows")
      for (const RowMassLayer& l : t.row_mass) {
        std::vector<uint64_t> shape{answers, c};
        if (s.header.rows == RowDetail::heads) shape.insert(shape.begin() + 1, s.header.heads_kept(l.layer).size());
        b.add<float>(layer(l.layer) + "mass", shape, l.mass);
      }
    if (what == "pairs")
      for (const PairLayer& l : t.pair_mass) b.add<float>(layer(l.layer) + "mass", {3, q, c}, l.mass);
    if (what == "keys") add_cache(b, p, t.keys, s.header, rows);
    if (what == "values") add_cache(b, p, t.values, s.header, rows);
    if (what == "tokens" && t.residual.passes()) {
      const ResidualColumns& r = t.residual;
      const uint64_t n = r.passes(), m = uint64_t(s.header.layers) + 1;
      b.add<uint32_t>(p + "residual.pass_begin", {n}, r.pass_begin);
      b.add<uint32_t>(p + "residual.pass_rows", {n}, r.pass_rows);
      b.add<float>(p + "residual.median", {n, m}, r.median);
      b.add<uint32_t>(p + "residual.massive", {n, m}, r.massive);
      b.add<float>(p + "residual.peak", {n, m, 3}, r.peak);
      b.add<uint32_t>(p + "residual.peak_slot", {n, m, 3}, r.peak_slot);
      b.add<uint32_t>(p + "residual.peak_dimension", {n, m, 3}, r.peak_dimension);
    }
  }
  return b;
}

}  // namespace spanscope
