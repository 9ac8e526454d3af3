// SPDX-License-Identifier: GPL-3.0-or-later
// A copy of a session without what was said in it: for bug reports and for people who may see the numbers only.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spanscope {

enum class Redaction : uint8_t {
  text,   // as if recorded with --no-text: no text, no token ids or lengths, no names made of words; digests salted
  names,  // that, and no authors, message names and ids, file paths, environment variables
};

struct RedactReport {
  std::map<std::string, uint64_t> kept, left_out;  // blobs by kind; left out: they may hold what was said
  bool was_finished = false, lossy = false;
  std::vector<Finding> findings;                   // of the input
  uint64_t output_bytes = 0;
};

// Writes a new session with a new id. Structure and every number stay: spans with their places, roles and token counts,
// masses, reads, routing. (Numbers are not proof against somebody who has the model and guesses the words: who must keep
// the words secret from such a person must not hand out the numbers.) Kinds that this program does not know are left out.
Result<RedactReport> redact_session(const std::string& from, const std::string& to, Redaction redaction, bool force);

}  // namespace spanscope
