// SPDX-License-Identifier: GPL-3.0-or-later
// SHA-256 as lower-case hex. Any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace spanscope {
std::string sha256_hex(std::span<const uint8_t> bytes);
std::string sha256_hex(std::string_view bytes);
}  // namespace spanscope
