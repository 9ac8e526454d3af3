// SPDX-License-Identifier: GPL-3.0-or-later
// What recording costs in memory: extra(n) = peak resident memory of a process that prefills n tokens with
// recording on, minus that of one with recording off; the median of three such differences. It must not grow
// with n^2: extra(largest) <= 1.5 x extra(smallest) + 4 MiB, else the exit status is 1.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "tests/bench/bench_support.h"

using namespace spanscope;
using namespace spanscope::bench;

extern char** environ;

namespace {

// Peak resident memory in KiB of one run in a process of its own; negative: it failed.
long peak_of_run(const Arguments& a, uint32_t tokens, bool record) {
  std::vector<std::string> words = {"/proc/self/exe",
                                    a.model,
                                    "--child",
                                    "-p",
                                    std::to_string(tokens),
                                    "--leaves",
                                    std::to_string(a.leaves),
                                    "-n",
                                    std::to_string(a.decode),
                                    "--threads",
                                    std::to_string(a.threads),
                                    "--pass",
                                    std::to_string(a.pass_rows),
                                    "--path",
                                    a.path};
  if (record) words.push_back("--record");
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0) return -1;
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return -1;
  return usage.ru_maxrss;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a = parse(argc, argv, "Peak memory with recording on minus off.", {1024, 4096});
  if (a.child) {
    const auto backend = load(a);
    run_session(*backend, a, a.prompts[0], a.record);
    return 0;
  }
  std::printf("%u leaves, passes of %u rows, %u decoded\n%8s %12s %12s %12s  (MiB)\n", a.leaves, a.pass_rows,
              a.decode, "tokens", "off", "on", "extra");
  std::vector<double> extra;
  for (uint32_t tokens : a.prompts) {
    std::vector<double> off, on, difference;
    for (int r = 0; r < 3; ++r) {
      const long without = peak_of_run(a, tokens, false), with = peak_of_run(a, tokens, true);
      if (without < 0 || with < 0) {
        std::fprintf(stderr, "a run with %u tokens failed\n", tokens);
        return 1;
      }
      off.push_back(double(without) / 1024);
      on.push_back(double(with) / 1024);
      difference.push_back(on.back() - off.back());
    }
    extra.push_back(median(difference));
    std::printf("%8u %12.1f %12.1f %12.2f\n", tokens, median(off), median(on), extra.back());
  }
  const double bound = 1.5 * extra.front() + 4;
  const bool holds = extra.back() <= bound;
  std::printf("extra(%u) = %.2f MiB, bound 1.5 x extra(%u) + 4 = %.2f MiB: %s\n", a.prompts.back(),
              extra.back(), a.prompts.front(), bound, holds ? "holds" : "VIOLATED");
  return holds ? 0 : 1;
}
