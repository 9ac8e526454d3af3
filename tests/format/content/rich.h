// SPDX-License-Identifier: GPL-3.0-or-later
// A small session of every kind of frame that the recorder writes, made by hand; and what a turn holds as bytes, so that any
// difference shows.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/file/session_reader.h"
#include "core/file/session_writer.h"
#include "core/record/session_data.h"

namespace spanscope::test {

using Bytes = std::vector<uint8_t>;

struct Scratch {  // a folder that is gone with the object
  std::string path;
  Scratch();
  ~Scratch();
  std::string file(const std::string& name) const { return path + "/" + name; }
};

// `turns` turns: the first with read events, dropped counts and routing, the others open ones. With text.
SessionData rich_session(uint32_t turns = 3);
// Frames as the recorder writes them: header, per turn ledger changes and the turn, then a note and the closing sums.
void write_session(SessionWriter& writer, const SessionData& s, uint32_t from_turn = 0);
void write_one_turn(SessionWriter& writer, const SessionData& s, uint32_t turn);
Bytes session_bytes(const Scratch& scratch, const SessionData& s, bool finish = true);
Bytes read_bytes(const std::string& path);
void write_bytes(const std::string& path, const Bytes& bytes);
std::shared_ptr<const SessionReader> open_bytes(const Bytes& bytes);  // fails the test when it cannot

// Every field, bit by bit.
std::string image(const TurnRecord& turn);
std::string image(const Ledger& ledger, size_t spans);
std::string image(const SessionHeader& header);
std::string image(const ClosingScalars& closing);
bool has_finding(const std::vector<Finding>& findings, const std::string& tag);
bool has_loss(const std::vector<Finding>& findings);
std::string tags_of(const std::vector<Finding>& findings);
// True in the nightly run (SPANSCOPE_EXHAUSTIVE=1): everything instead of a sample.
bool exhaustive();

}  // namespace spanscope::test
