// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/vocabulary_from_sentencepiece.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/base/json.h"
#include "core/text/sentencepiece_rules.h"

namespace spanscope {
namespace {

constexpr size_t kMostTokens = size_t(1) << 22;
constexpr size_t kLongestPiece = size_t(1) << 16;

Error broken(std::string message, const std::string& where, uint64_t offset) {
  return make_error(ErrorCode::corrupt, "SPAN-PROTO", std::move(message), where, offset);
}

// The wire format (https://protobuf.dev/programming-guides/encoding/): fields one after another, each with number and type.
class Message {
 public:
  struct Field {
    uint32_t number = 0, type = 0;
    uint64_t value = 0;                // varints and fixed numbers
    std::span<const uint8_t> bytes;    // of texts and messages
    uint64_t offset = 0;               // in the file
  };

  Message(std::span<const uint8_t> bytes, uint64_t base, const std::string& where) : bytes_(bytes), base_(base), where_(where) {}

  // Nothing at the end.
  Result<std::optional<Field>> next() {
    if (at_ == bytes_.size()) return std::optional<Field>();
    Field field;
    field.offset = base_ + at_;
    const auto key = varint();
    if (!key) return broken("a field's number does not end", where_, field.offset);
    field.number = uint32_t(*key >> 3);
    field.type = uint32_t(*key & 7);
    if (*key >> 32 || field.number == 0) return broken("expected a field number from 1", where_, field.offset);
    uint64_t size = 0;
    switch (field.type) {
      case 0: {
        const auto value = varint();
        if (!value) return broken(fmt::format("the number in field {} does not end", field.number), where_, field.offset);
        field.value = *value;
        return std::optional<Field>(field);
      }
      case 1:
        size = 8;
        break;
      case 5:
        size = 4;
        break;
      case 2: {
        const auto length = varint();
        if (!length) return broken(fmt::format("the length of field {} does not end", field.number), where_, field.offset);
        size = *length;
        break;
      }
      default:
        return broken(fmt::format("field {} has wire type {}, expected 0, 1, 2 or 5", field.number, field.type), where_, field.offset);
    }
    if (size > bytes_.size() - at_)
      return broken(fmt::format("field {} takes {} bytes, {} are left", field.number, size, bytes_.size() - at_), where_, field.offset);
    field.bytes = bytes_.subspan(at_, size_t(size));
    field.offset = base_ + at_;
    at_ += size_t(size);
    if (field.type != 2) std::memcpy(&field.value, field.bytes.data(), size_t(size));
    return std::optional<Field>(field);
  }

 private:
  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const uint8_t byte = bytes_[at_++];
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    return std::nullopt;
  }

  std::span<const uint8_t> bytes_;
  uint64_t base_;
  const std::string& where_;
  size_t at_ = 0;
};

// visit(field) -> Status for every field of a message.
template <class Visit>
Status each_field(std::span<const uint8_t> bytes, uint64_t base, const std::string& where, Visit visit) {
  Message message(bytes, base, where);
  for (;;) {
    auto field = message.next();
    if (!field) return std::move(field).error();
    if (!*field) return {};
    SPANSCOPE_TRY(visit(**field));
  }
}

Status expect_type(const Message::Field& field, uint32_t type, const char* name, const std::string& where) {
  if (field.type == type) return {};
  return broken(fmt::format("{}: expected wire type {}, found {}", name, type, field.type), where, field.offset);
}

// What decides, out of trainer_spec and normalizer_spec; values as where the file leaves them out.
struct Spec {
  uint64_t model_type = 1;
  bool byte_fallback = false, suffix = false;
  int32_t unknown = 0, bos = 1, eos = 2, pad = -1;
  bool dummy_prefix = true, remove_extra_whitespaces = true, escape = true, character_map = false;
};

Status read_piece(const Message::Field& piece, Vocabulary& out, const std::string& where) {
  std::string text;
  float score = 0;
  uint64_t type = 1;
  SPANSCOPE_TRY(each_field(piece.bytes, piece.offset, where, [&](const Message::Field& f) -> Status {
    if (f.number == 1) {
      SPANSCOPE_TRY(expect_type(f, 2, "the text of a piece", where));
      text.assign(reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size());
    } else if (f.number == 2) {
      SPANSCOPE_TRY(expect_type(f, 5, "the score of a piece", where));
      score = std::bit_cast<float>(uint32_t(f.value));
    } else if (f.number == 3) {
      SPANSCOPE_TRY(expect_type(f, 0, "the type of a piece", where));
      type = f.value;
    }
    return {};
  }));
  if (type < 1 || type > 6) return broken(fmt::format("piece {} has type {}, expected 1 to 6", out.tokens.size(), type), where, piece.offset);
  if (!std::isfinite(score)) return broken(fmt::format("the score of piece {} is not a finite number", out.tokens.size()), where, piece.offset);
  if (text.size() > kLongestPiece)
    return make_error(ErrorCode::limit, "SPAN-LIMIT", fmt::format("piece {} has {} bytes, more than {}", out.tokens.size(), text.size(), kLongestPiece), where, piece.offset);
  if (find_invalid_utf8(text) != std::string_view::npos) return broken(fmt::format("piece {} is not UTF-8", out.tokens.size()), where, piece.offset);
  if (out.tokens.size() == kMostTokens)
    return make_error(ErrorCode::limit, "SPAN-LIMIT", fmt::format("more than {} pieces", kMostTokens), where, piece.offset);
  out.tokens.push_back(std::move(text));
  out.scores.push_back(score);
  out.kinds.push_back(TokenKind(type));
  return {};
}

Status read_trainer(const Message::Field& spec, Spec& out, const std::string& where) {
  return each_field(spec.bytes, spec.offset, where, [&](const Message::Field& f) -> Status {
    const bool ours = f.number == 3 || f.number == 24 || f.number == 35 || (f.number >= 40 && f.number <= 43);
    if (!ours) return {};
    SPANSCOPE_TRY(expect_type(f, 0, "trainer_spec", where));
    switch (f.number) {
      case 3: out.model_type = f.value; break;
      case 24: out.suffix = f.value != 0; break;
      case 35: out.byte_fallback = f.value != 0; break;
      case 40: out.unknown = int32_t(f.value); break;
      case 41: out.bos = int32_t(f.value); break;
      case 42: out.eos = int32_t(f.value); break;
      default: out.pad = int32_t(f.value);
    }
    return {};
  });
}

Status read_normalizer(const Message::Field& spec, Spec& out, const std::string& where) {
  return each_field(spec.bytes, spec.offset, where, [&](const Message::Field& f) -> Status {
    if (f.number == 2) {
      SPANSCOPE_TRY(expect_type(f, 2, "normalizer_spec", where));
      out.character_map = !f.bytes.empty();
      return {};
    }
    if (f.number < 3 || f.number > 5) return {};
    SPANSCOPE_TRY(expect_type(f, 0, "normalizer_spec", where));
    (f.number == 3 ? out.dummy_prefix : f.number == 4 ? out.remove_extra_whitespaces : out.escape) = f.value != 0;
    return {};
  });
}

}  // namespace

Result<Vocabulary> vocabulary_from_sentencepiece(std::span<const uint8_t> bytes, const std::string& where) {
  Vocabulary out;
  Spec spec;
  SPANSCOPE_TRY(each_field(bytes, 0, where, [&](const Message::Field& f) -> Status {
    if (f.number < 1 || f.number > 3) return {};
    SPANSCOPE_TRY(expect_type(f, 2, "the model", where));
    if (f.number == 1) return read_piece(f, out, where);
    return f.number == 2 ? read_trainer(f, spec, where) : read_normalizer(f, spec, where);
  }));
  if (out.tokens.empty()) return broken("the file holds no pieces; expected a SentencePiece model", where, 0);
  if (spec.model_type != 1 && spec.model_type != 2)
    return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER",
                      fmt::format("SentencePiece model type {} is not known; expected 1 (unigram) or 2 (BPE)", spec.model_type), where);
  SPANSCOPE_TRY(refuse_sentencepiece_rules(spec.remove_extra_whitespaces, spec.character_map, where));
  if (spec.suffix || !spec.escape)
    return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER",
                      spec.suffix ? "the SentencePiece model keeps white space at the end of words, which is not supported"
                                  : "the SentencePiece model keeps spaces as they are, which is not supported",
                      where);
  out.kind = spec.model_type == 2 ? "llama" : "unigram";
  out.pre = "default";
  out.byte_fallback = spec.byte_fallback;
  set_sentencepiece_spaces(out, spec.dummy_prefix);
  const auto token = [&](int32_t id) { return id >= 0 && size_t(id) < out.tokens.size() ? id : -1; };
  out.unknown = token(spec.unknown);
  out.bos = token(spec.bos);
  out.eos = token(spec.eos);
  out.pad = token(spec.pad);
  out.add_bos = out.bos >= 0;
  return out;
}

}  // namespace spanscope
