// SPDX-License-Identifier: GPL-3.0-or-later
// fuzz_seeds DIR: a first corpus for every target, in DIR/NAME.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/file/safetensors.h"
#include "core/file/session_reader.h"
#include "core/file/session_writer.h"
#include "core/record/session_schema.h"
#include "tests/support/gguf_builder.h"

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

// A whole model file of two kilobytes: most key types, every tensor of a llama; and tensors in other formats,
// which no model has.
Bytes small_gguf(bool other_formats) {
  test::GgufBuilder g;
  g.text("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 64);
  g.u32("llama.embedding_length", 4).u32("llama.feed_forward_length", 4).u32("llama.attention.head_count", 2);
  g.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f).u32("general.alignment", 8);
  g.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"a", "b", "ab"});
  g.i32s("tokenizer.ggml.token_type", {1, 1, 3}).texts("tokenizer.ggml.merges", {"a b"});
  g.boolean("tokenizer.ggml.add_bos_token", true).text("tokenizer.chat_template", "{{ messages }}");
  g.alignment = 8;
  for (const char* name : {"token_embd", "output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"})
    g.tensor_f32(std::string(name) + ".weight", {4, name[0] == 't' ? 3u : 1u});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    g.tensor_f32(std::string("blk.0.") + name + ".weight", {4, 4});
  if (!other_formats) return g.build();
  g.tensor({"q4_0", {32}, 2, Bytes(18)}).tensor({"mxfp4", {32}, 39, Bytes(17)});
  g.tensor({"q4_k", {256}, 12, Bytes(144)});
  return g.build();
}

// The recipe form that session_fuzz.cpp describes.
Bytes recipe(const SessionReader& reader) {
  Bytes out;
  piece(out, 3, {});
  for (size_t i = 0; i < reader.frames().size(); ++i) piece(out, 1, write_safetensors(*reader.frame(i)));
  piece(out, 2, {});
  return out;
}
// The recipe form that content_fuzz.cpp describes, of a session that was recorded.
Bytes content_recipe(const SessionReader& reader) {
  static const char* kinds[] = {"session", "ledger", "turn_begin", "mass", "reads", "routing", "turn_end", "closing", "note", "loss", "profile"};
  Bytes out;
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    const FrameInfo& f = reader.frames()[i];
    auto blob = reader.frame(i);
    for (const char* stamp : {"kind", "v", "session", "seq", "turn"}) blob->metadata.erase(stamp);
    const Bytes content = write_safetensors(*blob);
    if (content.size() > 0xffff) continue;
    for (uint8_t k = 0; k < 11; ++k)
      if (f.kind == kinds[k]) out.push_back(k);
    out.push_back(f.turn == 0xffffffffu ? 255 : uint8_t(f.turn));
    out.push_back(uint8_t(content.size()));
    out.push_back(uint8_t(content.size() >> 8));
    out.insert(out.end(), content.begin(), content.end());
  }
  return out;
}

// One turn over three leaves, as small as it can be.
SessionData tiny_session() {
  SessionData s;
  s.header.layers = 1, s.header.query_heads = 2, s.header.window = {0}, s.header.moe_layer = {1}, s.header.experts = 4, s.header.experts_used = 1;
  for (SpanId id = 0; id < 3; ++id) {
    Span span;
    span.id = id, span.kind = id == 2 ? SpanKind::parent : SpanKind::content, span.role = "user", span.tokens = 1;
    if (id < 2) span.parent = 2;
    s.ledger.spans.push_back(span);
  }
  s.messages = {{"user", "", ""}};
  TurnRecord t;
  t.context = 2, t.executed_end = 2, t.answer_begin = 1, t.answer_len = 1, t.phase = {0, 1}, t.layout = {{0, 0, 1, 0}, {1, 1, 1, 1}};
  t.new_ids = {1, 2}, t.new_token_bytes = {1, 1}, t.new_text = "ab", t.query_leaves = {0, 1}, t.rows_q.assign(6, 1);
  t.mass_qk.assign(12, 0.5f), t.uniform_qk.assign(12, 0.5f), t.learned_sink.assign(3, 0), t.unattributed.assign(3, 0), t.profile_spans = {0, 1, 2};
  t.layer_mass.assign(6, 1), t.head_mass.assign(12, 0.5f), t.spike.assign(2, 0.5f), t.spike_layer.assign(2, 0), t.spike_head.assign(2, 1), t.spike_row.assign(2, 1);
  t.events.row = {1}, t.events.leaf = {0}, t.events.layer = {0}, t.events.head = {1}, t.events.mass = {0.5f}, t.events.habit = {0};
  t.events_dropped = 1, t.dropped.leaf = {1}, t.dropped.layer = {0}, t.dropped.head = {0}, t.dropped.count = {1}, t.dropped.above_display = {0};
  t.routing.layers = 1, t.routing.experts_used = 1, t.routing.ids = {0, 3}, t.routing.weights = {1, 1}, t.routing.margin = {0.5f, 0.25f};
  s.turns.push_back(t);
  for (auto* v : {&s.closing.ema_n, &s.closing.ema_triples, &s.closing.ema_sink, &s.closing.ema_u, &s.closing.sum_n, &s.closing.sum_triples,
                  &s.closing.sum_sink, &s.closing.sum_u})
    v->assign(9, 1);
  return s;
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
  const SessionData tiny = tiny_session();
  const std::string recorded = (dir / "session/recorded").string();
  auto second = SessionWriter::create(recorded, true);
  if (!second || !write_header(**second, tiny.header) || !write_ledger(**second, tiny.ledger, 0, tiny.messages, 0) ||
      !write_turn(**second, tiny.turns[0], tiny.header, tiny.ledger) || !write_findings(**second, {{Grade::warning, "SPAN-X", "m", "w", {}}}) ||
      !write_closing(**second, tiny.closing) || !(*second)->finish())
    return 1;
  const auto content = SessionReader::open(recorded);
  if (!content) return 1;
  put(dir / "content/recorded", content_recipe(**content));
  put(dir / "gguf/tiny", load(fs::path(SPANSCOPE_TEST_DATA) / "oracles/tiny/llama-gqa/model.gguf", 1 << 16));
  put(dir / "gguf/demo", load(fs::path(SPANSCOPE_DEMO_DIR) / "relay-dense.gguf", 1 << 16));
  put(dir / "gguf/small", small_gguf(true));
  put(dir / "model/small", small_gguf(false));
  put(dir / "chat/demo", load(fs::path(SPANSCOPE_DEMO_DIR) / "demo12.json", 1 << 14));
  const std::string tools = R"([{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":null,)"
                            R"("tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
                            R"({"role":"tool","tool_call_id":"1","content":"ok"}])";
  put(dir / "chat/tools", Bytes(tools.begin(), tools.end()));
  const std::string text = "<|im_start|>user\nDon't 12345 \xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80  \t\n<|im_end|>";
  put(dir / "tokenizer/text", Bytes(text.begin(), text.end()));
  return 0;
}
