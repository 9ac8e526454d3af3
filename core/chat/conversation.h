// SPDX-License-Identifier: GPL-3.0-or-later
// A conversation as every importer delivers it and everything later reads it. Plain data.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/result.h"

namespace spanscope {

struct Message {
  std::string role;     // system, user, assistant, tool, document, developer
  std::string name;     // author or tool name, may be empty
  std::string id;       // the input's own id, may be empty
  std::string content;  // text parts joined; exact bytes
  OrderedJson json;     // the message as the template sees it
  std::string where;    // "talk.json:17" for errors
};

struct Conversation {
  std::vector<Message> messages;
  OrderedJson tools;  // null when absent
  std::string source;   // path
  std::string format;   // "openai-chat"
  std::vector<Finding> findings;
};

// OpenAI-style JSON (array, or object with "messages") and JSON Lines of messages. Missing role, unknown role, null
// content, invalid UTF-8, bad JSON: one error that names file, line and field. "-" reads standard input.
Result<Conversation> read_conversation(const std::string& path);
Result<Conversation> parse_conversation(std::string_view bytes, const std::string& where);

}  // namespace spanscope
