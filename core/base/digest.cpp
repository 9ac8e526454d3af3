// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/digest.h"

#include <openssl/evp.h>

namespace spanscope {
std::string sha256_hex(std::span<const uint8_t> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  static const char* hex = "0123456789abcdef";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out += hex[digest[i] >> 4];
    out += hex[digest[i] & 15];
  }
  return out;
}
std::string sha256_hex(std::string_view bytes) {
  return sha256_hex(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}
}  // namespace spanscope
