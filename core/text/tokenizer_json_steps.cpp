// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/tokenizer_json_steps.h"

#include <fmt/format.h>

#include "core/text/pre_tokenizer.h"

namespace spanscope {
namespace {

using Step = NormaliseStep;

std::string type_of(const Json& json) {
  const auto type = json.is_object() ? json.find("type") : json.end();
  return json.is_object() && type != json.end() && type->is_string() ? type->get<std::string>() : std::string();
}

bool flag(const Json& json, const char* key, bool fallback) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string text(const Json& json, const char* key, std::string fallback = {}) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : fallback;
}

class Steps {
 public:
  explicit Steps(const std::string& where) : where_(where) {}
  TokenizerSteps out;

  Status normalizer(const Json& json, int depth = 0) {
    const std::string type = type_of(json);
    if (type == "Sequence") return each(json, "normalizers", depth, [&](const Json& one, int d) { return normalizer(one, d); });
    if (type == "NFC") return add(Step::Kind::nfc);
    if (type == "NFD") return add(Step::Kind::nfd);
    if (type == "NFKC") return add(Step::Kind::nfkc);
    if (type == "NFKD") return add(Step::Kind::nfkd);
    if (type == "Lowercase") return add(Step::Kind::lowercase);
    if (type == "Prepend") {
      const std::string prefix = text(json, "prepend");
      if (!prefix.empty()) out.normalise.push_back({Step::Kind::prefix, "", prefix, Step::When::always});
      return {};
    }
    if (type == "Replace") {
      const auto pattern = json.find("pattern");
      const std::string from = pattern != json.end() && pattern->is_object() ? text(*pattern, "String") : std::string();
      if (from.empty()) return refuse("normalizer \"Replace\" with a regular expression");
      out.normalise.push_back({Step::Kind::replace, from, text(json, "content"), Step::When::always});
      return {};
    }
    return refuse("normalizer \"" + type + "\"");
  }

  Status pre_tokenizer(const Json& json, int depth = 0) {
    const std::string type = type_of(json);
    if (type == "Sequence") return each(json, "pretokenizers", depth, [&](const Json& one, int d) { return pre_tokenizer(one, d); });
    if (type == "ByteLevel") {
      if (flag(json, "add_prefix_space", true)) SPANSCOPE_TRY(prepare({Step::Kind::prefix, "", " ", Step::When::unless_there}, type));
      if (flag(json, "use_regex", true)) out.split.push_back(gpt2_split());
      out.byte_level = true;
      return {};
    }
    if (type == "Digits") {
      SplitStep step = digit_split();
      if (!flag(json, "individual_digits", false)) step.text += "+";
      out.split.push_back(std::move(step));
      return {};
    }
    if (type == "Metaspace") return metaspace(json);
    if (type == "Split") return split(json);
    return refuse("pre-tokenizer \"" + type + "\"");
  }

  Status decoder(const Json& json, int depth = 0) {
    const std::string type = type_of(json);
    if (type == "Sequence") return each(json, "decoders", depth, [&](const Json& one, int d) { return decoder(one, d); });
    const auto start = json.find("start");
    if (type == "Strip" && text(json, "content") == " " && start != json.end() && start->is_number_integer() && start->get<int64_t>() > 0)
      out.decode_drops_space = true;
    if (type == "Metaspace" && scheme_of(json) != "never") out.decode_drops_space = true;
    return {};  // the rest is what pieces are anyway
  }

 private:
  Status refuse(const std::string& what) const {
    return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", what + " is not supported", where_);
  }
  Status add(Step::Kind kind) {
    out.normalise.push_back({kind, "", "", Step::When::always});
    return {};
  }
  // A step that rewrites text must come before those that cut it.
  Status prepare(Step step, const std::string& type) {
    if (!out.split.empty()) return refuse("pre-tokenizer \"" + type + "\" behind one that cuts");
    out.prepare.push_back(std::move(step));
    return {};
  }
  template <class Visit>
  Status each(const Json& json, const char* key, int depth, Visit visit) {
    const auto list = json.find(key);
    if (list == json.end() || !list->is_array())
      return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("a sequence without \"{}\"", key), where_);
    if (depth > 8 || list->size() > 64) return make_error(ErrorCode::limit, "SPAN-LIMIT", "too many steps", where_);
    for (const Json& one : *list) SPANSCOPE_TRY(visit(one, depth + 1));
    return {};
  }
  static std::string scheme_of(const Json& json) {
    return text(json, "prepend_scheme", flag(json, "add_prefix_space", true) ? "always" : "never");
  }
  Status metaspace(const Json& json) {
    const std::string mark = text(json, "replacement", "\xe2\x96\x81"), scheme = scheme_of(json);
    if (mark.empty()) return refuse("pre-tokenizer \"Metaspace\" without a replacement");
    SPANSCOPE_TRY(prepare({Step::Kind::replace, " ", mark, Step::When::always}, "Metaspace"));
    if (scheme == "always" || scheme == "first")
      SPANSCOPE_TRY(prepare({Step::Kind::prefix, "", mark, scheme == "always" ? Step::When::unless_there : Step::When::first_unless_there}, "Metaspace"));
    else if (scheme != "never") return refuse("\"prepend_scheme\" \"" + scheme + "\"");
    if (flag(json, "split", true)) out.split.push_back({SplitStep::Kind::literal, mark, SplitStep::Match::begins});
    return {};
  }
  Status split(const Json& json) {
    const auto pattern = json.find("pattern");
    if (pattern == json.end() || !pattern->is_object()) return refuse("pre-tokenizer \"Split\" without a pattern");
    SplitStep step;
    if (pattern->contains("String")) {
      step.kind = SplitStep::Kind::literal;
      step.text = text(*pattern, "String");
    } else {
      step.text = text(*pattern, "Regex");
    }
    if (step.text.empty()) return refuse("pre-tokenizer \"Split\" with an empty pattern");
    const std::string behaviour = text(json, "behavior");
    const bool invert = flag(json, "invert", false);
    if (behaviour == "MergedWithPrevious" && !invert) step.match = SplitStep::Match::ends;
    else if (behaviour == "MergedWithNext" && !invert) step.match = SplitStep::Match::begins;
    // Inverted, what lies between matches would be removed; patterns that match everything leave nothing there.
    else if (!(behaviour == "Isolated" || (behaviour == "Removed" && invert && matches_everything(step))))
      return refuse("\"Split\" with behaviour \"" + behaviour + "\"" + (invert ? ", inverted," : ""));
    out.split.push_back(std::move(step));
    return {};
  }

  const std::string& where_;
};

// Ids of a processor's special token: exactly one.
Result<int64_t> special_id(const Json& processor, const Json& special, const std::string& where) {
  const std::string name = text(special, "id");
  const auto table = processor.find("special_tokens");
  if (table != processor.end() && table->is_object())
    if (const auto entry = table->find(name); entry != table->end() && entry->is_object())
      if (const auto ids = entry->find("ids"); ids != entry->end() && ids->is_array() && ids->size() == 1 && (*ids)[0].is_number_integer() &&
                                               (*ids)[0].get<int64_t>() >= 0)
        return (*ids)[0].get<int64_t>();
  return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", "post-processor: expected one id for \"" + name + "\"", where);
}

Status read_processor(const Json& json, const std::string& where, int depth, TokenizerTemplate& out) {
  const auto refuse = [&](const std::string& what) { return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", what + " is not supported", where); };
  const std::string type = type_of(json);
  if (type == "ByteLevel") return {};  // changes offsets only, which are not taken from it
  if (type == "Sequence") {
    const auto list = json.find("processors");
    if (depth > 8 || list == json.end() || !list->is_array()) return refuse("this sequence of post-processors");
    for (const Json& one : *list) SPANSCOPE_TRY(read_processor(one, where, depth + 1, out));
    return {};
  }
  const auto single = json.is_object() ? json.find("single") : json.end();
  if (type != "TemplateProcessing") return refuse("post-processor \"" + type + "\"");
  if (single == json.end() || !single->is_array()) return refuse("a post-processor without \"single\"");
  bool text_seen = false;
  for (const Json& piece : *single) {
    if (piece.is_object() && piece.contains("Sequence")) {
      if (text_seen) return refuse("a post-processor that gives the text twice");
      text_seen = true;
    } else if (piece.is_object() && piece.contains("SpecialToken") && piece["SpecialToken"].is_object()) {
      auto id = special_id(json, piece["SpecialToken"], where);
      if (!id) return std::move(id).error();
      int64_t& target = text_seen ? out.behind : out.before;
      if (target >= 0) return refuse("a post-processor that puts in more than one token on a side");
      target = *id;
    } else {
      return refuse("a post-processor's piece");
    }
  }
  if (!text_seen) return refuse("a post-processor without the text");
  return {};
}

}  // namespace

Result<TokenizerSteps> read_tokenizer_steps(const Json& root, const std::string& where) {
  Steps steps(where);
  const auto part = [&](const char* key) -> const Json* {
    const auto found = root.find(key);
    return found == root.end() || found->is_null() ? nullptr : &*found;
  };
  if (const Json* json = part("normalizer")) SPANSCOPE_TRY(steps.normalizer(*json));
  if (const Json* json = part("pre_tokenizer")) SPANSCOPE_TRY(steps.pre_tokenizer(*json));
  if (const Json* json = part("decoder"); json && json->is_object()) SPANSCOPE_TRY(steps.decoder(*json));
  return std::move(steps.out);
}

Result<TokenizerTemplate> read_tokenizer_template(const Json& root, const std::string& where) {
  TokenizerTemplate out;
  const auto found = root.find("post_processor");
  if (found != root.end() && !found->is_null()) SPANSCOPE_TRY(read_processor(*found, where, 0, out));
  return out;
}

}  // namespace spanscope
