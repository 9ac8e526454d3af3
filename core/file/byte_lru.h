// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps what was loaded last, up to a number of bytes. Any thread; two threads that miss the same key load it once.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "core/base/result.h"

namespace spanscope {

template <class Key, class Value>
class ByteLru {
 public:
  explicit ByteLru(uint64_t limit) : limit_(limit) {}

  // The value, or what `load()` -> Result<Value> makes of it; `bytes(value)` is what it weighs. A value heavier than the
  // limit is handed out and not kept. Errors are not kept. Whoever holds a value keeps it alive; that is not counted.
  template <class Load, class Bytes>
  Result<std::shared_ptr<const Value>> get(const Key& key, Load load, Bytes bytes) {
    std::unique_lock lock(mutex_);
    for (;;) {
      auto [it, missing] = entries_.try_emplace(key);
      if (missing) break;
      if (it->second.value) {
        order_.splice(order_.begin(), order_, it->second.place);
        ++hits_;
        return it->second.value;
      }
      loaded_.wait(lock);  // another thread loads it; when that fails this one tries
    }
    ++misses_;
    lock.unlock();
    auto forget = [&] {
      lock.lock();
      entries_.erase(key);
      loaded_.notify_all();
    };
    std::shared_ptr<const Value> value;
    uint64_t weight = 0;
    try {
      auto result = load();
      if (!result) {
        forget();
        return std::move(result).error();
      }
      value = std::make_shared<const Value>(std::move(*result));
      weight = bytes(*value);
    } catch (...) {
      forget();
      throw;
    }
    lock.lock();
    if (weight > limit_) {
      entries_.erase(key);
    } else {
      order_.push_front(key);
      entries_[key] = {value, weight, order_.begin()};
      held_ += weight;
      while (held_ > limit_) {
        const auto oldest = entries_.find(order_.back());
        held_ -= oldest->second.weight;
        entries_.erase(oldest);
        order_.pop_back();
      }
    }
    loaded_.notify_all();
    return value;
  }

  uint64_t bytes_held() const {
    std::lock_guard lock(mutex_);
    return held_;
  }
  uint64_t hits() const {
    std::lock_guard lock(mutex_);
    return hits_;
  }
  uint64_t misses() const {
    std::lock_guard lock(mutex_);
    return misses_;
  }

 private:
  struct Entry {
    std::shared_ptr<const Value> value;  // null: being loaded
    uint64_t weight = 0;
    typename std::list<Key>::iterator place;
  };
  const uint64_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::map<Key, Entry> entries_;
  std::list<Key> order_;  // newest first
  uint64_t held_ = 0, hits_ = 0, misses_ = 0;
};

}  // namespace spanscope
