// SPDX-License-Identifier: GPL-3.0-or-later
// The predicate language against a table of 60 spans made by another program: every predicate's rows with and without
// sinks, every error's byte offset.
#include <cmath>
#include <map>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/view/predicate.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

namespace spanscope {
namespace {

class OracleColumns : public ViewColumns {
 public:
  OracleColumns(const OrderedJson& table, bool with_sinks) : table_(table), rows_(table.at("rows")), with_sinks_(with_sinks) {}
  size_t rows() const override { return rows_.size(); }
  bool eligible(size_t row) const override { return with_sinks_ || rows_[row].at("kind") != "sink"; }
  std::string word(size_t row, const std::string& column) const override { return rows_[row].at(column); }
  std::optional<std::string> text(size_t row) const override {
    const auto& t = rows_[row].at("text");
    return t.is_null() ? std::nullopt : std::optional<std::string>(t.get<std::string>());
  }
  std::string name(size_t row) const override { return rows_[row].at("name"); }
  bool under(size_t row, const std::string& path) const override {
    const std::string own = rows_[row].at("path");
    return own == path || own.rfind(path + "/", 0) == 0;
  }
  double turn() const override { return table_.at("turn"); }
  bool has_column(const std::string& name) const override {
    for (const char* c : {"attended", "ema", "cumulative", "mass", "share", "density", "lift", "spike", "reads", "read_rate", "first_read", "last_read", "tokens", "birth", "entropy"})
      if (name == c) return true;
    return false;
  }
  std::vector<std::string> column_names() const override { return {"attended"}; }
  bool has_word(const std::string& name) const override { return name == "role" || name == "kind" || name == "taint"; }
  int64_t layers() const override { return table_.at("layers"); }
  int64_t query_heads() const override { return table_.at("query_heads"); }
  int64_t moe_layers() const override { return table_.at("moe_layers"); }
  int64_t experts() const override { return table_.at("experts"); }
  std::optional<std::string> not_captured(const Scalar&) const override { return std::nullopt; }

  Value scalar(size_t row, const Scalar& s) const override {
    const auto& r = rows_[row];
    switch (s.kind) {
      case Scalar::Kind::column: {
        if (s.column == "lift" && r.at("lift_state") == "idle") return {std::nan(""), ValueState::idle};
        return value(r.at(s.column));
      }
      case Scalar::Kind::layer: {
        if (r.at("layer_mass").is_null()) return {};
        double mass = 0;
        for (int64_t l = s.a; l <= s.b; ++l) mass += r.at("layer_mass")[size_t(l)].get<double>();
        return ratio(mass, double(s.b - s.a + 1) * r.at("rows_per_head").get<double>() * double(query_heads()));
      }
      case Scalar::Kind::head:
        if (r.at("head_mass").is_null()) return {};
        return ratio(r.at("head_mass")[size_t(s.a)][size_t(s.b)], r.at("rows_per_head"));
      case Scalar::Kind::expert:
        if (r.at("expert_counts").is_null()) return {};
        return {r.at("expert_counts")[size_t(s.a)][size_t(s.b)].get<double>(), ValueState::value};
      case Scalar::Kind::mean:
      case Scalar::Kind::slope: return window(r.at("ring"), s);
    }
    return {};
  }

 private:
  static Value value(const OrderedJson& v) { return v.is_null() ? Value{} : Value{v.get<double>(), ValueState::value}; }
  static Value ratio(double n, double d) { return d > 0 ? Value{n / d, ValueState::value} : Value{}; }
  static Value window(const OrderedJson& ring, const Scalar& s) {
    const size_t size = ring.at("mass").size(), n = std::min<size_t>(size_t(s.a), size);
    double mass = 0, rows = 0, mx = 0, my = 0;
    std::vector<std::pair<double, double>> points;
    for (size_t i = size - n; i < size; ++i) {
      const double m = ring.at("mass")[i], d = ring.at("rows")[i];
      mass += m, rows += d;
      if (d > 0) points.push_back({double(i), m / d});
    }
    if (s.kind == Scalar::Kind::mean) return ratio(mass, rows);
    if (points.size() < 2) return {};
    for (auto [x, y] : points) mx += x / double(points.size()), my += y / double(points.size());
    double up = 0, down = 0;
    for (auto [x, y] : points) up += (x - mx) * (y - my), down += (x - mx) * (x - mx);
    return {up / down, ValueState::value};
  }
  const OrderedJson& table_;
  const OrderedJson& rows_;
  bool with_sinks_;
};

OrderedJson load(const std::string& path) {
  auto text = read_file(path);
  REQUIRE(text);
  auto json = parse_json(*text, path);
  REQUIRE(json);
  return *json;
}

TEST_CASE("predicates select the rows of the reference table") {
  const auto table_path = test::oracle("derived/views/table.json"), predicates_path = test::oracle("derived/views/predicates.json");
  if (!table_path || !predicates_path) return;
  const OrderedJson table = load(*table_path), cases = load(*predicates_path);
  REQUIRE(cases.at("predicates").size() == 60);
  for (const bool with_sinks : {false, true}) {
    const OracleColumns columns(table, with_sinks);
    for (const auto& c : cases.at("predicates")) {
      const std::string text = c.at("predicate");
      INFO(text << (with_sinks ? " (with sinks)" : ""));
      auto predicate = Predicate::parse(text, columns);
      REQUIRE(predicate);
      const auto chosen = predicate->evaluate(columns);
      std::vector<int> ids;
      for (size_t i = 0; i < chosen.size(); ++i)
        if (chosen[i] && columns.eligible(i)) ids.push_back(table.at("rows")[i].at("id"));
      CHECK(ids == c.at(with_sinks ? "with_sink" : "rows").get<std::vector<int>>());
    }
  }
}

TEST_CASE("wrong predicates say at which byte and what was expected") {
  const auto table_path = test::oracle("derived/views/table.json"), predicates_path = test::oracle("derived/views/predicates.json");
  if (!table_path || !predicates_path) return;
  const OrderedJson table = load(*table_path), cases = load(*predicates_path);
  const OracleColumns columns(table, false);
  REQUIRE(cases.at("errors").size() == 15);
  for (const auto& c : cases.at("errors")) {
    const std::string text = c.at("predicate");
    INFO(text);
    auto predicate = Predicate::parse(text, columns);
    REQUIRE_FALSE(predicate);
    REQUIRE(predicate.error().offset);
    CHECK(*predicate.error().offset == c.at("offset").get<uint64_t>());
    const std::string why = c.at("why");
    CHECK(predicate.error().message.find(why) != std::string::npos);
  }
}

}  // namespace
}  // namespace spanscope
