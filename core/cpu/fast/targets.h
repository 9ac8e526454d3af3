// SPDX-License-Identifier: GPL-3.0-or-later
// Which instruction sets the kernels are built for; include before anything of Highway. Left out because they
// cost compile time and give these kernels nothing over their neighbours: SSSE3 (machines of that age take
// the portable baseline) and the AVX-512 extensions.
#pragma once
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
