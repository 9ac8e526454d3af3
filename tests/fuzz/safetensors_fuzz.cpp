// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes: a blob or an error; a blob survives being written and read again.
#include <cstdlib>

#include "core/file/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  const auto blob = parse_safetensors({data, size}, "fuzz");
  if (!blob) {
    if (blob.error().tag.empty() || blob.error().message.empty()) std::abort();
    return 0;
  }
  uint64_t bytes = 0;
  for (const Tensor& t : blob->tensors) bytes += t.data.size();
  if (bytes > size) std::abort();
  const auto again = parse_safetensors(write_safetensors(*blob), "again");
  if (!again || again->metadata != blob->metadata || again->tensors.size() != blob->tensors.size()) std::abort();
  for (const Tensor& t : blob->tensors) {
    const Tensor* other = again->find(t.name);
    if (!other || other->shape != t.shape || other->dtype != t.dtype || other->data != t.data) std::abort();
  }
  return 0;
}
