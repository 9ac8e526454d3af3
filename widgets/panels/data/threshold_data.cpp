// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/threshold_data.h"

#include <algorithm>

namespace spanscope::panels {

ThresholdData threshold_data(const SessionData& session, const ReadHistory& history, const std::vector<SpanId>& rows) {
  ThresholdData d;
  d.spans = rows;
  const auto total = [&](SpanId id) { return id < history.total_reads.size() ? history.total_reads[id] : int64_t(0); };
  std::sort(d.spans.begin(), d.spans.end(), [&](SpanId a, SpanId b) {
    const int64_t x = total(a), y = total(b);
    return x != y ? x > y : a < b;
  });
  d.reads_sum.push_back(0);
  d.tokens_sum.push_back(0);
  for (SpanId id : d.spans) {
    d.reads.push_back(total(id));
    d.tokens.push_back(session.ledger[id].tokens);
    d.reads_sum.push_back(d.reads_sum.back() + d.reads.back());
    d.tokens_sum.push_back(d.tokens_sum.back() + d.tokens.back());
    d.never += d.reads.back() == 0;
  }
  return d;
}

Kept kept_at(const ThresholdData& d, int64_t threshold) {
  Kept k;
  k.spans = size_t(std::partition_point(d.reads.begin(), d.reads.end(), [&](int64_t r) { return r >= threshold; }) - d.reads.begin());
  k.reads = d.reads_sum[k.spans];
  k.tokens = d.tokens_sum[k.spans];
  if (d.reads_sum.back() > 0) k.reads_part = double(k.reads) / double(d.reads_sum.back());
  if (d.tokens_sum.back() > 0) k.tokens_part = double(k.tokens) / double(d.tokens_sum.back());
  return k;
}

int64_t threshold_for_spans(const ThresholdData& d, size_t spans) {
  if (d.reads.empty()) return 0;
  if (spans == 0) return d.most() + 1;
  return d.reads[std::min(spans, d.reads.size()) - 1];
}

int64_t threshold_for_part(const ThresholdData& d, double part) {
  for (size_t k = 0; k < d.reads.size(); ++k)
    if (double(d.reads_sum[k + 1]) >= part * double(d.reads_sum.back())) return d.reads[k];
  return 0;
}

}  // namespace spanscope::panels
