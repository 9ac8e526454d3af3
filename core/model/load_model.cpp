// SPDX-License-Identifier: GPL-3.0-or-later
// From a GGUF file to a Model: recipe from the keys, tensors bound to their roles by the family's table, each
// shape checked against the recipe. Every tensor of the file must have a role: one that nothing reads would
// silently change the result.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "core/base/digest.h"
#include "core/model/family.h"
#include "core/model/gguf.h"
#include "core/model/vocabulary_from_gguf.h"
#include "core/model/weights.h"

namespace spanscope {
namespace {

constexpr const char* kSupportedTypes = "F32, F16, BF16, Q8_0, Q4_0, Q4_1";

std::optional<TensorType> tensor_type(uint32_t number) {
  switch (number) {
    case 0:
      return TensorType::f32;
    case 1:
      return TensorType::f16;
    case 2:
      return TensorType::q4_0;
    case 3:
      return TensorType::q4_1;
    case 8:
      return TensorType::q8_0;
    case 30:
      return TensorType::bf16;
    default:
      return {};
  }
}

std::string replace_index(std::string name, const char* mark, uint32_t index) {
  if (const size_t at = name.find(mark); at != std::string::npos) name.replace(at, 3, std::to_string(index));
  return name;
}

class Binder {
 public:
  Binder(const GgufFile& file, Model& model, const Family& family)
      : file_(file), model_(model), family_(family) {}

  Status bind_all() {
    model_.layers.resize(model_.recipe.layers);
    for (const TensorRule& rule : family_.tensors) {
      if (rule.presence == Presence::model || rule.presence == Presence::optional_model) {
        SPANSCOPE_TRY(bind(rule, 0, 0));
        continue;
      }
      for (uint32_t l = 0; l < model_.recipe.layers; ++l) {
        const bool moe = model_.recipe.moe_layer[l];
        if (rule.presence == Presence::dense_layer && moe) continue;
        if (rule.presence >= Presence::moe_layer && !moe) continue;
        if (rule.presence == Presence::moe_stacked && !stacked(l)) continue;
        if (rule.presence == Presence::moe_single && stacked(l)) continue;
        const uint32_t copies = rule.presence == Presence::moe_single ? model_.recipe.experts : 1;
        for (uint32_t e = 0; e < copies; ++e) SPANSCOPE_TRY(bind(rule, l, e));
      }
    }
    if (bound_.size() != file_.tensors().size())
      for (const GgufTensor& t : file_.tensors())
        if (!bound_.count(t.entry))
          return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-TENSOR",
                            fmt::format("tensor \"{}\" has no place in architecture {} as it is run here",
                                        printable(t.name), family_.name),
                            file_.where(), t.entry);
    return {};
  }

  // Types by the bytes they take, largest first.
  std::string type_summary() const {
    std::vector<std::pair<uint64_t, std::string>> types;
    for (const auto& [name, bytes] : bytes_of_type_) types.emplace_back(bytes, name);
    std::sort(types.rbegin(), types.rend());
    std::string out;
    for (const auto& [bytes, name] : types) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

 private:
  bool stacked(uint32_t layer) const {
    for (const TensorRule& rule : family_.tensors)
      if (rule.presence == Presence::moe_single &&
          file_.tensor(replace_index(replace_index(rule.name, "{l}", layer), "{e}", 0)))
        return false;
    return true;
  }

  Status bind(const TensorRule& rule, uint32_t l, uint32_t e) {
    const std::string name = replace_index(replace_index(rule.name, "{l}", l), "{e}", e);
    const GgufTensor* t = file_.tensor(name);
    if (!t) {
      if (rule.presence == Presence::optional_model) return {};
      return make_error(ErrorCode::not_found, "SPAN-GGUF-TENSOR",
                        fmt::format("tensor \"{}\" is missing ({} layers, {} experts)", name,
                                    model_.recipe.layers, model_.recipe.experts),
                        file_.where());
    }
    const std::optional<TensorType> type = tensor_type(t->type);
    if (!type)
      return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-TYPE",
                        fmt::format("tensor \"{}\" has type {}; supported are {}", name,
                                    ggml_type_name(t->type), kSupportedTypes),
                        file_.where(), t->entry);
    const bool stack = rule.presence == Presence::moe_stacked;
    std::vector<uint64_t> expected{extent_of(rule.cols, model_.recipe)};
    if (rule.rows != Extent::one) expected.push_back(extent_of(rule.rows, model_.recipe));
    if (stack) expected.push_back(model_.recipe.experts);
    std::vector<uint64_t> found = t->shape;
    while (found.size() > expected.size() && found.back() == 1) found.pop_back();
    if (found != expected)
      return make_error(ErrorCode::corrupt, "SPAN-GGUF-TENSOR",
                        fmt::format("tensor \"{}\": expected shape [{}], found [{}]", name,
                                    fmt::join(expected, " x "), fmt::join(t->shape, " x ")),
                        file_.where(), t->entry);
    bound_.insert({t->entry, true});
    bytes_of_type_[tensor_type_name(*type)] += t->bytes;

    WeightMatrix w;
    w.type = *type;
    w.cols = uint32_t(expected[0]);
    w.rows = rule.rows == Extent::one ? 1 : uint32_t(expected[1]);
    w.data = file_.bytes().data() + t->data;
    place(rule.role, w, l, e);
    return {};
  }

  static std::vector<float> vector_of(const WeightMatrix& w) {
    std::vector<float> out(w.cols);
    dequantise_row(w, 0, out.data());
    return out;
  }

  void place_stack(WeightMatrix w, LayerWeights& layer, WeightMatrix ExpertWeights::*member) {
    layer.experts.resize(model_.recipe.experts);
    const uint64_t bytes = row_bytes(w.type, w.cols) * w.rows;
    for (ExpertWeights& expert : layer.experts) {
      expert.*member = w;
      w.data += bytes;
    }
  }
  void place_single(const WeightMatrix& w, LayerWeights& layer, uint32_t e,
                    WeightMatrix ExpertWeights::*member) {
    layer.experts.resize(model_.recipe.experts);
    layer.experts[e].*member = w;
  }

  void place(TensorRole role, const WeightMatrix& w, uint32_t l, uint32_t e) {
    LayerWeights& layer = model_.layers[l];
    switch (role) {
      case TensorRole::embedding:
        model_.embedding = w;
        break;
      case TensorRole::output:
        model_.output = w;
        break;
      case TensorRole::output_norm:
        model_.output_norm = vector_of(w);
        break;
      case TensorRole::rotary_factors: {
        const std::vector<float> factors = vector_of(w);
        for (size_t i = 0; i < factors.size(); ++i) model_.recipe.inverse_frequency[i] /= factors[i];
        break;
      }
      case TensorRole::attention_norm:
        layer.attention_norm = vector_of(w);
        break;
      case TensorRole::feed_forward_norm:
        layer.feed_forward_norm = vector_of(w);
        break;
      case TensorRole::q:
        layer.q = w;
        break;
      case TensorRole::k:
        layer.k = w;
        break;
      case TensorRole::v:
        layer.v = w;
        break;
      case TensorRole::o:
        layer.o = w;
        break;
      case TensorRole::gate:
        layer.gate = w;
        break;
      case TensorRole::up:
        layer.up = w;
        break;
      case TensorRole::down:
        layer.down = w;
        break;
      case TensorRole::router:
        layer.router = w;
        break;
      case TensorRole::stacked_gate:
        place_stack(w, layer, &ExpertWeights::gate);
        break;
      case TensorRole::stacked_up:
        place_stack(w, layer, &ExpertWeights::up);
        break;
      case TensorRole::stacked_down:
        place_stack(w, layer, &ExpertWeights::down);
        break;
      case TensorRole::expert_gate:
        place_single(w, layer, e, &ExpertWeights::gate);
        break;
      case TensorRole::expert_up:
        place_single(w, layer, e, &ExpertWeights::up);
        break;
      case TensorRole::expert_down:
        place_single(w, layer, e, &ExpertWeights::down);
        break;
    }
  }

  const GgufFile& file_;
  Model& model_;
  const Family& family_;
  std::map<uint64_t, bool> bound_;  // by directory entry
  std::map<std::string, uint64_t> bytes_of_type_;
};

// What both loaders read: identity, vocabulary, template.
Result<std::shared_ptr<Model>> begin_model(const std::string& path, const GgufFile& file,
                                           std::shared_ptr<const MappedFile> mapped) {
  auto model = std::make_shared<Model>();
  model->path = path;
  model->file_bytes = file.bytes().size();
  auto vocabulary = vocabulary_from_gguf(file);
  if (!vocabulary) return std::move(vocabulary).error();
  model->vocabulary = std::move(*vocabulary);
  auto chat_template = file.text("tokenizer.chat_template", std::string());
  if (!chat_template) return std::move(chat_template).error();
  model->chat_template = std::move(*chat_template);
  model->files.push_back(std::move(mapped));

  // Metadata block and tensor directory, then the file's size: names the file without a pass over the
  // weights.
  std::vector<uint8_t> identity(file.bytes().begin(), file.bytes().begin() + ptrdiff_t(file.header_bytes()));
  for (int i = 0; i < 8; ++i) identity.push_back(uint8_t(model->file_bytes >> (8 * i)));
  model->digest = sha256_hex(identity);
  return model;
}

Result<std::string> name_of(const GgufFile& file, const std::string& path) {
  return file.text("general.name", std::filesystem::path(path).stem().string());
}

Status check_shards(const GgufFile& file) {
  auto shards = file.unsigned_value("split.count", 1);
  if (!shards) return std::move(shards).error();
  if (*shards > 1)
    return make_error(
        ErrorCode::unsupported, "SPAN-UNSUPPORTED",
        fmt::format("the model is split into {} files, only models in one file are read", *shards),
        file.where());
  return {};
}

Result<std::shared_ptr<const Model>> load_model_impl(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return std::move(mapped).error();
  auto file = GgufFile::parse((*mapped)->bytes(), path);
  if (!file) return std::move(file).error();
  auto architecture = file->text("general.architecture");
  if (!architecture) return std::move(architecture).error();
  const Family* family = find_family(*architecture);
  if (!family)
    return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-ARCH",
                      fmt::format("architecture \"{}\" is not supported; supported are: {}",
                                  printable(*architecture), family_names()),
                      path);
  SPANSCOPE_TRY(check_shards(*file));
  auto model = begin_model(path, *file, *mapped);
  if (!model) return std::move(model).error();
  auto recipe = fill_recipe(*family, *file);
  if (!recipe) return std::move(recipe).error();
  (*model)->recipe = std::move(*recipe);
  Recipe& r = (*model)->recipe;
  auto name = name_of(*file, path);
  if (!name) return std::move(name).error();
  r.name = std::move(*name);

  // The vocabulary's size is the embedding's: token lists may be shorter (padding), never longer.
  for (const TensorRule& rule : family->tensors) {
    if (rule.role != TensorRole::embedding) continue;
    const GgufTensor* t = file->tensor(rule.name);
    if (!t || t->shape.size() < 2 || t->shape[1] > INT32_MAX)
      return make_error(ErrorCode::corrupt, "SPAN-GGUF-TENSOR",
                        t ? fmt::format("tensor \"{}\": expected [width x vocabulary], found [{}]", rule.name,
                                        fmt::join(t->shape, " x "))
                          : fmt::format("tensor \"{}\" is missing", rule.name),
                        path, t ? std::optional<uint64_t>(t->entry) : std::nullopt);
    r.vocab = uint32_t(t->shape[1]);
  }
  if ((*model)->vocabulary.tokens.size() > r.vocab)
    return make_error(ErrorCode::corrupt, "SPAN-MODEL",
                      fmt::format("{} tokens in the vocabulary, but embeddings for {}",
                                  (*model)->vocabulary.tokens.size(), r.vocab),
                      path);
  Binder binder(*file, **model, *family);
  SPANSCOPE_TRY(binder.bind_all());
  for (float f : r.inverse_frequency)
    if (!(f >= 0 && f <= 1e6f))
      return make_error(ErrorCode::corrupt, "SPAN-MODEL", fmt::format("a rotary frequency is {}", f), path);
  if (!(*model)->output) {
    r.tied_output = true;
    (*model)->output = (*model)->embedding;
  }
  (*model)->weight_types = binder.type_summary();
  return std::shared_ptr<const Model>(std::move(*model));
}

Result<std::shared_ptr<const Model>> load_vocabulary_impl(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return std::move(mapped).error();
  auto file = GgufFile::parse((*mapped)->bytes(), path, false);
  if (!file) return std::move(file).error();
  auto model = begin_model(path, *file, *mapped);
  if (!model) return std::move(model).error();
  if ((*model)->vocabulary.tokens.empty())
    return make_error(ErrorCode::not_found, "SPAN-GGUF-KEY",
                      "metadata key \"tokenizer.ggml.tokens\" is missing: no vocabulary", path);
  Recipe& r = (*model)->recipe;
  auto architecture = file->text("general.architecture", std::string());
  if (!architecture) return std::move(architecture).error();
  r.family = std::move(*architecture);
  auto name = name_of(*file, path);
  if (!name) return std::move(name).error();
  r.name = std::move(*name);
  r.vocab = uint32_t((*model)->vocabulary.tokens.size());
  auto context = file->unsigned_value(r.family + ".context_length", 0);
  if (!context) return std::move(context).error();
  r.context = uint32_t(std::min<uint64_t>(*context, UINT32_MAX));
  return std::shared_ptr<const Model>(std::move(*model));
}

template <class F>
Result<std::shared_ptr<const Model>> guarded(const std::string& path, F load) {
  try {
    return load(path);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory to read the model's directory",
                      path);
  }
}

}  // namespace

Result<std::shared_ptr<const Model>> load_model(const std::string& path) {
  return guarded(path, load_model_impl);
}
Result<std::shared_ptr<const Model>> load_vocabulary(const std::string& path) {
  return guarded(path, load_vocabulary_impl);
}

}  // namespace spanscope
