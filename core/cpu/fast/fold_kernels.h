// SPDX-License-Identifier: GPL-3.0-or-later
// The inner loops of folding span masses. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spanscope::fast {

// sums[s] = sum of mass[s][lane] over the lanes [lane, lane + lanes), whose words in `keep` have all bits
// set; the others are 0.  // mass [count][32]
void masked_sums(const float* mass, uint32_t count, const uint32_t* keep, uint32_t lane, uint32_t lanes,
                 float* sums);
// largest[s] = max over the kept lanes, at least 0.
void masked_maxima(const float* mass, uint32_t count, const uint32_t* keep, float* largest);
// total[i] += x[i] after rounding x to a multiple of 2^-36, so that the order of additions does not matter.
void add_exact(double* total, const float* x, size_t n);

}  // namespace spanscope::fast
