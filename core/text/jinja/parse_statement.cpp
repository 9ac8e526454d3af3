// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>

#include <algorithm>

#include "core/text/jinja/parser.h"

namespace spanscope::jinja {

Parser::Nest::Nest(Parser& parser) : parser_(parser) {
  if (parser_.depth_ >= kMostSyntaxDepth) parser_.fail("the template is nested too deeply");
  ++parser_.depth_;
}

void Parser::fail(const std::string& message, Place place) { throw Failure{trouble(Trouble::syntax, message, place)}; }
void Parser::refuse(const std::string& what, Place place) {
  throw Failure{trouble(Trouble::unsupported, what + " is outside of the supported part of the template language", place)};
}

bool Parser::take_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}
bool Parser::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}
void Parser::expect_op(std::string_view op) {
  if (!take_op(op)) fail(fmt::format("expected token '{}', got '{}'", op, describe(now())));
}
void Parser::expect_name(std::string_view name) {
  if (!take_name(name)) fail(fmt::format("expected token '{}', got '{}'", name, describe(now())));
}
void Parser::expect(TokenType type) {
  if (now().type != type) fail(fmt::format("expected token '{}', got '{}'", describe({type, "", {}}), describe(now())));
  take();
}
std::string Parser::identifier() {
  if (now().type != TokenType::name) fail(fmt::format("expected token 'name', got '{}'", describe(now())));
  return take().text;
}

Names Parser::intern(const std::string& name) {
  const auto [found, added] = interned_.emplace(name, Names(program_.names.size()));
  if (added) program_.names.push_back(name);
  return found->second;
}

Program Parser::run() {
  program_.body = body({});
  return std::move(program_);
}

// Up to a tag named in `ends`, whose name is the next token then; without ends up to the end of the template.
Body Parser::body(std::initializer_list<std::string_view> ends) {
  const Nest nest(*this);
  Body out;
  for (;;) {
    const Token& token = now();
    switch (token.type) {
      case TokenType::data: {
        Statement text;
        text.place = token.place;
        text.constant = text_constant(take().text);
        out.push_back(std::move(text));
        break;
      }
      case TokenType::print_begin: {
        Statement print;
        print.op = Statement::Op::print;
        print.place = take().place;
        print.value = tuple(true, false);
        expect(TokenType::print_end);
        out.push_back(std::move(print));
        break;
      }
      case TokenType::block_begin: {
        take();
        if (now().type == TokenType::name && std::find(ends.begin(), ends.end(), now().text) != ends.end()) return out;
        out.push_back(statement());
        break;
      }
      default:
        if (ends.size() == 0) return out;
        fail(fmt::format("Unexpected end of template: expected the tag '{}'", *(ends.end() - 1)));
    }
  }
}

Statement Parser::statement() {
  if (now().type != TokenType::name) fail("tag name expected");
  const Token tag = take();
  Statement out;
  if (tag.text == "if") out = conditional();
  else if (tag.text == "for") out = loop();
  else if (tag.text == "set") out = set();
  else if (tag.text == "macro") out = macro();
  else if (tag.text == "call") out = call_block();
  else if (tag.text == "filter") out = filter_block();
  else if (tag.text == "with") out = with();
  else if (tag.text == "generation") out = generation();
  else if (tag.text == "break" || tag.text == "continue") {
    --at_;
    out = jump();
  } else {
    constexpr std::string_view kOther[] = {"include", "extends", "import", "from", "block", "autoescape", "print"};
    if (std::find(std::begin(kOther), std::end(kOther), tag.text) != std::end(kOther)) refuse("the tag \"" + tag.text + "\"", tag.place);
    fail("Encountered unknown tag '" + tag.text + "'.", tag.place);
  }
  out.place = tag.place;
  return out;
}

Statement Parser::conditional() {
  Statement out;
  out.op = Statement::Op::conditional;
  ++conditions_;
  for (;;) {
    Branch branch;
    branch.condition = tuple(false, false);
    expect(TokenType::block_end);
    branch.body = body({"elif", "else", "endif"});
    out.branches.push_back(std::move(branch));
    if (take_name("elif")) continue;
    if (take_name("else")) {
      expect(TokenType::block_end);
      Branch otherwise;
      otherwise.body = body({"endif"});
      out.branches.push_back(std::move(otherwise));
    }
    break;
  }
  expect_name("endif");
  end_block();
  --conditions_;
  return out;
}

Target Parser::one_target(bool attributes) {
  const Nest nest(*this);
  Target out;
  out.place = now().place;
  if (take_op("(")) {
    out = target(false);
    expect_op(")");
    return out;
  }
  const std::string name = identifier();
  for (std::string_view reserved : {"true", "false", "none", "True", "False", "None", "loop"})
    if (name == reserved && !(name == "loop" && is_op("."))) fail(fmt::format("can't assign to '{}'", name), out.place);
  if (std::isdigit(uint8_t(name[0]))) fail("Invalid character in identifier", out.place);
  out.name = intern(name);
  if (attributes && take_op(".")) {
    out.form = Target::Form::attribute;
    out.attribute = identifier();
  }
  return out;
}

Target Parser::target(bool attributes) {
  Target first = one_target(attributes);
  if (!is_op(",")) return first;
  Target out;
  out.form = Target::Form::tuple;
  out.place = first.place;
  out.parts.push_back(std::move(first));
  while (take_op(",")) {
    if (is_name("in") || is_op("=") || is_op(")") || now().type == TokenType::block_end) break;
    out.parts.push_back(one_target(attributes));
  }
  return out;
}

Statement Parser::loop() {
  Statement out;
  out.op = Statement::Op::loop;
  out.target = target(false);
  expect_name("in");
  out.value = tuple(false, false);
  if (take_name("if")) out.condition = expression();
  out.recursive = take_name("recursive");
  expect(TokenType::block_end);
  ++loops_;
  out.body = body({"else", "endfor"});
  --loops_;
  if (take_name("else")) {
    expect(TokenType::block_end);
    out.otherwise = body({"endfor"});
  }
  expect_name("endfor");
  end_block();
  return out;
}

Statement Parser::set() {
  Statement out;
  out.op = Statement::Op::set;
  out.target = target(true);
  if (take_op("=")) {
    out.value = tuple(true, false);
    end_block();
    return out;
  }
  out.op = Statement::Op::set_block;
  if (is_op("|")) {
    take();
    out.value = filter(nullptr);
  }
  expect(TokenType::block_end);
  out.body = body({"endset"});
  expect_name("endset");
  end_block();
  return out;
}

void Parser::parameters(Statement& out) {
  expect_op("(");
  while (!is_op(")")) {
    if (!out.parameters.empty()) expect_op(",");
    const Place place = now().place;
    std::string name = identifier();
    if (std::find(out.parameter_names.begin(), out.parameter_names.end(), name) != out.parameter_names.end())
      fail(fmt::format("duplicate argument '{}' in a macro", name), place);
    out.parameters.push_back(intern(name));
    out.parameter_names.push_back(std::move(name));
    if (take_op("=")) out.defaults.push_back(expression());
    else if (!out.defaults.empty()) fail("non-default argument follows default argument");
  }
  expect_op(")");
}

Statement Parser::macro() {
  Statement out;
  out.op = Statement::Op::macro;
  Statement* const outer = in_macro_;
  const uint32_t loops = std::exchange(loops_, 0);
  in_macro_ = &out;
  out.name = identifier();
  out.name_id = intern(out.name);
  parameters(out);
  expect(TokenType::block_end);
  out.body = body({"endmacro"});
  expect_name("endmacro");
  end_block();
  in_macro_ = outer;
  loops_ = loops;
  return out;
}

Statement Parser::call_block() {
  Statement out;
  out.op = Statement::Op::call_block;
  if (is_op("(")) parameters(out);
  out.value = expression();
  if (out.value->op != Expr::Op::call) fail("expected call", out.value->place);
  expect(TokenType::block_end);
  out.name = "caller";
  Statement* const outer = in_macro_;
  const uint32_t loops = std::exchange(loops_, 0);
  in_macro_ = &out;
  out.body = body({"endcall"});
  in_macro_ = outer;
  loops_ = loops;
  expect_name("endcall");
  end_block();
  return out;
}

Statement Parser::filter_block() {
  Statement out;
  out.op = Statement::Op::filter_block;
  out.value = filter(nullptr);
  expect(TokenType::block_end);
  out.body = body({"endfilter"});
  expect_name("endfilter");
  end_block();
  return out;
}

Statement Parser::with() {
  Statement out;
  out.op = Statement::Op::with;
  while (now().type != TokenType::block_end) {
    if (!out.targets.empty()) expect_op(",");
    out.targets.push_back(one_target(false));
    expect_op("=");
    out.values.push_back(expression());
  }
  end_block();
  out.body = body({"endwith"});
  expect_name("endwith");
  end_block();
  return out;
}

Statement Parser::generation() {
  Statement out;
  out.op = Statement::Op::generation;
  expect(TokenType::block_end);
  const uint32_t loops = std::exchange(loops_, 0);
  out.body = body({"endgeneration"});
  loops_ = loops;
  expect_name("endgeneration");
  end_block();
  return out;
}

Statement Parser::jump() {
  const Token tag = take();
  Statement out;
  out.op = tag.text == "break" ? Statement::Op::leave : Statement::Op::again;
  if (loops_ == 0) fail("'" + tag.text + "' outside loop", tag.place);
  end_block();
  return out;
}

Program parse(std::string_view source) { return Parser(source).run(); }

}  // namespace spanscope::jinja
