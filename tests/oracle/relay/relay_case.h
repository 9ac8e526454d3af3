// SPDX-License-Identifier: GPL-3.0-or-later
// A demo model, a conversation for it, and what is known about both.
#pragma once
#include <string>

#include "tests/oracle/record/chat_case.h"

namespace spanscope::test {

struct Relay {
  std::string model, demo_text;
  OrderedJson messages, facts, eval;
};

inline Relay relay(const std::string& model, const std::string& demo_name) {
  Relay r;
  r.model = demo(model + ".gguf");
  r.demo_text = take(read_file(demo(demo_name + ".json")));
  r.messages = take(parse_json(r.demo_text, demo_name))["messages"];
  r.facts = read_json(demo(demo_name + ".facts.json"));
  r.eval = read_json(demo("eval.json"))[model]["demos"][demo_name];
  return r;
}

inline size_t turn_index(const SessionData& s, int32_t message) {
  for (size_t t = 0; t < s.turns.size(); ++t)
    if (s.turns[t].message == message) return t;
  FAIL("no turn for message " << message);
  return 0;
}

}  // namespace spanscope::test
