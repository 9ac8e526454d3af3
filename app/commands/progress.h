// SPDX-License-Identifier: GPL-3.0-or-later
// Progress of a recording on stderr: a bar on a terminal, one line per closed turn with --progress lines.
#pragma once
#include <chrono>

#include "app/commands/command.h"
#include "core/record/record_session.h"

namespace spanscope {

class ProgressPrinter {
 public:
  explicit ProgressPrinter(const Context& context);
  ~ProgressPrinter();
  void operator()(const RecordProgress& progress);

 private:
  enum class Style { none, bar, lines } style_;
  std::chrono::steady_clock::time_point last_{};
  bool drawn_ = false;
};

std::string human_bytes(uint64_t bytes);
std::string human_seconds(double seconds);

}  // namespace spanscope
