// SPDX-License-Identifier: GPL-3.0-or-later
// Frames of what is kept beyond span and head detail: one a layer, so that one layer can be read alone.
//   tokenstat  heads u16 [H]; column_sum, column_square, column_max, last_row f32 and column_count u32 [H,keys];
//              window_sum f32, window_count u32 [W,H,keys]; row_argmax u32, row_max, row_lse, row_entropy, output_norm f32
//              [H,rows]; value_norm f32 [kv heads,rows]; residual_cosine f32 [rows]
//   residual   pass_begin, pass_rows u32 [passes]; median f32, massive u32 [passes,layers+1]; peak f32, peak_slot,
//              peak_dimension u32 [passes,layers+1,3]
//   rows       mass f32 [answer rows,S], or [answer rows,H,S] when heads are kept apart
//   pairs      mass f32 [3,Q,S]
//   keys, values   data f16 or bf16 [kv heads,rows,dim]; keys before rotation
#include <fmt/format.h>

#include <algorithm>

#include "core/record/schema_parts.h"

namespace spanscope::schema {
namespace {

Error broken(const std::string& what) { return make_error(ErrorCode::corrupt, "SPAN-TURN-DATA", what); }

Status append(SessionWriter& writer, const char* kind, TurnId turn, uint32_t layer, Blob blob) {
  blob.metadata["layer"] = std::to_string(layer);
  return writer.append({kind, kVersion, turn}, std::move(blob));
}

Blob token_blob(const TokenStatLayer& t, uint64_t kv_heads, uint64_t windows) {
  const uint64_t h = t.heads.size(), k = t.keys, r = t.rows;
  Blob b;
  b.add<uint16_t>("heads", {h}, t.heads);
  b.add<float>("column_sum", {h, k}, t.column_sum);
  b.add<float>("column_square", {h, k}, t.column_square);
  b.add<float>("column_max", {h, k}, t.column_max);
  b.add<uint32_t>("column_count", {h, k}, t.column_count);
  b.add<float>("last_row", {h, k}, t.last_row);
  b.add<float>("window_sum", {windows, h, k}, t.window_sum);
  b.add<uint32_t>("window_count", {windows, h, k}, t.window_count);
  b.add<uint32_t>("row_argmax", {h, r}, t.row_argmax);
  b.add<float>("row_max", {h, r}, t.row_max);
  b.add<float>("row_lse", {h, r}, t.row_lse);
  b.add<float>("row_entropy", {h, r}, t.row_entropy);
  b.add<float>("output_norm", {h, r}, t.output_norm);
  b.add<float>("value_norm", {kv_heads, r}, t.value_norm);
  b.add<float>("residual_cosine", {r}, t.residual_cosine);
  return b;
}

Blob residual_blob(const ResidualColumns& r, uint64_t layers) {
  const uint64_t p = r.passes(), n = layers + 1;
  Blob b;
  b.add<uint32_t>("pass_begin", {p}, r.pass_begin);
  b.add<uint32_t>("pass_rows", {p}, r.pass_rows);
  b.add<float>("median", {p, n}, r.median);
  b.add<uint32_t>("massive", {p, n}, r.massive);
  b.add<float>("peak", {p, n, 3}, r.peak);
  b.add<uint32_t>("peak_slot", {p, n, 3}, r.peak_slot);
  b.add<uint32_t>("peak_dimension", {p, n, 3}, r.peak_dimension);
  return b;
}

Blob cache_blob(const CacheLayer& c, uint64_t kv_heads, uint64_t rows, uint64_t dim) {
  Blob b;
  b.add<uint16_t>("data", {kv_heads, rows, dim}, c.data);
  b.tensors.back().dtype = c.bf16 ? DType::bf16 : DType::f16;
  return b;
}

// The layer of a blob: one that is kept, behind the last one read.
template <class Layers>
Result<uint32_t> layer_of(const Blob& blob, const Layers& before, const SessionHeader& h) {
  const auto text = blob.metadata.find("layer");
  if (text == blob.metadata.end()) return broken("a frame that does not name its layer");
  const uint32_t first = before.empty() ? 0 : before.back().layer + 1;
  for (uint32_t l = first; l < h.layers; ++l)
    if (text->second == std::to_string(l)) return l;
  return broken("layers that do not ascend: " + text->second.substr(0, 20));
}

#define SPANSCOPE_TAKE(target, type, name, count)   \
  {                                                  \
    auto got = blob.get<type>(name, count);          \
    if (!got) return std::move(got).error();         \
    target = std::move(*got);                        \
  }

uint64_t executed(const TurnRecord& t) { return t.executed_end - t.executed_begin; }

}  // namespace

Status write_details(SessionWriter& writer, const TurnRecord& t, const SessionHeader& h, Blob& end) {
  const uint64_t leaves = t.layout.size(), q = t.query_leaves.size(), rows = executed(t);
  for (const TokenStatLayer& l : t.token_stats)
    SPANSCOPE_TRY(append(writer, "tokenstat", t.turn, l.layer, token_blob(l, h.kv_heads, h.stat_windows.size())));
  if (t.residual.passes()) SPANSCOPE_TRY(writer.append({"residual", kVersion, t.turn}, residual_blob(t.residual, h.layers)));
  for (const RowMassLayer& l : t.row_mass) {
    Blob b;
    const uint64_t heads = h.heads_kept(l.layer).size(), answers = t.answer_rows();
    if (h.rows == RowDetail::heads) b.add<float>("mass", {answers, heads, leaves}, l.mass);
    else b.add<float>("mass", {answers, leaves}, l.mass);
    SPANSCOPE_TRY(append(writer, "rows", t.turn, l.layer, std::move(b)));
  }
  for (const PairLayer& l : t.pair_mass) {
    Blob b;
    b.add<float>("mass", {kPhases, q, leaves}, l.mass);
    SPANSCOPE_TRY(append(writer, "pairs", t.turn, l.layer, std::move(b)));
  }
  for (const CacheLayer& l : t.keys) SPANSCOPE_TRY(append(writer, "keys", t.turn, l.layer, cache_blob(l, h.kv_heads, rows, h.head_dim)));
  for (const CacheLayer& l : t.values) SPANSCOPE_TRY(append(writer, "values", t.turn, l.layer, cache_blob(l, h.kv_heads, rows, h.head_dim)));
  // How many frames of each kind belong to the turn: a reader knows when one is missing.
  const auto count = [&](const char* kind, size_t n) {
    if (n) end.metadata[kind] = std::to_string(n);
  };
  count("tokenstat", t.token_stats.size());
  count("residual", t.residual.passes() ? 1 : 0);
  count("rows", t.row_mass.size());
  count("pairs", t.pair_mass.size());
  count("keys", t.keys.size());
  count("values", t.values.size());
  return {};
}

Status read_token_stats(const Blob& blob, TurnRecord& t, const SessionData& s) {
  auto layer = layer_of(blob, t.token_stats, s.header);
  if (!layer) return std::move(layer).error();
  const uint64_t windows = s.header.stat_windows.size();
  TokenStatLayer out;
  out.layer = *layer;
  out.keys = t.executed_end;
  out.rows = uint32_t(executed(t));
  SPANSCOPE_TAKE(out.heads, uint16_t, "heads", UINT64_MAX)
  if (out.heads != s.header.heads_kept(*layer)) return broken("token statistics of other heads than the session keeps");
  const uint64_t h = out.heads.size(), columns = h * out.keys, of_rows = h * out.rows;
  SPANSCOPE_TAKE(out.column_sum, float, "column_sum", columns)
  SPANSCOPE_TAKE(out.column_square, float, "column_square", columns)
  SPANSCOPE_TAKE(out.column_max, float, "column_max", columns)
  SPANSCOPE_TAKE(out.column_count, uint32_t, "column_count", columns)
  SPANSCOPE_TAKE(out.last_row, float, "last_row", columns)
  SPANSCOPE_TAKE(out.window_sum, float, "window_sum", windows * columns)
  SPANSCOPE_TAKE(out.window_count, uint32_t, "window_count", windows * columns)
  SPANSCOPE_TAKE(out.row_argmax, uint32_t, "row_argmax", of_rows)
  SPANSCOPE_TAKE(out.row_max, float, "row_max", of_rows)
  SPANSCOPE_TAKE(out.row_lse, float, "row_lse", of_rows)
  SPANSCOPE_TAKE(out.row_entropy, float, "row_entropy", of_rows)
  SPANSCOPE_TAKE(out.output_norm, float, "output_norm", of_rows)
  SPANSCOPE_TAKE(out.value_norm, float, "value_norm", uint64_t(s.header.kv_heads) * out.rows)
  SPANSCOPE_TAKE(out.residual_cosine, float, "residual_cosine", out.rows)
  for (uint32_t slot : out.row_argmax)
    if (slot >= t.executed_end) return broken("a row's strongest key outside the context");
  t.token_stats.push_back(std::move(out));
  return {};
}

Status read_residual(const Blob& blob, TurnRecord& t, const SessionData& s) {
  if (t.residual.passes()) return broken("the residual stream's numbers stand there twice");
  ResidualColumns out;
  SPANSCOPE_TAKE(out.pass_begin, uint32_t, "pass_begin", UINT64_MAX)
  const uint64_t p = out.passes(), n = p * (uint64_t(s.header.layers) + 1);
  SPANSCOPE_TAKE(out.pass_rows, uint32_t, "pass_rows", p)
  SPANSCOPE_TAKE(out.median, float, "median", n)
  SPANSCOPE_TAKE(out.massive, uint32_t, "massive", n)
  SPANSCOPE_TAKE(out.peak, float, "peak", 3 * n)
  SPANSCOPE_TAKE(out.peak_slot, uint32_t, "peak_slot", 3 * n)
  SPANSCOPE_TAKE(out.peak_dimension, uint32_t, "peak_dimension", 3 * n)
  for (uint64_t i = 0; i < p; ++i)
    if (uint64_t(out.pass_begin[i]) + out.pass_rows[i] > t.executed_end) return broken("a pass outside the turn's rows");
  for (uint32_t slot : out.peak_slot)
    if (slot >= t.executed_end) return broken("a massive activation outside the context");
  t.residual = std::move(out);
  return {};
}

Status read_row_mass(const Blob& blob, TurnRecord& t, const SessionData& s) {
  auto layer = layer_of(blob, t.row_mass, s.header);
  if (!layer) return std::move(layer).error();
  RowMassLayer out;
  out.layer = *layer;
  const uint64_t heads = s.header.rows == RowDetail::heads ? s.header.heads_kept(*layer).size() : 1;
  SPANSCOPE_TAKE(out.mass, float, "mass", heads * t.answer_rows() * t.layout.size())
  t.row_mass.push_back(std::move(out));
  return {};
}

Status read_pair_mass(const Blob& blob, TurnRecord& t, const SessionData& s) {
  auto layer = layer_of(blob, t.pair_mass, s.header);
  if (!layer) return std::move(layer).error();
  PairLayer out;
  out.layer = *layer;
  SPANSCOPE_TAKE(out.mass, float, "mass", uint64_t(kPhases) * t.query_leaves.size() * t.layout.size())
  t.pair_mass.push_back(std::move(out));
  return {};
}
#undef SPANSCOPE_TAKE

namespace {

Status read_cache(const Blob& blob, std::vector<CacheLayer>& to, const TurnRecord& t, const SessionData& s) {
  auto layer = layer_of(blob, to, s.header);
  if (!layer) return std::move(layer).error();
  const Tensor* stored = blob.find("data");
  const uint64_t expected = uint64_t(s.header.kv_heads) * executed(t) * s.header.head_dim * 2;
  if (!stored || (stored->dtype != DType::f16 && stored->dtype != DType::bf16) || stored->data.size() != expected)
    return broken(fmt::format("expected {} bytes of 16-bit floats", expected));
  CacheLayer out;
  out.layer = *layer;
  out.bf16 = stored->dtype == DType::bf16;
  out.data.resize(expected / 2);
  if (expected) std::memcpy(out.data.data(), stored->data.data(), expected);
  to.push_back(std::move(out));
  return {};
}

}  // namespace

Status read_keys(const Blob& blob, TurnRecord& t, const SessionData& s) { return read_cache(blob, t.keys, t, s); }
Status read_values(const Blob& blob, TurnRecord& t, const SessionData& s) { return read_cache(blob, t.values, t, s); }

}  // namespace spanscope::schema
