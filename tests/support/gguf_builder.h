// SPDX-License-Identifier: GPL-3.0-or-later
// Writes small GGUF files for tests, valid or deliberately not.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace spanscope::test {

class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    data.insert(data.end(), p, p + sizeof value);
    return *this;
  }
  Bytes& text(const std::string& s) {
    put<uint64_t>(s.size());
    data.insert(data.end(), s.begin(), s.end());
    return *this;
  }
  std::vector<uint8_t> data;
};

struct TensorSpec {
  std::string name;
  std::vector<uint64_t> shape;  // fastest first
  uint32_t type = 0;
  std::vector<uint8_t> data;
  uint64_t offset = UINT64_MAX;  // UINT64_MAX: where it belongs
};

class GgufBuilder {
 public:
  GgufBuilder& u32(const std::string& key, uint32_t value) { return raw(key, 4, Bytes().put(value)); }
  GgufBuilder& f32(const std::string& key, float value) { return raw(key, 6, Bytes().put(value)); }
  GgufBuilder& boolean(const std::string& key, bool value) {
    return raw(key, 7, Bytes().put(uint8_t(value)));
  }
  GgufBuilder& text(const std::string& key, const std::string& value) {
    return raw(key, 8, Bytes().text(value));
  }
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& values) {
    Bytes b;
    b.put<uint32_t>(8).put<uint64_t>(values.size());
    for (const auto& v : values) b.text(v);
    return raw(key, 9, b);
  }
  GgufBuilder& i32s(const std::string& key, const std::vector<int32_t>& values) {
    Bytes b;
    b.put<uint32_t>(5).put<uint64_t>(values.size());
    for (int32_t v : values) b.put(v);
    return raw(key, 9, b);
  }
  GgufBuilder& raw(const std::string& key, uint32_t type, const Bytes& value) {
    for (auto& k : keys_)
      if (k.name == key) {
        k = {key, type, value.data};
        return *this;
      }
    keys_.push_back({key, type, value.data});
    return *this;
  }
  GgufBuilder& remove_key(const std::string& key) {
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].name == key) keys_.erase(keys_.begin() + ptrdiff_t(i));
    return *this;
  }
  GgufBuilder& duplicate_key(const std::string& key) {
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].name == key) {
        keys_.push_back(keys_[i]);
        break;
      }
    return *this;
  }
  GgufBuilder& tensor(TensorSpec t) {
    tensors.push_back(std::move(t));
    return *this;
  }
  // F32 values 0, 1/64, 2/64 ... so that every element differs.
  GgufBuilder& tensor_f32(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t n = 1;
    for (uint64_t d : shape) n *= d;
    Bytes b;
    for (uint64_t i = 0; i < n; ++i) b.put(float(i) / 64.0f);
    return tensor({name, std::move(shape), 0, b.data});
  }
  TensorSpec* find(const std::string& name) {
    for (auto& t : tensors)
      if (t.name == name) return &t;
    return nullptr;
  }
  void remove_tensor(const std::string& name) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].name == name) tensors.erase(tensors.begin() + ptrdiff_t(i));
  }

  std::vector<uint8_t> build() const {
    Bytes out;
    for (char c : magic) out.put(c);
    out.put(version).put<uint64_t>(tensor_count == UINT64_MAX ? tensors.size() : tensor_count);
    out.put<uint64_t>(key_count == UINT64_MAX ? keys_.size() : key_count);
    for (const auto& k : keys_) {
      out.text(k.name).put(k.type);
      out.data.insert(out.data.end(), k.value.begin(), k.value.end());
    }
    Bytes data;
    for (const auto& t : tensors) {
      data.data.resize((data.data.size() + alignment - 1) / alignment * alignment);
      out.text(t.name).put<uint32_t>(uint32_t(t.shape.size()));
      for (uint64_t d : t.shape) out.put(d);
      out.put(t.type).put<uint64_t>(t.offset == UINT64_MAX ? data.data.size() : t.offset);
      data.data.insert(data.data.end(), t.data.begin(), t.data.end());
    }
    out.data.resize((out.data.size() + alignment - 1) / alignment * alignment);
    out.data.insert(out.data.end(), data.data.begin(), data.data.end());
    return out.data;
  }

  std::string magic = "GGUF";
  uint32_t version = 3;
  size_t alignment = 32;  // of the data; the key that says so is up to the caller
  uint64_t tensor_count = UINT64_MAX, key_count = UINT64_MAX;  // UINT64_MAX: the true number
  std::vector<TensorSpec> tensors;

 private:
  struct Key {
    std::string name;
    uint32_t type;
    std::vector<uint8_t> value;
  };
  std::vector<Key> keys_;
};

// One layer, width 32, 2 query heads and 1 KV head of 16, feed-forward 64, 6 tokens.
inline GgufBuilder small_llama() {
  GgufBuilder g;
  g.text("general.architecture", "llama")
      .text("general.name", "small")
      .u32("llama.block_count", 1)
      .u32("llama.context_length", 64);
  g.u32("llama.embedding_length", 32)
      .u32("llama.feed_forward_length", 64)
      .u32("llama.attention.head_count", 2);
  g.u32("llama.attention.head_count_kv", 1)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .f32("llama.rope.freq_base", 10000.0f);
  g.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  g.texts("tokenizer.ggml.tokens", {"a", "b", "c", "ab", "<s>", "</s>"})
      .i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 3, 3});
  g.texts("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.bos_token_id", 4)
      .u32("tokenizer.ggml.eos_token_id", 5);
  g.boolean("tokenizer.ggml.add_bos_token", true).text("tokenizer.chat_template", "{{ messages }}");
  g.tensor_f32("token_embd.weight", {32, 6}).tensor_f32("output_norm.weight", {32});
  g.tensor_f32("blk.0.attn_norm.weight", {32}).tensor_f32("blk.0.ffn_norm.weight", {32});
  g.tensor_f32("blk.0.attn_q.weight", {32, 32}).tensor_f32("blk.0.attn_k.weight", {32, 16});
  g.tensor_f32("blk.0.attn_v.weight", {32, 16}).tensor_f32("blk.0.attn_output.weight", {32, 32});
  g.tensor_f32("blk.0.ffn_gate.weight", {32, 64}).tensor_f32("blk.0.ffn_up.weight", {32, 64});
  g.tensor_f32("blk.0.ffn_down.weight", {64, 32});
  return g;
}

}  // namespace spanscope::test
