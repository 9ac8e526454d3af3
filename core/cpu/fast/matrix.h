// SPDX-License-Identifier: GPL-3.0-or-later
// Matrix products of the fast path. Up to kFewRows rows run straight from the stored blocks; more rows run in
// oneDNN from an f32 copy in its own packed layout, made when a matrix first meets many rows and kept (four
// bytes a weight: 540 MB for a model of 135 M parameters, and nothing for a process that only decodes). f32 weights
// are used where they lie.
//
// oneDNN runs one thread per call: the work is cut into row tiles x column panels for the engine's own
// threads, so the thread count is ours, no second set of threads competes for the cores, and a result depends
// on neither. Engine thread only.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/cpu/fast/team.h"
#include "core/model/weights.h"

namespace spanscope::fast {

inline constexpr uint32_t kFewRows = 8;
inline constexpr uint32_t kRowTile = 64;  // rows of one oneDNN call
// Inputs must have readable (any finite) rows up to a multiple of this behind the last row.
inline constexpr uint32_t kRowPadding = 16;

struct Product {
  const WeightMatrix* weights = nullptr;
  const float* x = nullptr;  // [rows, padded][cols]
  float* out = nullptr;      // [rows][out_stride]
  size_t out_stride = 0;
};

class Matrices {
 public:
  explicit Matrices(Team& team);
  ~Matrices();
  // Runs several products over the same number of rows in one parallel loop. Throws std::bad_alloc and
  // dnnl::error.
  void multiply(std::span<const Product> products, uint32_t rows);
  uint64_t packed_bytes() const;

 private:
  struct Impl;
  void few_rows(std::span<const Product> products, uint32_t rows);
  void many_rows(std::span<const Product> products, uint32_t rows);
  Team& team_;
  std::unique_ptr<Impl> impl_;
};

// While it lives, oneDNN uses one thread when called from this thread.
class OneThread {
 public:
  OneThread();
  ~OneThread();

 private:
  int before_ = 0;
};

}  // namespace spanscope::fast
