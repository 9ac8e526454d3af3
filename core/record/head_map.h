// SPDX-License-Identifier: GPL-3.0-or-later
// What each attention head does, as numbers per (layer, query head): the map by which the recorder chooses heads to keep.
// Every table says where it came from; a table that was never measured is empty, not 0. Stored as JSON beside nothing of
// the model's: under the data folder, by the model's digest. Any thread.
//
//   copy, session_copy   retrieval score in [0, 1] (arXiv 2404.15574, as sets): of the distinct tokens that could be copied,
//                        the part that was produced while the head's largest weight lay on that very token. From needle
//                        prompts (head_probe.h) and from recorded answers (head_counts.h).
//   reads, session_reads number of reads (definitions D5, at 0.30, the answer's request left out)
//   sink                 mean mass on the sink span over answer rows
//   streaming            mean mass on the sink span and the recent window over answer rows: near 1, and the head needs
//                        nothing else
//   gate                 imported DuoAttention gate in [0, 1] of the head's key/value head: near 1, it needs the full context
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/model/weights.h"
#include "core/record/session_data.h"

namespace spanscope {

enum class HeadMeasure : uint8_t { copy = 0, session_copy, reads, session_reads, sink, streaming, gate };
inline constexpr size_t kHeadMeasures = 7;
const char* head_measure_name(HeadMeasure measure);  // "copy": also the key in the file

struct HeadTable {
  std::string source;          // one sentence: from what, over how many rows
  std::vector<float> value;    // [layers][query heads]; empty: not measured
  bool empty() const { return value.empty(); }
};

struct HeadMap {
  std::string model_digest, model_name;
  uint32_t layers = 0, query_heads = 0, kv_heads = 0;
  std::array<HeadTable, kHeadMeasures> tables;

  HeadTable& operator[](HeadMeasure m) { return tables[size_t(m)]; }
  const HeadTable& operator[](HeadMeasure m) const { return tables[size_t(m)]; }
  size_t heads() const { return size_t(layers) * query_heads; }
  // The better founded of two sources: needle prompts for copying, recorded answers for reads. Null: neither was measured.
  const HeadTable* best_copy() const;
  const HeadTable* best_reads() const;
};

HeadMap empty_head_map(const Model& model);
HeadMap empty_head_map(const SessionHeader& header);
// Tables of `newer` replace those of `map`; the others stay. Errors: SPAN-HEAD-MAP, another model or shape.
Status merge_head_map(HeadMap& map, const HeadMap& newer);

// layer * query_heads + head of the `count` largest values above 0, falling; of equals the lower index first.
std::vector<uint32_t> top_heads(const HeadTable& table, size_t count);
// `fraction` of all heads, rounded up.
size_t head_count(size_t heads, double fraction);

std::string head_map_json(const HeadMap& map);
// Errors name the file and the field. SPAN-HEAD-MAP: not a head map, a table of another shape, a number that is none.
Result<HeadMap> parse_head_map(std::string_view json, const std::string& where);

// $XDG_DATA_HOME/spanscope/heads/DIGEST.json, or below ~/.local/share; empty when the environment names neither.
std::string head_map_path(const std::string& model_digest);
// The map of this model at `path`, or where it is kept by default; nullopt: there is no such file. A map of another model
// is refused by name: SPAN-HEAD-MAP.
Result<std::optional<HeadMap>> load_head_map(const Model& model, const std::string& path = {});
Result<std::optional<HeadMap>> load_head_map(const SessionHeader& header, const std::string& path = {});
// Makes the folder where needed.
Status save_head_map(const HeadMap& map, const std::string& path, bool force);

// The published pattern of DuoAttention (arXiv 2410.10819): text, one line a layer, one number a key/value head, in
// [0, 1] or beside it as training left it. The numbers go to every query head of their group.
Result<HeadTable> import_duo_gates(std::string_view text, const std::string& where, const Recipe& recipe);

}  // namespace spanscope
