// SPDX-License-Identifier: GPL-3.0-or-later
// Records a replay on a backend into a file, closes it and opens it again: what a test compares is what the file holds.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/cpu/backends.h"
#include "core/model/weights.h"
#include "core/record/record_session.h"
#include "core/record/session_schema.h"
#include "tests/support/oracles.h"

namespace spanscope::test {

template <class T>
T take(Result<T> result) {
  if (!result) FAIL(result.error().line());
  return std::move(*result);
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / ("spanscope-" + std::to_string(::getpid()) + "-" + name)).string()) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::unique_ptr<Backend> backend_of(const std::string& model_path, const std::string& kind, unsigned threads = 0) {
  auto model = take(load_model(model_path));
  BackendOptions options;
  options.threads = threads;
  return kind == "fast" ? take(make_fast_backend(model, options)) : take(make_reference_backend(model, options));
}

struct Recorded {
  RecordOutcome outcome;
  std::shared_ptr<const SessionData> session;  // from the file
};

inline Recorded record_to_file(Backend& backend, Replay& replay, const Tokenizer* tokenizer, const std::vector<MessageInfo>& messages,
                               const RecordRequest& request, const std::string& name) {
  const TemporaryFile file(name);
  auto writer = take(SessionWriter::create(file.path(), true));
  SessionHeader header;
  header.program_version = "test";
  Recorded out;
  out.outcome = take(record_session(backend, replay, tokenizer, writer.get(), header, messages, request));
  writer.reset();
  out.session = take(load_session(file.path(), true));
  return out;
}

}  // namespace spanscope::test
