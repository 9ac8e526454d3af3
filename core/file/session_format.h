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
// Every content frame decompresses to exactly one safetensors blob. The writer: at most 4 MiB of content, level 1, content
// checksum on, content size declared.
//
// Rules
//  1. Every blob's __metadata__ has "kind", "v" (major version of that kind), "session" (random 128 bits, 32 hex digits),
//     "seq" (0, 1, 2 ... over content frames, the index included) and, where it has one, "turn" (0-based). These catch
//     swapped, repeated, missing and foreign frames; zstd alone does not.
//  2. A blob larger than 4 MiB is written as several frames that follow each other: the same kind, v and turn, consecutive
//     seq, and "part" (0 ... parts-1) and "parts" in each. A tensor that does not fit whole is cut into one-dimensional
//     slices of its elements in row-major order, one per part and in the order of the parts; each part that holds a slice
//     of NAME has "shape.NAME" in its metadata, the whole tensor's shape as "3,600,600". Other tensors stay whole, in one
//     part. Other metadata is in part 0. If one part is lost the blob is lost.
//  3. The index is an ordinary checksummed frame, of raw blocks so that each of its bits counts (nothing else holds its
//     hash, and compressed blocks have padding): offset, compressed, content u64 [n]; xxh64 u64 [n] over the compressed
//     bytes; kind u32 [n] into the comma list "kinds" of its metadata; version, turn, part, parts u32 [n] (turn 2^32-1: none).
//     It must fit one frame of 64 MiB. The seek table carries the same sizes. If they disagree, both are ignored and the
//     file is walked. A file that was continued or repaired has an index of version 2, which also lists the older indices,
//     the older seek tables (kind "skippable", content 0) and, as seq u32 [n], sequence numbers: a gap among them is a
//     frame that repair could not keep.
//  4. Finished means: a valid seek table at the end, and an index whose frames, with itself and the skippables, cover the
//     file exactly. Anything else opens as unfinished and says what remains.
//  5. Nothing on disk is patched. One write per frame, by one thread; fdatasync at each turn's end. Room for a frame is
//     reserved before it is written, so a full disk ends the file at a frame's border, with a "loss" frame if one fits.
//     Continuing writes behind what is there - an unfinished end, or index and seek table - and then a new index and table
//     over everything; the last ones count. A file that does not end at a frame's border is not continued but repaired
//     first. Whoever writes holds an open-file-description lock on the file, so that readers can tell whether it grows.
//     Repair writes a new file: the good frames byte for byte, a "loss" frame that says what is gone, index and table.
//     "loss" has the metadata "reason" and, when nothing but the end is missing, "grade" "warning".
//  6. Walking: frame sizes by ZSTD_findFrameCompressedSize; where that fails the next frame magic is searched, and only
//     what decompresses with a right checksum and a right session id is accepted. What was passed over is a finding.
//  7. Unknown kinds are kept and left alone; unknown tensors and keys are ignored; a higher "v" makes that frame
//     unavailable, and the message names both versions and the program that wrote it. A lower "v" is converted when it is
//     read (core/record/schema_versions.h); converters are kept for ever.
//  8. Limits, checked before allocating: declared content <= 64 MiB, window log <= 26, blob header <= 1 MiB, <= 4096
//     tensors, <= 8 dimensions, names <= 128 bytes of [A-Za-z0-9_./-], no duplicates, tensors tile the data exactly,
//     <= 2^24 frames, <= 1024 parts of <= 1 GiB together.
//  9. The index's xxh64 is checked whenever a frame is read; verify reads every frame, so it names every flipped bit.
//     32-bit checksums find accidents, not forgery. Values may be NaN or infinite.
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
inline constexpr uint64_t kMaxContent = uint64_t(64) << 20;   // what a reader accepts in one frame
inline constexpr uint64_t kFrameContent = uint64_t(4) << 20;  // what the writer puts into one
inline constexpr unsigned kMaxWindowLog = 26;
inline constexpr uint64_t kMaxFrames = uint64_t(1) << 24;
inline constexpr uint32_t kMaxParts = 1024;
inline constexpr uint64_t kMaxJoined = uint64_t(1) << 30;
inline constexpr uint32_t kMaxDamages = 1000;  // places of damage after which walking gives up
inline constexpr int kCompressionLevel = 1;
inline constexpr uint32_t kIndexVersion = 2;  // of the newest index that is read; plain sessions are written with 1

}  // namespace spanscope
