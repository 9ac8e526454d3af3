// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/view/predicate.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

namespace spanscope {

struct Predicate::Node {
  enum class Kind : uint8_t { all_of, any_of, negate, compare, word, text, name, under, missing, top } kind;
  std::vector<std::shared_ptr<const Node>> children;
  Scalar scalar;
  std::string op, word, text;
  bool relative_to_turn = false;
  double number = 0;
  size_t count = 0;
};

namespace {

using Node = Predicate::Node;
using NodePtr = std::shared_ptr<const Node>;

constexpr int kMaxDepth = 64;

struct Token {
  enum class Kind { end, word, number, string, symbol } kind = Kind::end;
  std::string text;
  size_t at = 0;
};

bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(const std::string& text, const ViewColumns& columns) : text_(text), columns_(columns) { next(); }

  Result<NodePtr> run() {
    auto node = expression(0);
    if (!node) return node;
    if (token_.kind != Token::Kind::end) return fail("unexpected input after the predicate");
    return node;
  }

 private:
  Error fail(const std::string& why) const { return fail_at(token_.at, why); }
  Error fail_at(size_t at, const std::string& why) const {
    return make_error(ErrorCode::invalid, "SPAN-PREDICATE", bad_string_ && at == token_.at ? "the string has no end" : why, "\"" + text_ + "\"", at);
  }

  void next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    token_ = {Token::Kind::end, "", at_};
    if (at_ >= text_.size()) return;
    const size_t begin = at_;
    const char c = text_[at_];
    if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
        ++at_;
        while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
      }
      if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
        size_t p = at_ + 1;
        if (p < text_.size() && (text_[p] == '+' || text_[p] == '-')) ++p;
        if (p < text_.size() && is_digit(text_[p])) {
          at_ = p;
          while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
        }
      }
      token_ = {Token::Kind::number, text_.substr(begin, at_ - begin), begin};
    } else if (is_word_char(c)) {
      while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
      token_ = {Token::Kind::word, text_.substr(begin, at_ - begin), begin};
    } else if (c == '"') {
      std::string value;
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
        value += text_[at_++];
      }
      if (at_ >= text_.size()) bad_string_ = true;
      else ++at_;
      token_ = {bad_string_ ? Token::Kind::end : Token::Kind::string, value, begin};
    } else {
      static const char* two[] = {">=", "<=", "!=", "==", ".."};
      size_t length = 1;
      for (const char* t : two)
        if (text_.compare(at_, 2, t) == 0) length = 2;
      at_ += length;
      token_ = {Token::Kind::symbol, text_.substr(begin, length), begin};
    }
  }

  bool is(const char* symbol) const { return token_.kind == Token::Kind::symbol && token_.text == symbol; }
  bool is_word(const char* word) const { return token_.kind == Token::Kind::word && token_.text == word; }

  Result<NodePtr> list(int depth, Node::Kind kind, const char* word) {
    auto first = kind == Node::Kind::any_of ? list(depth, Node::Kind::all_of, "and") : unary(depth);
    if (!first || !is_word(word)) return first;
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->children.push_back(*first);
    while (is_word(word)) {
      next();
      auto more = kind == Node::Kind::any_of ? list(depth, Node::Kind::all_of, "and") : unary(depth);
      if (!more) return more;
      node->children.push_back(*more);
    }
    return NodePtr(node);
  }
  Result<NodePtr> expression(int depth) {
    if (depth > kMaxDepth) return fail("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    return list(depth, Node::Kind::any_of, "or");
  }

  Result<NodePtr> unary(int depth) {
    if (depth > kMaxDepth) return fail("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    if (is_word("not")) {
      next();
      auto inner = unary(depth + 1);
      if (!inner) return inner;
      auto node = std::make_shared<Node>();
      node->kind = Node::Kind::negate;
      node->children.push_back(*inner);
      return NodePtr(node);
    }
    if (is("(")) {
      next();
      auto inner = expression(depth + 1);
      if (!inner) return inner;
      if (!is(")")) return fail("expected )");
      next();
      return inner;
    }
    return atom();
  }

  Result<NodePtr> atom() {
    if (token_.kind != Token::Kind::word) return fail("expected a column");
    auto node = std::make_shared<Node>();
    const Token first = token_;
    if ((first.text == "text" || first.text == "name") && peek() == "~") {
      next();
      next();
      if (token_.kind != Token::Kind::string) return fail("expected str: text in double quotes");
      node->kind = first.text == "text" ? Node::Kind::text : Node::Kind::name;
      node->text = token_.text;
      next();
      return NodePtr(node);
    }
    if (first.text == "under") {
      next();
      if (token_.kind != Token::Kind::string) return fail("expected str: a path in double quotes");
      node->kind = Node::Kind::under;
      node->text = token_.text;
      next();
      return NodePtr(node);
    }
    if (first.text == "missing") {
      next();
      if (!is("(")) return fail("expected (");
      next();
      auto s = scalar();
      if (!s) return std::move(s).error();
      if (!is(")")) return fail("expected )");
      next();
      node->kind = Node::Kind::missing;
      node->scalar = *s;
      return NodePtr(node);
    }
    if (first.text == "top") {
      next();
      auto n = integer();
      if (!n) return std::move(n).error();
      if (!is_word("by")) return fail("expected by");
      next();
      auto s = scalar();
      if (!s) return std::move(s).error();
      node->kind = Node::Kind::top;
      node->count = size_t(*n);
      node->scalar = *s;
      return NodePtr(node);
    }
    if (columns_.has_word(first.text)) {
      next();
      if (!is("=") && !is("!=") && !is("==")) return fail("expected = or !=");
      node->op = is("!=") ? "!=" : "=";
      next();
      if (token_.kind != Token::Kind::word && token_.kind != Token::Kind::string) return fail("expected a word");
      node->kind = Node::Kind::word;
      node->word = first.text;
      node->text = token_.text;
      next();
      return NodePtr(node);
    }
    auto s = scalar();
    if (!s) return std::move(s).error();
    static const char* ops[] = {">", ">=", "<", "<=", "=", "!=", "=="};
    if (std::none_of(std::begin(ops), std::end(ops), [&](const char* op) { return is(op); }))
      return fail("expected > >= < <= = or !=");
    node->kind = Node::Kind::compare;
    node->scalar = *s;
    node->op = is("==") ? "=" : token_.text;
    next();
    SPANSCOPE_TRY(number(*node));
    return NodePtr(node);
  }

  std::string peek() {
    const size_t at = at_;
    const Token token = token_;
    const bool bad = bad_string_;
    next();
    const std::string text = token_.kind == Token::Kind::symbol ? token_.text : "";
    at_ = at;
    token_ = token;
    bad_string_ = bad;
    return text;
  }

  std::string known_columns() const {
    std::string out;
    for (const std::string& name : columns_.column_names()) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

  Status number(Node& node) {
    if (is_word("turn")) {
      node.relative_to_turn = true;
      next();
      if (is("+") || is("-")) {
        const double sign = is("-") ? -1 : 1;
        next();
        if (token_.kind != Token::Kind::number) return fail("expected num");
        node.number = sign * std::strtod(token_.text.c_str(), nullptr);
        next();
      }
      return {};
    }
    double sign = 1;
    if (is("-")) {
      sign = -1;
      next();
    }
    if (token_.kind != Token::Kind::number) return fail("expected num");
    node.number = sign * std::strtod(token_.text.c_str(), nullptr);
    next();
    if (is("%")) {
      node.number /= 100;
      next();
    }
    return {};
  }

  Result<int64_t> integer() {
    if (token_.kind != Token::Kind::number || token_.text.find_first_not_of("0123456789") != std::string::npos || token_.text.size() > 15)
      return fail("expected an integer");
    const int64_t n = std::strtoll(token_.text.c_str(), nullptr, 10);
    next();
    return n;
  }

  // "l.h" inside brackets, which the number rule reads as one token.
  bool pair(const std::string& text, int64_t& a, int64_t& b) {
    const size_t dot = text.find('.');
    if (dot == std::string::npos || dot == 0 || text.size() > 18) return false;
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), text.data() + dot, a);
    const auto second = std::from_chars(text.data() + dot + 1, end, b);
    return first.ptr == text.data() + dot && second.ec == std::errc() && second.ptr == end;
  }

  Result<Scalar> scalar() {
    if (token_.kind != Token::Kind::word) return fail("expected a column");
    const Token name = token_;
    Scalar s;
    if ((name.text == "layer" || name.text == "head" || name.text == "expert") && peek() == "[") {
      next();
      next();
      const Token inside = token_;
      if (inside.kind != Token::Kind::number) return fail("expected a number");
      if (name.text == "layer") {
        s.kind = Scalar::Kind::layer;
        auto a = integer();
        if (!a) return std::move(a).error();
        s.a = s.b = *a;
        if (is("..")) {
          next();
          auto b = integer();
          if (!b) return std::move(b).error();
          s.b = *b;
        }
        if (s.a > s.b || s.b >= columns_.layers())
          return fail_at(inside.at, "outside the model: it has layers 0.." + std::to_string(columns_.layers() - 1));
      } else {
        const bool head = name.text == "head";
        s.kind = head ? Scalar::Kind::head : Scalar::Kind::expert;
        if (!pair(inside.text, s.a, s.b)) {
          if (head) return fail_at(inside.at, "expected head[a.b]: layer and query head");
          auto e = integer();
          if (!e) return std::move(e).error();
          s.a = -1;
          s.b = *e;
        } else {
          next();
        }
        const int64_t most_a = head ? columns_.layers() : columns_.moe_layers();
        const int64_t most_b = head ? columns_.query_heads() : columns_.experts();
        if (s.a >= most_a || s.b >= most_b || (s.a < 0 && most_a == 0))
          return fail_at(inside.at, "outside the model: it has " + std::to_string(most_a) + (head ? " layers of " : " mixture layers of ") +
                                        std::to_string(most_b) + (head ? " query heads" : " experts"));
      }
      if (!is("]")) return fail("expected ]");
      next();
    } else if ((name.text == "mean" || name.text == "slope") && peek() == "(") {
      s.kind = name.text == "mean" ? Scalar::Kind::mean : Scalar::Kind::slope;
      next();
      next();
      if (!is_word("last")) return fail("expected last");
      next();
      const size_t at = token_.at;
      auto n = integer();
      if (!n) return std::move(n).error();
      if (*n < 1) return fail_at(at, "expected an integer from 1");
      s.a = *n;
      if (!is_word("of")) return fail("expected of");
      next();
      if (!is_word("share")) return fail("expected share");
      next();
      if (!is(")")) return fail("expected )");
      next();
    } else {
      if (!columns_.has_column(name.text)) return fail("unknown column \"" + name.text + "\"; there are " + known_columns());
      s.column = name.text;
      next();
    }
    if (auto why = columns_.not_captured(s)) return fail_at(name.at, *why);
    return s;
  }

  const std::string& text_;
  const ViewColumns& columns_;
  size_t at_ = 0;
  Token token_;
  bool bad_string_ = false;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

// Upper and lower case of ASCII letters are the same; every other byte must be equal.
bool contains_text(const std::string& text, const std::string& part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(), [](char a, char b) { return lower(a) == lower(b); }) != text.end() ||
         part.empty();
}

bool compare(double x, const std::string& op, double y) {
  if (op == ">") return x > y;
  if (op == ">=") return x >= y;
  if (op == "<") return x < y;
  if (op == "<=") return x <= y;
  if (op == "=") return x == y;
  return x != y;
}

std::vector<uint8_t> evaluate_node(const Node& n, const ViewColumns& c) {
  const size_t rows = c.rows();
  std::vector<uint8_t> out(rows, 0);
  switch (n.kind) {
    case Node::Kind::all_of:
    case Node::Kind::any_of: {
      out = evaluate_node(*n.children[0], c);
      for (size_t k = 1; k < n.children.size(); ++k) {
        const auto more = evaluate_node(*n.children[k], c);
        for (size_t i = 0; i < rows; ++i) out[i] = n.kind == Node::Kind::all_of ? out[i] & more[i] : out[i] | more[i];
      }
      break;
    }
    case Node::Kind::negate: {
      out = evaluate_node(*n.children[0], c);
      for (auto& x : out) x = !x;
      break;
    }
    case Node::Kind::compare: {
      const double bound = n.number + (n.relative_to_turn ? c.turn() : 0);
      for (size_t i = 0; i < rows; ++i) {
        const Value v = c.scalar(i, n.scalar);
        out[i] = v.ok() && compare(v.number, n.op, bound);
      }
      break;
    }
    case Node::Kind::word:
      for (size_t i = 0; i < rows; ++i) out[i] = (c.word(i, n.word) == n.text) == (n.op == "=");
      break;
    case Node::Kind::text:
      for (size_t i = 0; i < rows; ++i)
        if (const auto text = c.text(i)) out[i] = contains_text(*text, n.text);
      break;
    case Node::Kind::name:
      for (size_t i = 0; i < rows; ++i) out[i] = contains_text(c.name(i), n.text);
      break;
    case Node::Kind::under:
      for (size_t i = 0; i < rows; ++i) out[i] = c.under(i, n.text);
      break;
    case Node::Kind::missing:
      for (size_t i = 0; i < rows; ++i) out[i] = c.scalar(i, n.scalar).state == ValueState::missing;
      break;
    case Node::Kind::top: {
      std::vector<std::pair<double, size_t>> ranked;
      for (size_t i = 0; i < rows; ++i)
        if (const Value v = c.scalar(i, n.scalar); v.ok() && c.eligible(i)) ranked.push_back({v.number, i});
      std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
      for (size_t k = 0; k < std::min(n.count, ranked.size()); ++k) out[ranked[k].second] = 1;
      break;
    }
  }
  return out;
}

const Node* find_compared(const Node& n) {
  if (n.kind == Node::Kind::compare || n.kind == Node::Kind::top) return &n;
  for (const auto& child : n.children)
    if (const Node* found = find_compared(*child)) return found;
  return nullptr;
}

}  // namespace

std::string Scalar::name() const {
  switch (kind) {
    case Kind::column: return column;
    case Kind::layer: return "layer[" + std::to_string(a) + (a == b ? "" : ".." + std::to_string(b)) + "]";
    case Kind::head: return "head[" + std::to_string(a) + "." + std::to_string(b) + "]";
    case Kind::expert: return a < 0 ? "expert[" + std::to_string(b) + "]" : "expert[" + std::to_string(a) + "." + std::to_string(b) + "]";
    case Kind::mean: return "mean(last " + std::to_string(a) + " of share)";
    case Kind::slope: return "slope(last " + std::to_string(a) + " of share)";
  }
  return column;
}

Result<Predicate> Predicate::parse(const std::string& text, const ViewColumns& columns) {
  auto root = Parser(text, columns).run();
  if (!root) return std::move(root).error();
  Predicate out;
  out.root_ = std::move(*root);
  return out;
}

std::vector<uint8_t> Predicate::evaluate(const ViewColumns& columns) const { return evaluate_node(*root_, columns); }
std::optional<Scalar> Predicate::first_scalar() const {
  const Node* node = find_compared(*root_);
  return node ? std::optional<Scalar>(node->scalar) : std::nullopt;
}
int Predicate::first_direction() const {
  const Node* node = find_compared(*root_);
  if (!node) return 0;
  return node->kind == Node::Kind::top || node->op == ">" || node->op == ">=" ? 1 : node->op == "<" || node->op == "<=" ? -1 : 0;
}

}  // namespace spanscope
