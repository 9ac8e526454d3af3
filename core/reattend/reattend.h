// SPDX-License-Identifier: GPL-3.0-or-later
// Re-attention: a new question over a kept context. Mode E appends the question to the full context; mode A lets the new
// rows see a subset of the cached keys (plus sinks and themselves) at their original positions. Not "the same as removing
// text": new tokens cannot read the rest directly, kept keys were made with it. Thread: the engine thread.
#pragma once
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/backend.h"
#include "core/span/span.h"

namespace spanscope {

enum class ReattendMode : uint8_t { everything /*E*/, kept_keys /*A*/ };

struct ReattendRequest {
  ReattendMode mode = ReattendMode::everything;
  std::vector<SpanId> subset;      // leaves or parents that stay visible (mode A); the sink always stays
  std::vector<TokenId> question;   // tokens appended to the context
  uint32_t answer_tokens = 0;      // greedy tokens after the question
  std::vector<TokenId> stop_ids;   // that end the answer
  std::stop_token stop;
};

struct ReattendResult {
  ReattendMode mode;
  uint32_t layers = 0, query_heads = 0;
  std::vector<SpanId> leaves;         // [S] leaves of the context in slot order; a column of zeros where not visible
  std::vector<uint8_t> visible;       // [S]
  uint32_t question_rows = 0, answer_rows = 0;  // answer rows: row question_rows-1 (predicts the first) onwards
  uint32_t rows = 0;                  // question tokens + answer tokens fed
  std::vector<float> mass;            // [rows][layers][query heads][S + 1], last column: the new tokens
  std::vector<float> logits_last;     // [vocab] after the question
  std::vector<TokenId> answer;
  std::vector<double> answer_logp;    // log-probability of each answer token
  uint64_t tokens_visible = 0, tokens_context = 0;
  double seconds_question = 0, seconds_answer = 0;
};

// `context` holds the executed keys of a recorded context; `layout` its leaves. The cache is not changed.
Result<ReattendResult> reattend(Backend& backend, const Cache& context, const std::vector<LayoutEntry>& layout,
                                const Ledger& ledger, const ReattendRequest& request);

// Runs `ids` through the backend (no record) so that a recorded context can be re-attended.
Result<std::unique_ptr<Cache>> rebuild_cache(Backend& backend, const std::vector<TokenId>& ids, std::stop_token stop,
                                             const std::vector<uint32_t>& pass_borders = {});

}  // namespace spanscope
