// SPDX-License-Identifier: GPL-3.0-or-later
// The session file, NAME.span. This comment is the specification.
//
// A session is a plain concatenation of zstd frames, so `zstd -t` checks it and any zstd + safetensors reader opens it.
//
//   skippable   16 bytes  magic 0x184D2A5A, length 8, "SPANSCP\x01"   (lets file(1) and MIME rules tell it from other .zst)
//   frame 0     kind "session": the header
//   frame 1..   ledger | turn_begin | tokens | mass | profile | reads | routing | turn_end | closing | loss
//   frame n     kind "index": arrays over the frames before it
//   skippable   the zstd seek table: one entry per preceding frame, skippable ones included with content size 0
//
// Every content frame decompresses to exactly one safetensors blob of at most 64 MiB. The writer keeps to level 1, a
// content checksum and a declared content size; it splits nothing: whoever makes a blob keeps it small (one frame for all
// O(leaves) arrays of a turn; 4 MiB is the aim).
//
// Rules
//  1. Every blob's __metadata__ has "kind", "v" (major version of that kind), "session" (random 128 bits, hex), "seq"
//     (0, 1, 2 ... over content frames, the index included) and, where it has one, "turn" (0-based). These catch swapped,
//     repeated, missing and foreign frames; zstd alone does not.
//  2. The index is an ordinary checksummed frame, stored as raw blocks so that every bit of it counts: offset, compressed, content u64 [n]; xxh64 u64 [n] over the compressed
//     bytes; kind u32 [n] into the list "kinds" of its metadata; version, turn u32 [n]. The seek table carries the same sizes.
//     If they disagree, both are ignored and the file is walked.
//  3. Finished means: a valid seek table at the end, and an index whose frames, with itself and the skippables, cover the
//     file exactly. Anything else opens as unfinished and says what remains.
//  4. Nothing on disk is patched. One write per frame, by one thread; fdatasync at each turn's end.
//  5. Walking: frame sizes by ZSTD_findFrameCompressedSize; where that fails the next frame magic is searched, and only
//     what decompresses with a right checksum and a right session id is accepted. What was passed over is a finding.
//  6. Unknown kinds are kept and left alone; unknown tensors and keys are ignored; a higher "v" makes that frame
//     unavailable, and the message names both versions.
//  7. Limits, checked before allocating: declared content <= 64 MiB, window log <= 26, blob header <= 1 MiB, <= 4096
//     tensors, <= 8 dimensions, names <= 128 bytes, <= 2^24 frames.
//  8. 32-bit checksums find accidents, not forgery. Values may be NaN.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spanscope {

inline constexpr uint32_t kSkippableMagic = 0x184D2A5Au;
inline constexpr uint32_t kSeekTableFrameMagic = 0x184D2A5Eu;
inline constexpr uint32_t kSeekTableMagic = 0x8F92EAB1u;  // last four bytes of a zstd seek table
inline constexpr uint32_t kZstdMagic = 0xFD2FB528u;
inline constexpr uint8_t kSignature[8] = {'S', 'P', 'A', 'N', 'S', 'C', 'P', 1};
inline constexpr size_t kPreambleBytes = 16;
inline constexpr uint64_t kMaxContent = uint64_t(64) << 20;
inline constexpr unsigned kMaxWindowLog = 26;
inline constexpr uint64_t kMaxFrames = uint64_t(1) << 24;
inline constexpr int kCompressionLevel = 1;
inline constexpr uint32_t kIndexVersion = 1;

}  // namespace spanscope
