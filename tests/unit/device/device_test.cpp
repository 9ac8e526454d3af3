// SPDX-License-Identifier: GPL-3.0-or-later
// Modules that must not be used (fakes/module.cpp): each is refused for its own reason, with what was expected and found; and
// what --device may say. Modules that work, and files that are none: tests/cli/device_test.py.
#include "core/device/gpu_module.h"
#include "tests/support/catch.h"

using namespace spanscope;

namespace {
std::string fake(int number) { return std::string(SPANSCOPE_BIN_DIR) + "/../tests/libspanscope_fake_gpu_" + std::to_string(number) + ".so"; }

// The error of loading that fake.
Error refused(int number) {
  auto module = GpuModule::load(fake(number));
  REQUIRE(!module);
  CHECK(module.error().tag == "SPAN-GPU-MODULE");
  CHECK(module.error().where == fake(number));
  return module.error();
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("a module of another kind, version or build is refused by what it says of itself") {
  CHECK(has(refused(0).message, "does not begin with SPANGPU"));
  CHECK(has(refused(1).message, "version " + std::to_string(kSpanscopeGpuAbi + 1)));
  CHECK(has(refused(1).message, "expected " + std::to_string(int(kSpanscopeGpuAbi))));
  const Error build = refused(2);
  CHECK(has(build.message, "spanscope 0.0.1 of long ago"));
  CHECK(has(build.message, gpu_build_identity()));
  CHECK(has(refused(6).message, "not a GPU module"));
  const auto missing = GpuModule::load(fake(99));
  REQUIRE(!missing);
  CHECK(missing.error().code == ErrorCode::not_found);
}

TEST_CASE("no driver, no device and a device that fails are told apart, in the driver's words") {
  const char* expected[] = {"no driver is installed", "knows no device", "device 1: it has fallen off the bus"};
  for (int i = 0; i < 3; ++i) {
    auto module = GpuModule::load(fake(3 + i));
    if (!module) FAIL(module.error().line());
    CHECK(module->driver() == (i == 0 ? "none" : "12.4"));
    const auto devices = module->devices();
    REQUIRE(!devices);
    CHECK(devices.error().tag == "SPAN-GPU-DEVICE");
    INFO(devices.error().message);
    CHECK(has(devices.error().message, expected[i]));
    const auto backend = module->make_backend(0, nullptr);  // refused before the model is looked at
    REQUIRE(!backend);
    CHECK(backend.error().tag == "SPAN-GPU-DEVICE");
  }
}

TEST_CASE("what --device may say") {
  using Kind = DeviceChoice::Kind;
  CHECK(parse_device("auto")->kind == Kind::automatic);
  CHECK(parse_device("cpu")->kind == Kind::cpu);
  CHECK(parse_device("cuda")->index == 0);
  CHECK(parse_device("cuda:12")->kind == Kind::cuda);
  CHECK(parse_device("cuda:12")->index == 12);
  for (const char* wrong : {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999", "cpu:0"}) {
    INFO(wrong);
    const auto choice = parse_device(wrong, "here");
    REQUIRE(!choice);
    CHECK(choice.error().tag == "SPAN-USAGE");
    CHECK(choice.error().where == "here");
  }
}
