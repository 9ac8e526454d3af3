// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/byte_lru.h"

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "tests/support/catch.h"

using namespace spanscope;

namespace {
using Lru = ByteLru<int, std::string>;
auto weigh = [](const std::string& s) { return uint64_t(s.size()); };
}  // namespace

TEST_CASE("the oldest goes when the bytes are too many; what is held stays alive") {
  Lru lru(10);
  int loads = 0;
  auto get = [&](int key) {
    auto value = lru.get(key, [&]() -> Result<std::string> { return ++loads, std::string(4, char('a' + key)); }, weigh);
    REQUIRE(value);
    return *value;
  };
  const auto zero = get(0);
  get(1);
  CHECK((loads == 2 && lru.bytes_held() == 8));
  get(0);  // now 1 is the oldest
  get(2);
  CHECK((loads == 3 && lru.bytes_held() == 8));
  get(0);
  CHECK(loads == 3);
  get(1);
  CHECK(loads == 4);
  CHECK(*zero == "aaaa");
  CHECK((lru.hits() == 2 && lru.misses() == 4));
}

TEST_CASE("a value heavier than all is handed out and not kept; an error is not kept") {
  Lru lru(10);
  int loads = 0;
  for (int i = 0; i < 2; ++i) {
    const auto value = lru.get(7, [&]() -> Result<std::string> { return ++loads, std::string(11, 'x'); }, weigh);
    REQUIRE(value);
    CHECK((*value)->size() == 11);
  }
  CHECK((loads == 2 && lru.bytes_held() == 0));
  const auto error = lru.get(8, []() -> Result<std::string> { return make_error(ErrorCode::corrupt, "SPAN-X", "no"); }, weigh);
  CHECK(error.error().tag == "SPAN-X");
  CHECK(lru.get(8, []() -> Result<std::string> { return std::string("yes"); }, weigh));
  Lru none(0);
  CHECK(none.get(1, []() -> Result<std::string> { return std::string("a"); }, weigh));
  CHECK(none.bytes_held() == 0);
}

TEST_CASE("many threads: each key is loaded once at a time, the bound holds, an error frees the others") {
  Lru lru(64);
  std::atomic<int> loading[20] = {}, twice = 0, wrong = 0, over = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 3000; ++i) {
        const int key = int(random() % 20);
        const bool fails = random() % 7 == 0;
        const auto value = lru.get(key, [&]() -> Result<std::string> {
          if (loading[key]++ != 0) ++twice;
          if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
          --loading[key];
          if (fails) return make_error(ErrorCode::corrupt, "SPAN-X", "no");
          return std::string(size_t(key) + 1, char('a' + key));
        }, weigh);
        if (value && **value != std::string(size_t(key) + 1, char('a' + key))) ++wrong;
        if (lru.bytes_held() > 64) ++over;
      }
    });
  for (auto& t : threads) t.join();
  CHECK((twice == 0 && wrong == 0 && over == 0));
  CHECK(lru.hits() > 0);
}
