// SPDX-License-Identifier: GPL-3.0-or-later
// What right frames say: the input is a recipe of frames whose zstd side, session id and sequence numbers are always right, so
// that everything behind them is reached: header, ledger, turns, whole and turn by turn.
//   frame: kind u8, turn u8, size u16, size bytes of safetensors (its __metadata__ is kept, the stamps are put in).
//   kind / 16 % 4 == 3: the blob is written as version 2 of its kind.
#include <zstd.h>

#include <cstdlib>
#include <cstring>

#include "core/file/session_format.h"
#include "core/record/session_lazy.h"
#include "core/record/session_schema.h"

namespace {
using namespace spanscope;
using Bytes = std::vector<uint8_t>;

constexpr const char* kKinds[] = {"session", "ledger", "turn_begin", "mass", "reads", "routing", "turn_end", "closing", "note", "loss", "profile", "unknown"};

void put_frame(Bytes& out, Blob blob, const char* kind, uint32_t version, uint32_t seq, uint32_t turn) {
  static ZSTD_CCtx* context = ZSTD_createCCtx();
  blob.metadata["kind"] = kind, blob.metadata["v"] = std::to_string(version), blob.metadata["session"] = std::string(32, 'a');
  blob.metadata["seq"] = std::to_string(seq);
  if (turn != 0xffffffffu) blob.metadata["turn"] = std::to_string(turn);
  const Bytes content = write_safetensors(blob);
  Bytes frame(ZSTD_compressBound(content.size()));
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size()));
  out.insert(out.end(), frame.begin(), frame.end());
}

void check(const SessionData& s) {
  for (const TurnRecord& t : s.turns) {
    const size_t q = t.query_leaves.size(), n = t.layout.size();
    if (t.mass_qk.size() != 3 * q * n || t.spike.size() != n || t.events.mass.size() != t.events.row.size()) std::abort();
    for (const LayoutEntry& e : t.layout)
      if (e.leaf >= s.ledger.spans.size()) std::abort();
  }
  for (SpanId id = 0; id < s.ledger.spans.size() && id < 64; ++id) (void)s.text_of(id);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes file(16);
  std::memcpy(file.data(), &kSkippableMagic, 4);
  const uint32_t length = 8;
  std::memcpy(file.data() + 4, &length, 4);
  std::memcpy(file.data() + 8, kSignature, 8);
  uint32_t seq = 0;
  for (size_t at = 0; at + 4 <= size && seq < 64;) {
    const uint8_t kind = data[at], turn = data[at + 1];
    uint16_t n;
    std::memcpy(&n, data + at + 2, 2);
    at += 4;
    const size_t take = std::min<size_t>(n, size - at);
    auto blob = parse_safetensors({data + at, take}, "fuzz");
    at += take;
    if (!blob) continue;
    // The first frame is always the header, so that most inputs open.
    const char* name = seq == 0 ? "session" : kKinds[kind % 16 % std::size(kKinds)];
    put_frame(file, std::move(*blob), name, kind / 16 % 4 == 3 ? 2 : 1, seq, turn == 255 ? 0xffffffffu : turn);
    ++seq;
  }
  auto reader = SessionReader::from_bytes(std::move(file), "fuzz");
  if (!reader) return 0;
  const auto whole = load_session(**reader);
  const auto lazy = LazySession::open(*reader, 1 << 16);
  if (whole) {
    check(**whole);
    if ((*whole)->finished) std::abort();
  } else if (whole.error().tag.empty()) {
    std::abort();
  }
  if (!lazy) return 0;
  for (size_t i = 0; i < (*lazy)->turns(); ++i) {
    (void)(*lazy)->turn_head(i);
    (void)(*lazy)->turn(i);
    (void)(*lazy)->turn_events(i);
  }
  (void)(*lazy)->closing();
  return 0;
}
