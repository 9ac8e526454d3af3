// SPDX-License-Identifier: GPL-3.0-or-later
// A fixed set of worker threads for data-parallel loops. One loop at a time; the caller takes part.
// Work item i always does the same arithmetic whatever thread runs it, so results do not depend on the schedule.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace spanscope {

class ThreadPool {
 public:
  explicit ThreadPool(unsigned threads);  // 0: physical cores
  ~ThreadPool();
  unsigned threads() const { return unsigned(workers_.size()) + 1; }
  // Calls body(item, thread) for every item in [0, items); returns when all are done. thread is in [0, threads()).
  void parallel_for(size_t items, const std::function<void(size_t item, unsigned thread)>& body);
  static unsigned physical_cores();

 private:
  void work(unsigned thread);
  void drain(unsigned thread);
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(size_t, unsigned)>* body_ = nullptr;
  size_t items_ = 0, next_ = 0, finished_ = 0;
  uint64_t generation_ = 0;
  bool stop_ = false;
};

}  // namespace spanscope
