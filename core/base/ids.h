// SPDX-License-Identifier: GPL-3.0-or-later
// Index types. Slot, absolute position and count are different things: a mask goes by position, memory by slot.
#pragma once
#include <cstdint>

namespace spanscope {
using TokenId = int32_t;
using TokenPos = uint32_t;  // absolute position of a token in its context (rotary position)
using Slot = uint32_t;      // index of a key in the cache
struct SlotRange {
  Slot begin = 0, end = 0;
};
using SpanId = uint32_t;    // never reused in a session
using TurnId = uint32_t;    // 0-based in files and code, 1-based wherever a person reads it
inline constexpr SpanId kNoSpan = 0xffffffffu;
inline constexpr uint32_t kNone32 = 0xffffffffu;

struct ByteRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};
}  // namespace spanscope
