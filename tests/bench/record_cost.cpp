// SPDX-License-Identifier: GPL-3.0-or-later
// What recording costs in time: pairs of runs with recording off and on, one after the other so that both
// meet the same machine, their order alternating; medians of the times and of each pair's ratio.
#include <cstdio>

#include "tests/bench/bench_support.h"

using namespace spanscope;
using namespace spanscope::bench;

int main(int argc, char** argv) {
  const Arguments a =
      parse(argc, argv, "Time of prefill and decode with recording off and on.", {1024, 4096});
  const auto backend = load(a);
  std::printf("%s, %u threads, %u leaves, passes of %u rows, %u pairs\n", backend->name().c_str(),
              backend->threads(), a.leaves, a.pass_rows, a.repeat);
  std::printf("%8s %8s %12s %12s %8s %12s %10s\n", "tokens", "stage", "off tok/s", "on tok/s", "on/off",
              "on/off (cpu)", "events");
  for (uint32_t prompt : a.prompts) {
    Arguments warm = a;
    warm.decode = 2;
    run_session(*backend, warm, std::min(prompt, std::max(a.leaves, 256u)), true);
    std::vector<double> prefill[2], decode[2], prefill_ratio, decode_ratio, prefill_cpu, decode_cpu;
    uint64_t events = 0;
    for (uint32_t r = 0; r < a.repeat; ++r) {
      Timing t[2];
      for (int i = 0; i < 2; ++i) {
        const bool on = (i == 1) != (r % 2 == 1);
        t[on] = run_session(*backend, a, prompt, on);
      }
      for (int on = 0; on < 2; ++on) {
        prefill[on].push_back(t[on].prefill);
        decode[on].push_back(t[on].decode);
      }
      prefill_ratio.push_back(t[1].prefill / t[0].prefill);
      prefill_cpu.push_back(t[1].prefill_cpu / t[0].prefill_cpu);
      if (a.decode) decode_ratio.push_back(t[1].decode / t[0].decode);
      if (a.decode) decode_cpu.push_back(t[1].decode_cpu / t[0].decode_cpu);
      events = t[1].events;
    }
    std::printf("%8u %8s %12.1f %12.1f %8.4f %12.4f\n", prompt, "prefill", prompt / median(prefill[0]),
                prompt / median(prefill[1]), median(prefill_ratio), median(prefill_cpu));
    if (a.decode)
      std::printf("%8u %8s %12.1f %12.1f %8.4f %12.4f %10llu\n", prompt, "decode",
                  a.decode / median(decode[0]), a.decode / median(decode[1]), median(decode_ratio),
                  median(decode_cpu), static_cast<unsigned long long>(events));
  }
  return 0;
}
