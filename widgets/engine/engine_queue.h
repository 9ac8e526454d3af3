// SPDX-License-Identifier: GPL-3.0-or-later
// One thread and a serial queue of tagged requests. A newer request with the same tag replaces the older one: a waiting one
// is dropped, a running one is asked to stop. Without Qt, so that its rules can be tested alone. Any thread may call it.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace spanscope {

class EngineQueue {
 public:
  // How a request ended. Every ticket ends exactly once.
  enum class End : uint8_t { done, replaced, cancelled };
  using Work = std::function<void(std::stop_token)>;
  // Called when the request ends: on the engine thread after the work ran, on the caller's thread when it never started.
  using Ended = std::function<void(End)>;

  EngineQueue();
  ~EngineQueue();  // stops the running request, drops the waiting ones, joins
  EngineQueue(const EngineQueue&) = delete;
  EngineQueue& operator=(const EngineQueue&) = delete;

  // Tickets count up from 1. After shutdown() the request ends as cancelled at once.
  uint64_t submit(std::string tag, Work work, Ended ended);
  // Drops the waiting request of this tag and asks a running one to stop. False: there was neither.
  bool cancel(const std::string& tag);
  void shutdown();

  bool busy() const;
  size_t waiting() const;

 private:
  struct Request {
    std::string tag;
    uint64_t ticket = 0;
    Work work;
    Ended ended;
  };
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> waiting_;
  std::string running_tag_;
  bool running_ = false, closed_ = false;
  End running_end_ = End::done;  // what the running request ends as
  std::stop_source running_stop_;
  uint64_t next_ticket_ = 1;
  std::thread thread_;
};

}  // namespace spanscope
