// SPDX-License-Identifier: GPL-3.0-or-later
// The engine's queue: serial, a newer request with the same tag replaces the older, cancel reaches a running one.
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "widgets/engine/engine_queue.h"

using namespace spanscope;
using namespace std::chrono_literals;
using End = EngineQueue::End;

namespace {

// Blocks the engine thread until it is let go.
struct Gate {
  std::promise<void> entered, leave;
  EngineQueue::Work work() {
    return [this](std::stop_token) {
      entered.set_value();
      leave.get_future().wait();
    };
  }
};

template <class T>
T get(std::future<T> f) {
  REQUIRE(f.wait_for(5s) == std::future_status::ready);
  return f.get();
}

}  // namespace

TEST_CASE("requests run one at a time, in order") {
  EngineQueue queue;
  std::atomic<int> inside{0}, most{0};
  std::vector<int> order;  // touched by the engine thread only
  std::promise<void> all;
  for (int i = 0; i < 20; ++i)
    queue.submit("tag" + std::to_string(i),
                 [&, i](std::stop_token) {
                   most = std::max(most.load(), ++inside);
                   order.push_back(i);
                   std::this_thread::sleep_for(1ms);
                   --inside;
                 },
                 [&, i](End end) {
                   CHECK(end == End::done);
                   if (i == 19) all.set_value();
                 });
  get(all.get_future());
  CHECK(most == 1);
  REQUIRE(order.size() == 20);
  for (int i = 0; i < 20; ++i) CHECK(order[size_t(i)] == i);
}

TEST_CASE("a newer request with the same tag replaces the older one") {
  EngineQueue queue;
  Gate gate;
  queue.submit("other", gate.work(), {});
  get(gate.entered.get_future());

  std::atomic<int> ran{0};
  std::promise<End> first, second, third, kept;
  queue.submit("ask", [&](std::stop_token) { ran += 1; }, [&](End e) { first.set_value(e); });
  queue.submit("check", [&](std::stop_token) { ran += 1000; }, [&](End e) { kept.set_value(e); });
  queue.submit("ask", [&](std::stop_token) { ran += 10; }, [&](End e) { second.set_value(e); });
  queue.submit("ask", [&](std::stop_token) { ran += 100; }, [&](End e) { third.set_value(e); });
  CHECK(get(first.get_future()) == End::replaced);   // at once, although the engine is busy
  CHECK(get(second.get_future()) == End::replaced);
  CHECK(queue.waiting() == 2);
  gate.leave.set_value();
  CHECK(get(third.get_future()) == End::done);
  CHECK(get(kept.get_future()) == End::done);
  CHECK(ran == 1100);  // the replaced ones never ran, the other tag was not touched
}

TEST_CASE("a running request is asked to stop when it is replaced or cancelled") {
  EngineQueue queue;
  std::promise<void> entered;
  std::promise<End> first, second;
  auto until_stopped = [&](std::stop_token stop) {
    entered.set_value();
    while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
  };
  queue.submit("ask", until_stopped, [&](End e) { first.set_value(e); });
  get(entered.get_future());
  entered = {};
  queue.submit("ask", until_stopped, [&](End e) { second.set_value(e); });
  CHECK(get(first.get_future()) == End::replaced);
  get(entered.get_future());
  CHECK(queue.busy());
  CHECK_FALSE(queue.cancel("unknown"));
  const auto start = std::chrono::steady_clock::now();
  CHECK(queue.cancel("ask"));
  CHECK(get(second.get_future()) == End::cancelled);
  CHECK(std::chrono::steady_clock::now() - start < 1s);
}

TEST_CASE("a waiting request that is cancelled never runs; shutdown ends everything") {
  std::promise<End> waiting, dropped, late, running;
  std::atomic<bool> ran{false};
  {
    EngineQueue queue;
    std::promise<void> entered;
    queue.submit("long",
                 [&](std::stop_token stop) {
                   entered.set_value();
                   while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
                 },
                 [&](End e) { running.set_value(e); });
    get(entered.get_future());
    queue.submit("a", [&](std::stop_token) { ran = true; }, [&](End e) { waiting.set_value(e); });
    CHECK(queue.cancel("a"));
    CHECK(get(waiting.get_future()) == End::cancelled);
    queue.submit("b", [&](std::stop_token) { ran = true; }, [&](End e) { dropped.set_value(e); });
    queue.shutdown();
    CHECK(get(dropped.get_future()) == End::cancelled);
    queue.submit("c", [&](std::stop_token) { ran = true; }, [&](End e) { late.set_value(e); });
    CHECK(get(late.get_future()) == End::cancelled);
  }
  CHECK(get(running.get_future()) == End::cancelled);
  CHECK_FALSE(ran);
}
