// SPDX-License-Identifier: GPL-3.0-or-later
// The chat as text blocks with token borders: what the transcript lays out. Bytes stay exact; characters are derived. No
// Qt. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/record/session_data.h"

namespace spanscope::panels {

struct TranscriptLeaf {
  SpanId leaf = kNoSpan;
  uint32_t byte_begin = 0, byte_end = 0;    // in the block's text
  uint32_t first_token = 0, tokens = 0;
};
struct TranscriptBlock {
  SpanId span = kNoSpan;                    // the message
  TurnId birth = 0;
  uint32_t tokens = 0;
  std::string text;                         // exact bytes of its content leaves
  std::vector<TranscriptLeaf> leaves;
  std::vector<uint32_t> token_end;          // [tokens] end of each token in `text`
  // The answer a turn wrote: token k stands in slot first_slot + k of that turn's context.
  TurnId answer_turn = kNone32;
  Slot first_slot = 0;
  TurnId last_seen = 0;                     // last turn whose context holds it
  bool gone = false;                        // left the context before the session's last turn
};

// All messages with content, in the order of the chat. Texts are empty when the session has none.
std::vector<TranscriptBlock> transcript_blocks(const SessionData& session);

// Text as characters: UTF-16 with, for every token, the characters it covers. Tokens that split a character show as
// their bytes, "⟨E2 82⟩", when `tokens_mode` is set; otherwise invalid bytes become U+FFFD and a token's range snaps to whole
// characters.
struct CharMap {
  std::u16string text;
  std::vector<uint32_t> token_begin, token_end;  // [tokens]
  std::vector<uint8_t> broken;                   // [tokens] 1: shown as bytes
  // Tokens that touch characters [begin, end). Both kNone32 when there is none.
  std::pair<uint32_t, uint32_t> tokens_of(uint32_t begin, uint32_t end) const;
};
enum class TextMode : uint8_t { text, whitespace, tokens };
CharMap char_map(const TranscriptBlock& block, TextMode mode);

}  // namespace spanscope::panels
