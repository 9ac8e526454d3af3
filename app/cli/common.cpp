// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>

#include "app/commands/command.h"
#include "core/base/knobs.h"
#include "core/cpu/backends.h"
#include "core/device/gpu_module.h"

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

namespace {

Result<std::unique_ptr<Backend>> make_cpu_backend(std::shared_ptr<const Model> model, const std::string& path, BackendOptions options) {
  if (path == "reference") return make_reference_backend(std::move(model), options);
  if (path == "fast") return make_fast_backend(std::move(model), options);
  return make_error(ErrorCode::invalid, "SPAN-USAGE", "expected reference or fast, found \"" + path + "\"", "--path");
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(std::shared_ptr<const Model> model, const std::string& path,
                                              const Context& context, BackendOptions options) {
  const std::string device = context.device.empty() ? knob("SPANSCOPE_DEVICE") : context.device;
  auto choice = parse_device(device, context.device.empty() ? "SPANSCOPE_DEVICE" : "--device");
  if (!choice) return choice.error();
  options.threads = context.threads;
  options.cache = context.cache_type == "f16" ? CacheType::f16 : CacheType::f32;
  options.arithmetic = context.gpu_math == "fast" ? Arithmetic::fast : Arithmetic::exact;
  using Kind = DeviceChoice::Kind;
  // The reference path is one of the CPU's two: who names it does not ask for a card.
  if (choice->kind == Kind::cpu || (choice->kind == Kind::automatic && path == "reference"))
    return make_cpu_backend(std::move(model), path, options);
  auto module = GpuModule::find();
  auto backend = module ? module->make_backend(choice->index, model, options) : Result<std::unique_ptr<Backend>>(module.error());
  if (backend || choice->kind == Kind::cuda) return backend;
  note(context, "the CPU is used: " + backend.error().line());
  return make_cpu_backend(std::move(model), path, options);
}

}  // namespace spanscope
