// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace spanscope {

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KiB", double(bytes) / 1024);
  if (bytes < (uint64_t(1) << 30)) return fmt::format("{:.1f} MiB", double(bytes) / (1024 * 1024));
  return fmt::format("{:.2f} GiB", double(bytes) / double(uint64_t(1) << 30));
}

std::string human_seconds(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

ProgressPrinter::ProgressPrinter(const Context& context) {
  if (context.quiet || context.progress == "none") style_ = Style::none;
  else if (context.progress == "lines") style_ = Style::lines;
  else style_ = ::isatty(2) ? Style::bar : Style::none;
}

ProgressPrinter::~ProgressPrinter() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressPrinter::operator()(const RecordProgress& p) {
  if (style_ == Style::none) return;
  if (style_ == Style::lines) {
    if (p.turn_closed)
      fmt::print(stderr, "turn {}/{}  {}/{} tokens  {:.0f} tokens/s  {} left  {}\n", p.turn, p.turns, p.tokens_done,
                 p.tokens_total, p.tokens_per_second, human_seconds(p.seconds_left), human_bytes(p.file_bytes));
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const double part = p.tokens_total ? double(p.tokens_done) / double(p.tokens_total) : 0;
  const int width = 24, full = int(part * width + 0.5);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < full ? "█" : "·";
  fmt::print(stderr, "\r\033[K{} turn {}/{}  {}/{} tokens  {:.0f} tokens/s  {} left  {}", bar, p.turn, p.turns,
             p.tokens_done, p.tokens_total, p.tokens_per_second, human_seconds(p.seconds_left), human_bytes(p.file_bytes));
  std::fflush(stderr);
}

}  // namespace spanscope
