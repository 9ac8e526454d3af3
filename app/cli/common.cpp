// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>

#include "app/commands/command.h"
#include "core/cpu/backends.h"

namespace spanscope {

int report_error(const Error& error) {
  std::fprintf(stderr, "spanscope: %s\n", error.line().c_str());
  for (size_t i = 0; i < error.advice.size() && i < 2; ++i) std::fprintf(stderr, "  %s\n", error.advice[i].c_str());
  if (error.tag == "SPAN-USAGE") return kExitUsage;
  return error.code == ErrorCode::cancelled ? kExitStopped : kExitFailure;
}

void note(const Context& context, const std::string& text) {
  if (!context.quiet) std::fprintf(stderr, "spanscope: note: %s\n", text.c_str());
}

Result<std::unique_ptr<Backend>> make_backend(std::shared_ptr<const Model> model, const std::string& path,
                                              const Context& context) {
  if (context.device != "auto" && context.device != "cpu")
    return make_error(ErrorCode::unsupported, "SPAN-DEVICE",
                      "device \"" + context.device + "\" is not there: this program was built without a GPU backend",
                      "--device");
  BackendOptions options;
  options.threads = context.threads;
  options.cache = context.cache_type == "f16" ? CacheType::f16 : CacheType::f32;
  if (path == "reference") return make_reference_backend(std::move(model), options);
  if (path == "fast") return make_fast_backend(std::move(model), options);
  return make_error(ErrorCode::invalid, "SPAN-USAGE", "expected reference or fast, found \"" + path + "\"", "--path");
}

}  // namespace spanscope
