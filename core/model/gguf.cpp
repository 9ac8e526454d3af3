// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/bytes.h"
#include "core/model/tensor_type.h"

namespace spanscope {
namespace {

uint32_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    default:
      return 0;
  }
}

// One parse: the reader and how it reports.
struct Parser {
  ByteReader in;
  const std::string& where;
  uint64_t size;

  Error truncated(const std::string& what) const {
    return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                      fmt::format("{} needs {} bytes at byte {}, {} remain; the file has {} bytes", what,
                                  in.wanted(), in.offset(), size - in.offset(), size),
                      where, in.offset());
  }
  Error bad(const char* tag, const std::string& message, uint64_t at) const {
    return make_error(ErrorCode::corrupt, tag, message, where, at);
  }

  Result<std::string> string(const std::string& what, uint64_t limit) {
    const uint64_t at = in.offset(), length = in.read<uint64_t>();
    if (!in.ok()) return truncated(what);
    if (length > in.remaining())
      return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                        fmt::format("{} says {} bytes, {} remain", what, length, in.remaining()), where, at);
    if (length > limit)
      return make_error(ErrorCode::limit, "SPAN-LIMIT",
                        fmt::format("{} has {} bytes, at most {} are taken", what, length, limit), where, at);
    return std::string(in.text(length));
  }

  // Moves behind a value; arrays are checked element by element only where their size varies.
  Status skip(GgufValue& value, const std::string& what, int depth) {
    value.offset = in.offset();
    if (const uint32_t bytes = scalar_bytes(value.type)) {
      if (!in.skip(bytes)) return truncated(what);
      return {};
    }
    if (value.type == GgufType::string) {
      const uint64_t length = in.read<uint64_t>();
      if (!in.ok()) return truncated(what);
      if (length > in.remaining())
        return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                          fmt::format("{} says {} bytes, {} remain", what, length, in.remaining()), where,
                          value.offset);
      in.skip(length);
      return {};
    }
    if (value.type != GgufType::array)
      return bad("SPAN-GGUF-KEY",
                 fmt::format("{} has value type {}, types 0 to 12 are known", what, uint32_t(value.type)),
                 value.offset);
    const uint32_t element = in.read<uint32_t>();
    value.count = in.read<uint64_t>();
    if (!in.ok()) return truncated(what);
    if (element > uint32_t(GgufType::f64))
      return bad("SPAN-GGUF-KEY",
                 fmt::format("{} is an array of value type {}, types 0 to 12 are known", what, element),
                 value.offset);
    value.element = GgufType(element);
    value.offset = in.offset();
    // The least an element takes: a string its length, an array its type and count.
    const uint64_t least = value.element == GgufType::string  ? 8
                           : value.element == GgufType::array ? 12
                                                              : scalar_bytes(value.element);
    if (value.count > in.remaining() / least)
      return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                        fmt::format("{} says {} elements of at least {} bytes, {} bytes remain", what,
                                    value.count, least, in.remaining()),
                        where, value.offset);
    if (const uint32_t bytes = scalar_bytes(value.element)) {
      in.skip(value.count * bytes);
      return {};
    }
    if (value.element == GgufType::array && depth >= 4)
      return bad("SPAN-GGUF-KEY", fmt::format("{} nests arrays deeper than 4", what), value.offset);
    for (uint64_t i = 0; i < value.count; ++i) {
      GgufValue inner{value.element, GgufType::u8, 0, 0};
      SPANSCOPE_TRY(skip(inner, what, depth + 1));
    }
    return {};
  }
};

Status check_count(const Parser& p, const char* what, uint64_t count, uint64_t least, uint64_t limit,
                   uint64_t at) {
  if (count > p.in.remaining() / least)
    return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                      fmt::format("the header says {} {} of at least {} bytes, {} bytes remain", count, what,
                                  least, p.in.remaining()),
                      p.where, at);
  if (count > limit)
    return make_error(ErrorCode::limit, "SPAN-LIMIT",
                      fmt::format("the header says {} {}, at most {} are taken", count, what, limit), p.where,
                      at);
  return {};
}

// Elements of a tensor, or nothing when the product does not fit.
std::optional<uint64_t> elements(const std::vector<uint64_t>& shape) {
  uint64_t n = 1;
  for (uint64_t d : shape)
    if (__builtin_mul_overflow(n, d, &n)) return {};
  return n;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, " x "));
}

// Two names for the same bytes: no writer makes that, a changed offset does.
Status check_overlaps(const Parser& p, const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> order;
  order.reserve(tensors.size());
  for (const GgufTensor& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return std::pair(a->data, a->entry) < std::pair(b->data, b->entry);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor &a = *order[i - 1], &b = *order[i];
    if (b.data < a.data + a.bytes)
      return p.bad("SPAN-GGUF-TENSOR",
                   fmt::format("tensor \"{}\" begins at byte {}, inside of tensor \"{}\" (bytes {} to {})",
                               printable(b.name), b.data, printable(a.name), a.data, a.data + a.bytes),
                   b.entry);
  }
  return {};
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 80)) {
    if (uint8_t(c) < 0x20 || uint8_t(c) == 0x7f)
      out += fmt::format("\\x{:02x}", uint8_t(c));
    else
      out += c;
  }
  if (text.size() > 80) out += "...";
  return out;
}

std::string ggml_type_name(uint32_t type) {
  const StoredType* row = stored_type(type);
  return row ? row->name : fmt::format("type {}", type);
}

Result<GgufFile> GgufFile::parse(std::span<const uint8_t> bytes, const std::string& where, bool check_tensors,
                                 GgufLimits limits) {
  GgufFile file;
  file.bytes_ = bytes;
  file.where_ = where;
  Parser p{ByteReader(bytes), where, bytes.size()};

  const std::string_view magic = p.in.text(std::min<uint64_t>(4, bytes.size()));
  if (magic != "GGUF")
    return p.bad("SPAN-GGUF-MAGIC",
                 fmt::format("expected a GGUF file (\"GGUF\" at byte 0), found \"{}\"", printable(magic)), 0);
  file.version_ = p.in.read<uint32_t>();
  if (!p.in.ok()) return p.truncated("the version");
  if (file.version_ != 2 && file.version_ != 3) {
    const bool swapped = file.version_ != 0 && (file.version_ & 0xffffu) == 0;
    return make_error(ErrorCode::unsupported, "SPAN-GGUF-VERSION",
                      swapped ? "the file is big-endian, only little-endian GGUF is read"
                              : fmt::format("GGUF version {}, versions 2 and 3 are read", file.version_),
                      where, 4);
  }
  const uint64_t tensor_count = p.in.read<uint64_t>(), key_count = p.in.read<uint64_t>();
  if (!p.in.ok()) return p.truncated("the header");
  // A key: length, type, one byte of value. A tensor: length, number of dimensions, one dimension, type,
  // offset.
  SPANSCOPE_TRY(check_count(p, "metadata keys", key_count, 13, limits.keys, 16));
  SPANSCOPE_TRY(check_count(p, "tensors", tensor_count, 32, limits.tensors, 8));

  for (uint64_t i = 0; i < key_count; ++i) {
    const uint64_t at = p.in.offset();
    auto key = p.string(fmt::format("the name of metadata key {}", i), limits.name);
    if (!key) return std::move(key).error();
    const std::string what = fmt::format("metadata key \"{}\"", printable(*key));
    GgufValue value;
    value.type = GgufType(p.in.read<uint32_t>());
    if (!p.in.ok()) return p.truncated(what);
    SPANSCOPE_TRY(p.skip(value, what, 0));
    if (!file.keys_.emplace(std::move(*key), value).second)
      return p.bad("SPAN-GGUF-KEY", what + " is there twice", at);
  }
  auto alignment = file.unsigned_value("general.alignment", 32);
  if (!alignment) return std::move(alignment).error();
  if (*alignment < 8 || *alignment > (1u << 20) || !std::has_single_bit(*alignment))
    return p.bad(
        "SPAN-GGUF-KEY",
        fmt::format("general.alignment is {}, expected a power of two from 8 to 1048576", *alignment),
        file.find("general.alignment")->offset);
  file.alignment_ = *alignment;

  SPANSCOPE_TRY(check_count(p, "tensors", tensor_count, 32, limits.tensors, 8));
  file.tensors_.reserve(tensor_count);
  for (uint64_t i = 0; i < tensor_count; ++i) {
    GgufTensor t;
    t.entry = p.in.offset();
    auto name = p.string(fmt::format("the name of tensor {}", i), limits.name);
    if (!name) return std::move(name).error();
    t.name = std::move(*name);
    const std::string what = fmt::format("tensor \"{}\"", printable(t.name));
    const uint32_t dimensions = p.in.read<uint32_t>();
    if (!p.in.ok()) return p.truncated(what);
    if (dimensions == 0 || dimensions > limits.dimensions)
      return p.bad("SPAN-GGUF-TENSOR",
                   fmt::format("{} has {} dimensions, expected 1 to {}", what, dimensions, limits.dimensions),
                   t.entry);
    for (uint32_t d = 0; d < dimensions; ++d) t.shape.push_back(p.in.read<uint64_t>());
    t.type = p.in.read<uint32_t>();
    t.data = p.in.read<uint64_t>();  // relative to the data section until its begin is known
    if (!p.in.ok()) return p.truncated(what);
    if (!file.tensor_index_.emplace(t.name, file.tensors_.size()).second)
      return p.bad("SPAN-GGUF-TENSOR", what + " is there twice", t.entry);
    file.tensors_.push_back(std::move(t));
  }
  file.header_bytes_ = p.in.offset();
  if (!check_tensors) return file;

  const uint64_t begin = (file.header_bytes_ + file.alignment_ - 1) / file.alignment_ * file.alignment_;
  for (GgufTensor& t : file.tensors_) {
    const std::string what = fmt::format("tensor \"{}\"", printable(t.name));
    const std::optional<uint64_t> n = elements(t.shape);
    if (!n || *n > (uint64_t(1) << 60))
      return p.bad("SPAN-GGUF-TENSOR",
                   fmt::format("{} has shape {}, whose product does not fit", what, shape_text(t.shape)),
                   t.entry);
    if (*n == 0)
      return p.bad("SPAN-GGUF-TENSOR", fmt::format("{} has shape {}: no elements", what, shape_text(t.shape)),
                   t.entry);
    if (t.data % file.alignment_ != 0)
      return p.bad("SPAN-GGUF-TENSOR",
                   fmt::format("{} begins at offset {}, not a multiple of {}", what, t.data, file.alignment_),
                   t.entry);
    const uint64_t available = begin <= bytes.size() ? bytes.size() - begin : 0;
    if (t.data > available)
      return p.bad(
          "SPAN-GGUF-TENSOR",
          fmt::format("{} begins at offset {} of the data, which has {} bytes", what, t.data, available),
          t.entry);
    const StoredType* row = stored_type(t.type);
    if (!row)
      return make_error(
          ErrorCode::unsupported, "SPAN-UNSUPPORTED-TYPE",
          fmt::format("{} has type {}; supported are {}", what, t.type, supported_tensor_types()), where,
          t.entry);
    if (t.shape[0] % row->elements != 0)
      return p.bad("SPAN-GGUF-TENSOR",
                   fmt::format("{} ({}) has rows of {} elements, expected a multiple of {}", what, row->name,
                               t.shape[0], row->elements),
                   t.entry);
    t.bytes = *n / row->elements * row->bytes;
    if (t.bytes > available - t.data)
      return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                        fmt::format("{} ({} {}) needs {} bytes at byte {}, {} remain; the file has {} bytes",
                                    what, row->name, shape_text(t.shape), t.bytes, begin + t.data,
                                    available - t.data, bytes.size()),
                        where, t.entry);
    t.data += begin;
  }
  SPANSCOPE_TRY(check_overlaps(p, file.tensors_));
  return file;
}

}  // namespace spanscope
