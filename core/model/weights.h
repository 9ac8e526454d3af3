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
#include "core/model/tensor_type.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// y = W x with W [rows = outputs][cols = inputs], rows stored one after another. data == nullptr: not in this model.
struct WeightMatrix {
  TensorType type = TensorType::f32;
  uint32_t rows = 0, cols = 0;
  const uint8_t* data = nullptr;
  explicit operator bool() const { return data != nullptr; }
  const uint8_t* row(uint64_t r) const { return data + r * row_bytes(type, cols); }
};
// Writes row `r` as f32, bit for bit as the block formats define it (block_formats.h).  // out [cols]
void dequantise_row(const WeightMatrix& w, uint64_t r, float* out);

struct FeedForwardWeights {
  WeightMatrix gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias;  // empty: none
};
// A norm without weights is not applied. Biases: empty means none.
struct LayerWeights {
  std::vector<float> attention_norm, attention_norm_bias;            // [hidden] before attention
  std::vector<float> post_attention_norm;                            // [hidden] of what attention adds
  std::vector<float> feed_forward_norm, feed_forward_norm_bias;      // [hidden] before the feed-forward
  std::vector<float> post_feed_forward_norm;                         // [hidden] of what the feed-forward adds
  WeightMatrix q, k, v, o;       // [query_heads*head_dim | kv_heads*head_dim][hidden], o [hidden][query_heads*head_dim]
  std::vector<float> q_bias, k_bias, v_bias, o_bias;
  std::vector<float> q_norm, k_norm;                 // [head_dim], or all heads side by side (QueryKeyNorm::full)
  std::vector<float> sinks;                          // [query_heads] learned: a key without a value, its score
  FeedForwardWeights dense;      // of layers that are not a mixture of experts
  WeightMatrix router;           // [experts][hidden]
  std::vector<float> router_bias;
  std::vector<FeedForwardWeights> experts;
  FeedForwardWeights shared;     // runs for every row; its share is sigmoid(shared_router . x) where there is one
  WeightMatrix shared_router;    // [1][hidden]
};

struct Model {
  Recipe recipe;
  WeightMatrix embedding;  // [vocab][hidden]
  WeightMatrix output;     // [vocab][hidden]; the embedding again when tied
  std::vector<float> output_norm, output_norm_bias;
  WeightMatrix position_embedding;  // [learned positions][hidden]
  std::vector<LayerWeights> layers;
  Vocabulary vocabulary;        // core/text: what the tokenizer is made from
  std::string chat_template;    // the file's own template text, may be empty
  std::string path;
  std::string digest;           // SHA-256 of the file's metadata block and tensor directory plus size (see load_model)
  uint64_t file_bytes = 0;
  std::string weight_types;     // "Q4_1, F32": for people
  std::vector<std::shared_ptr<const MappedFile>> files;  // keep the views alive
  // Matrices whose stored form no kernel reads (transposed, or halves of a block apart), rearranged when loaded.
  std::vector<std::shared_ptr<const std::vector<uint8_t>>> rearranged;
};

// Opens a GGUF file (any shard of a split one), a Hugging Face directory, or "ollama:NAME[:TAG]". No pass over the
// weights, except over tensors that must be rearranged (Model::rearranged). Errors name file, byte offset, key or
// tensor, expected and found.
Result<std::shared_ptr<const Model>> load_model(const std::string& path);
// Only the vocabulary and chat template (works on vocabulary-only GGUF files too). Tensors are not looked at.
Result<std::shared_ptr<const Model>> load_vocabulary(const std::string& path);

}  // namespace spanscope
