// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/engine/engine_queue.h"

#include <algorithm>
#include <vector>

namespace spanscope {

EngineQueue::EngineQueue() : thread_([this] { run(); }) {}

EngineQueue::~EngineQueue() { shutdown(); }

uint64_t EngineQueue::submit(std::string tag, Work work, Ended ended) {
  std::vector<Request> dropped;
  uint64_t ticket = 0;
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    ticket = next_ticket_++;
    if (closed_) {
      refused = true;
    } else {
      for (auto it = waiting_.begin(); it != waiting_.end();)
        if (it->tag == tag) {
          dropped.push_back(std::move(*it));
          it = waiting_.erase(it);
        } else {
          ++it;
        }
      if (running_ && running_tag_ == tag) {
        running_end_ = End::replaced;
        running_stop_.request_stop();
      }
      waiting_.push_back({std::move(tag), ticket, std::move(work), std::move(ended)});
    }
  }
  if (refused) {
    if (ended) ended(End::cancelled);
    return ticket;
  }
  for (Request& r : dropped)
    if (r.ended) r.ended(End::replaced);
  wake_.notify_one();
  return ticket;
}

bool EngineQueue::cancel(const std::string& tag) {
  std::vector<Request> dropped;
  bool found = false;
  {
    std::lock_guard lock(mutex_);
    for (auto it = waiting_.begin(); it != waiting_.end();)
      if (it->tag == tag) {
        dropped.push_back(std::move(*it));
        it = waiting_.erase(it);
      } else {
        ++it;
      }
    if (running_ && running_tag_ == tag) {
      running_end_ = End::cancelled;
      running_stop_.request_stop();
      found = true;
    }
  }
  for (Request& r : dropped)
    if (r.ended) r.ended(End::cancelled);
  return found || !dropped.empty();
}

void EngineQueue::shutdown() {
  std::deque<Request> dropped;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(waiting_);
    if (running_) {
      running_end_ = End::cancelled;
      running_stop_.request_stop();
    }
  }
  wake_.notify_all();
  for (Request& r : dropped)
    if (r.ended) r.ended(End::cancelled);
  if (thread_.joinable()) thread_.join();
}

bool EngineQueue::busy() const {
  std::lock_guard lock(mutex_);
  return running_;
}

size_t EngineQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size();
}

void EngineQueue::run() {
  for (;;) {
    Request request;
    std::stop_token stop;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
      if (closed_) return;
      request = std::move(waiting_.front());
      waiting_.pop_front();
      running_ = true;
      running_tag_ = request.tag;
      running_end_ = End::done;
      running_stop_ = std::stop_source();
      stop = running_stop_.get_token();
    }
    if (request.work) request.work(stop);
    End end;
    {
      std::lock_guard lock(mutex_);
      end = running_end_;
      running_ = false;
      running_tag_.clear();
    }
    if (request.ended) request.ended(end);
  }
}

}  // namespace spanscope
