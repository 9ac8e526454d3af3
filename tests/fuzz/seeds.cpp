// SPDX-License-Identifier: GPL-3.0-or-later
// fuzz_seeds DIR: a first corpus for every target, in DIR/NAME.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/file/safetensors.h"
#include "core/file/session_reader.h"
#include "core/file/session_writer.h"

using namespace spanscope;
namespace fs = std::filesystem;

namespace {
using Bytes = std::vector<uint8_t>;

void put(const fs::path& path, const Bytes& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

Bytes load(const fs::path& path, size_t limit) {
  std::ifstream in(path, std::ios::binary);
  Bytes bytes(std::istreambuf_iterator<char>(in), {});
  if (bytes.size() > limit) bytes.resize(limit);
  return bytes;
}

Blob sample(int seed) {
  Blob blob;
  blob.add<float>("x", {2, 2}, std::vector<float>{1.5f, float(seed), 3, -1});
  blob.add<uint16_t>("leaf", {3}, std::vector<uint16_t>{1, 2, 3});
  return blob;
}

void piece(Bytes& out, uint8_t kind, const Bytes& bytes) {
  out.push_back(kind);
  out.push_back(uint8_t(bytes.size()));
  out.push_back(uint8_t(bytes.size() >> 8));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// The recipe form that session_fuzz.cpp describes.
Bytes recipe(const SessionReader& reader) {
  Bytes out;
  piece(out, 3, {});
  for (size_t i = 0; i < reader.frames().size(); ++i) piece(out, 1, write_safetensors(*reader.frame(i)));
  piece(out, 2, {});
  return out;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds DIR\n");
    return 2;
  }
  const fs::path dir = argv[1];
  Blob blob = sample(1);
  blob.metadata = {{"kind", "mass"}, {"v", "1"}};
  put(dir / "safetensors/blob", write_safetensors(blob));
  fs::create_directories(dir / "session");
  const std::string path = (dir / "session/whole").string();
  auto writer = SessionWriter::create(path, true);
  if (!writer) return 1;
  for (uint32_t i = 0; i < 3; ++i)
    if (!(*writer)->append({i ? "turn_end" : "session", 1, i ? i - 1 : 0xffffffffu}, sample(int(i)))) return 1;
  if (!(*writer)->finish()) return 1;
  const auto reader = SessionReader::open(path);
  if (!reader) return 1;
  put(dir / "session/recipe", recipe(**reader));
  Bytes cut = load(path, 1 << 20);
  cut.resize(cut.size() / 2);
  put(dir / "session/cut", cut);
  put(dir / "gguf/tiny", load(fs::path(SPANSCOPE_TEST_DATA) / "oracles/tiny/llama-gqa/model.gguf", 1 << 16));
  put(dir / "gguf/demo", load(fs::path(SPANSCOPE_DEMO_DIR) / "relay-dense.gguf", 1 << 16));
  put(dir / "chat/demo", load(fs::path(SPANSCOPE_DEMO_DIR) / "demo12.json", 1 << 14));
  const std::string tools = R"([{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":null,)"
                            R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
                            R"({"role":"tool","tool_call_id":"1","content":"ok"}])";
  put(dir / "chat/tools", Bytes(tools.begin(), tools.end()));
  const std::string text = "<|im_start|>user\nDon't 12345 \xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80  \t\n<|im_end|>";
  put(dir / "tokenizer/text", Bytes(text.begin(), text.end()));
  return 0;
}
