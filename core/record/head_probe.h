// SPDX-License-Identifier: GPL-3.0-or-later
// Needle prompts: which heads look a token up when the model copies it (arXiv 2404.15574)?
//
// A prompt is filler text with a needle in it: a few cue tokens and then the needle's own, all distinct and drawn at random
// from the words of the vocabulary that the filler does not use. At the end the cue stands once more, and the needle's
// tokens are fed behind it. The row before each of them is an answer row: its output is the model's most likely token.
// A head copies a token w of the needle when some answer row outputs w while the row's largest weight of that head lies on
// a slot inside the needle that holds w. Score = distinct tokens copied / tokens of the needle, the mean over prompts; so
// repeats count once. A prompt of which the model itself outputs no more than half is left out. When that is every prompt
// (a model that was never made to copy), the fed tokens count as outputs, and the tables' source says so.
// Unlike the paper's, the rows after a wrong output are fed the right token, and the needle is no sentence: nothing of the
// model's language is needed.
// On the same rows: mass on the sink (first positions), mass on sink and recent window, reads of the needle (definitions D5
// at 0.30, without habit).
// Engine thread.
#pragma once
#include <functional>
#include <stop_token>

#include "core/model/backend.h"
#include "core/record/head_map.h"
#include "core/text/tokenizer.h"

namespace spanscope {

struct ProbeOptions {
  uint32_t prompts = 10;  // needles go to depths (k + 1/2) / 5 in turn
  uint32_t length = 384;  // tokens of filler
  uint32_t needle = 8, cue = 4;
  uint32_t sink = 4, recent = 64;  // positions: the first ones; the row's own and those before it
  uint64_t seed = 1;
  uint32_t pass_rows = 512;
  std::function<void(uint32_t done, uint32_t all)> progress;
  std::stop_token stop;
};

struct ProbeOutcome {
  HeadMap map;             // copy, reads, sink, streaming
  uint32_t prompts = 0, used = 0;  // made, and those that count
  bool fed = false;        // no prompt was copied: the fed tokens counted as outputs
  double recall = 0;       // needle tokens that the model output itself, mean over all prompts
};

// Errors: SPAN-PROBE when the vocabulary has too few words, or the model's context is too short.
Result<ProbeOutcome> probe_heads(Backend& backend, const Tokenizer& tokenizer, const ProbeOptions& options);

// One row of a needle prompt, for one head.
struct ProbeRow {
  TokenId output = -1;   // the model's most likely token behind this row
  uint32_t argmax = 0;   // slot of the head's largest weight
};
// The score of one prompt and head as defined above. ids: the prompt by slot; the needle is [begin, begin + len).
double copy_score(const std::vector<ProbeRow>& rows, const std::vector<TokenId>& ids, uint32_t begin, uint32_t len);

}  // namespace spanscope
