// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/team.h"

#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace spanscope::fast {
namespace {

void pause_once() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int kSpins = 4000;  // some tens of microseconds: longer than the serial stretch between two loops
constexpr int kYields = 200;  // then leave the core to others that want it
constexpr uint32_t kClosed = 0x80000000u;  // at_work_: the loop takes no further thread

}  // namespace

void Team::run(const std::function<void()>& pass) {
  if (threads() == 1) {
    pass();
    return;
  }
  over_ = false;
  at_work_.store(kClosed, std::memory_order_relaxed);
  bool passed = false;
  std::exception_ptr thrown;
  pool_.parallel_for(threads(), [&](size_t, unsigned thread) {
    if (thread != 0) {
      stand_by(thread);
      return;
    }
    if (passed) return;  // an item that no other thread woke up for in time
    passed = true;
    try {
      pass();
    } catch (...) {
      thrown = std::current_exception();
    }
    over_ = true;
    publish();
  });
  if (thrown) std::rethrow_exception(thrown);
}

void Team::publish() {
  generation_.fetch_add(1, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) != 0) generation_.notify_all();
}

void Team::share(size_t items, Call call, const void* body) {
  call_ = call;
  body_ = body;
  items_ = items;
  next_.store(0, std::memory_order_relaxed);
  at_work_.store(0, std::memory_order_release);  // open
  publish();
  take(0);
  // Close the loop, then wait for those inside. Threads that come later see it closed and touch nothing of
  // it.
  at_work_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (int spins = 0; at_work_.load(std::memory_order_acquire) != kClosed; ++spins)
    if (spins < kSpins)
      pause_once();
    else
      std::this_thread::yield();
  if (error_) {
    std::exception_ptr error;
    std::swap(error, error_);
    std::rethrow_exception(error);
  }
}

void Team::take(unsigned thread) {
  for (;;) {
    const size_t item = next_.fetch_add(1, std::memory_order_relaxed);
    if (item >= items_) return;
    try {
      call_(body_, item, thread);
    } catch (...) {
      std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
}

void Team::stand_by(unsigned thread) {
  // A thread that arrives late joins the loop that is open, if one is.
  uint32_t seen = generation_.load(std::memory_order_acquire) - 1;
  for (;;) {
    int spins = 0;
    while (generation_.load(std::memory_order_acquire) == seen) {
      if (++spins < kSpins) {
        pause_once();
      } else if (spins < kSpins + kYields) {
        std::this_thread::yield();
      } else {
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        generation_.wait(seen, std::memory_order_seq_cst);
        asleep_.fetch_sub(1, std::memory_order_seq_cst);
      }
    }
    seen = generation_.load(std::memory_order_acquire);
    uint32_t working = at_work_.load(std::memory_order_acquire);
    bool joined = false;
    while (!(working & kClosed) && !joined)
      joined = at_work_.compare_exchange_weak(working, working + 1, std::memory_order_acq_rel);
    if (joined) {
      take(thread);
      at_work_.fetch_sub(1, std::memory_order_acq_rel);
      continue;
    }
    if (over_) return;
  }
}

}  // namespace spanscope::fast
