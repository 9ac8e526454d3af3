// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model tokenize: text to token ids with byte offsets, and back. No weights are read.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "app/commands/command.h"
#include "app/commands/json_lines.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/model/model_path.h"
#include "core/model/vocabulary_from_hf.h"
#include "core/model/weights.h"
#include "core/text/tokenizer.h"
#include "core/text/utf8.h"

namespace spanscope {
namespace {

struct TokenizeOptions {
  std::string model, text, file, decode, jsonl;
  bool no_special = false, add_special = false;
  CLI::Option* text_option = nullptr;
  CLI::Option* decode_option = nullptr;
};

Error usage(const std::string& message) { return make_error(ErrorCode::invalid, "SPAN-USAGE", message, "model tokenize"); }

std::string hex_of(const std::string& bytes) {
  std::string out;
  for (char c : bytes) out += fmt::format("{:02x}", uint8_t(c));
  return out;
}

Result<std::string> bytes_of_hex(const std::string& hex, const std::string& where) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2) {
    uint8_t byte = 0;
    const char* first = hex.data() + i;
    const char* last = hex.data() + std::min(i + 2, hex.size());
    const auto [end, error] = std::from_chars(first, last, byte, 16);
    if (error != std::errc() || end != last || last - first != 2)
      return make_error(ErrorCode::invalid, "SPAN-JSON", "expected pairs of hexadecimal digits", where);
    out.push_back(char(byte));
  }
  return out;
}

OrderedJson ranges_json(const std::vector<ByteRange>& ranges) {
  OrderedJson out = OrderedJson::array();
  for (const ByteRange& r : ranges) out.push_back({r.begin, r.end});
  return out;
}

OrderedJson encoding_json(const Encoding& e) {
  return {{"ids", e.ids}, {"offsets", ranges_json(e.offsets)}, {"dropped", ranges_json(e.dropped)}};
}

Result<std::vector<TokenId>> ids_of(const OrderedJson& list, const Tokenizer& tokenizer, const std::string& where) {
  const auto tokens = int64_t(tokenizer.vocabulary().tokens.size());
  if (!list.is_array()) return make_error(ErrorCode::invalid, "SPAN-IDS", "expected a list of token ids", where);
  std::vector<TokenId> out;
  for (const OrderedJson& value : list) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= tokens)
      return make_error(ErrorCode::invalid, "SPAN-IDS",
                        fmt::format("expected token ids from 0 to {}, found {}", tokens - 1,
                                    value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)),
                        where);
    out.push_back(TokenId(value.get<int64_t>()));
  }
  return out;
}

OrderedJson pieces_json(const std::vector<TokenId>& ids, const Tokenizer& tokenizer) {
  OrderedJson pieces = OrderedJson::array(), complete = OrderedJson::array();
  size_t shown = 0;
  std::string waiting;
  for (TokenId id : ids) {
    const std::string piece = tokenizer.piece(id);
    pieces.push_back(hex_of(piece));
    waiting += piece;
    const size_t ready = utf8_complete_prefix(waiting);
    waiting.erase(0, ready);
    complete.push_back(shown += ready);
  }
  return {{"pieces_hex", pieces}, {"stream_complete", complete}};
}

// One answer line for each line of the file; the first bad line ends the run and is named.
int run_lines(const TokenizeOptions& o, const Tokenizer& tokenizer) {
  const auto status = for_each_json_line(o.jsonl, [&](const OrderedJson& line, const std::string& where) -> Status {
    if (!line.is_object()) return make_error(ErrorCode::invalid, "SPAN-JSON", "expected an object", where);
    OrderedJson answer;
    if (o.decode_option->count()) {
      auto ids = ids_of(line.contains("ids") ? line["ids"] : OrderedJson(), tokenizer, where + " ids");
      if (!ids) return std::move(ids).error();
      answer = pieces_json(*ids, tokenizer);
    } else {
      std::string text;
      const auto given = line.find("text");
      const auto hex = line.find("bytes_hex");
      if (given != line.end() && given->is_string()) {
        text = given->get<std::string>();
      } else if (hex != line.end() && hex->is_string()) {
        auto decoded = bytes_of_hex(hex->get<std::string>(), where + " bytes_hex");
        if (!decoded) return std::move(decoded).error();
        text = std::move(*decoded);
      } else {
        return make_error(ErrorCode::invalid, "SPAN-JSON", "expected \"text\" or \"bytes_hex\"", where);
      }
      EncodeOptions options{o.add_special, !o.no_special};
      const std::pair<const char*, bool*> flags[] = {{"add_special", &options.add_special}, {"parse_special", &options.parse_special}};
      for (const auto& flag : flags)
        if (const auto value = line.find(flag.first); value != line.end()) {
          if (!value->is_boolean())
            return make_error(ErrorCode::invalid, "SPAN-JSON", "expected true or false", where + " " + flag.first);
          *flag.second = value->get<bool>();
        }
      answer = encoding_json(tokenizer.encode(text, options));
    }
    fmt::print("{}\n", answer.dump());
    return {};
  });
  return status ? kExitOk : report_error(status.error());
}

int run_decode(const TokenizeOptions& o, const Context& context, const Tokenizer& tokenizer) {
  auto json = parse_json(o.decode, "--decode");
  if (!json) return report_error(json.error());
  auto ids = ids_of(*json, tokenizer, "--decode");
  if (!ids) return report_error(ids.error());
  if (context.json) {
    fmt::print("{}\n", pieces_json(*ids, tokenizer).dump());
    return kExitOk;
  }
  const std::string bytes = tokenizer.decode(*ids);
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  return kExitOk;
}

// A token's bytes for people: what cannot be printed as it is, as an escape.
std::string shown(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = utf8_sequence(bytes, i);
    const uint8_t byte = uint8_t(bytes[i]);
    if (byte == '\n') out += "\\n";
    else if (byte == '\t') out += "\\t";
    else if (byte == '\\') out += "\\\\";
    else if (length == 0 || byte < 0x20 || byte == 0x7f) out += fmt::format("\\x{:02x}", byte);
    else out.append(bytes.substr(i, length));
    i += std::max<size_t>(length, 1);
  }
  return out;
}

int run_text(const TokenizeOptions& o, const Context& context, const Tokenizer& tokenizer) {
  std::string text = o.text;
  if (!o.file.empty()) {
    auto bytes = read_file(o.file);
    if (!bytes) return report_error(bytes.error());
    text = std::move(*bytes);
  }
  const Encoding e = tokenizer.encode(text, {o.add_special, !o.no_special});
  if (context.json) {
    fmt::print("{}\n", encoding_json(e).dump());
  } else {
    fmt::print("{:>8} {:>8} {:>8}  {}\n", "id", "from", "to", "bytes");
    for (size_t i = 0; i < e.ids.size(); ++i)
      fmt::print("{:>8} {:>8} {:>8}  \"{}\"\n", e.ids[i], e.offsets[i].begin, e.offsets[i].end, shown(tokenizer.piece(e.ids[i])));
    fmt::print("{} tokens, {} bytes\n", e.ids.size(), text.size());
  }
  if (!e.dropped.empty())
    note(context, fmt::format("{} of {} bytes have no token in this vocabulary; the model does not read them", e.dropped.size(), text.size()));
  return kExitOk;
}

// A Hugging Face directory, a tokenizer.json, a SentencePiece model, or a GGUF file.
Result<Vocabulary> load(const std::string& name) {
  auto path = resolve_model_path(name);
  if (!path) return std::move(path).error();
  std::error_code error;
  if (std::filesystem::is_directory(*path, error)) return vocabulary_from_directory(*path);
  auto file = MappedFile::open(*path);
  if (!file) return std::move(file).error();
  const auto bytes = (*file)->bytes();
  const bool gguf = bytes.size() >= 4 && std::equal(bytes.begin(), bytes.begin() + 4, "GGUF");
  if (!gguf && !path->ends_with(".gguf")) return vocabulary_from_file(*path);
  auto model = load_vocabulary(*path);
  if (!model) return std::move(model).error();
  return (*model)->vocabulary;
}

int run(const TokenizeOptions& o, const Context& context) {
  const bool decode = o.decode_option->count() > 0;
  const int inputs = int(o.text_option->count() > 0) + int(!o.file.empty()) + int(!o.jsonl.empty()) + int(decode && o.jsonl.empty());
  if (inputs != 1) return report_error(usage("give one of TEXT, --file, --decode and --jsonl"));
  if (decode && o.jsonl.empty() && o.decode.empty()) return report_error(usage("--decode needs a list of ids, or --jsonl"));
  if (decode && !o.jsonl.empty() && !o.decode.empty()) return report_error(usage("with --jsonl the ids stand in the file"));
  auto vocabulary = load(o.model);
  if (!vocabulary) return report_error(vocabulary.error());
  auto tokenizer = make_tokenizer(std::move(*vocabulary));
  if (!tokenizer) return report_error(tokenizer.error());
  if (!o.jsonl.empty()) return run_lines(o, **tokenizer);
  return decode ? run_decode(o, context, **tokenizer) : run_text(o, context, **tokenizer);
}

}  // namespace

void add_model_tokenize(CLI::App& parent, Context& context) {
  CLI::App* command = parent.add_subcommand("tokenize", "Text to token ids with byte offsets, and back");
  command->footer("Example: spanscope model tokenize resources/demo/relay-dense.gguf \"The desk number for Omar is 28.\" --json");
  auto options = std::make_shared<TokenizeOptions>();
  command->add_option("model", options->model, "GGUF file, Hugging Face directory, tokenizer.json, tokenizer.model or ollama:NAME")->required();
  options->text_option = command->add_option("text", options->text, "text to tokenize");
  command->add_option("--file", options->file, "read the bytes of a file instead (- is standard input)");
  command->add_flag("--no-special", options->no_special, "text of control tokens is ordinary text");
  command->add_flag("--add-special", options->add_special, "add the tokens that the model wants at the begin and end");
  options->decode_option =
      command->add_option("--decode", options->decode, "JSON list of token ids: write their bytes; with --jsonl: lines hold ids")->expected(0, 1);
  command->add_option("--jsonl", options->jsonl, "lines of {\"text\" or \"bytes_hex\", \"add_special\", \"parse_special\"}, or of {\"ids\"}");
  command->callback([options, &context] { context.run = [options, &context] { return run(*options, context); }; });
}

}  // namespace spanscope
