// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's interface. A backend runs the recipe over a batch with a cache; reference and fast CPU paths (and CUDA)
// implement it and pass one parity suite. One thread calls a backend (the engine thread); a backend may use more inside.
//
// Without a plan: logits byte-identical to a planned run at equal pass borders, and no branch on the plan in inner loops.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/model/record_plan.h"
#include "core/model/token_stats.h"
#include "core/model/weights.h"

namespace spanscope {

// Keys and values of executed positions. Slots are dense: 0 .. size()-1. Masks go by absolute position.
class Cache {
 public:
  virtual ~Cache() = default;
  virtual uint32_t size() const = 0;
  virtual TokenPos position(Slot slot) const = 0;
  virtual void truncate(uint32_t size) = 0;  // forgets slots >= size
  // A new cache with the given slots only (ascending, disjoint), at their original positions. New rows that run on it
  // see these keys and themselves: re-attention mode A.
  virtual std::unique_ptr<Cache> select(std::span<const SlotRange> ranges) const = 0;
  virtual uint64_t bytes() const = 0;
  // Whether keys are also kept as they were before rotation. Caches of models without rotation always are.
  virtual bool has_originals() const { return false; }
  // New absolute positions for all slots, ascending: every key whose position changes is rotated once, from its original.
  // positions [size()]. Errors: SPAN-ORIGINALS (none kept; or a model with learned positions, whose keys cannot be moved),
  // SPAN-POSITIONS (another number of them, or not ascending). A cache that fails is as it was.
  virtual Status move_to(std::span<const TokenPos> positions);
  // Keys and values of one layer, keys as they were before rotation (SPAN-ORIGINALS when none are kept) or as attention
  // reads them.  // out [kv heads][end - begin][dim]
  virtual Status read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const;
  virtual Status read_values(uint32_t layer, SlotRange slots, float* out) const;
  // Of models that change their rotary factors with length: whether the keys here are rotated by the long ones. Set by
  // the first pass on an empty cache.
  bool long_rotary() const { return long_rotary_; }
  void set_long_rotary(bool on) { long_rotary_ = on; }

 private:
  bool long_rotary_ = false;
};

struct Batch {
  std::span<const TokenId> ids;         // [rows]
  std::span<const TokenPos> positions;  // [rows], ascending; row i gets slot cache.size() + i
  // How many positions the sequence will have when the caller is done with it, 0: no more than this batch. Only models
  // that change their rotary factors with length look at it; there a cache made for a shorter sequence is an error
  // (SPAN-ROTARY-LENGTH): it has to be built again, because every key behind the first layer changes.
  uint64_t reach = 0;
  uint64_t positions_reached() const {
    const uint64_t own = positions.empty() ? 0 : uint64_t(positions.back()) + 1;
    return own > reach ? own : reach;
  }
};

enum class LogitRows : uint8_t { none, last, all };

struct ForwardOptions {
  LogitRows logits = LogitRows::last;
  bool hidden = false;         // collect the residual stream
  bool router_logits = false;  // collect router scores, ids and weights
  const RecordPlan* plan = nullptr;  // at most kMaxPlannedRows rows when set
  RecordSink* sink = nullptr;        // needed with a plan
  const TokenStatsPlan* token_stats = nullptr;  // at most kMaxPlannedRows rows when set
  TokenStatsSink* token_sink = nullptr;         // needed with token statistics
  std::stop_token stop;              // checked between layers and tiles; a stopped pass leaves the cache as it was
};

struct ForwardResult {
  std::vector<float> logits;  // [0 | 1 | rows][vocab]
  // hidden[0] = embeddings as the first layer gets them, [i] = input of layer i, [layers] = after the final norm.
  std::vector<float> hidden;         // [layers+1][rows][hidden], empty unless asked for
  std::vector<float> router_logits;  // [moe layers][rows][experts]
  std::vector<int32_t> topk_ids;     // [moe layers][rows][K]
  std::vector<float> topk_weights;   // [moe layers][rows][K]
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const Model& model() const = 0;
  virtual std::string name() const = 0;     // "cpu reference"
  virtual unsigned threads() const = 0;
  // originals: keys are kept before rotation too, so that they can be moved (a third more memory).
  virtual std::unique_ptr<Cache> new_cache(uint32_t capacity_hint, bool originals = false) const = 0;
  // Appends batch.ids.size() slots to the cache. Errors: token id outside the vocabulary, positions not ascending or
  // beyond learned ones, plan that does not fit the batch, a cache made for shorter sequences, cancelled, out of memory.
  virtual Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) = 0;
};

// Before a pass: decides by the sequence's reach which rotary factors an empty cache will hold, or checks that a cache
// holds the right ones (SPAN-ROTARY-LENGTH).
// What move_to() checks first.
Status check_move(const Recipe& recipe, const Cache& cache, std::span<const TokenPos> positions);

Status settle_rotary_length(const Recipe& recipe, Cache& cache, const Batch& batch);

// What keys and values are kept as. f16 takes half the memory; every key and value is rounded once, when it is stored.
enum class CacheType : uint8_t { f32, f16 };

// What a GPU multiplies in: float32 throughout, or 16 bits (f16) for attention and for products of many rows, which halves
// the cache too. The CPU paths always compute in float32.
enum class Arithmetic : uint8_t { exact, fast };

struct BackendOptions {
  unsigned threads = 0;  // 0: physical cores
  CacheType cache = CacheType::f32;
  Arithmetic arithmetic = Arithmetic::exact;
  // What will be asked of it. A backend that cannot says so when it is made, and not in the middle of a conversation.
  bool token_stats = false;  // ForwardOptions::token_stats
  bool originals = false;    // caches with keys from before rotation
};

}  // namespace spanscope
