// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a model file: a model or an error, through recipe, binding of tensors and vocabulary.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/model/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  const int fd = memfd_create("model", MFD_CLOEXEC);
  if (fd < 0) std::abort();
  if (write(fd, data, size) != ssize_t(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const auto model = load_model(path);
  if (!model && model.error().message.empty()) std::abort();
  if (model) {
    std::vector<float> row((*model)->embedding.cols);
    for (uint32_t r = 0; r < (*model)->embedding.rows; ++r) dequantise_row((*model)->embedding, r, row.data());
  }
  const auto vocabulary = load_vocabulary(path);
  if (!vocabulary && vocabulary.error().message.empty()) std::abort();
  close(fd);
  return 0;
}
