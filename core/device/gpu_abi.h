// SPDX-License-Identifier: GPL-3.0-or-later
// The C interface of the GPU module (libspanscope_cuda.so). The module exports one function, spanscope_gpu_module(), and
// everything else goes through the table that it returns. The table's head (magic, version, build) never changes, so that a
// module of any other release can be refused by what it says of itself.
//
// Models and backends cross the border as pointers to this project's own C++ objects: flattening the recipe, every weight
// view, the record plan and the token statistics into C structs would be a second copy of core/model's contract, to be kept
// equal by hand. What makes this safe is `build`: a digest of the headers of core/base and core/model, the compiler and its
// version, made by the build (cmake/gpu_identity.cmake). Program and module are built together and packaged together; a
// module whose build differs is refused before any object is handed over. No exception crosses: every function catches.
#pragma once
#include <cstdint>

extern "C" {

enum { kSpanscopeGpuAbi = 1, kSpanscopeGpuText = 256 };

struct SpanscopeGpuDevice {
  char name[kSpanscopeGpuText];
  int32_t compute_major, compute_minor;
  int32_t multiprocessors;
  uint64_t memory_bytes, free_bytes;
  uint64_t shared_bytes_of_block;  // the most a block may ask for
};

struct SpanscopeGpuModule {
  // The head: the same in every version.
  char magic[8];        // "SPANGPU" and a zero
  uint32_t abi;         // kSpanscopeGpuAbi
  uint32_t table_bytes;  // sizeof(SpanscopeGpuModule)
  const char* build;    // see above
  const char* runtime;  // "CUDA 13.0", or what stands in for a card
  // From here on: of this version.
  // The driver's version as text ("13.0"), or why there is none. Never null.
  const char* (*driver)();
  // How many devices; negative: none can be used, and `why` says why.  why [kSpanscopeGpuText]
  int32_t (*device_count)(char* why);
  // 0 when out was filled; else why says what happened.
  int32_t (*describe)(int32_t device, SpanscopeGpuDevice* out, char* why);
  // model: const std::shared_ptr<const spanscope::Model>*; options: const spanscope::BackendOptions*; error: spanscope::Error*.
  // Returns a spanscope::Backend* that the caller deletes (its destructor lives in the module, which is never unloaded), or
  // null with *error filled.
  void* (*make_backend)(int32_t device, const void* model, const void* options, void* error);
};

// The one exported symbol.
typedef const SpanscopeGpuModule* (*SpanscopeGpuEntry)();

}  // extern "C"

namespace spanscope {
inline constexpr char kGpuEntry[] = "spanscope_gpu_module";
inline constexpr char kGpuMagic[8] = "SPANGPU";
}  // namespace spanscope
