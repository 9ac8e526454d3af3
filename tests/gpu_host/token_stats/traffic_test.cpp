// SPDX-License-Identifier: GPL-3.0-or-later
// What the kernels of token statistics move, counted: what is stored is linear in rows plus keys.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "gpu/kernels/token_stats.cuh"
#include "gpu/runtime.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::gpu;

namespace {

template <class T>
Array<T> filled(const std::vector<T>& v) {
  Array<T> a;
  REQUIRE(a.resize(v.size()));
  REQUIRE(a.upload(v.data(), v.size()));
  return a;
}

struct Moved {
  layer::Traffic rows, columns;
};
// The last `rows` of `keys` positions, one head.
template <class Mode, uint32_t kDim>
Moved moved(uint32_t rows, uint32_t keys, uint32_t windows) {
  using Element = typename Mode::Element;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const uint32_t pages = (keys + kPage - 1) / kPage, tiles = (rows + kTileRows - 1) / kTileRows;
  std::vector<float> q(size_t(rows) * kDim);
  for (float& x : q) x = normal(random);
  std::vector<Element> pool(size_t(pages) * 2 * kPage * kDim);
  for (Element& x : pool) x = Mode::element(normal(random));
  std::vector<uint32_t> page_of(pages), first(rows), end(rows), tile(4 * tiles);
  for (uint32_t i = 0; i < pages; ++i) page_of[i] = i;
  for (uint32_t i = 0; i < rows; ++i) end[i] = keys - rows + i + 1;
  for (uint32_t i = 0; i < tiles; ++i) tile[4 * i + 1] = end[std::min(rows, (i + 1) * kTileRows) - 1];
  auto d_q = filled(q);
  auto d_pool = filled(pool);
  auto d_page = filled(page_of), d_first = filled(first), d_end = filled(end), d_tile = filled(tile);
  auto wanted = filled(std::vector<uint8_t>{1}), counted = filled(std::vector<uint8_t>(rows, 1)), in = filled(std::vector<uint8_t>(rows, 0xff));
  auto bound = filled(std::vector<float>(rows, 1.0f / float(keys)));
  auto argmax = filled(std::vector<uint32_t>(rows)), count = filled(std::vector<uint32_t>(keys)), window_count = filled(std::vector<uint32_t>(windows * keys));
  auto max = filled(std::vector<float>(rows)), lse = filled(std::vector<float>(rows)), entropy = filled(std::vector<float>(rows));
  auto most = filled(std::vector<float>(keys)), last = filled(std::vector<float>(keys));
  auto sum = filled(std::vector<double>(keys)), square = filled(std::vector<double>(keys)), window_sum = filled(std::vector<double>(windows * keys));
  TokenStatParams<Element> p;
  p.in.q = std::as_const(d_q).view();
  p.in.pool = std::as_const(d_pool).view();
  p.in.page_of = std::as_const(d_page).view();
  p.in.row_first = std::as_const(d_first).view();
  p.in.row_end = std::as_const(d_end).view();
  p.in.tile = std::as_const(d_tile).view();
  p.in.rows = rows;
  p.in.heads = p.in.kv_heads = 1;
  p.in.scale = 0.125f;
  p.wanted = std::as_const(wanted).view();
  p.bound = std::as_const(bound).view();
  p.counted = std::as_const(counted).view();
  p.row_windows = std::as_const(in).view();
  p.keys = keys;
  p.windows = windows;
  p.row_argmax = argmax.view();
  p.row_max = max.view();
  p.row_lse = lse.view();
  p.row_entropy = entropy.view();
  p.column_sum = sum.view();
  p.column_square = square.view();
  p.column_max = most.view();
  p.last_row = last.view();
  p.column_count = count.view();
  p.window_sum = window_sum.view();
  p.window_count = window_count.view();
  constexpr uint32_t kBytes = TokenStatShared<Element, kDim>::kBytes;
  const auto a = layer::launch(token_rows<Mode, kDim>, {tiles, 1, 1}, kPrefillThreads, kBytes, p);
  INFO(a.fault);
  REQUIRE(a.ok);
  const auto b = layer::launch(token_columns<Mode, kDim>, {(keys + kTileKeys - 1) / kTileKeys, 1, 1}, kPrefillThreads, kBytes, p);
  INFO(b.fault);
  REQUIRE(b.ok);
  // It is a distribution: what the columns got is what the rows gave.
  std::vector<double> sums(keys);
  REQUIRE(sum.download(sums.data(), keys));
  double all = 0;
  for (double x : sums) all += x;
  CHECK(std::abs(all - rows) <= 1e-5 * rows);
  return {a.traffic, b.traffic};
}

}  // namespace

TEST_CASE("token statistics store what is linear in rows plus keys, and read keys once a tile") {
  for (const auto& [rows, keys, windows] : {std::tuple{64u, 1024u, 0u}, std::tuple{130u, 300u, 3u}, std::tuple{64u, 2048u, 8u}}) {
    const Moved m = moved<Exact, 64>(rows, keys, windows);
    CHECK(m.rows.stored == rows * 16);
    CHECK(m.columns.stored == keys * (28 + 12 * windows));
    CHECK(m.rows.atomic + m.columns.atomic == 0);
    const uint64_t row_tiles = (rows + 63) / 64, key_tiles = (keys + 63) / 64, of_keys = uint64_t(keys) * 64 * 4, of_rows = uint64_t(rows) * 64 * 4;
    // Beside keys and queries: page numbers (one for 16 bytes), ranges, facts of rows; no more than a third of them.
    CHECK(m.rows.loaded <= (row_tiles * of_keys + of_rows) * 4 / 3);
    CHECK(m.columns.loaded <= (of_keys + key_tiles * of_rows) * 4 / 3);
    std::printf("%4u rows, %4u keys, %u windows: rows %.3f MB in %.4f out, columns %.3f MB in %.4f out\n", rows, keys, windows,
                double(m.rows.loaded) / 1e6, double(m.rows.stored) / 1e6, double(m.columns.loaded) / 1e6, double(m.columns.stored) / 1e6);
  }
  const Moved half = moved<HalfF16, 64>(64, 1024, 1), exact = moved<Exact, 64>(64, 1024, 1);
  CHECK(double(half.rows.loaded) <= 0.6 * double(exact.rows.loaded));
}
