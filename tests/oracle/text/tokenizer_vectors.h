// SPDX-License-Identifier: GPL-3.0-or-later
// Reads reference vectors of tokenizers and compares.
#pragma once
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/text/stream_decoder.h"
#include "core/text/tokenizer.h"
#include "core/text/utf8.h"
#include "tests/support/oracles.h"

namespace spanscope::test {

inline std::string unhex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out.push_back(char(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

inline std::string hex_of(const std::string& bytes) {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (char c : bytes) {
    out.push_back(digits[uint8_t(c) >> 4]);
    out.push_back(digits[uint8_t(c) & 15]);
  }
  return out;
}

inline std::vector<Json> json_lines(const std::string& path) {
  std::ifstream in(path);
  std::vector<Json> out;
  for (std::string line; std::getline(in, line, '\n');)
    if (!line.empty()) out.push_back(Json::parse(line));
  REQUIRE(!out.empty());
  return out;
}

inline Json json_file(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in.good());
  return Json::parse(in);
}

inline std::string input_of(const Json& j) { return j.contains("text") ? j["text"].get<std::string>() : unhex(j["bytes_hex"].get<std::string>()); }

inline Json ranges_json(const std::vector<ByteRange>& ranges) {
  Json out = Json::array();
  for (const ByteRange& r : ranges) out.push_back({r.begin, r.end});
  return out;
}

inline std::shared_ptr<const Tokenizer> tokenizer_of(Result<Vocabulary> vocabulary) {
  if (!vocabulary) FAIL(vocabulary.error().line());
  auto tokenizer = make_tokenizer(std::move(*vocabulary));
  if (!tokenizer) FAIL(tokenizer.error().line());
  return *tokenizer;
}

// What holds of any encoding: monotone, inside the text, and covering it together with `dropped`.
inline bool covers(const std::string& text, const Encoding& e) {
  std::vector<bool> covered(text.size(), false);
  uint64_t at = 0;
  if (e.ids.size() != e.offsets.size()) return false;
  for (const ByteRange& r : e.offsets) {
    if (r.begin < at || r.end < r.begin || r.end > text.size()) return false;
    at = r.end;
    std::fill(covered.begin() + ptrdiff_t(r.begin), covered.begin() + ptrdiff_t(r.end), true);
  }
  for (const ByteRange& r : e.dropped) std::fill(covered.begin() + ptrdiff_t(r.begin), covered.begin() + ptrdiff_t(r.end), true);
  return std::find(covered.begin(), covered.end(), false) == covered.end();
}

struct VectorRun {
  bool normaliser = false;  // the file has the original's normalizer: `ids_nfc` holds where it is there
  size_t vectors = 0, normalised = 0, decoded = 0;
};

inline void check_vectors(const std::string& folder, const Tokenizer& tokenizer, VectorRun& run) {
  for (const Json& j : json_lines(folder + "/vectors.jsonl")) {
    const std::string text = input_of(j);
    const Encoding e = tokenizer.encode(text, {j.value("add_special", false), j.value("parse_special", false)});
    INFO(folder << " vector " << run.vectors << " " << j.value("note", "") << " " << j.dump().substr(0, 300));
    CHECK(covers(text, e));
    ++run.vectors;
    if (run.normaliser && j.contains("ids_nfc")) {  // offsets are given for the text as it is
      CHECK(Json(e.ids) == j["ids_nfc"]);
      ++run.normalised;
      continue;
    }
    CHECK(Json(e.ids) == j["ids"]);
    CHECK(ranges_json(e.offsets) == j["offsets"]);
    CHECK(ranges_json(e.dropped) == (j.contains("dropped") ? j["dropped"] : Json::array()));
  }
}

inline void check_decode(const std::string& folder, const std::shared_ptr<const Tokenizer>& tokenizer, VectorRun& run) {
  for (const Json& j : json_lines(folder + "/decode.jsonl")) {
    const auto ids = j["ids"].get<std::vector<TokenId>>();
    INFO(folder << " decode " << j.dump().substr(0, 300));
    std::string all, streamed, begun;
    Json pieces = Json::array(), complete = Json::array();
    StreamDecoder stream(tokenizer), begins(tokenizer, true);
    for (TokenId id : ids) {
      pieces.push_back(hex_of(tokenizer->piece(id)));
      all += tokenizer->piece(id);
      streamed += stream.add(id);
      begun += begins.add(id);
      complete.push_back(streamed.size());
    }
    CHECK(pieces == j["pieces_hex"]);
    CHECK(complete == j["stream_complete"]);
    CHECK(streamed + stream.finish() == all);
    const std::string decoded = tokenizer->decode(ids);
    CHECK(hex_of(decoded) == j.value("text_hex", hex_of(all)));
    CHECK(begun + begins.finish() == decoded);
    ++run.decoded;
  }
}

}  // namespace spanscope::test
