// SPDX-License-Identifier: GPL-3.0-or-later
// OpenAI-style conversations: a JSON array of messages, an object that holds one, or one message a line.
#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "core/base/files.h"
#include "core/chat/conversation.h"
#include "core/chat/json_places.h"

namespace spanscope {
namespace {

constexpr std::array<const char*, 7> kRoles = {"system", "developer", "user", "assistant", "tool", "document", "function"};

std::string shown(const OrderedJson& value) {
  std::string text = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  if (text.size() > 60) {
    size_t cut = 57;
    while (cut > 0 && (uint8_t(text[cut]) & 0xc0) == 0x80) --cut;  // not inside a character
    text = text.substr(0, cut) + "...";
  }
  return text;
}

// One message as it stands in the file.
struct Source {
  std::string where;  // file
  std::function<uint64_t(const char* key)> line;  // of a key's value, or of the message when the key is not there
};

class Reader {
 public:
  explicit Reader(Conversation& out) : out_(out) {}

  Status add(const OrderedJson& json, const Source& source) {
    field_ = "messages[" + std::to_string(out_.messages.size()) + "]";
    source_ = &source;
    if (!json.is_object()) return fail("", "expected an object, found " + shown(json));
    Message message;
    message.json = json;
    message.where = source.where + ":" + std::to_string(source.line(""));
    const auto role = json.find("role");
    if (role == json.end()) return fail("", "\"role\" is missing");
    if (!role->is_string()) return fail("role", "expected text, found " + shown(*role));
    message.role = role->get<std::string>();
    if (std::none_of(kRoles.begin(), kRoles.end(), [&](const char* r) { return message.role == r; }))
      return fail("role", "unknown role " + shown(*role) + "; expected system, developer, user, assistant, tool or document");
    if (message.role == "function") message.role = "tool";  // the older name; the template still sees what the file says
    SPANSCOPE_TRY(text_field(json, "name", message.name));
    if (const auto id = json.find("id"); id != json.end() && id->is_number_integer()) message.id = id->dump();
    else SPANSCOPE_TRY(text_field(json, "id", message.id));
    SPANSCOPE_TRY(read_calls(json, message));
    SPANSCOPE_TRY(read_content(json, message));
    if (message.role == "tool" && message.name.empty()) message.name = tool_name(json);
    out_.messages.push_back(std::move(message));
    return {};
  }

 private:
  Error fail(const std::string& key, const std::string& what) const {
    const std::string head = key.substr(0, key.find_first_of("[."));
    return make_error(ErrorCode::invalid, "SPAN-CHAT", what,
                      source_->where + ":" + std::to_string(source_->line(head.c_str())) + " " + field_ +
                          (key.empty() ? "" : "." + key));
  }

  Status text_field(const OrderedJson& json, const char* key, std::string& out) const {
    const auto value = json.find(key);
    if (value == json.end() || value->is_null()) return {};
    if (!value->is_string()) return fail(key, "expected text, found " + shown(*value));
    out = value->get<std::string>();
    return {};
  }

  Status read_calls(const OrderedJson& json, const Message& message) {
    const auto calls = json.find("tool_calls");
    if (calls == json.end() || calls->is_null()) return {};
    if (!calls->is_array()) return fail("tool_calls", "expected a list, found " + shown(*calls));
    if (!calls->empty() && message.role != "assistant")
      return fail("tool_calls", "only an assistant calls tools, this message has role \"" + message.role + "\"");
    for (size_t i = 0; i < calls->size(); ++i) {
      const OrderedJson& call = (*calls)[i];
      const std::string key = "tool_calls[" + std::to_string(i) + "]";
      if (!call.is_object()) return fail(key, "expected an object, found " + shown(call));
      const auto function = call.find("function");
      if (function == call.end()) continue;
      if (!function->is_object()) return fail(key + ".function", "expected an object, found " + shown(*function));
      const auto name = function->find("name");
      if (name == function->end() || !name->is_string()) return fail(key + ".function.name", "expected text");
      if (const auto id = call.find("id"); id != call.end() && id->is_string()) call_names_[id->get<std::string>()] = name->get<std::string>();
    }
    return {};
  }

  std::string tool_name(const OrderedJson& json) const {
    const auto id = json.find("tool_call_id");
    if (id == json.end() || !id->is_string()) return {};
    const auto found = call_names_.find(id->get<std::string>());
    return found == call_names_.end() ? std::string() : found->second;
  }

  Status read_content(const OrderedJson& json, Message& message) {
    const auto content = json.find("content");
    if (content == json.end() || content->is_null()) {
      const auto has = [&](const char* key) { return json.contains(key) && json[key].is_structured() && !json[key].empty(); };
      // An assistant that only calls tools says nothing; whether the template can print that, the template decides.
      if (message.role == "assistant" && (has("tool_calls") || has("function_call"))) return {};
      return content == json.end() ? fail("", "\"content\" is missing") : fail("content", "content is null");
    }
    if (content->is_string()) {
      message.content = content->get<std::string>();
      return {};
    }
    if (!content->is_array()) return fail("content", "expected text or a list of parts, found " + shown(*content));
    for (size_t k = 0; k < content->size(); ++k) {
      const OrderedJson& part = (*content)[k];
      const std::string key = "content[" + std::to_string(k) + "]";
      if (!part.is_object()) return fail(key, "expected an object with \"type\", found " + shown(part));
      const auto type = part.find("type");
      if (type == part.end() || !type->is_string()) return fail(key + ".type", "expected text");
      const auto text = part.find("text");
      if (*type != "text") return fail(key, "only text parts can be read, found type " + shown(*type));
      if (text == part.end() || !text->is_string()) return fail(key + ".text", "expected text");
      message.content += text->get_ref<const std::string&>();
    }
    return {};
  }

  Conversation& out_;
  std::string field_;
  const Source* source_ = nullptr;
  std::map<std::string, std::string> call_names_;
};

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// The first line that holds something is an object of its own: a message, or something that more lines follow.
bool one_message_a_line(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '{') return false;
  const size_t end = std::min(bytes.find('\n', first), bytes.size());
  const auto parsed = parse_json(bytes.substr(first, end - first), "");
  if (!parsed || !parsed->is_object()) return false;
  return !blank(bytes.substr(end)) || (parsed->contains("role") && !parsed->contains("messages"));
}

Status read_lines(std::string_view bytes, const std::string& where, Conversation& out) {
  Reader reader(out);
  for (uint64_t line = 1; !bytes.empty(); ++line) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view text = bytes.substr(0, end);
    if (!blank(text)) {
      auto json = parse_json(text, where, line);
      if (!json) return std::move(json).error();
      if (json->is_object() && json->contains("messages"))
        return make_error(ErrorCode::unsupported, "SPAN-CHAT",
                          "expected one message a line, found a whole conversation; give one conversation a file",
                          where + ":" + std::to_string(line));
      SPANSCOPE_TRY(reader.add(*json, {where, [line](const char*) { return line; }}));
    }
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return {};
}

Status read_document(std::string_view bytes, const std::string& where, Conversation& out) {
  auto json = parse_json(bytes, where);
  if (!json) return std::move(json).error();
  const OrderedJson* list = &*json;
  size_t at = 0;
  const LineIndex lines(bytes);
  if (json->is_object()) {
    const auto messages = json->find("messages");
    if (messages == json->end())
      return make_error(ErrorCode::invalid, "SPAN-CHAT", "expected a list of messages, or an object with \"messages\"", where);
    if (const auto tools = json->find("tools"); tools != json->end() && !tools->is_null()) {
      if (!tools->is_array())
        return make_error(ErrorCode::invalid, "SPAN-CHAT", "expected a list, found " + shown(*tools), where + " tools");
      out.tools = *tools;
    }
    list = &*messages;
    at = json_member(bytes, 0, "messages");
  }
  if (!list->is_array())
    return make_error(ErrorCode::invalid, "SPAN-CHAT", "expected a list of messages, found " + shown(*list),
                      where + ":" + std::to_string(at == std::string_view::npos ? 1 : lines.line(at)));
  const std::vector<size_t> places = json_elements(bytes, at == std::string_view::npos ? 0 : at);
  Reader reader(out);
  for (size_t i = 0; i < list->size(); ++i) {
    const size_t place = i < places.size() ? places[i] : 0;
    const Source source{where, [&, place](const char* key) {
                          const size_t member = *key ? json_member(bytes, place, key) : std::string_view::npos;
                          return lines.line(member == std::string_view::npos ? place : member);
                        }};
    SPANSCOPE_TRY(reader.add((*list)[i], source));
  }
  return {};
}

}  // namespace

Result<Conversation> parse_conversation(std::string_view bytes, const std::string& where) {
  Conversation out;
  out.source = where;
  out.format = "openai-chat";
  if (bytes.substr(0, 3) == "\xef\xbb\xbf") bytes.remove_prefix(3);  // a byte-order mark is no content
  if (blank(bytes)) return make_error(ErrorCode::truncated, "SPAN-EMPTY", "expected a conversation, found an empty file", where, 0);
  SPANSCOPE_TRY(one_message_a_line(bytes) ? read_lines(bytes, where, out) : read_document(bytes, where, out));
  if (out.messages.empty()) return make_error(ErrorCode::invalid, "SPAN-CHAT", "the conversation has no messages", where);
  return out;
}

Result<Conversation> read_conversation(const std::string& path) {
  auto bytes = read_file(path);
  if (!bytes) return std::move(bytes).error();
  return parse_conversation(*bytes, path == "-" ? "standard input" : path);
}

}  // namespace spanscope
