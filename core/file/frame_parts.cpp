// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <charconv>
#include <set>

#include "core/file/frame_codec.h"
#include "core/file/session_format.h"

namespace spanscope {
namespace {

// Bytes kept free in every part for metadata, and an upper bound of a tensor's entry in the JSON header.
constexpr uint64_t kReserve = 256u << 10, kEntry = 512, kEntriesPerPart = 400;

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string out;
  for (uint64_t d : shape) {
    if (!out.empty()) out += ',';
    out += std::to_string(d);
  }
  return out;
}

std::optional<std::vector<uint64_t>> parse_shape(const std::string& text) {
  std::vector<uint64_t> out;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    uint64_t d;
    const auto [next, error] = std::from_chars(at, end, d);
    if (error != std::errc() || out.size() == BlobLimits{}.dimensions || (next != end && *next != ',')) return std::nullopt;
    out.push_back(d);
    at = next == end ? end : next + 1;
  }
  return out;
}

std::optional<uint64_t> bytes_of(const std::vector<uint64_t>& shape, DType dtype) {
  uint64_t bytes = dtype_size(dtype);
  for (uint64_t d : shape)
    if (__builtin_mul_overflow(bytes, d, &bytes)) return std::nullopt;
  return bytes;
}

Status check_tensors(const Blob& blob, const std::string& where) {
  std::set<std::string_view> names;
  for (const Tensor& t : blob.tensors) {
    if (!tensor_name_ok(t.name, BlobLimits{}.name) || !names.insert(t.name).second)
      return make_error(ErrorCode::invalid, "SPAN-WRITER", "tensor name that is repeated or not allowed: " + t.name, where);
    const auto bytes = bytes_of(t.shape, t.dtype);
    if (t.shape.size() > BlobLimits{}.dimensions || !bytes || *bytes != t.data.size())
      return make_error(ErrorCode::invalid, "SPAN-WRITER",
                        "tensor " + t.name + " has " + std::to_string(t.data.size()) + " bytes, its shape " +
                            shape_text(t.shape) + " needs " + (bytes ? std::to_string(*bytes) : "more than fits"),
                        where);
  }
  return {};
}

}  // namespace

Result<std::vector<Blob>> split_blob(Blob blob, const std::string& where) {
  SPANSCOPE_TRY(check_tensors(blob, where));
  uint64_t total = kReserve;
  for (const Tensor& t : blob.tensors) total += t.data.size() + kEntry;
  std::vector<Blob> parts;
  if (total <= kFrameContent && blob.tensors.size() <= kEntriesPerPart) {
    parts.push_back(std::move(blob));
    return parts;
  }
  constexpr uint64_t budget = kFrameContent - kReserve;
  uint64_t used = 0;
  Blob part;
  part.metadata = std::move(blob.metadata);
  auto close = [&] {
    parts.push_back(std::move(part));
    part = {};
    used = 0;
  };
  for (Tensor& t : blob.tensors) {
    if (used + t.data.size() + kEntry <= budget && part.tensors.size() < kEntriesPerPart) {
      used += t.data.size() + kEntry;
      part.tensors.push_back(std::move(t));
      continue;
    }
    if (t.data.size() + kEntry <= budget) {
      close();
      used = t.data.size() + kEntry;
      part.tensors.push_back(std::move(t));
      continue;
    }
    const uint64_t element = dtype_size(t.dtype);
    for (uint64_t at = 0; at < t.data.size();) {
      if (used + 2 * kEntry + element > budget || part.tensors.size() >= kEntriesPerPart) close();
      const uint64_t bytes = std::min<uint64_t>(t.data.size() - at, (budget - used - kEntry) / element * element);
      Tensor slice{t.name, t.dtype, {bytes / element}, {}};
      slice.data.assign(t.data.begin() + ptrdiff_t(at), t.data.begin() + ptrdiff_t(at + bytes));
      part.metadata["shape." + t.name] = shape_text(t.shape);
      part.tensors.push_back(std::move(slice));
      used += bytes + kEntry;
      at += bytes;
      if (at < t.data.size()) close();
    }
    t.data = {};
  }
  if (!part.tensors.empty()) close();
  if (parts.size() > kMaxParts)
    return make_error(ErrorCode::limit, "SPAN-FRAME-SIZE",
                      std::to_string(total) + " bytes need " + std::to_string(parts.size()) + " frames, the most is " +
                          std::to_string(kMaxParts),
                      where);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].metadata["part"] = std::to_string(i);
    parts[i].metadata["parts"] = std::to_string(parts.size());
  }
  return parts;
}

Result<Blob> join_parts(std::vector<Blob> parts, const std::string& where) {
  auto bad = [&](std::string message) { return make_error(ErrorCode::corrupt, "SPAN-PARTS", std::move(message), where); };
  if (parts.empty()) return bad("no parts");
  Blob out;
  out.metadata = parts.front().metadata;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (Tensor& t : parts[p].tensors) {
      const auto cut = parts[p].metadata.find("shape." + t.name);
      auto present = std::find_if(out.tensors.begin(), out.tensors.end(), [&](const Tensor& o) { return o.name == t.name; });
      if (cut == parts[p].metadata.end()) {
        if (present != out.tensors.end()) return bad("tensor " + t.name + " is in two parts");
        out.tensors.push_back(std::move(t));
        continue;
      }
      const auto shape = parse_shape(cut->second);
      if (!shape) return bad("shape of " + t.name + " is not a list of counts");
      if (present == out.tensors.end()) {
        const auto bytes = bytes_of(*shape, t.dtype);
        if (!bytes || *bytes > kMaxJoined) return bad("tensor " + t.name + " has a shape beyond every limit");
        out.tensors.push_back({t.name, t.dtype, *shape, {}});
        present = out.tensors.end() - 1;
      }
      if (present->dtype != t.dtype || present->shape != *shape) return bad("slices of " + t.name + " disagree");
      present->data.insert(present->data.end(), t.data.begin(), t.data.end());
      out.metadata.erase("shape." + t.name);
    }
    parts[p] = {};
  }
  for (const Tensor& t : out.tensors)
    if (const auto bytes = bytes_of(t.shape, t.dtype); !bytes || *bytes != t.data.size())
      return bad("tensor " + t.name + " has " + std::to_string(t.data.size()) + " bytes, its shape needs " +
                 (bytes ? std::to_string(*bytes) : "more than fits"));
  out.metadata.erase("part");
  out.metadata.erase("parts");
  return out;
}

}  // namespace spanscope
