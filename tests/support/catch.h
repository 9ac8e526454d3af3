// SPDX-License-Identifier: GPL-3.0-or-later
// Catch2 2 (Debian 12) or 3 (newer systems) under one name.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
