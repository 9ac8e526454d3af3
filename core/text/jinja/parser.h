// SPDX-License-Identifier: GPL-3.0-or-later
// Tokens to statements and expressions. Not for: other folders. Thread: one.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/text/jinja/ast.h"
#include "core/text/jinja/lexer.h"

namespace spanscope::jinja {

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}
  Program run();

 private:
  // Syntax may nest only so deep: every function that calls itself through others holds one of these.
  class Nest {
   public:
    explicit Nest(Parser& parser);
    ~Nest() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool is_op(std::string_view op) const { return now().type == TokenType::op && now().text == op; }
  bool is_name(std::string_view name) const { return now().type == TokenType::name && now().text == name; }
  bool take_op(std::string_view op);
  bool take_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(TokenType type);
  [[noreturn]] void fail(const std::string& message) const { fail(message, now().place); }
  [[noreturn]] static void fail(const std::string& message, Place place);
  [[noreturn]] static void refuse(const std::string& what, Place place);
  std::string identifier();
  Names intern(const std::string& name);

  // Statements.
  Body body(std::initializer_list<std::string_view> ends);
  Statement statement();
  Statement conditional();
  Statement loop();
  Statement set();
  Statement macro();
  Statement call_block();
  Statement filter_block();
  Statement with();
  Statement generation();
  Statement jump();
  void parameters(Statement& out);
  void end_block() { expect(TokenType::block_end); }
  Target target(bool attributes);
  Target one_target(bool attributes);

  // Expressions, loosest first.
  ExprPtr expression() { return conditional_expression(); }
  ExprPtr tuple(bool with_condition, bool parenthesised);
  bool tuple_ends() const;
  ExprPtr conditional_expression();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr of);
  ExprPtr filters(ExprPtr of);
  ExprPtr filter(ExprPtr of);
  ExprPtr test(ExprPtr of);
  ExprPtr subscript(ExprPtr of);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr of);
  ExprPtr number();
  std::vector<Argument> call_arguments();
  ExprPtr node(Expr::Op op, Place place, std::vector<ExprPtr> kids = {});
  static void grow(Expr& of, const ExprPtr& kid);
  ExprPtr constant(Value value, Place place);
  Value text_constant(std::string text);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
  uint32_t conditions_ = 0;  // an unknown filter or test inside a condition is an error only when it is reached
  uint32_t loops_ = 0;
  Statement* in_macro_ = nullptr;
  Program program_;
  std::unordered_map<std::string, Names> interned_;
};

}  // namespace spanscope::jinja
