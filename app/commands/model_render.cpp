// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model render: a conversation through a model's chat template, with the origin of every byte. No weights are
// read.
#include <fmt/format.h>

#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/json_lines.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/chat/conversation.h"
#include "core/model/weights.h"
#include "core/text/chat_template.h"

namespace spanscope {
namespace {

struct RenderOptions {
  std::string model, chat, file, jsonl, now, extra;
  bool no_generation_prompt = false;
};

Error usage(const std::string& message) { return make_error(ErrorCode::invalid, "SPAN-USAGE", message, "model render"); }

OrderedJson ranges_json(const std::vector<OriginRange>& ranges) {
  OrderedJson out = OrderedJson::array();
  for (const OriginRange& r : ranges) {
    out.push_back({r.begin, r.end, r.field});
    if (r.verbatim) {
      out.back().push_back(r.source.begin);
      out.back().push_back(r.source.end);
    }
  }
  return out;
}

// The kinds that scripts tell apart: what the template raised, what does not parse, and the rest by tag.
const char* kind_of(const Error& error) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"SPAN-TEMPLATE-RAISED", "raise_exception"}, {"SPAN-TEMPLATE-SYNTAX", "syntax"}, {"SPAN-TEMPLATE-TYPE", "TypeError"},
      {"SPAN-TEMPLATE-UNDEFINED", "UndefinedError"}, {"SPAN-TEMPLATE-VALUE", "ValueError"}, {"SPAN-TEMPLATE-SECURITY", "SecurityError"},
      {"SPAN-TEMPLATE-RUNTIME", "TemplateRuntimeError"}, {"SPAN-TEMPLATE-ZERO", "ZeroDivisionError"}, {"SPAN-TEMPLATE-LIMIT", "limit"},
      {"SPAN-TEMPLATE-UNSUPPORTED", "unsupported"}};
  for (const auto& [tag, kind] : kKinds)
    if (error.tag == tag) return kind;
  return "input";
}

OrderedJson answer_json(const Result<Rendered>& rendered) {
  // Text that is no UTF-8 cannot stand in JSON; the ranges keep counting its bytes.
  if (rendered) return {{"rendered", rendered->text}, {"ranges", ranges_json(rendered->ranges)}};
  const Error& e = rendered.error();
  OrderedJson error = {{"kind", kind_of(e)}, {"message", e.message}};
  if (!e.where.empty()) error["where"] = e.where;
  return {{"error", std::move(error)}};
}

std::string dump(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

Status read_line(const OrderedJson& line, const std::string& where, TemplateInput& input) {
  if (!line.is_object()) return make_error(ErrorCode::invalid, "SPAN-JSON", "expected an object", where);
  for (auto it = line.begin(); it != line.end(); ++it) {
    const std::string& key = it.key();
    if (key == "messages") input.messages = *it;
    else if (key == "tools") input.tools = *it;
    else if (key == "documents") input.documents = *it;
    else if (key == "add_generation_prompt") {
      if (!it->is_boolean()) return make_error(ErrorCode::invalid, "SPAN-JSON", "expected true or false", where + " " + key);
      input.add_generation_prompt = it->get<bool>();
    } else if (key == "kwargs") {
      if (!it->is_object() && !it->is_null()) return make_error(ErrorCode::invalid, "SPAN-JSON", "expected an object", where + " " + key);
      if (it->is_object()) input.extra.update(*it);
    } else if (key == "bos_token" || key == "eos_token") {
      if (!it->is_null()) input.extra[key] = *it;
    } else if (key == "strftime_now") {
      if (it->is_null()) continue;
      if (!it->is_string()) return make_error(ErrorCode::invalid, "SPAN-JSON", "expected a time like \"2026-11-30 14:05:09\"", where + " " + key);
      auto now = parse_local_time(it->get_ref<const std::string&>());
      if (!now) {
        now.error().where = where + " " + key;
        return std::move(now).error();
      }
      input.now = *now;
    } else {
      input.extra[key] = *it;  // a variable that stands beside the known ones
    }
  }
  return {};
}

// One answer line for each line of the file. What a template refuses is an answer; a line that is no input ends the run.
int run_lines(const RenderOptions& o, const Result<std::shared_ptr<const ChatTemplate>>& chat_template, const TemplateInput& defaults) {
  const auto status = for_each_json_line(o.jsonl, [&](const OrderedJson& line, const std::string& where) -> Status {
    TemplateInput input = defaults;
    SPANSCOPE_TRY(read_line(line, where, input));
    fmt::print("{}\n", dump(answer_json(chat_template ? (*chat_template)->render(input) : Result<Rendered>(chat_template.error()))));
    return {};
  });
  return status ? kExitOk : report_error(status.error());
}

int run(const RenderOptions& o, const Context& context) {
  if (o.chat.empty() == o.jsonl.empty()) return report_error(usage("give a conversation or --jsonl"));
  if (o.model == "-" && o.file.empty()) return report_error(usage("without a model --template names the template's file"));
  Vocabulary vocabulary;
  std::string text;
  if (o.model != "-") {
    auto model = load_vocabulary(o.model);
    if (!model) return report_error(model.error());
    vocabulary = (*model)->vocabulary;
    text = (*model)->chat_template;
  }
  if (!o.file.empty()) {
    auto bytes = read_file(o.file);
    if (!bytes) return report_error(bytes.error());
    text = std::move(*bytes);
  }
  auto chat_template = make_chat_template(text, vocabulary);
  if (!chat_template && o.jsonl.empty()) {
    if (!context.json) return report_error(chat_template.error());
    fmt::print("{}\n", dump(answer_json(chat_template.error())));
    return kExitFailure;
  }
  TemplateInput input;
  if (!o.now.empty()) {
    auto now = parse_local_time(o.now);
    if (!now) {
      now.error().where = "--now";
      return report_error(now.error());
    }
    input.now = *now;
  }
  if (!o.extra.empty()) {
    auto extra = parse_json(o.extra, "--set");
    if (!extra) return report_error(extra.error());
    if (!extra->is_object()) return report_error(make_error(ErrorCode::invalid, "SPAN-JSON", "expected an object", "--set"));
    input.extra = std::move(*extra);
  }
  if (!o.jsonl.empty()) return run_lines(o, chat_template, input);
  auto conversation = read_conversation(o.chat);
  if (!conversation) return report_error(conversation.error());
  for (const Message& message : conversation->messages) input.messages.push_back(message.json);
  input.tools = conversation->tools;
  // An open turn is asked for an answer; a conversation that ends with one is shown as it is.
  input.add_generation_prompt = !o.no_generation_prompt && (conversation->messages.empty() || conversation->messages.back().role != "assistant");
  const auto rendered = (*chat_template)->render(input);
  if (context.json) {
    fmt::print("{}\n", dump(answer_json(rendered)));
    return rendered ? kExitOk : kExitFailure;
  }
  if (!rendered) return report_error(rendered.error());
  std::fwrite(rendered->text.data(), 1, rendered->text.size(), stdout);
  for (const std::string& field : rendered->unprinted) note(context, "the template does not print " + field);
  return kExitOk;
}

}  // namespace

void add_model_render(CLI::App& parent, Context& context) {
  CLI::App* command = parent.add_subcommand("render", "A conversation through the chat template, with the origin of every byte");
  command->footer("Example: spanscope model render resources/demo/relay-dense.gguf resources/demo/demo12.json --json");
  auto options = std::make_shared<RenderOptions>();
  command->add_option("model", options->model, "GGUF file, Hugging Face directory or ollama:NAME; - with --template")->required();
  command->add_option("chat", options->chat, "conversation (- is standard input)");
  command->add_option("--template", options->file, "use the template in this file instead of the model's");
  command->add_option("--jsonl", options->jsonl, "lines of {\"messages\", \"tools\", \"documents\", \"add_generation_prompt\", \"kwargs\", "
                                                 "\"bos_token\", \"eos_token\", \"strftime_now\"}");
  command->add_option("--now", options->now, "the time that the template may print (default: this machine's clock)");
  command->add_option("--set", options->extra, "JSON object of further variables, such as {\"enable_thinking\": false}");
  command->add_flag("--no-generation-prompt", options->no_generation_prompt, "end with the last message");
  command->callback([options, &context] { context.run = [options, &context] { return run(*options, context); }; });
}

}  // namespace spanscope
