// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/unigram.h"

#include <fmt/format.h>

#include <cmath>

#include "core/text/utf8.h"

namespace spanscope {
namespace {
constexpr float kUnknownPenalty = 10.0f;  // below the worst piece
}

Result<std::unique_ptr<const WordModel>> Unigram::make(const Vocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size();
  if (vocabulary.scores.size() != n)
    return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("expected {} scores, found {}", n, vocabulary.scores.size()), "scores");
  const auto joins = [&](size_t i) { return vocabulary.kinds[i] == TokenKind::normal && !vocabulary.tokens[i].empty(); };
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i)
    if (joins(i)) bytes += vocabulary.tokens[i].size();
  std::unique_ptr<Unigram> out(new Unigram(vocabulary, bytes));
  out->scores_ = vocabulary.scores;
  float least = 0;
  bool any = false;
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(vocabulary.scores[i]))
      return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("the score of token {} is not a finite number", i), "scores");
    if (!joins(i)) continue;
    out->pieces_.insert(vocabulary.tokens[i], uint32_t(i));
    least = any ? std::min(least, vocabulary.scores[i]) : vocabulary.scores[i];
    any = true;
  }
  out->unknown_score_ = least - kUnknownPenalty;
  return std::unique_ptr<const WordModel>(std::move(out));
}

void Unigram::encode(std::string_view word, WordScratch&, std::vector<WordPart>& out) const {
  check_word_size(word);
  struct Best {
    float score = 0;
    uint32_t begin = kNoEntry, token = kNoEntry;  // of the last piece; no token: a character without one
    bool ill_formed = false;
  };
  std::vector<Best> best(word.size() + 1);  // [byte] of the pieces that end there
  const auto offer = [&](size_t begin, size_t end, uint32_t token, float score, bool ill_formed) {
    const float sum = score + best[begin].score;
    if (best[end].begin == kNoEntry || sum > best[end].score) best[end] = {sum, uint32_t(begin), token, ill_formed};
  };
  for (size_t at = 0; at < word.size();) {
    const size_t length = utf8_sequence(word, at);
    if (length == 0) {
      offer(at, at + 1, kNoEntry, unknown_score_, true);
      ++at;
      continue;
    }
    bool single = false;
    pieces_.each(word, at, [&](size_t end, uint32_t token) {
      offer(at, end, token, scores_[token], false);
      single = single || end == at + length;
    });
    if (!single) offer(at, at + length, kNoEntry, unknown_score_, false);
    at += length;
  }
  std::vector<const Best*> path;
  for (size_t end = word.size(); end > 0; end = best[end].begin) path.push_back(&best[end]);
  bool after_unknown = false;
  for (size_t i = path.size(); i-- > 0;) {
    const uint32_t begin = path[i]->begin, end = uint32_t(path[i] - best.data());
    if (path[i]->token != kNoEntry) {
      out.push_back({TokenId(path[i]->token), begin, end});
      after_unknown = false;
    } else {
      fallback_.append(word, begin, end, path[i]->ill_formed, after_unknown, out);
    }
  }
}

}  // namespace spanscope
