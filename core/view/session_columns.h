// SPDX-License-Identifier: GPL-3.0-or-later
// The columns of a recorded session at one turn, computed when first asked for. One thread at a time.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/view/predicate.h"
#include "core/view/view.h"

namespace spanscope {

class SessionColumns : public ViewColumns {
 public:
  // turn: 0-based index into session.turns. Rows are the given spans.
  SessionColumns(const SessionData& session, std::vector<SpanId> rows, size_t turn, const MeasureSettings& settings, bool with_sinks);

  size_t rows() const override { return rows_.size(); }
  bool eligible(size_t row) const override;
  Value scalar(size_t row, const Scalar& scalar) const override;
  std::string word(size_t row, const std::string& column) const override;
  std::optional<std::string> text(size_t row) const override;
  std::string name(size_t row) const override;
  bool under(size_t row, const std::string& path) const override;
  double turn() const override { return double(session_.turns[turn_].turn) + 1; }
  bool has_column(const std::string& name) const override;
  bool has_word(const std::string& name) const override;
  std::vector<std::string> column_names() const override;
  int64_t layers() const override { return session_.header.layers; }
  int64_t query_heads() const override { return session_.header.query_heads; }
  int64_t moe_layers() const override;
  int64_t experts() const override { return session_.header.experts; }
  std::optional<std::string> not_captured(const Scalar& scalar) const override;

  SpanId span(size_t row) const { return rows_[row]; }
  const ReadHistory& history() const;

 private:
  Value column(SpanId id, const std::string& name) const;
  const std::vector<Sums>& sums() const;
  const Recurrence& recurrence() const;
  Value layer(SpanId id, int64_t a, int64_t b) const;
  Value expert(SpanId id, int64_t layer, int64_t expert) const;
  Value window(SpanId id, const Scalar& scalar) const;

  const SessionData& session_;
  std::vector<SpanId> rows_;
  size_t turn_;
  MeasureSettings settings_;
  bool with_sinks_;
  mutable std::vector<Sums> sums_, consumer_;
  mutable Recurrence recurrence_;
  mutable bool have_sums_ = false, have_recurrence_ = false, have_history_ = false;
  mutable ReadHistory history_;
};

}  // namespace spanscope
