// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace spanscope {
namespace {

constexpr size_t kDepth = 64;
constexpr size_t kMostValues = size_t(1) << 21;  // outside of vocabulary and merges
constexpr size_t kMostTokens = size_t(1) << 22, kMostMerges = size_t(1) << 23;
constexpr size_t kLongestToken = size_t(1) << 16;

// Events of the parser become values of `root`, or entries of the arrays while one of those is open.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(TokenizerJson& out, std::string_view text, const std::string& where) : out_(out), text_(text), where_(where) {}
  std::optional<Error> error;

  bool null() override { return value(Json()); }
  bool boolean(bool b) override { return value(Json(b)); }
  bool number_integer(number_integer_t n) override { return number(double(n), n); }
  bool number_unsigned(number_unsigned_t n) override {
    if (n > uint64_t(INT64_MAX)) return part_ == Part::none ? value(Json(n)) : number(double(n), -1);
    return number(double(n), int64_t(n));
  }
  bool number_float(number_float_t n, const string_t&) override {
    if (part_ == Part::none) return value(Json(n));
    return number(n, std::nullopt);
  }
  bool string(string_t& text) override {
    if (part_ == Part::none) return value(Json(std::move(text)));
    if (text.size() > kLongestToken) return fail(ErrorCode::limit, "SPAN-LIMIT", fmt::format("a token has {} bytes, more than {}", text.size(), kLongestToken));
    if (part_ == Part::vocabulary && inside_ == 2 && pair_.empty() && !scored_) {
      pair_ = std::move(text);
      scored_ = true;
      return true;
    }
    if (part_ == Part::merges && inside_ == 1) {
      const size_t left = text.find(' ', 1);
      if (left == std::string::npos || left + 1 == text.size()) return fail_value("two pieces with a space between");
      return merge(std::move(text), left);
    }
    if (part_ == Part::merges && inside_ == 2) {
      if (pieces_ == 2) return fail_value("two pieces");
      if (++pieces_ == 1) pair_ = std::move(text);
      else right_ = std::move(text);
      return true;
    }
    return fail_value(part_ == Part::merges ? "a list of pairs" : "an id or a pair of text and score");
  }
  bool binary(binary_t&) override { return fail_value("text"); }
  bool start_object(size_t) override {
    if (part_ != Part::none) {
      if (part_ == Part::vocabulary && inside_ == 0) return open_part(true);
      return fail_value("no object");
    }
    return open(Json::object());
  }
  bool start_array(size_t) override {
    if (part_ == Part::none) return open(Json::array());
    if (inside_ == 0) return open_part(false);
    if (inside_ == 1 && !object_) {
      ++inside_;
      pair_.clear();
      right_.clear();
      scored_ = has_score_ = false;
      pieces_ = 0;
      return true;
    }
    return fail_value("no list");
  }
  bool key(string_t& text) override {
    if (part_ != Part::none) {
      if (text.size() > kLongestToken) return fail(ErrorCode::limit, "SPAN-LIMIT", fmt::format("a token has {} bytes, more than {}", text.size(), kLongestToken));
      pair_ = std::move(text);
      return true;
    }
    if (stack_.size() == 1) in_model_ = text == "model";
    if (stack_.size() == 2 && in_model_) {
      if (text == "vocab") return begin_part(Part::vocabulary, out_.has_vocabulary, "vocab");
      if (text == "merges") return begin_part(Part::merges, out_.has_merges, "merges");
    }
    key_ = std::move(text);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (part_ == Part::none || inside_ == 1) return close();
    --inside_;
    if (part_ == Part::vocabulary) {
      if (!scored_ || !has_score_) return fail_value("pairs of text and score");
      if (out_.scored.size() == kMostTokens) return too_many("tokens", kMostTokens);
      out_.scored.emplace_back(std::move(pair_), score_);
      return true;
    }
    if (pieces_ != 2 || pair_.empty() || right_.empty()) return fail_value("pairs of pieces");
    const size_t left = pair_.size();
    return merge(pair_ + ' ' + right_, left);
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& problem) override {
    std::string what = problem.what();
    if (const size_t colon = what.find("syntax error"); colon != std::string::npos) what = what.substr(colon);
    const std::string_view before = text_.substr(0, std::min(position > 0 ? position - 1 : 0, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1) + 1;
    error = make_error(ErrorCode::corrupt, "SPAN-JSON", what, fmt::format("{}:{}:{}", where_, line, column), before.size());
    return false;
  }

 private:
  enum class Part { none, vocabulary, merges };

  bool fail(ErrorCode code, const char* tag, std::string message) {
    error = make_error(code, tag, std::move(message), where_);
    return false;
  }
  bool fail_value(const char* expected) {
    const bool merges = part_ == Part::merges;
    return fail(ErrorCode::corrupt, "SPAN-JSON",
                fmt::format("model.{} [{}]: expected {}", merges ? "merges" : "vocab",
                            merges ? out_.merges.size() : std::max(out_.ids.size(), out_.scored.size()), expected));
  }
  bool too_many(const char* what, size_t limit) { return fail(ErrorCode::limit, "SPAN-LIMIT", fmt::format("more than {} {}", limit, what)); }

  bool number(double value_of, std::optional<int64_t> whole) {
    if (part_ == Part::none) return value(Json(*whole));
    if (part_ != Part::vocabulary) return fail_value("text");
    if (object_ && inside_ == 1) {
      if (!whole || *whole < 0 || *whole > INT32_MAX) return fail_value("ids from 0 to 2147483647");
      if (out_.ids.size() == kMostTokens) return too_many("tokens", kMostTokens);
      out_.ids.emplace_back(std::move(pair_), *whole);
      return true;
    }
    if (inside_ != 2 || !scored_ || has_score_) return fail_value("pairs of text and score");
    score_ = value_of;
    return has_score_ = true;
  }
  bool merge(std::string line, size_t left) {
    if (out_.merges.size() == kMostMerges) return too_many("merges", kMostMerges);
    out_.merges.push_back(std::move(line));
    out_.merge_left.push_back(uint32_t(left));
    return true;
  }
  bool begin_part(Part part, bool& seen, const char* name) {
    if (seen) return fail(ErrorCode::corrupt, "SPAN-JSON", fmt::format("model.{} is there twice", name));
    seen = true;
    part_ = part;
    inside_ = 0;
    return true;
  }
  bool open_part(bool object) {
    object_ = object;
    inside_ = 1;
    return true;
  }
  Json* put(Json&& json) {
    if (++values_ > kMostValues) {
      too_many("values", kMostValues);
      return nullptr;
    }
    if (stack_.empty()) {
      out_.root = std::move(json);
      return &out_.root;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(json));
      return &parent.back();
    }
    return &(parent[key_] = std::move(json));
  }
  bool value(Json&& json) {
    // A list that is null counts as one that is not there.
    if (part_ != Part::none && inside_ == 0 && json.is_null()) {
      (part_ == Part::merges ? out_.has_merges : out_.has_vocabulary) = false;
      part_ = Part::none;
      return true;
    }
    if (part_ != Part::none) return fail_value("text and numbers");
    return put(std::move(json)) != nullptr;
  }
  bool open(Json&& json) {
    if (stack_.size() == kDepth)
      return fail(ErrorCode::limit, "SPAN-JSON-DEPTH", fmt::format("nested deeper than {} levels", kDepth));
    Json* there = put(std::move(json));
    if (there) stack_.push_back(there);
    return there != nullptr;
  }
  bool close() {
    if (part_ != Part::none) {
      part_ = Part::none;
      return true;
    }
    stack_.pop_back();
    return true;
  }

  TokenizerJson& out_;
  std::string_view text_;
  const std::string& where_;
  std::vector<Json*> stack_;  // open containers: a value moves only when its parent grows, and then it is closed
  std::string key_;
  size_t values_ = 0;
  bool in_model_ = false;
  Part part_ = Part::none;
  int inside_ = 0;       // containers open inside the part
  bool object_ = false;  // the part is an object
  std::string pair_, right_;
  int pieces_ = 0;
  bool scored_ = false, has_score_ = false;  // of a pair: the text, the score is there
  double score_ = 0;
};

}  // namespace

Result<TokenizerJson> parse_tokenizer_json(std::string_view text, const std::string& where) {
  TokenizerJson out;
  Builder builder(out, text, where);
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  if (builder.error) return std::move(*builder.error);
  if (!parsed || !out.root.is_object()) return make_error(ErrorCode::corrupt, "SPAN-JSON", "expected an object", where);
  return out;
}

}  // namespace spanscope
