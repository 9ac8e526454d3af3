// SPDX-License-Identifier: GPL-3.0-or-later
// A session that is not read whole: header, span table and messages at once, turns when they are asked for, the last ones
// kept up to a number of bytes. For sessions that are larger than memory, and for whoever needs one turn. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/session_reader.h"
#include "core/record/session_data.h"

namespace spanscope {

class LazySession {
 public:
  static Result<std::shared_ptr<const LazySession>> open(const std::string& path, uint64_t cache_bytes = kDefaultCache);
  static Result<std::shared_ptr<const LazySession>> open(std::shared_ptr<const SessionReader> reader, uint64_t cache_bytes = kDefaultCache);
  virtual ~LazySession() = default;

  // Header, ledger (all spans, as they stood at the end), messages, the recorder's notes; no turns and no closing sums.
  // findings: of opening. What lazy reading has not looked at may still be damaged: turn() says so, verify finds it all.
  virtual const SessionData& base() const = 0;
  virtual const SessionReader& reader() const = 0;
  // Closed turns, ascending. A turn of which the file lacks a frame is not among them, and is a finding of base().
  virtual size_t turns() const = 0;
  virtual TurnId turn_id(size_t i) const = 0;
  virtual uint64_t turn_bytes(size_t i) const = 0;  // uncompressed
  // What views need of one turn, or what is wrong with it (never a part of it as if it were the whole).
  virtual Result<std::shared_ptr<const TurnRecord>> turn(size_t i) const = 0;
  // With token statistics, rows, pairs, keys and values: may be large, is not kept.
  virtual Result<std::shared_ptr<const TurnRecord>> turn_with_details(size_t i) const = 0;
  // Its layout, phases, positions and tokens only.
  virtual Result<std::shared_ptr<const TurnRecord>> turn_head(size_t i) const = 0;
  // Number of read events of a turn, without reading them.
  virtual Result<uint64_t> turn_events(size_t i) const = 0;
  virtual Result<ClosingScalars> closing() const = 0;  // empty vectors: an unfinished session has none
  virtual uint64_t cached_bytes() const = 0;           // what the turns kept now weigh

  static constexpr uint64_t kDefaultCache = uint64_t(64) << 20;
};

// What a turn weighs in memory.
uint64_t bytes_of(const TurnRecord& turn);

}  // namespace spanscope
