// SPDX-License-Identifier: GPL-3.0-or-later
// OpenAI-style conversations: a JSON array of messages, an object that holds one, or one message a line.
#include <algorithm>
#include <array>

#include "core/base/files.h"
#include "core/chat/conversation.h"

namespace spanscope {
namespace {

constexpr std::array<const char*, 7> kRoles = {"system", "developer", "user", "assistant", "tool", "document", "function"};

Error field_error(const std::string& where, const std::string& field, std::string message) {
  return make_error(ErrorCode::invalid, "SPAN-CHAT", std::move(message), where + " " + field);
}

std::string shown(const OrderedJson& value) {
  std::string text = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

Result<Message> read_message(const OrderedJson& json, size_t index, const std::string& where, std::vector<Finding>& findings) {
  const std::string field = "messages[" + std::to_string(index) + "]";
  if (!json.is_object()) return field_error(where, field, "expected an object, found " + shown(json));
  const auto role = json.find("role");
  if (role == json.end()) return field_error(where, field, "\"role\" is missing");
  if (!role->is_string()) return field_error(where, field + ".role", "expected text, found " + shown(*role));
  Message out;
  out.role = role->get<std::string>();
  if (std::none_of(kRoles.begin(), kRoles.end(), [&](const char* r) { return out.role == r; }))
    return field_error(where, field + ".role",
                       "unknown role " + shown(*role) + "; expected system, developer, user, assistant, tool or document");
  for (const auto& [key, target] : {std::pair<const char*, std::string*>{"name", &out.name}, {"id", &out.id}})
    if (const auto it = json.find(key); it != json.end() && it->is_string()) *target = it->get<std::string>();

  out.json = json;
  out.where = where + " " + field;
  const auto content = json.find("content");
  const bool calls = json.contains("tool_calls") && json["tool_calls"].is_array() && !json["tool_calls"].empty();
  if (content == json.end() || content->is_null()) {
    if (!calls) return field_error(where, field + ".content", content == json.end() ? "content is missing" : "content is null");
  } else if (content->is_string()) {
    out.content = content->get<std::string>();
  } else if (content->is_array()) {
    size_t k = 0;
    for (const OrderedJson& part : *content) {
      const std::string part_field = field + ".content[" + std::to_string(k++) + "]";
      if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
        return field_error(where, part_field, "expected an object with \"type\", found " + shown(part));
      if (part["type"] != "text" || !part.contains("text") || !part["text"].is_string())
        return field_error(where, part_field, "only text parts can be read, found type " + shown(part["type"]));
      out.content += part["text"].get_ref<const std::string&>();
    }
    // Templates that take text get the parts joined, byte for byte.
    out.json["content"] = out.content;
    if (k > 1)
      findings.push_back({Grade::info, "SPAN-PARTS", std::to_string(k) + " text parts were joined", out.where + ".content", {}});
  } else {
    return field_error(where, field + ".content", "expected text or a list of parts, found " + shown(*content));
  }
  return out;
}

bool one_message_a_line(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || bytes[first] != '{') return false;
  const size_t line_end = bytes.find('\n', first);
  const std::string_view line = bytes.substr(first, line_end == std::string_view::npos ? line_end : line_end - first);
  auto parsed = parse_json(line, "");
  return parsed && parsed->is_object() && !parsed->contains("messages");
}

Status add_messages(const OrderedJson& list, const std::string& where, Conversation& out) {
  if (!list.is_array()) return field_error(where, "messages", "expected a list, found " + shown(list));
  for (const OrderedJson& json : list) {
    auto message = read_message(json, out.messages.size(), where, out.findings);
    if (!message) return std::move(message).error();
    out.messages.push_back(std::move(*message));
  }
  return {};
}

}  // namespace

Result<Conversation> parse_conversation(std::string_view bytes, const std::string& where) {
  Conversation out;
  out.source = where;
  out.format = "openai-chat";
  if (bytes.substr(0, 3) == "\xef\xbb\xbf") bytes.remove_prefix(3);  // a byte-order mark is no content
  if (bytes.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return make_error(ErrorCode::truncated, "SPAN-EMPTY", "expected a conversation, found an empty file", where, 0);
  if (one_message_a_line(bytes)) {
    uint64_t line = 1;
    while (!bytes.empty()) {
      const size_t end = std::min(bytes.find('\n'), bytes.size());
      const std::string_view text = bytes.substr(0, end);
      if (text.find_first_not_of(" \t\r") != std::string_view::npos) {
        auto json = parse_json(text, where, line);
        if (!json) return std::move(json).error();
        auto message = read_message(*json, out.messages.size(), where + ":" + std::to_string(line), out.findings);
        if (!message) return std::move(message).error();
        out.messages.push_back(std::move(*message));
      }
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
      ++line;
    }
  } else {
    auto json = parse_json(bytes, where);
    if (!json) return std::move(json).error();
    if (json->is_object()) {
      if (!json->contains("messages"))
        return make_error(ErrorCode::invalid, "SPAN-CHAT", "expected a list of messages, or an object with \"messages\"", where);
      if (json->contains("tools")) out.tools = (*json)["tools"];
      SPANSCOPE_TRY(add_messages((*json)["messages"], where, out));
    } else {
      SPANSCOPE_TRY(add_messages(*json, where, out));
    }
  }
  if (out.messages.empty())
    return make_error(ErrorCode::invalid, "SPAN-CHAT", "the conversation has no messages", where);
  return out;
}

Result<Conversation> read_conversation(const std::string& path) {
  auto bytes = read_file(path);
  if (!bytes) return std::move(bytes).error();
  return parse_conversation(*bytes, path);
}

}  // namespace spanscope
