// SPDX-License-Identifier: GPL-3.0-or-later
// Versions of the frames' content. A kind whose content changes in a way that older programs would misread gets a higher
// version here, and a converter from the version before: what was recorded once stays readable for ever (one session per
// released version lies in tests/data/golden). New tensors and metadata keys that older programs may ignore need neither.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/file/safetensors.h"

namespace spanscope::schema {

// Makes content of version `from` + 1 out of content of version `from`, in place.
struct Converter {
  std::string_view kind;
  uint32_t from;
  Status (*convert)(Blob& blob);
};

// The version of a kind that this program writes and reads; 0 for a kind that it does not know.
uint32_t version_of(std::string_view kind);
std::span<const Converter> converters();
// Takes `blob` from `found` to `wanted`, one converter after another. SPAN-VERSION when one is missing, or found > wanted;
// the message names both versions and `written_by`, the program that wrote the session.
Status convert(Blob& blob, std::string_view kind, uint32_t found, uint32_t wanted, std::span<const Converter> table, std::string_view written_by);

}  // namespace spanscope::schema
