// SPDX-License-Identifier: GPL-3.0-or-later
// Result<T> and Error: how every room reports failure. No exception crosses a room's border.
// An error says what was being read, what was expected and found, and where. Any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace spanscope {

enum class ErrorCode {
  invalid,      // an argument or input that cannot be used
  not_found,    // a file, tensor, span or field that is not there
  io,           // the operating system said no
  truncated,    // input ends early
  corrupt,      // input contradicts itself or fails a checksum
  unsupported,  // well-formed, but outside of what this program does
  limit,        // a bound was reached (size, depth, context length)
  memory,       // allocation failed
  cancelled,    // stopped by the user
  conservation, // attention mass does not add up (definitions D3)
};

struct Error {
  ErrorCode code = ErrorCode::invalid;
  std::string tag;      // "SPAN-TRUNCATED": stable, for scripts and tests
  std::string message;  // one sentence: expected and found
  std::string where;    // file, and line or field, as far as known
  std::optional<uint64_t> offset;   // byte offset inside `where`
  std::vector<std::string> advice;  // at most two lines

  // "SPAN-TRUNCATED talk.span: frame 41 (mass, turn 12) ends at byte 88213, 1207 more expected"
  std::string line() const {
    std::string out = tag;
    if (!where.empty()) out += " " + where + ":";
    else out += ":";
    out += " " + message;
    if (offset) out += " (byte " + std::to_string(*offset) + ")";
    return out;
  }
};

inline Error make_error(ErrorCode code, std::string tag, std::string message, std::string where = {},
                        std::optional<uint64_t> offset = {}) {
  return Error{code, std::move(tag), std::move(message), std::move(where), offset, {}};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error& error() & { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error& error() & { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};
using Status = Result<void>;

// if (auto r = f(); !r) return r.error();  in one word
#define SPANSCOPE_TRY(expression)                          \
  do {                                                     \
    if (auto status_ = (expression); !status_) return std::move(status_).error(); \
  } while (false)

// A grade of loss or leniency found while reading. Findings are data: counted, shown, exported.
enum class Grade : uint8_t { info, warning, loss, error };
struct Finding {
  Grade grade = Grade::info;
  std::string tag;
  std::string message;
  std::string where;
  std::optional<uint64_t> offset;
};

}  // namespace spanscope
