// SPDX-License-Identifier: GPL-3.0-or-later
// The predicate language: text to a tree, a tree over columns to a set of rows. Knows no session: ViewColumns is whatever
// has rows, scalars, words and texts. Any thread.
//
//   expr := and { "or" and };  and := unary { "and" unary };  unary := "not" unary | "(" expr ")" | atom
//   atom := scalar op number | word ("=" | "!=") word | ("text" | "name") "~" string | "under" string
//         | "missing" "(" scalar ")" | "top" integer "by" scalar
//   scalar := column | layer[a] | layer[a..b] | head[l.h] | expert[m.e] | expert[e] | (mean | slope)(last k of share)
//   number := 0.02 | 2 % | turn [(+|-) number];  op := > >= < <= = !=
//
// A comparison with a missing or idle value is false, also with !=; so `not (missing_value > 1)` is true.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/record/units.h"

namespace spanscope {

struct Scalar {
  enum class Kind : uint8_t { column, layer, head, expert, mean, slope } kind = Kind::column;
  std::string column;      // Kind::column
  int64_t a = 0, b = 0;    // layer range; layer and head; MoE layer (-1: any, the largest) and expert; window length in a
  std::string name() const;  // as it is written
};

class ViewColumns {
 public:
  virtual ~ViewColumns() = default;
  virtual size_t rows() const = 0;
  virtual bool eligible(size_t row) const = 0;  // rows that "top" ranks: sinks only when asked for
  virtual Value scalar(size_t row, const Scalar& scalar) const = 0;
  virtual std::string word(size_t row, const std::string& column) const = 0;
  virtual std::optional<std::string> text(size_t row) const = 0;  // nothing: no text was stored, which matches nothing
  virtual std::string name(size_t row) const = 0;
  virtual bool under(size_t row, const std::string& path) const = 0;
  virtual double turn() const = 0;  // 1-based
  // What exists: for errors with a place.
  virtual bool has_column(const std::string& name) const = 0;
  virtual bool has_word(const std::string& name) const = 0;
  virtual std::vector<std::string> column_names() const = 0;  // for the error about an unknown one
  virtual int64_t layers() const = 0;
  virtual int64_t query_heads() const = 0;
  virtual int64_t moe_layers() const = 0;
  virtual int64_t experts() const = 0;
  // A sentence that says why a kind of scalar is not there (and which option captures it), or nothing.
  virtual std::optional<std::string> not_captured(const Scalar& scalar) const = 0;
};

class Predicate {
 public:
  struct Node;
  // Errors carry the byte offset and what was expected.
  static Result<Predicate> parse(const std::string& text, const ViewColumns& columns);
  std::vector<uint8_t> evaluate(const ViewColumns& columns) const;  // [rows]
  // The scalar that chose a row: the first compared one of the tree; nothing for predicates of words only.
  std::optional<Scalar> first_scalar() const;
  // Which end of it the predicate asks for: 1 the large one (> >= top), -1 the small one (< <=), 0 neither.
  int first_direction() const;

 private:
  std::shared_ptr<const Node> root_;
};

}  // namespace spanscope
