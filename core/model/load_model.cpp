// SPDX-License-Identifier: GPL-3.0-or-later
// From files to a Model: a GGUF file (or its shards) or a Hugging Face directory. The recipe from keys or configuration,
// vocabulary and template beside it, tensors bound by bind_weights.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/base/digest.h"
#include "core/base/json.h"
#include "core/model/bind_weights.h"
#include "core/model/family.h"
#include "core/model/gguf.h"
#include "core/model/gguf_shards.h"
#include "core/model/model_path.h"
#include "core/model/tensor_table.h"
#include "core/model/vocabulary_from_gguf.h"
#include "core/model/vocabulary_from_hf.h"
#include "core/model/weights.h"

namespace spanscope {
namespace {

namespace fs = std::filesystem;
using Loaded = Result<std::shared_ptr<const Model>>;

Error unknown_family(const std::string& name, const std::string& supported, const std::string& where) {
  const std::string why = refusal_of(name);
  return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-ARCH",
                    fmt::format("architecture \"{}\" is not supported{}; supported are: {}", printable(name),
                                why.empty() ? "" : " (" + why + ")", supported),
                    where);
}

Status check_vocabulary(const Model& model) {
  if (model.vocabulary.tokens.size() > model.recipe.vocab)
    return make_error(ErrorCode::corrupt, "SPAN-MODEL",
                      fmt::format("{} tokens in the vocabulary, but embeddings for {}", model.vocabulary.tokens.size(),
                                  model.recipe.vocab),
                      model.path);
  return {};
}

// Headers and sizes name the files without a pass over the weights.
void identify(Model& model, const TensorTable& table, std::string_view more) {
  std::vector<uint8_t> identity(more.begin(), more.end());
  identity.insert(identity.end(), table.identity().begin(), table.identity().end());
  model.digest = sha256_hex(identity);
  model.file_bytes = table.file_bytes();
}

// What both ways of reading a GGUF file take from its keys: vocabulary, template, name.
Status read_keys(Model& model, const GgufFile& file) {
  auto vocabulary = vocabulary_from_gguf(file);
  if (!vocabulary) return std::move(vocabulary).error();
  model.vocabulary = std::move(*vocabulary);
  auto chat_template = file.text("tokenizer.chat_template", std::string());
  if (!chat_template) return std::move(chat_template).error();
  model.chat_template = std::move(*chat_template);
  auto name = file.text("general.name", fs::path(model.path).stem().string());
  if (!name) return std::move(name).error();
  model.recipe.name = std::move(*name);
  return {};
}

Loaded load_gguf(const std::string& path) {
  auto parts = open_gguf_parts(path);
  if (!parts) return std::move(parts).error();
  const GgufFile& file = parts->front().file;
  auto architecture = file.text("general.architecture");
  if (!architecture) return std::move(architecture).error();
  const Family* family = find_family(*architecture);
  if (!family) return unknown_family(*architecture, family_names(), path);
  TensorTable table;
  auto model = std::make_shared<Model>();
  model->path = path;
  for (const GgufPart& part : *parts) {
    SPANSCOPE_TRY(table.add(part.file));
    model->files.push_back(part.mapped);
  }
  identify(*model, table, {});
  auto recipe = recipe_from_gguf(*family, file, table);
  if (!recipe) return std::move(recipe).error();
  model->recipe = std::move(*recipe);
  SPANSCOPE_TRY(read_keys(*model, file));

  // The vocabulary's size is the embedding's: token lists may be shorter (padding), never longer.
  const char* embedding = "token_embd.weight";
  const SourceTensor* t = table.find(embedding);
  if (!t || t->shape.size() < 2 || t->shape[t->shape.size() - 2] > INT32_MAX) {
    std::vector<uint64_t> shape;
    if (t) shape.assign(t->shape.rbegin(), t->shape.rend());
    return make_error(
        ErrorCode::corrupt, "SPAN-GGUF-TENSOR",
        t ? fmt::format("tensor \"{}\": expected [width x vocabulary], found [{}]", embedding, fmt::join(shape, " x "))
          : fmt::format("tensor \"{}\" is missing", embedding),
        path, t ? t->offset : std::nullopt);
  }
  model->recipe.vocab = uint32_t(t->shape[t->shape.size() - 2]);
  SPANSCOPE_TRY(check_vocabulary(*model));
  SPANSCOPE_TRY(bind_weights(table, *family, *model));
  return std::shared_ptr<const Model>(std::move(model));
}

// Files of the directory's weights: those that the index names, or the only one.
Result<std::vector<std::string>> weight_files(const fs::path& directory) {
  const fs::path index = directory / "model.safetensors.index.json", single = directory / "model.safetensors";
  std::error_code error;
  if (!fs::exists(index, error)) {
    if (fs::exists(single, error)) return std::vector<std::string>{single.string()};
    return make_error(ErrorCode::not_found, "SPAN-HF-FILES",
                      "expected model.safetensors or model.safetensors.index.json; PyTorch's own files (.bin, .pt) hold "
                      "programs and are not read",
                      directory.string());
  }
  auto text = read_file(index.string(), 100 << 20);
  if (!text) return std::move(text).error();
  auto json = parse_json(*text, index.string());
  if (!json) return std::move(json).error();
  const auto bad = [&](const std::string& message) {
    return make_error(ErrorCode::corrupt, "SPAN-HF-INDEX", message, index.string());
  };
  const auto map = json->is_object() ? json->find("weight_map") : json->end();
  if (!json->is_object() || map == json->end() || !map->is_object()) return bad("expected an object \"weight_map\"");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : std::string();
    if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "..")
      return bad(fmt::format("tensor \"{}\": expected the name of a file beside the index", printable(tensor)));
    names.insert(name);
  }
  if (names.empty()) return bad("\"weight_map\" names no file");
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (!fs::exists(directory / name, error))
      return make_error(ErrorCode::not_found, "SPAN-HF-FILES",
                        fmt::format("the index names \"{}\", which is not there", printable(name)), directory.string());
    out.push_back((directory / name).string());
  }
  return out;
}

Result<std::string> model_type_of(const std::string& config, const std::string& where) {
  auto json = parse_json(config, where);
  if (!json) return std::move(json).error();
  const auto type = json->is_object() ? json->find("model_type") : json->end();
  if (!json->is_object() || type == json->end() || !type->is_string())
    return make_error(ErrorCode::corrupt, "SPAN-HF-CONFIG", "expected a string \"model_type\"", where);
  return type->get<std::string>();
}

Loaded load_directory(const std::string& path) {
  const std::string config_path = (fs::path(path) / "config.json").string();
  std::error_code error;
  if (!fs::exists(config_path, error))
    return make_error(ErrorCode::not_found, "SPAN-HF-FILES",
                      "expected a GGUF file, or a directory with config.json and safetensors files", path);
  auto config = read_file(config_path, 16 << 20);
  if (!config) return std::move(config).error();
  auto type = model_type_of(*config, config_path);
  if (!type) return std::move(type).error();
  const Family* family = find_family_of_config(*type);
  if (!family) return unknown_family(*type, model_type_names(), config_path);
  auto files = weight_files(path);
  if (!files) return std::move(files).error();
  TensorTable table;
  table.kind = TensorTable::Kind::hugging_face;
  auto model = std::make_shared<Model>();
  model->path = path;
  for (const std::string& file : *files) {
    auto mapped = MappedFile::open(file);
    if (!mapped) return std::move(mapped).error();
    SPANSCOPE_TRY(table.add_safetensors((*mapped)->bytes(), file));
    model->files.push_back(std::move(*mapped));
  }
  identify(*model, table, *config);
  auto recipe = recipe_from_config(*family, *config, config_path, table.all().size());
  if (!recipe) return std::move(recipe).error();
  model->recipe = std::move(*recipe);
  const fs::path clean = fs::weakly_canonical(path, error);
  model->recipe.name = (clean.has_filename() ? clean : fs::path(path)).filename().string();
  auto vocabulary = vocabulary_from_directory(path);
  if (!vocabulary) return std::move(vocabulary).error();
  model->vocabulary = std::move(*vocabulary);
  auto chat_template = chat_template_of_directory(path);
  if (!chat_template) return std::move(chat_template).error();
  model->chat_template = std::move(*chat_template);
  SPANSCOPE_TRY(check_vocabulary(*model));
  SPANSCOPE_TRY(bind_weights(table, *family, *model));
  return std::shared_ptr<const Model>(std::move(model));
}

Loaded load_model_impl(const std::string& name) {
  auto path = resolve_model_path(name);
  if (!path) return std::move(path).error();
  std::error_code error;
  return fs::is_directory(*path, error) ? load_directory(*path) : load_gguf(*path);
}

Loaded load_vocabulary_impl(const std::string& name) {
  auto path = resolve_model_path(name);
  if (!path) return std::move(path).error();
  auto model = std::make_shared<Model>();
  model->path = *path;
  std::error_code error;
  if (fs::is_directory(*path, error)) {
    auto vocabulary = vocabulary_from_directory(*path);
    if (!vocabulary) return std::move(vocabulary).error();
    model->vocabulary = std::move(*vocabulary);
    auto chat_template = chat_template_of_directory(*path);
    if (!chat_template) return std::move(chat_template).error();
    model->chat_template = std::move(*chat_template);
    model->recipe.name = fs::path(*path).filename().string();
    model->recipe.vocab = uint32_t(model->vocabulary.tokens.size());
    return std::shared_ptr<const Model>(std::move(model));
  }
  auto part = open_gguf_metadata(*path);
  if (!part) return std::move(part).error();
  const GgufFile& file = part->file;
  SPANSCOPE_TRY(read_keys(*model, file));
  model->files.push_back(part->mapped);
  if (model->vocabulary.tokens.empty())
    return make_error(ErrorCode::not_found, "SPAN-GGUF-KEY",
                      "metadata key \"tokenizer.ggml.tokens\" is missing: no vocabulary", *path);
  Recipe& r = model->recipe;
  auto architecture = file.text("general.architecture", std::string());
  if (!architecture) return std::move(architecture).error();
  r.family = std::move(*architecture);
  r.vocab = uint32_t(model->vocabulary.tokens.size());
  auto context = file.unsigned_value(r.family + ".context_length", 0);
  if (!context) return std::move(context).error();
  r.context = uint32_t(std::min<uint64_t>(*context, UINT32_MAX));
  std::vector<uint8_t> identity(file.bytes().begin(), file.bytes().begin() + ptrdiff_t(file.header_bytes()));
  model->file_bytes = file.bytes().size();
  for (int i = 0; i < 8; ++i) identity.push_back(uint8_t(model->file_bytes >> (8 * i)));
  model->digest = sha256_hex(identity);
  return std::shared_ptr<const Model>(std::move(model));
}

template <class F>
Loaded guarded(const std::string& path, F load) {
  try {
    return load(path);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory to read the model's directory",
                      path);
  }
}

}  // namespace

Loaded load_model(const std::string& path) { return guarded(path, load_model_impl); }
Loaded load_vocabulary(const std::string& path) { return guarded(path, load_vocabulary_impl); }

}  // namespace spanscope
