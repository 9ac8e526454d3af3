// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/thread_pool.h"

#include <fstream>
#include <set>
#include <string>

namespace spanscope {

unsigned ThreadPool::physical_cores() {
  // Hyper-threads share the vector units, so counting them slows dense arithmetic down.
  std::ifstream info("/proc/cpuinfo");
  std::set<std::pair<std::string, std::string>> cores;
  std::string line, package;
  while (std::getline(info, line)) {
    const auto value = line.substr(line.find(':') == std::string::npos ? line.size() : line.find(':') + 1);
    if (line.rfind("physical id", 0) == 0) package = value;
    if (line.rfind("core id", 0) == 0) cores.insert({package, value});
  }
  const unsigned logical = std::max(1u, std::thread::hardware_concurrency());
  return cores.empty() ? logical : std::min<unsigned>(logical, unsigned(cores.size()));
}

ThreadPool::ThreadPool(unsigned threads) {
  if (threads == 0) threads = physical_cores();
  for (unsigned i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::drain(unsigned thread) {
  std::unique_lock lock(mutex_);
  while (next_ < items_) {
    const size_t item = next_++;
    const auto* body = body_;
    lock.unlock();
    (*body)(item, thread);
    lock.lock();
    if (++finished_ == items_) done_.notify_all();
  }
}

void ThreadPool::work(unsigned thread) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
    }
    drain(thread);
  }
}

void ThreadPool::parallel_for(size_t items, const std::function<void(size_t, unsigned)>& body) {
  if (items == 0) return;
  if (workers_.empty() || items == 1) {
    for (size_t i = 0; i < items; ++i) body(i, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    items_ = items;
    next_ = finished_ = 0;
    ++generation_;
  }
  start_.notify_all();
  drain(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return finished_ == items_; });
  items_ = next_ = 0;
  body_ = nullptr;
}

}  // namespace spanscope
