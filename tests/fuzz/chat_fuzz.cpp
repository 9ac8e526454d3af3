// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes: a conversation or an error that says where.
#include <cstdlib>

#include "core/chat/conversation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  const auto chat = parse_conversation({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!chat) {
    if (chat.error().tag.empty() || chat.error().where.empty()) std::abort();
    return 0;
  }
  for (const Message& m : chat->messages)
    if (m.role.empty()) std::abort();
  return 0;
}
