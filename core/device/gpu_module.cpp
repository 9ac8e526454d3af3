// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/device/gpu_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/knobs.h"

#ifndef SPANSCOPE_GPU_BUILD
#error "the build gives SPANSCOPE_GPU_BUILD (cmake/gpu_identity.cmake)"
#endif

namespace spanscope {
namespace fs = std::filesystem;
namespace {

constexpr char kFileName[] = "libspanscope_cuda.so";

Error module_error(const std::string& message, const std::string& path = {}) {
  return make_error(ErrorCode::unsupported, "SPAN-GPU-MODULE", message, path);
}

// A file shorter than its own tables say would end the program inside dlopen (its pages are mapped, then read): whether
// this is a whole 64-bit ELF file.
Status check_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const uint64_t size = in ? uint64_t(in.tellg()) : 0;
  in.seekg(0);
  Elf64_Ehdr head{};
  if (!in || !in.read(reinterpret_cast<char*>(&head), sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return module_error("the module cannot be loaded: not a 64-bit ELF library", path);
  uint64_t end = head.e_shoff + uint64_t(head.e_shnum) * head.e_shentsize;
  for (uint32_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    in.seekg(std::streamoff(head.e_phoff + uint64_t(i) * sizeof part));
    if (!in.read(reinterpret_cast<char*>(&part), sizeof part)) return module_error("the module cannot be loaded: its program headers lie behind its end", path);
    end = std::max<uint64_t>(end, part.p_offset + part.p_filesz);
  }
  if (end > size) return module_error(fmt::format("the module cannot be loaded: its tables name {} bytes, the file has {}", end, size), path);
  return {};
}

std::string text_of(const char* text, size_t most) { return std::string(text, strnlen(text, most)); }

}  // namespace

const char* gpu_build_identity() { return SPANSCOPE_GPU_BUILD; }

Result<GpuModule> GpuModule::load(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return make_error(ErrorCode::not_found, "SPAN-GPU-MODULE", "there is no such file", path);
  SPANSCOPE_TRY(check_whole(path));
  // Local: the module brings its own copy of core, which must not meet the program's. A path with a slash, so that dlopen
  // does not look elsewhere for a file of that name.
  void* handle = ::dlopen(fs::absolute(path, ignored).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return module_error(fmt::format("the module cannot be loaded: {}", ::dlerror()), path);
  auto refuse = [&](const std::string& message) {
    ::dlclose(handle);
    return module_error(message, path);
  };
  const auto entry = reinterpret_cast<SpanscopeGpuEntry>(::dlsym(handle, kGpuEntry));
  if (!entry) return refuse(fmt::format("the file has no function {}: it is not a GPU module", kGpuEntry));
  const SpanscopeGpuModule* table = entry();
  if (!table || std::memcmp(table->magic, kGpuMagic, sizeof kGpuMagic) != 0)
    return refuse("the file is not a GPU module: its table does not begin with SPANGPU");
  if (table->abi != kSpanscopeGpuAbi || table->table_bytes != sizeof(SpanscopeGpuModule))
    return refuse(fmt::format("the module speaks version {} ({} bytes), expected {} ({} bytes)", table->abi, table->table_bytes,
                              int(kSpanscopeGpuAbi), sizeof(SpanscopeGpuModule)));
  if (!table->build || std::strcmp(table->build, gpu_build_identity()) != 0)
    return refuse(fmt::format("the module belongs to another build: expected \"{}\", found \"{}\"", gpu_build_identity(),
                              table->build ? table->build : ""));
  return GpuModule(path, table);
}

Result<GpuModule> GpuModule::find() {
  if (const std::string named = knob("SPANSCOPE_CUDA_MODULE"); !named.empty()) return load(named);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return module_error("the program's own folder is not known: " + error.message());
  std::string looked;
  for (const fs::path& folder : {program.parent_path(), program.parent_path().parent_path() / "lib" / "spanscope"}) {
    const fs::path file = folder / kFileName;
    if (fs::exists(file, error)) return load(file.string());
    looked += (looked.empty() ? "" : " nor in ") + folder.string();
  }
  return make_error(ErrorCode::not_found, "SPAN-GPU-MODULE", fmt::format("{} is not in {}", kFileName, looked));
}

Result<std::vector<GpuDevice>> GpuModule::devices() const {
  char why[kSpanscopeGpuText] = {};
  const int32_t count = table_->device_count(why);
  if (count <= 0)
    return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", count < 0 ? text_of(why, sizeof why) : "the driver knows no device");
  std::vector<GpuDevice> out;
  for (int32_t i = 0; i < count; ++i) {
    SpanscopeGpuDevice d{};
    if (table_->describe(i, &d, why) != 0)
      return make_error(ErrorCode::unsupported, "SPAN-GPU-DEVICE", fmt::format("device {}: {}", i, text_of(why, sizeof why)));
    out.push_back({i, text_of(d.name, sizeof d.name), d.compute_major, d.compute_minor, d.multiprocessors, d.memory_bytes, d.free_bytes,
                   d.shared_bytes_of_block});
  }
  return out;
}

Result<std::unique_ptr<Backend>> GpuModule::make_backend(int device, std::shared_ptr<const Model> model, BackendOptions options) const {
  auto list = devices();
  if (!list) return list.error();
  if (device < 0 || size_t(device) >= list->size())
    return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", fmt::format("there is no device {}, expected 0 to {}", device, list->size() - 1));
  Error error;
  void* made = table_->make_backend(device, &model, &options, &error);
  if (!made) return error;
  return std::unique_ptr<Backend>(static_cast<Backend*>(made));
}

Result<DeviceChoice> parse_device(const std::string& text, const std::string& where) {
  if (text == "auto") return DeviceChoice{};
  if (text == "cpu") return DeviceChoice{DeviceChoice::Kind::cpu, 0};
  if (text == "cuda") return DeviceChoice{DeviceChoice::Kind::cuda, 0};
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5) {
    int index = 0;
    const char *begin = text.data() + 5, *end = text.data() + text.size();
    const auto [at, error] = std::from_chars(begin, end, index);
    if (error == std::errc() && at == end && index >= 0) return DeviceChoice{DeviceChoice::Kind::cuda, index};
  }
  return make_error(ErrorCode::invalid, "SPAN-USAGE", "expected auto, cpu, cuda or cuda:N, found \"" + text + "\"", where);
}

}  // namespace spanscope
