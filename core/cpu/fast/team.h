// SPDX-License-Identifier: GPL-3.0-or-later
// Short parallel loops inside one forward pass. A pass has hundreds of loops of a few microseconds (decode:
// six a layer), too short to wake sleeping threads for each; so the pool's threads are taken once per pass
// and wait for the next loop by spinning, then by sleeping. Not for: work outside of a pass. Engine thread
// only.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "core/base/thread_pool.h"

namespace spanscope::fast {

class Team {
 public:
  explicit Team(ThreadPool& pool) : pool_(pool) {}
  unsigned threads() const { return pool_.threads(); }

  // Runs `pass` on the calling thread while the other threads stand by for for_each(). What `pass` throws
  // comes out.
  void run(const std::function<void()>& pass);

  // Calls body(item, thread) for every item, in any order on any thread, and returns when all are done. An
  // exception of a body comes out after the loop. Inside run() only. thread is in [0, threads()), 0 is the
  // caller.
  template <class Body>
  void for_each(size_t items, const Body& body) {
    if (threads() == 1 || items <= 1) {
      for (size_t i = 0; i < items; ++i) body(i, 0u);
      return;
    }
    share(
        items,
        [](const void* b, size_t item, unsigned thread) { (*static_cast<const Body*>(b))(item, thread); },
        &body);
  }

 private:
  using Call = void (*)(const void* body, size_t item, unsigned thread);
  void share(size_t items, Call call, const void* body);
  void take(unsigned thread);
  void stand_by(unsigned thread);
  void publish();

  ThreadPool& pool_;
  // One loop at a time: written by the caller before the generation moves on, read by the others after.
  Call call_ = nullptr;
  const void* body_ = nullptr;
  size_t items_ = 0;
  std::atomic<bool> over_{false};
  std::atomic<size_t> next_{0};
  std::atomic<uint32_t> generation_{0}, at_work_{0}, asleep_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace spanscope::fast
