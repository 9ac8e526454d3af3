// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model info: what a model file holds, without a pass over its weights.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/commands/command.h"
#include "core/base/digest.h"
#include "core/base/json.h"
#include "core/model/weights.h"

namespace spanscope {
namespace {

uint64_t parameters_of(const Model& m) {
  const auto count = [](const WeightMatrix& w) { return w ? uint64_t(w.rows) * w.cols : 0; };
  const auto feed_forward = [&](const FeedForwardWeights& w) {
    return count(w.gate) + count(w.up) + count(w.down) + w.gate_bias.size() + w.up_bias.size() + w.down_bias.size();
  };
  uint64_t n = count(m.embedding) + count(m.position_embedding) + m.output_norm.size() + m.output_norm_bias.size() +
               (m.recipe.tied_output ? 0 : count(m.output));
  for (const LayerWeights& l : m.layers) {
    for (const auto* v : {&l.attention_norm, &l.attention_norm_bias, &l.post_attention_norm, &l.feed_forward_norm,
                          &l.feed_forward_norm_bias, &l.post_feed_forward_norm, &l.q_bias, &l.k_bias, &l.v_bias, &l.o_bias,
                          &l.q_norm, &l.k_norm, &l.sinks, &l.router_bias})
      n += v->size();
    for (const WeightMatrix* w : {&l.q, &l.k, &l.v, &l.o, &l.router, &l.shared_router}) n += count(*w);
    n += feed_forward(l.dense) + feed_forward(l.shared);
    for (const FeedForwardWeights& e : l.experts) n += feed_forward(e);
  }
  return n;
}

OrderedJson describe(const Model& m) {
  const Recipe& r = m.recipe;
  OrderedJson out;
  out["path"] = m.path;
  out["name"] = r.name;
  out["architecture"] = r.family;
  out["digest"] = m.digest;
  out["file_bytes"] = m.file_bytes;
  out["parameters"] = parameters_of(m);
  out["weight_types"] = m.weight_types;
  out["layers"] = r.layers;
  out["hidden"] = r.hidden;
  out["query_heads"] = r.query_heads;
  out["kv_heads"] = r.kv_heads;
  out["head_dim"] = r.head_dim;
  out["feed_forward"] = r.feed_forward;
  out["vocab"] = r.vocab;
  out["context"] = r.context;
  out["tied_output"] = r.tied_output;
  out["rotary_dims"] = r.rotary_dims;
  out["window"] = r.window;
  out["rotates"] = std::count_if(r.rotary_of_layer.begin(), r.rotary_of_layer.end(), [](int8_t t) { return t >= 0; });
  out["rotary_changes_above"] = r.long_from ? OrderedJson(r.long_from) : OrderedJson(nullptr);
  out["learned_positions"] = r.learned_positions;
  out["learned_sink"] = r.learned_sink;
  out["score_cap"] = r.score_cap;
  out["logit_cap"] = r.logit_cap;
  out["moe_layers"] = r.moe_layers();
  out["experts"] = r.experts;
  out["experts_used"] = r.experts_used;
  out["shared_feed_forward"] = r.shared_feed_forward;
  out["kv_cache_bytes_per_token"] = uint64_t(2) * r.layers * r.kv_heads * r.head_dim * sizeof(float);
  const Vocabulary& v = m.vocabulary;
  out["tokenizer"] = {{"kind", v.kind},
                      {"pre", v.pre},
                      {"tokens", v.tokens.size()},
                      {"merges", v.merges.size()},
                      {"bos", v.bos},
                      {"eos", v.eos},
                      {"eot", v.eot},
                      {"add_bos", v.add_bos},
                      {"add_eos", v.add_eos}};
  // Digest and not the text: templates run to pages.
  out["chat_template_sha256"] =
      m.chat_template.empty() ? OrderedJson(nullptr) : OrderedJson(sha256_hex(m.chat_template));
  return out;
}

std::string windows_text(const Recipe& r) {
  const size_t windowed =
      size_t(std::count_if(r.window.begin(), r.window.end(), [](uint32_t w) { return w > 0; }));
  if (windowed == 0) return "none";
  return fmt::format("{} in {} of {} layers", *std::max_element(r.window.begin(), r.window.end()), windowed,
                     r.layers);
}

// How positions enter: rotated queries and keys, learned embeddings, or not at all.
std::string positions_text(const Recipe& r) {
  if (r.learned_positions) return fmt::format("{} learned", r.learned_positions);
  const auto rotating = std::count_if(r.rotary_of_layer.begin(), r.rotary_of_layer.end(), [](int8_t t) { return t >= 0; });
  std::string out = fmt::format("{} of {} dimensions rotate", r.rotary_dims, r.head_dim);
  if (size_t(rotating) != r.layers) out += fmt::format(" in {} of {} layers", rotating, r.layers);
  if (r.rotary_tables.size() > 1) out += ", windowed layers faster than the others";
  if (r.long_from) out += fmt::format(", otherwise above {} tokens", r.long_from);
  return out;
}

int run(const std::string& path, const Context& context) {
  auto model = load_model(path);
  if (!model) return report_error(model.error());
  const Model& m = **model;
  const Recipe& r = m.recipe;
  const OrderedJson json = describe(m);
  if (context.json) {
    // Names come from the file and need not be UTF-8.
    fmt::print("{}\n", json.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
    return kExitOk;
  }
  auto line = [](const char* label, const std::string& value) { fmt::print("{:<14}{}\n", label, value); };
  line("name", r.name);
  line("architecture",
       r.experts ? fmt::format("{}, mixture of {} experts, {} used", r.family, r.experts, r.experts_used)
                 : r.family);
  line("parameters", fmt::format("{:.1f} M in {} ({:.1f} MB)", double(parameters_of(m)) / 1e6, m.weight_types,
                                 double(m.file_bytes) / 1e6));
  line("layers", fmt::format("{} of width {}, feed-forward {}", r.layers, r.hidden,
                             r.experts ? r.expert_feed_forward : r.feed_forward));
  line("heads", fmt::format("{} query, {} key/value, {} wide", r.query_heads, r.kv_heads, r.head_dim));
  line("window", windows_text(r));
  line("positions", positions_text(r));
  if (r.learned_sink) line("sinks", "learned: a head may put attention on a key that is no token");
  line("context", fmt::format("{} tokens, {} bytes of keys and values each", r.context,
                              json["kv_cache_bytes_per_token"].get<uint64_t>()));
  line("vocabulary", fmt::format("{} tokens, {} ({})", r.vocab, m.vocabulary.kind, m.vocabulary.pre));
  line("chat template", m.chat_template.empty() ? "none"
                                                : fmt::format("{} bytes, sha256 {}", m.chat_template.size(),
                                                              sha256_hex(m.chat_template)));
  line("digest", m.digest);
  return kExitOk;
}

}  // namespace

void add_model_info(CLI::App& parent, Context& context) {
  auto path = std::make_shared<std::string>();
  auto* c = parent.add_subcommand("info", "What a model file holds");
  c->footer("Example:\n  spanscope model info resources/demo/relay-dense.gguf");
  c->add_option("model", *path, "GGUF file, Hugging Face directory or ollama:NAME")->required();
  c->callback([path, &context] { context.run = [path, &context] { return run(*path, context); }; });
}

}  // namespace spanscope
