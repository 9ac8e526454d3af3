// SPDX-License-Identifier: GPL-3.0-or-later
// A model's weights as views into the mapped file. Immutable after loading, shared between backends. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/result.h"
#include "core/model/recipe.h"
#include "core/text/vocabulary.h"

namespace spanscope {

enum class TensorType : uint8_t { f32, f16, bf16, q8_0, q4_0, q4_1 };
const char* tensor_type_name(TensorType type);
uint32_t block_elements(TensorType type);  // 1 or 32
uint32_t block_bytes(TensorType type);
// Bytes of one row of `cols` elements (cols must be a multiple of block_elements).
uint64_t row_bytes(TensorType type, uint64_t cols);

// y = W x with W [rows = outputs][cols = inputs], rows stored one after another. data == nullptr: not in this model.
struct WeightMatrix {
  TensorType type = TensorType::f32;
  uint32_t rows = 0, cols = 0;
  const uint8_t* data = nullptr;
  explicit operator bool() const { return data != nullptr; }
  const uint8_t* row(uint64_t r) const { return data + r * row_bytes(type, cols); }
};
// Writes row `r` as f32, exactly as the block formats define it (scale * quant [+ minimum], in f32). // out [cols]
void dequantise_row(const WeightMatrix& w, uint64_t r, float* out);

struct ExpertWeights {
  WeightMatrix gate, up, down;
};
struct LayerWeights {
  std::vector<float> attention_norm, feed_forward_norm;  // [hidden]
  WeightMatrix q, k, v, o;       // [query_heads*head_dim | kv_heads*head_dim][hidden], o [hidden][query_heads*head_dim]
  WeightMatrix gate, up, down;   // dense feed-forward
  WeightMatrix router;           // [experts][hidden]
  std::vector<ExpertWeights> experts;
};

struct Model {
  Recipe recipe;
  WeightMatrix embedding;  // [vocab][hidden]
  WeightMatrix output;     // [vocab][hidden]; the embedding again when tied
  std::vector<float> output_norm;
  std::vector<LayerWeights> layers;
  Vocabulary vocabulary;        // core/text: what the tokenizer is made from
  std::string chat_template;    // the file's own template text, may be empty
  std::string path;
  std::string digest;           // SHA-256 of the file's metadata block and tensor directory plus size (see load_model)
  uint64_t file_bytes = 0;
  std::string weight_types;     // "Q4_1, F32": for people
  std::vector<std::shared_ptr<const MappedFile>> files;  // keeps the views alive
};

// Opens a GGUF file. No pass over the weights. Errors name file, byte offset, key or tensor, expected and found.
Result<std::shared_ptr<const Model>> load_model(const std::string& path);
// Only the vocabulary and chat template (works on vocabulary-only GGUF files too). Tensors are not looked at.
Result<std::shared_ptr<const Model>> load_vocabulary(const std::string& path);

}  // namespace spanscope
