// SPDX-License-Identifier: GPL-3.0-or-later
// Salvage: writes a new, whole file of what can be read of a damaged or unfinished one. The input is never touched.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spanscope {

struct RepairReport {
  bool was_finished = false;  // the input had a valid index over the whole file
  bool lossy = false;         // something that was written is not in the output
  std::map<std::string, uint64_t> kept, lost;  // frames by kind; lost: as far as an index names them
  uint64_t bytes_kept = 0, bytes_left = 0;     // of the input: copied, and passed over (tables are made anew and not counted)
  uint64_t output_bytes = 0;
  std::vector<Finding> findings;               // of the input, as verify gives them
};

// Good frames are copied byte for byte with their sequence numbers and the session's id; unknown kinds and newer versions
// too. A "loss" frame says what is gone, then follow index and seek table. `to` must be another file; an existing one is an
// error unless `force`. After a failure nothing is left at `to`.
Result<RepairReport> repair_session(const std::string& from, const std::string& to, bool force);

}  // namespace spanscope
